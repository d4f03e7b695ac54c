package ec

import (
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// overrideNote marks an entry that a person turned on beyond the limit, on purpose.
const overrideNote = "override_limit"

// rankOf gives the rank by source: a lower one comes earlier in the prompt and is trimmed last.
func rankOf(source contracts.OverlayActivationSource) int {
	switch source {
	case contracts.FromRoom, contracts.FromTask:
		return 8
	case contracts.FromModerator:
		return 9
	default:
		return 10
	}
}

func (s *State) activateOverlay(c Command, b ActivateOverlay) (decision, error) {
	if b.PinScope != "" {
		if err := checkScope(b.PinScope); err != nil {
			return decision{}, err
		}
	}
	if err := s.sourceAllowed(b); err != nil {
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
	if err := e.turnOn(o, b.Source, b.PinScope, b.OverrideLimit); err != nil {
		return decision{}, err
	}
	if b.PinScope != "" {
		if err := e.pin(o, b.PinScope); err != nil {
			return decision{}, err
		}
	}
	return e.close("activated")
}

// sourceAllowed: a caller says "manual", or "recommended" while its gate is open;
// the other sources are EC's own.
func (s *State) sourceAllowed(b ActivateOverlay) error {
	switch b.Source {
	case contracts.FromManual:
		return nil
	case contracts.FromRecommended:
		if b.OverrideLimit {
			return fault.Validation([]fault.Detail{{Field: "override_limit", Rule: "manual_only", Message: "is only for what a person turns on"}})
		}
		if err := s.recommendationsOff(b); err != nil {
			return err
		}
		return nil
	default:
		return fault.New(fault.Invalid, "source_not_allowed", "source must be manual or recommended; the other sources are set by the system").
			With(fault.Detail{Field: "source", Rule: "source_not_allowed", Message: "must be manual or recommended"})
	}
}

// recommendationsOff names the first gate that keeps a learned recommendation out.
func (s *State) recommendationsOff(b ActivateOverlay) error {
	switch {
	case !s.flags.LearnedRecommendations:
		return gateClosed("learned_recommendations", "learned recommendations are off; turn them on with: promptlab flags set learned_recommendations on")
	case !b.Truth:
		return gateClosed("runtime_truth", "a learned recommendation needs runtime_truth, and nobody tells now what happens to packets")
	case !b.Retrieval:
		return gateClosed("retrieval", "a learned recommendation needs retrieval, and similar cases cannot be looked up now")
	case b.Key.SurfaceKind == contracts.SurfaceRoom:
		return s.roomsOff()
	}
	return nil
}

// turnOn makes an overlay active in the session being edited, or says why not.
// Of one that is active it only takes over another source.
func (e *edit) turnOn(o *Overlay, source contracts.OverlayActivationSource, scope contracts.OverlayPinScope, override bool) error {
	if err := invocable(o, e.next.SessionKey.SurfaceKind, source, scope); err != nil {
		return err
	}
	id, n := o.Record.Frontmatter.ID, &e.next
	i, held := n.entry(id)
	if held && n.ActiveOverlays[i].ActiveForSurface {
		if a := &n.ActiveOverlays[i]; a.Source != source {
			a.Source, a.PriorityRank = source, rankOf(source)
			e.reason = contracts.RefreshActivation
		}
		return nil
	}
	note, err := e.room(o, source, override)
	if err != nil {
		return err
	}
	e.reason = contracts.RefreshActivation
	if held { // it was inert, and there is room for it now
		n.ActiveOverlays[i].ActiveForSurface, n.ActiveOverlays[i].Source, n.ActiveOverlays[i].Note = true, source, note
		n.ActiveOverlays[i].PriorityRank = rankOf(source)
		return nil
	}
	a := e.s.newEntry(e.c, o, source, len(n.ActiveOverlays))
	a.Note = note
	n.ActiveOverlays = append(n.ActiveOverlays, a)
	return nil
}

func (s *State) newEntry(c Command, o *Overlay, source contracts.OverlayActivationSource, ordinal int) contracts.ActiveOverlay {
	return contracts.ActiveOverlay{
		ActivationID: contracts.DeriveID(c.ID, "activation:"+string(o.Record.Frontmatter.ID), ordinal), OverlayID: o.Record.Frontmatter.ID, Source: source,
		ArtifactClass: o.Record.Frontmatter.ArtifactClass, ActiveForSurface: true, PriorityRank: rankOf(source), ActivatedAt: c.At, ActivatedBy: who(c),
		OverlayBodyHash: o.Record.BodyHash, OneDispatch: o.Record.Frontmatter.ArtifactClass == contracts.ClassAdvisor,
	}
}

// invocable says whether a person may turn an overlay on here at all.
func invocable(o *Overlay, kind contracts.SupportedSurface, source contracts.OverlayActivationSource, scope contracts.OverlayPinScope) error {
	fm := o.Record.Frontmatter
	refuse := func(rule, format string) error {
		return fault.New(fault.Invalid, rule, format, fm.ID).With(fault.Detail{Field: "overlay_id", Rule: rule, Message: "cannot be turned on like this"})
	}
	switch {
	case o.Archived():
		return archivedFault(fm.ID)
	case fm.ArtifactClass == contracts.ClassPostTask:
		return refuse("class_not_activatable", "%s is a post-task template; such a template is never on in a session")
	case fm.ArtifactClass == contracts.ClassAdvisor && (kind != contracts.SurfaceTask || source != contracts.FromManual || scope != ""),
		fm.RequiresExplicitInvocation && (source != contracts.FromManual || scope != ""):
		return refuse("explicit_invocation_required", "%s works only when a person asks for it explicitly, for one dispatch of a task or in the advisor; it cannot be pinned")
	case !supports(o, kind):
		return fault.New(fault.Invalid, "surface_unsupported", "%s does not work on the surface %s, only on %s", fm.ID, kind, listed(fm.SupportedSurfaces)).
			With(fault.Detail{Field: "overlay_id", Rule: "surface_unsupported", Message: "does not support the surface " + string(kind)})
	}
	return nil
}

func listed(surfaces []contracts.SupportedSurface) string {
	var out []string
	for _, s := range surfaces {
		out = append(out, string(s))
	}
	return strings.Join(out, ", ")
}

// room checks that an overlay fits beside those that are on.
func (e *edit) room(o *Overlay, source contracts.OverlayActivationSource, override bool) (note string, err error) {
	return e.s.room(&e.next, o, source, override)
}

func (s *State) room(x *Session, o *Overlay, source contracts.OverlayActivationSource, override bool) (note string, err error) {
	id := o.Record.Frontmatter.ID
	if rival, ok := s.inTheWay(x, id); ok {
		return "", hardConflict(side{id: id, where: "asked for, source " + string(source)}, side{id: rival.OverlayID, where: "on, source " + string(rival.Source), on: true})
	}
	if o.Record.Frontmatter.ArtifactClass != contracts.ClassLive {
		return "", nil
	}
	now := s.load(x)
	then := now.with(o)
	if then.tokens > contracts.HardBudget {
		return "", fault.New(fault.Conflict, codeBudget, "with %s the live overlays would come to %d tokens; %d is the limit", id, then.tokens, contracts.HardBudget)
	}
	if then.count > contracts.MaxOverlays {
		if !override {
			return "", fault.New(fault.Conflict, codeLimit, "%d live overlays are on; more than %d need override_limit", now.count, contracts.MaxOverlays)
		}
		note = overrideNote
	}
	return note, nil
}

func (s *State) deactivateOverlay(c Command, b DeactivateOverlay) (decision, error) {
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	o, ok := s.resolve(b.OverlayID)
	if !ok {
		return decision{}, noOverlay(b.OverlayID)
	}
	id := o.Record.Frontmatter.ID
	if i, held := e.next.entry(id); held {
		e.next.drop(i)
	}
	e.next.unnote(noteArchived, id) // it was on until it was archived: now it is off
	e.reason = contracts.RefreshDeactivation
	return e.close("deactivated")
}

func (s *State) clearSession(c Command, b ClearSession) (decision, error) {
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	e.next.ActiveOverlays, e.next.Kept.Notes = nil, nil
	e.reason = contracts.RefreshDeactivation
	return e.close("cleared")
}

func (s *State) requestRefresh(c Command, b RequestRefresh) (decision, error) {
	switch b.Reason {
	case contracts.RefreshManual, contracts.RefreshModelSwitch, contracts.RefreshRehydrate:
	default:
		return decision{}, fault.Validation([]fault.Detail{{Field: "reason", Rule: "reason_reserved", Message: "must be manual, model_switch or session_rehydrate; the other reasons are reported by the system"}})
	}
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	e.refresh(b.Reason)
	return e.close("refresh")
}

func (s *State) reportEvent(c Command, b ReportSessionEvent) (decision, error) {
	switch b.Event.EventKind {
	case contracts.RefreshCompaction, contracts.RefreshTrim, contracts.RefreshModelSwitch:
	default:
		return decision{}, fault.Validation([]fault.Detail{{Field: "event_kind", Rule: "enum", Message: "must be compaction, packet_trim or model_switch"}})
	}
	e, err := s.open(c, b.Event.SessionKey, "")
	if err != nil {
		return decision{}, err
	}
	e.refresh(b.Event.EventKind)
	return e.close(string(b.Event.EventKind))
}

// refresh asks for the next packet to be built anew. Another model matters only
// where overlays are on.
func (e *edit) refresh(r contracts.OverlayRefreshReason) {
	on := slices.ContainsFunc(e.next.ActiveOverlays, func(a contracts.ActiveOverlay) bool { return a.ActiveForSurface })
	if r == contracts.RefreshModelSwitch && !on {
		return
	}
	e.next.ForceRefreshNextTurn = true
	e.next.pend(r)
}
