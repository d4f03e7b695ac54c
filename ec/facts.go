package ec

import (
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// maxObservations bounds how many observations can be read; older ones are in
// the stream's file.
const maxObservations = 50_000

// observe adds a line of the signals to what systems that learn or repair may read.
func (s *State) observe(l SignalLine) {
	s.observed++
	o := contracts.Observation{
		Cursor: s.observed, ObservationID: l.ID(), RecordKind: l.RecordKind, ArtifactKind: contracts.KindOverlay, Confidence: "high", Context: l.Context,
	}
	if f := l.Feedback; f != nil {
		o.ArtifactID, o.FailureCategory, o.CreatedAt = string(f.OverlayID), f.FailureCategory, f.CreatedAt
		o.Failure = f.ResponseRating == "negative" || f.OverlayHelpfulnessRating == "not_helpful"
		o.ActiveOverlayIDs = f.ActiveOverlayIDs
	} else {
		o.Signal, o.Confidence, o.CreatedAt, o.ActiveOverlayIDs = l.Signal.Kind, l.Signal.Confidence, l.Signal.CreatedAt, l.Signal.ActiveOverlayIDs
		o.Failure = l.Signal.Confidence == "high" // all of these are signs of work that did not fit
	}
	if l.Context.Revision != nil { // what was applied, if a receipt says so, before what a client believes
		o.ActiveOverlayIDs = l.Context.ActiveOverlayIDs
	}
	s.observations.Set(o.Cursor, &o)
	if s.observations.Len() > maxObservations {
		s.observations.PopMin()
	}
}

// Observations gives up to limit observations after a cursor, in the order in
// which they came; with failures only those that something went wrong in.
func (v *View) Observations(after uint64, limit int, failures bool) contracts.ObservationFeed {
	out := contracts.ObservationFeed{Next: after}
	if first, _, ok := v.s.observations.Min(); ok {
		out.Missed = after+1 < first
	}
	v.s.observations.Ascend(after+1, func(cursor uint64, o *contracts.Observation) bool {
		if limit > 0 && len(out.Items) == limit {
			return false
		}
		out.Next = cursor
		if o.Failure || !failures {
			x := *o
			x.ActiveOverlayIDs = slices.Clone(o.ActiveOverlayIDs)
			out.Items = append(out.Items, x)
		}
		return true
	})
	return out
}

// RouteFacts gives what a router may know of a session, and of the plan that a
// dispatch belongs to. A session that is not there yet is no failure.
func (v *View) RouteFacts(key contracts.OverlaySessionKey, plan contracts.UUID, truth bool) (contracts.RouteFacts, error) {
	out := contracts.RouteFacts{SessionKey: key, OverlayState: contracts.AdviceAvailable}
	if !truth {
		out.OverlayState = contracts.AdviceDegraded
	}
	if x, ok := v.s.session(key.FileName()); ok {
		revision := x.Revision
		out.SessionRevision, out.ActiveOverlayIDs = &revision, x.on()
	}
	if plan == "" {
		return out, nil
	}
	p, ok := v.s.plans.Get(string(plan))
	switch {
	case !ok:
		return out, noPlan(plan)
	case p.Plan.SessionKey != key:
		return out, otherSession()
	}
	out.ReanswerPlanID, out.OverrideMode = plan, p.Plan.OverlayOverride.Mode
	return out, nil
}

// ContextFacts gives what recommendations may be made from: what is on in a
// session, and what its last turn ran with.
func (v *View) ContextFacts(key contracts.OverlaySessionKey) (contracts.ContextFacts, error) {
	x, ok := v.s.session(key.FileName())
	if !ok {
		return contracts.ContextFacts{}, fault.New(fault.NotFound, "not_found", "there is no such session yet")
	}
	c := v.s.signalContext(key)
	out := contracts.ContextFacts{SessionKey: x.SessionKey, ActiveOverlayIDs: x.on(), ConfigurationTuple: contracts.ConfigurationTuple{
		Model: c.Model, TaskType: c.TaskType, WorkspaceID: key.WorkspaceID, SurfaceKind: key.SurfaceKind, ActiveOverlayIDs: slices.Clone(c.ActiveOverlayIDs),
	}}
	for _, id := range c.ActiveOverlayIDs {
		out.ConfigurationTuple.PromptArtifactIDs = append(out.ConfigurationTuple.PromptArtifactIDs, contracts.ArtifactRef(contracts.KindOverlay, string(id)))
	}
	return out, nil
}

// on lists the overlays that act on the next turn.
func (x *Session) on() contracts.List[contracts.OverlayID] {
	var out contracts.List[contracts.OverlayID]
	for _, a := range x.ActiveOverlays {
		if a.ActiveForSurface {
			out = append(out, a.OverlayID)
		}
	}
	return out
}
