package ec

import (
	"slices"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// SignalLine is one line of the overlay signals: an opinion or something from
// which one may follow, with the facts by which it can be matched.
type SignalLine struct {
	RecordKind string                     `json:"record_kind" enum:"feedback,implicit"`
	Feedback   *contracts.OverlayFeedback `json:"feedback,omitempty"`
	Signal     *contracts.OverlaySignal   `json:"signal,omitempty"`
	Context    contracts.SignalContext    `json:"context"`
}

// ID gives the id by which a line is recognised when it is sent again.
func (l SignalLine) ID() contracts.UUID {
	if l.Feedback != nil {
		return l.Feedback.FeedbackID
	}
	return l.Signal.SignalID
}

// SignalStream names the stream of these lines.
func SignalStream() string { return pathSignals }

// SignalsSince says which lines of the stream are kept when what is older than t
// shall go. A line that cannot be read is kept: the load says what is wrong with it.
func SignalsSince(t time.Time) func(line []byte) bool {
	return func(line []byte) bool {
		l, err := contracts.Decode[SignalLine](line, contracts.Stored)
		if err != nil || l.Feedback == nil && l.Signal == nil {
			return true
		}
		if l.Feedback != nil {
			return !l.Feedback.CreatedAt.Before(t)
		}
		return !l.Signal.CreatedAt.Before(t)
	}
}

// Kinds of lines. Each has ids of its own: whoever makes feedback ids knows
// nothing of signal ids.
const (
	kindFeedback = "feedback"
	kindImplicit = "implicit"
)

func signalKey(kind string, id contracts.UUID) string { return kind + "\x00" + string(id) }

func (s *State) submitFeedback(c Command, b SubmitFeedback) (decision, error) {
	f, err := contracts.Check(b.Feedback, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if _, known := s.signals.Get(signalKey(kindFeedback, f.FeedbackID)); known {
		return unchanged(string(f.FeedbackID), "")
	}
	key, err := f.SessionKey.Canonical("session_key")
	if err != nil {
		return decision{}, err
	}
	f.SessionKey = key
	var details []fault.Detail
	bad := func(field, rule, message string) {
		details = append(details, fault.Detail{Field: field, Rule: rule, Message: message})
	}
	if f.WorkspaceID != key.WorkspaceID {
		bad("workspace_id", "mismatch", "is not the workspace of the session")
	}
	if f.ThreadID != "" && f.ThreadID != key.ThreadID {
		bad("thread_id", "mismatch", "is not the thread of the session")
	}
	if f.FailureCategory != "" && f.ResponseRating != "negative" && f.OverlayHelpfulnessRating != "not_helpful" {
		bad("failure_category", "negative_only", "goes with a negative rating only")
	}
	if details != nil {
		return decision{}, fault.Validation(details)
	}
	o, ok := s.resolve(f.OverlayID)
	if !ok {
		return decision{}, noOverlay(f.OverlayID)
	}
	f.OverlayID = o.Record.Frontmatter.ID
	f.CreatedAt = c.At
	return changed(string(f.FeedbackID), SignalPut{SignalLine{RecordKind: kindFeedback, Feedback: &f, Context: s.signalContext(key)}})
}

func (s *State) appendSignal(c Command, b AppendSignal) (decision, error) {
	b.Signal.Confidence = "high" // EC's own; what the caller says does not count
	x, err := contracts.Check(b.Signal, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if _, known := s.signals.Get(signalKey(kindImplicit, x.SignalID)); known {
		return unchanged(string(x.SignalID), "")
	}
	key, err := x.SessionKey.Canonical("session_key")
	if err != nil {
		return decision{}, err
	}
	if x.Kind == "zero_copy" && !x.ApplyMetrics {
		return decision{}, fault.Validation([]fault.Detail{{Field: "kind", Rule: "no_apply_metrics", Message: "zero_copy counts only where the surface measures what is applied"}})
	}
	x.SessionKey, x.CreatedAt, x.Confidence = key, c.At, "high"
	if x.Kind == "model_switch" || x.Kind == "zero_copy" {
		x.Confidence = "low"
	}
	return changed(string(x.SignalID), SignalPut{SignalLine{RecordKind: kindImplicit, Signal: &x, Context: s.signalContext(key)}})
}

// signalContext takes the facts from the session's last receipt; what it does
// not say is unknown.
func (s *State) signalContext(key contracts.OverlaySessionKey) contracts.SignalContext {
	const unknown = "unknown"
	out := contracts.SignalContext{
		TaskType: unknown, Model: unknown, PromptRecipeID: unknown, Baseline: unknown, SurfaceKind: key.SurfaceKind, WorkspaceID: key.WorkspaceID,
	}
	doc, ok := s.truths.Get(key.FileName())
	if !ok || doc.Last == nil {
		return out
	}
	t := doc.Last
	if t.TaskType != "" {
		out.TaskType = t.TaskType
	}
	if t.Model != "" {
		out.Model = t.Model
	}
	out.Baseline = "yes"
	if len(t.AppliedOverlayIDs) > 0 {
		out.Baseline = "no"
	}
	revision := t.Revision
	out.ActiveOverlayIDs, out.Revision, out.TurnID = slices.Clone(t.AppliedOverlayIDs), &revision, t.TurnID
	return out
}

// applySignal remembers the id, and on the overlay when it was last spoken of.
func (s *State) applySignal(l SignalLine) {
	if _, known := s.signals.Set(signalKey(l.RecordKind, l.ID()), struct{}{}); !known {
		s.observe(l)
	}
	if l.Feedback == nil {
		return
	}
	old, ok := s.overlays.Get(string(l.Feedback.OverlayID))
	if ok && (old.Meta.LastFeedbackAt == nil || old.Meta.LastFeedbackAt.Before(l.Feedback.CreatedAt.Time)) {
		o := *old
		at := l.Feedback.CreatedAt
		o.Meta.LastFeedbackAt = &at
		s.setOverlay(&o)
	}
}
