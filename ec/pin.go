package ec

import (
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// pinKey names a pin store: the workspace's, or the one for all.
func pinKey(scope contracts.OverlayPinScope, workspace string) string {
	if scope == contracts.PinUntilOff {
		return "global"
	}
	return "workspace/" + contracts.PinFileName(workspace)
}

// pinned says whether a store holds an overlay. Thread pins are the session's.
func (s *State) pinned(scope contracts.OverlayPinScope, workspace string, id contracts.OverlayID) bool {
	p, ok := s.pins.Get(pinKey(scope, workspace))
	return ok && slices.Contains(p.OverlayIDs, id)
}

// checkScope refuses what is not a pin scope.
func checkScope(scope contracts.OverlayPinScope) error {
	if slices.Contains(scope.Values(), string(scope)) {
		return nil
	}
	return fault.Validation([]fault.Detail{{Field: "pin_scope", Rule: "enum", Message: "must be thread, workspace or until_off"}})
}

func (s *State) pinOverlay(c Command, b PinOverlay) (decision, error) {
	if err := checkScope(b.Scope); err != nil {
		return decision{}, err
	}
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	o, ok := s.resolve(b.OverlayID)
	if !ok {
		return decision{}, noOverlay(b.OverlayID)
	}
	if err := e.turnOnForPin(o, b.Scope); err != nil {
		return decision{}, err
	}
	if err := e.pin(o, b.Scope); err != nil {
		return decision{}, err
	}
	return e.close("pinned")
}

// turnOnForPin turns on what is off; an entry that is there keeps its source,
// also while it is inert here.
func (e *edit) turnOnForPin(o *Overlay, scope contracts.OverlayPinScope) error {
	if o.Archived() {
		return archivedFault(o.Record.Frontmatter.ID)
	}
	if rule, msg := standing(o); rule != "" {
		return fault.New(fault.Invalid, rule, "%s %s", o.Record.Frontmatter.ID, msg).With(fault.Detail{Field: "overlay_id", Rule: rule, Message: msg})
	}
	if _, held := e.next.entry(o.Record.Frontmatter.ID); held {
		return nil
	}
	return e.turnOn(o, contracts.FromManual, scope, false)
}

// pin records a pin of an overlay that the session being edited holds.
func (e *edit) pin(o *Overlay, scope contracts.OverlayPinScope) error {
	id, n := o.Record.Frontmatter.ID, &e.next
	if scope != contracts.PinThread {
		store := e.s.pinStore(scope, n.SessionKey.WorkspaceID)
		if !slices.Contains(store.OverlayIDs, id) {
			for _, other := range store.OverlayIDs {
				if e.s.excludes(id, other) {
					return hardConflict(side{id: id, where: "to be pinned"}, side{id: other, where: "pinned, scope " + string(scope)})
				}
			}
			store.OverlayIDs = append(store.OverlayIDs, id)
			e.putPins(store)
		}
	}
	if i, held := n.entry(id); held {
		if a := &n.ActiveOverlays[i]; !slices.Contains(a.PinScopes, scope) {
			setScopes(a, append(a.PinScopes, scope))
		}
	}
	return nil
}

func (s *State) unpinOverlay(c Command, b UnpinOverlay) (decision, error) {
	if err := checkScope(b.Scope); err != nil {
		return decision{}, err
	}
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	o, ok := s.resolve(b.OverlayID)
	if !ok {
		return decision{}, noOverlay(b.OverlayID)
	}
	id, n := o.Record.Frontmatter.ID, &e.next
	if b.Scope != contracts.PinThread {
		store := s.pinStore(b.Scope, n.SessionKey.WorkspaceID)
		if i := slices.Index(store.OverlayIDs, id); i >= 0 {
			store.OverlayIDs = slices.Delete(store.OverlayIDs, i, i+1)
			e.putPins(store)
		}
	}
	if i, held := n.entry(id); held {
		a := &n.ActiveOverlays[i]
		setScopes(a, slices.DeleteFunc(a.PinScopes, func(p contracts.OverlayPinScope) bool { return p == b.Scope }))
	}
	return e.close("unpinned")
}

// pinStore gives a store that may be changed.
func (s *State) pinStore(scope contracts.OverlayPinScope, workspace string) contracts.PinnedOverlayStore {
	if p, ok := s.pins.Get(pinKey(scope, workspace)); ok {
		out := *p
		out.OverlayIDs = slices.Clone(p.OverlayIDs)
		return out
	}
	out := contracts.PinnedOverlayStore{Scope: scope}
	if scope == contracts.PinWorkspace {
		out.WorkspaceID = workspace
	}
	return out
}

// putPins stores pins; the session through which they were set counts it as a
// change of its own.
func (e *edit) putPins(p contracts.PinnedOverlayStore) {
	p.UpdatedAt, p.UpdatedBy = e.c.At, who(e.c)
	e.events = append(e.events, PinsPut{&p})
	e.bump = true
}

// setScopes keeps an entry's scopes in order and shows the widest.
func setScopes(a *contracts.ActiveOverlay, scopes contracts.List[contracts.OverlayPinScope]) {
	a.PinScopes, a.RequestedScope = nil, ""
	for _, p := range contracts.PinThread.Values() {
		if scope := contracts.OverlayPinScope(p); slices.Contains(scopes, scope) {
			a.PinScopes = append(a.PinScopes, scope)
			a.RequestedScope = scope
		}
	}
}
