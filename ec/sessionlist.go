package ec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// SessionFilter narrows a list of sessions. The zero value lists all of them.
type SessionFilter struct {
	WorkspaceID string
	Surface     contracts.SupportedSurface
	Active      bool // only those whose next turn has an overlay
	Limit       int  // 0 is all
	After       string
}

// seen is a session in a list, with the instant that orders it.
type seen struct {
	file string
	at   int64 // Unix milliseconds
	x    *stored
}

// order puts the latest activity first.
func (a seen) order(b seen) int {
	return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.file, b.file))
}

// Sessions lists sessions, the latest activity first. A page begins after the
// place where the one before ended, so that a session that wakes up in between
// moves to the front and makes no other one appear twice or not at all.
func (v *View) Sessions(f SessionFilter) (contracts.OverlaySessionList, error) {
	from, err := placeOf(f.After)
	if err != nil {
		return contracts.OverlaySessionList{}, err
	}
	var out contracts.OverlaySessionList
	var rest []seen
	v.s.sessions.Scan(func(file string, x *stored) bool {
		if !f.takes(x) {
			return true
		}
		out.Total++
		if s := (seen{file, x.lastAt, x}); from == nil || from.order(s) < 0 {
			rest = append(rest, s)
		}
		return true
	})
	slices.SortFunc(rest, seen.order)
	if f.Limit > 0 && len(rest) > f.Limit {
		rest = rest[:f.Limit]
		last := rest[len(rest)-1]
		out.Next = strconv.FormatInt(last.at, 10) + "." + last.file
	}
	out.Items = make(contracts.List[contracts.OverlaySessionSummary], 0, len(rest))
	for _, s := range rest {
		out.Items = append(out.Items, s.x.session().summary())
	}
	return out, nil
}

func (f SessionFilter) takes(x *stored) bool {
	return (f.WorkspaceID == "" || x.workspace == f.WorkspaceID) && (f.Surface == "" || x.kind == f.Surface) && (!f.Active || x.active)
}

// placeOf reads where a page begins; nil is the start.
func placeOf(after string) (*seen, error) {
	if after == "" {
		return nil, nil //nolint:nilnil // the start is no place
	}
	at, file, ok := strings.Cut(after, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || len(file) != 64 {
		return nil, fault.New(fault.Malformed, "bad_request", "after: must be the next of a page before").
			With(fault.Detail{Field: "after", Rule: "pattern", Message: "must be the next of a page before"})
	}
	return &seen{file: file, at: n}, nil
}

// lastActivity is when something last happened in a session.
func (x *Session) lastActivity() contracts.Time {
	at := x.Kept.ActiveAt
	for _, t := range []*contracts.Time{&x.UpdatedAt, x.LastAppliedAt} {
		if t != nil && t.After(at.Time) {
			at = *t
		}
	}
	return at
}

func (x *Session) summary() contracts.OverlaySessionSummary {
	out := contracts.OverlaySessionSummary{
		SessionKey: x.SessionKey, Token: x.SessionKey.Token(), Revision: x.Revision,
		PendingRefresh: x.ForceRefreshNextTurn || x.PendingRefreshReason != "", LastActivityAt: x.lastActivity(),
	}
	for _, a := range x.ActiveOverlays {
		if a.ActiveForSurface {
			out.ActiveOverlayIDs = append(out.ActiveOverlayIDs, a.OverlayID)
		}
	}
	return out
}
