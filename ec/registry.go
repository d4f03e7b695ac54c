package ec

import (
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// register takes the registry events out of an audit line: the audit is where
// they are kept, so that the feed is the same after a restart.
func (s *State) register(l AuditLine) {
	hashes := l.Hashes
	for i, effect := range l.Effects {
		what, id, _ := strings.Cut(effect, ":")
		e := contracts.OverlayRegistryEvent{EventType: contracts.RegistryEventType(what), CreatedAt: l.At}
		switch e.EventType {
		case contracts.EventOverlayInstalled, contracts.EventOverlayUpdated, contracts.EventOverlayArchived, contracts.EventOverlayRestored:
			if len(hashes) > 0 { // each of these effects has a hash, and they come before all others
				e.BodyHash, hashes = hashes[0], hashes[1:]
			}
			e.OverlayID = contracts.OverlayID(id)
		default:
			continue
		}
		cursor := l.Seq*registryStride + uint64(i)
		s.registry.Set(cursor, &e)
	}
}

// registryStride parts the cursors of two commands; one command has fewer effects.
const registryStride = 1 << 20

// RegistryEvents gives up to limit registry events after a cursor, in the order
// in which they happened.
func (v *View) RegistryEvents(after uint64, limit int) contracts.RegistryFeed {
	out := contracts.RegistryFeed{Next: after}
	v.s.registry.Ascend(after+1, func(cursor uint64, e *contracts.OverlayRegistryEvent) bool {
		if limit > 0 && len(out.Events) == limit {
			return false
		}
		out.Events = append(out.Events, contracts.RegistryEntry{Cursor: cursor, Event: *e})
		out.Next = cursor
		return true
	})
	return out
}
