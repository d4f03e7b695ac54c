package ec

import (
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// truthHistory bounds how many earlier receipts of a session are kept.
const truthHistory = 10

// Truth is the document of a session's receipts.
type Truth struct {
	SchemaVersion int                                                  `json:"schema_version"`
	SessionKey    contracts.OverlaySessionKey                          `json:"session_key"`
	Last          *contracts.OverlayRuntimeTruthSummary                `json:"last,omitempty"`
	History       contracts.List[contracts.OverlayRuntimeTruthSummary] `json:"history" default:"[]"` // oldest first, without Last
}

func (s *State) recordTruth(c Command, b RecordTruth) (decision, error) {
	t, err := contracts.Check(b.Truth, contracts.Peer)
	if err != nil {
		return decision{}, err
	}
	key, err := t.SessionKey.Canonical("session_key")
	if err != nil {
		return decision{}, err
	}
	t.SessionKey = key
	if err := checkTruth(t); err != nil {
		return decision{}, err
	}
	if t.ReanswerPlanID != "" {
		return s.recordPlanTruth(t)
	}
	old, ok := s.session(key.FileName())
	if !ok {
		return decision{}, fault.New(fault.NotFound, "not_found", "there is no such session")
	}
	t.CandidateIDs = candidatesOf(old, t)
	if t.Revision > old.Revision {
		return decision{}, fault.New(fault.Conflict, "future_revision", "the session is at revision %d; there is no revision %d yet", old.Revision, t.Revision)
	}
	if t.AppliedAt == nil || t.AppliedAt.After(c.At.Time) { // a clock ahead of ours must not shut out what comes later
		t.AppliedAt = &c.At
	}
	doc := Truth{SchemaVersion: 1, SessionKey: key}
	if was, ok := s.truths.Get(old.file); ok {
		doc.Last, doc.History = was.Last, slices.Clone(was.History)
	}
	if again := doc.Last; again != nil && (t.TurnID != "" && again.TurnID == t.TurnID && again.OverrideMode == t.OverrideMode || contracts.HashJSON(again) == contracts.HashJSON(t)) {
		return unchanged(old.file, "this receipt is known")
	}
	if slices.ContainsFunc(doc.History, func(h contracts.OverlayRuntimeTruthSummary) bool { // handed over once more: nobody heard that it was taken
		return t.TurnID != "" && h.TurnID == t.TurnID && h.OverrideMode == t.OverrideMode && h.AppliedAt != nil && h.AppliedAt.Equal(t.AppliedAt.Time)
	}) {
		return unchanged(old.file, "this receipt is known")
	}
	own := t.OverrideMode == "" || t.OverrideMode == contracts.OverrideNone
	newest := doc.Last == nil || !earlier(t, *doc.Last)
	if own && newest {
		if doc.Last != nil {
			doc.History = append(doc.History, *doc.Last)
		}
		doc.Last = &t
	} else { // late, or of an override: it says nothing about where the session stands
		doc.History = append(doc.History, t)
	}
	if extra := len(doc.History) - truthHistory; extra > 0 {
		doc.History = slices.Delete(doc.History, 0, extra)
	}
	events := []Event{TruthPut{Truth: &doc, New: contracts.HashJSON(t)}}
	if !own || !newest {
		return changed(old.file, events...)
	}
	e := &edit{s: s, c: c, old: old, base: *old, next: old.clone()}
	e.applied(t)
	d, err := e.close("receipt")
	d.events, d.receipt.Changed = append(events, d.events...), true
	return d, err
}

// candidatesOf names the trial texts that a turn was asked to apply, also where
// the one who reports does not.
func candidatesOf(x *Session, t contracts.OverlayRuntimeTruthSummary) contracts.List[contracts.UUID] {
	out := slices.Clone(t.CandidateIDs)
	for _, a := range x.ActiveOverlays {
		if a.CandidateID != "" && slices.Contains(t.RequestedOverlayIDs, a.OverlayID) && !slices.Contains(out, a.CandidateID) {
			out = append(out, a.CandidateID)
		}
	}
	return out
}

// checkTruth: what was asked for was either applied or dropped, with a reason.
func checkTruth(t contracts.OverlayRuntimeTruthSummary) error {
	var details []fault.Detail
	bad := func(field, rule, format string, args ...any) {
		details = append(details, fault.Detail{Field: field, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
	asked := map[contracts.OverlayID]int{}
	for i, id := range t.RequestedOverlayIDs {
		if _, twice := asked[id]; twice {
			bad(fmt.Sprintf("requested_overlay_ids[%d]", i), "duplicate", "is named twice")
		}
		asked[id] = 0
	}
	count := func(field string, ids []contracts.OverlayID) {
		for i, id := range ids {
			if _, ok := asked[id]; !ok {
				bad(fmt.Sprintf("%s[%d]", field, i), "not_requested", "is not among the requested overlays")
				continue
			}
			if asked[id]++; asked[id] > 1 {
				bad(fmt.Sprintf("%s[%d]", field, i), "duplicate", "is named twice")
			}
		}
	}
	count("applied_overlay_ids", t.AppliedOverlayIDs)
	count("dropped_overlay_ids", t.DroppedOverlayIDs)
	for i, id := range t.RequestedOverlayIDs {
		if asked[id] == 0 {
			bad(fmt.Sprintf("requested_overlay_ids[%d]", i), "unexplained", "was neither applied nor dropped")
		}
	}
	for i, id := range t.DroppedOverlayIDs {
		if t.DropReasonsByOverlay[string(id)] == "" {
			bad(fmt.Sprintf("dropped_overlay_ids[%d]", i), "no_reason", "has no reason in drop_reasons_by_overlay")
		}
	}
	for id := range t.DropReasonsByOverlay {
		if !slices.Contains(t.DroppedOverlayIDs, contracts.OverlayID(id)) {
			bad("drop_reasons_by_overlay", "not_dropped", "gives a reason for an overlay that was not dropped")
			break
		}
	}
	if details != nil {
		return fault.Validation(details)
	}
	return nil
}

// earlier orders receipts by revision, then by time.
func earlier(a, b contracts.OverlayRuntimeTruthSummary) bool {
	if a.Revision != b.Revision {
		return a.Revision < b.Revision
	}
	return a.AppliedAt != nil && b.AppliedAt != nil && a.AppliedAt.Before(b.AppliedAt.Time)
}

// applied takes a receipt into the session: where it stands, without a new
// revision. One-dispatch entries that went out with it have had their dispatch.
func (e *edit) applied(t contracts.OverlayRuntimeTruthSummary) {
	n := &e.next
	n.Kept.ActiveAt = e.c.At
	if t.PacketHash != "" { // with no packet there is nothing that was applied
		revision := t.Revision
		n.LastAppliedRevision, n.LastAppliedPacketHash, n.LastAppliedAt = &revision, t.PacketHash, t.AppliedAt
		n.LastTrimmedOverlayIDs = nil
		for _, id := range t.DroppedOverlayIDs {
			if why := t.DropReasonsByOverlay[string(id)]; why == contracts.DropHardBudget || why == contracts.DropSeam {
				n.LastTrimmedOverlayIDs = append(n.LastTrimmedOverlayIDs, id)
			}
		}
	}
	if t.Revision == e.old.Revision {
		for _, id := range t.AppliedOverlayIDs {
			n.unnote(noteEdited, id)
		}
	}
	gone := map[contracts.UUID]bool{}
	for _, a := range n.ActiveOverlays {
		i := slices.IndexFunc(n.Kept.Issued, func(i IssuedForOne) bool { return i.ActivationID == a.ActivationID })
		if i >= 0 && slices.Contains(t.RequestedOverlayIDs, a.OverlayID) && (t.TurnID == "" || n.Kept.Issued[i].TurnID == "" || t.TurnID == n.Kept.Issued[i].TurnID) {
			gone[a.ActivationID] = true
		}
	}
	e.endDispatch(gone)
}

// recordPlanTruth keeps the receipt of a re-answer with its plan: the session
// is not touched by what one dispatch did.
func (s *State) recordPlanTruth(t contracts.OverlayRuntimeTruthSummary) (decision, error) {
	old, ok := s.plans.Get(string(t.ReanswerPlanID))
	switch {
	case !ok:
		return decision{}, noPlan(t.ReanswerPlanID)
	case old.Plan.SessionKey != t.SessionKey:
		return decision{}, otherSession()
	case old.Packet == nil:
		return decision{}, fault.New(fault.Conflict, "plan_not_used", "the plan has not been dispatched")
	case old.Truth != nil:
		return unchanged(string(t.ReanswerPlanID), "this receipt is known")
	}
	next := *old
	next.Truth = &t
	return changed(string(t.ReanswerPlanID), PlanPut{&next, "receipt"})
}

// Truth gives the last receipt of a session: of its own turns, or of a re-answer
// that came later. Without one it says whether there is none or none can be.
func (v *View) Truth(key contracts.OverlaySessionKey, available bool) (contracts.OverlayRuntimeTruthSummary, error) {
	if t := v.lastTruth(key.FileName()); t != nil {
		return *t, nil
	}
	if !available {
		return contracts.OverlayRuntimeTruthSummary{}, fault.New(fault.Unavailable, "truth_unavailable", "runtime truth is not there now: what was asked for is known, what was applied is not")
	}
	return contracts.OverlayRuntimeTruthSummary{}, fault.New(fault.NotFound, "truth_not_recorded", "no turn of this session has been reported yet")
}

// TruthHistory lists the receipts of a session that are kept, oldest first.
func (v *View) TruthHistory(key contracts.OverlaySessionKey) contracts.List[contracts.OverlayRuntimeTruthSummary] {
	t, ok := v.s.truths.Get(key.FileName())
	if !ok {
		return nil
	}
	out := slices.Clone(t.History)
	if t.Last != nil {
		out = append(out, *t.Last)
	}
	slices.SortStableFunc(out, func(a, b contracts.OverlayRuntimeTruthSummary) int { return a.AppliedAt.Compare(b.AppliedAt.Time) })
	return out
}

func (v *View) lastTruth(file string) *contracts.OverlayRuntimeTruthSummary {
	var last *contracts.OverlayRuntimeTruthSummary
	if t, ok := v.s.truths.Get(file); ok {
		last = t.Last
	}
	if id, ok := v.s.planTruths.Get(file); ok {
		if p, ok := v.s.plans.Get(string(id)); ok && p.Truth != nil && (last == nil || p.UsedAt.After(last.AppliedAt.Time)) {
			last = p.Truth
		}
	}
	return last
}
