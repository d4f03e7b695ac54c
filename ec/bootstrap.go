package ec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// layer is one source of overlays for a new session.
type layer struct {
	source contracts.OverlayActivationSource
	scope  contracts.OverlayPinScope // of a layer that comes from pins
	ids    []contracts.OverlayID
	away   string // a note's code: the system that keeps the layer is not there
}

// layers lists the sources in the order in which they are asked: an earlier one
// keeps its place.
func (s *State) layers(key contracts.OverlaySessionKey, carry []contracts.OverlayID) []layer {
	return append(s.surfaceLayers(key),
		layer{source: contracts.FromWorkspacePin, scope: contracts.PinWorkspace, ids: s.pinStore(contracts.PinWorkspace, key.WorkspaceID).OverlayIDs},
		layer{source: contracts.FromGlobalPin, scope: contracts.PinUntilOff, ids: s.pinStore(contracts.PinUntilOff, "").OverlayIDs},
		layer{source: contracts.FromManual, ids: carry},
	)
}

// bootstrap makes the first state of a session: revision 0, whatever is in it.
func (s *State) bootstrap(c Command, key contracts.OverlaySessionKey, carry []contracts.OverlayID) Session {
	x := Session{file: key.FileName(), Kept: SessionKept{SchemaVersion: 1, CreatedAt: c.At, ActiveAt: c.At}}
	x.SessionKey, x.UpdatedAt, x.UpdatedBy = key, c.At, "system"
	by := c
	by.Actor = Actor{Role: RoleSystem, Name: "system"} // nobody turned these on by hand
	for _, l := range s.layers(key, carry) {
		for _, id := range l.ids {
			s.insert(by, &x, id, l)
		}
	}
	if len(carry) > 0 {
		x.ForceRefreshNextTurn = true
		x.pend(contracts.RefreshRehydrate)
	}
	s.settle(&x)
	return x
}

// insert puts an overlay into a session without a person's word, or notes why
// it is left out. It says whether the overlay is among the entries now.
func (s *State) insert(c Command, x *Session, id contracts.OverlayID, l layer) bool {
	leave := func(code string, other contracts.OverlayID, format string, args ...any) bool {
		if !x.noted(code, id) {
			x.note(SessionNote{Code: code, Subject: id, Other: other, Text: fmt.Sprintf(format, args...)})
		}
		return false
	}
	switch l.away {
	case noteModerators:
		return leave(l.away, "", "%s was left out: nobody keeps defaults of moderators (%s is off)", id, SettingModerators)
	case noteRooms:
		return leave(l.away, "", "%s was left out: the system that keeps rooms is not there (%s is off)", id, SettingRooms)
	}
	if i, held := x.entry(id); held {
		if a := &x.ActiveOverlays[i]; l.scope != "" && !slices.Contains(a.PinScopes, l.scope) {
			setScopes(a, append(a.PinScopes, l.scope))
		}
		return true
	}
	o, ok := s.overlays.Get(string(id))
	if !ok {
		return leave(noteUnknown, "", "%s is not in the library and was left out", id)
	}
	if o.Archived() {
		return leave(noteArchived, "", "%s is archived and was left out", id)
	}
	if rule, msg := standing(o); rule != "" {
		return leave(rule, "", "%s was left out: it %s", id, msg)
	}
	a := s.newEntry(c, o, l.source, len(x.ActiveOverlays))
	if l.scope != "" {
		setScopes(&a, contracts.List[contracts.OverlayPinScope]{l.scope})
	}
	if !supports(o, x.SessionKey.SurfaceKind) {
		a.ActiveForSurface = false // settle gives the reason
		x.ActiveOverlays = append(x.ActiveOverlays, a)
		return true
	}
	if _, err := s.room(x, o, l.source, false); err != nil {
		rival, _ := s.inTheWay(x, id)
		var f *fault.Error
		if errors.As(err, &f) {
			return leave(noteOf(f.Code), rival.OverlayID, "%s was left out: %s", id, f.Message)
		}
		return false
	}
	x.ActiveOverlays = append(x.ActiveOverlays, a)
	return true
}

// bootstrapSession starts a session. One that is there stays as it is; only a
// carry-forward into one that nothing has happened to yet starts it again.
func (s *State) bootstrapSession(c Command, b BootstrapSession) (decision, error) {
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	if len(b.CarryIDs) > 0 || b.CarryFrom != nil {
		fresh := e.old == nil || e.old.Revision == 0 && e.old.Kept.Packet == nil && e.old.LastAppliedAt == nil
		if !fresh {
			return decision{}, fault.New(fault.Conflict, "session_in_use", "the session has begun; turn the overlays on one by one")
		}
		if err := s.checkCarry(e.base.SessionKey, b); err != nil {
			return decision{}, err
		}
		e.base = s.bootstrap(c, e.base.SessionKey, b.CarryIDs)
		e.next = e.base.clone()
	}
	d, err := e.close("bootstrapped")
	d.receipt.Changed = len(d.events) > 0
	return d, err
}

// checkCarry: overlays are taken over from the latest session of the same
// workspace and kind of surface, and only such as are on there.
func (s *State) checkCarry(key contracts.OverlaySessionKey, b BootstrapSession) error {
	if b.CarryFrom == nil || len(b.CarryIDs) == 0 {
		return fault.Validation([]fault.Detail{{Field: "carry_from", Rule: "required", Message: "carry_from and carry_overlay_ids go together"}})
	}
	from, err := b.CarryFrom.Canonical("carry_from")
	if err != nil {
		return err
	}
	var newest *stored
	own := key.FileName()
	s.sessions.Scan(func(file string, x *stored) bool {
		same := x.workspace == key.WorkspaceID && x.kind == key.SurfaceKind && file != own
		if same && (newest == nil || x.activeAt > newest.activeAt) {
			newest = x
		}
		return true
	})
	var latest *Session
	if newest != nil {
		latest = newest.session()
	}
	if latest == nil || latest.SessionKey != from {
		return fault.New(fault.Conflict, "not_latest_session", "carry_from is not the latest other session of this workspace and kind of surface")
	}
	var details []fault.Detail
	for i, id := range b.CarryIDs {
		if at, held := latest.entry(id); !held || !latest.ActiveOverlays[at].ActiveForSurface || slices.Index(b.CarryIDs, id) != i {
			details = append(details, fault.Detail{Field: fmt.Sprintf("carry_overlay_ids[%d]", i), Rule: "not_active", Message: "is not on in that session, or is named twice"})
		}
	}
	if details != nil {
		return fault.Validation(details)
	}
	return nil
}

// followLibrary says what changes of overlays mean for the sessions that have
// them: what is archived leaves, what is edited is taken over, what is restored
// comes back where a wider pin is in force.
func (s *State) followLibrary(c Command, events []Event) []Event {
	var puts []OverlayPut
	files := map[string]bool{}
	for _, ev := range events {
		p, ok := ev.(OverlayPut)
		if !ok || p.What == "" {
			continue
		}
		if held := s.holding(p.Overlay.Record.Frontmatter.ID); len(held) > 0 {
			puts = append(puts, p)
			for _, f := range held {
				files[f] = true
			}
		}
	}
	if len(puts) == 0 {
		return nil
	}
	then := s.Copy() // the library as it will be
	for _, p := range puts {
		then.applyOverlay(p)
	}
	names := make([]string, 0, len(files))
	for f := range files {
		names = append(names, f)
	}
	slices.Sort(names)
	var out []Event
	for _, f := range names {
		old, _ := then.session(f)
		e := &edit{s: then, c: c, old: old, base: *old, next: old.clone()}
		for _, p := range puts {
			e.follow(p)
		}
		if d, err := e.close("library"); err == nil { // close of a stored session refuses nothing
			out = append(out, d.events...)
		}
	}
	return out
}

// follow takes one overlay's change into a session.
func (e *edit) follow(p OverlayPut) {
	n, id := &e.next, p.Overlay.Record.Frontmatter.ID
	i, held := n.entry(id)
	switch {
	case p.Overlay.Archived():
		if held {
			n.drop(i)
			n.note(SessionNote{Code: noteArchived, Subject: id, Text: fmt.Sprintf("%s was archived while it was on", id)})
			e.reason = contracts.RefreshDeactivation
		}
	case p.Previous == nil || p.Previous.Archived():
		e.comeBack(id)
	case held && p.Overlay.Record.Frontmatter.ArtifactClass != n.ActiveOverlays[i].ArtifactClass:
		n.drop(i)
		n.note(SessionNote{Code: noteClass, Subject: id, Text: fmt.Sprintf("%s is no longer what it was when it was turned on, and was turned off", id)})
		e.reason = contracts.RefreshDeactivation
	case held:
		a := &n.ActiveOverlays[i]
		retitled := p.Previous.Record.Frontmatter.Title != p.Overlay.Record.Frontmatter.Title
		if a.OverlayBodyHash != p.Overlay.Record.BodyHash || retitled {
			a.OverlayBodyHash = p.Overlay.Record.BodyHash
			n.note(SessionNote{Code: noteEdited, Subject: id, Text: fmt.Sprintf("%s was edited while it was on; the new text counts from the next turn", id)})
			e.text = true
		}
		e.reason = contracts.RefreshActivation
	}
}

// comeBack puts a restored overlay back where it was missed and a workspace's or
// global pin is in force.
func (e *edit) comeBack(id contracts.OverlayID) {
	n, ws := &e.next, e.next.SessionKey.WorkspaceID
	if !n.unnote(noteArchived, id) {
		return
	}
	l := layer{source: contracts.FromWorkspacePin, scope: contracts.PinWorkspace}
	if !e.s.pinned(contracts.PinWorkspace, ws, id) {
		l = layer{source: contracts.FromGlobalPin, scope: contracts.PinUntilOff}
		if !e.s.pinned(contracts.PinUntilOff, "", id) {
			return
		}
	}
	by := e.c
	by.Actor = Actor{Role: RoleSystem, Name: "system"}
	o, _ := e.s.overlays.Get(string(id))
	_, err := e.s.room(n, o, l.source, false)
	if fault.Code(err) == codeBudget { // kept, and inert until there is room
		a := e.s.newEntry(by, o, l.source, len(n.ActiveOverlays))
		a.ActiveForSurface = false
		setScopes(&a, contracts.List[contracts.OverlayPinScope]{l.scope})
		n.ActiveOverlays = append(n.ActiveOverlays, a)
	} else if !e.s.insert(by, n, id, l) {
		return
	}
	e.reason = contracts.RefreshActivation
	n.ForceRefreshNextTurn = true
	n.pend(contracts.RefreshActivation)
}
