package ec_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

// R-CMD-04: EC believes nobody. What the HTTP side would have refused is refused
// again when it comes as a command, as a fault of the sender's, and changes nothing.
func TestInvalidCommandsStraightToEC(t *testing.T) {
	e := ectest.New(t)
	e.Lab(60)
	good := ectest.Overlay("some-id", "Text.\n")
	k := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "t", ThreadID: "t"}
	bad := contracts.OverlaySessionKey{WorkspaceID: "", SurfaceKind: "mail", SurfaceID: strings.Repeat("x", 300)}
	record := func(change func(*contracts.OverlayTemplateRecord)) contracts.OverlayTemplateRecord {
		r := good
		change(&r)
		return r
	}
	const id = contracts.UUID("0198a0c6-0000-7000-8000-000000000001")
	e.Must(ec.BootstrapSession{Key: k})
	before := e.View().Seq()
	for name, body := range map[string]ec.Body{
		"create without a header":     ec.CreateOverlay{},
		"create with a path for id":   ec.CreateOverlay{Record: record(func(r *contracts.OverlayTemplateRecord) { r.Frontmatter.ID = "../../etc/passwd" })},
		"create with a long body":     ec.CreateOverlay{Record: record(func(r *contracts.OverlayTemplateRecord) { r.Body = strings.Repeat("x", 40_000) })},
		"create with a made-up class": ec.CreateOverlay{Record: record(func(r *contracts.OverlayTemplateRecord) { r.Frontmatter.ArtifactClass = "x" })},
		"create a preset by hand":     ec.CreateOverlay{Record: record(func(r *contracts.OverlayTemplateRecord) { r.Frontmatter.Preset = true })},
		"create with a wrong hash":    ec.CreateOverlay{Record: record(func(r *contracts.OverlayTemplateRecord) { r.BodyHash = strings.Repeat("0", 64) })},
		"update with another id":      ec.UpdateOverlay{OverlayID: "note-style", Record: good},
		"update with nothing":         ec.UpdateOverlay{OverlayID: "note-style"},
		"archive nothing":             ec.ArchiveOverlay{},
		"restore a path":              ec.RestoreOverlay{OverlayID: "../x"},
		"activate on a bad session":   ec.ActivateOverlay{Key: bad, OverlayID: "note-style", Source: contracts.FromManual},
		"activate from a made-up":     ec.ActivateOverlay{Key: k, OverlayID: "note-style", Source: "x"},
		"activate with a bad scope":   ec.ActivateOverlay{Key: k, OverlayID: "note-style", Source: contracts.FromManual, PinScope: "x"},
		"deactivate on a bad session": ec.DeactivateOverlay{Key: bad, OverlayID: "note-style"},
		"pin with a bad scope":        ec.PinOverlay{Key: k, OverlayID: "note-style", Scope: "x"},
		"unpin with a bad scope":      ec.UnpinOverlay{Key: k, OverlayID: "note-style", Scope: "x"},
		"refresh for no reason":       ec.RequestRefresh{Key: k, Reason: "x"},
		"truth of a bad session":      ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{SessionKey: bad}},
		"truth below zero":            ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{SessionKey: k, Revision: -1}},
		"event of a made-up kind":     ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: k, EventKind: "x"}},
		"feedback without an id":      ec.SubmitFeedback{Feedback: contracts.OverlayFeedback{OverlayID: "note-style", WorkspaceID: "w", SessionKey: k}},
		"feedback with a bad rating":  ec.SubmitFeedback{Feedback: contracts.OverlayFeedback{FeedbackID: id, OverlayID: "note-style", WorkspaceID: "w", SessionKey: k, ResponseRating: "x"}},
		"a signal of a made-up kind":  ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: id, Kind: "x", SessionKey: k}},
		"defaults of nobody":          ec.PutModeratorDefaults{},
		"a plan about no message":     ec.PreparePlan{Key: k},
		"a plan in a made-up mode":    ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "x", OverrideMode: "y"}},
		"a job without an artifact":   ec.CreateJob{},
		"a job with a bad bound":      ec.CreateJob{Job: contracts.PromptLabJob{ArtifactKind: contracts.KindOverlay, ArtifactID: "note-style", DatasetRef: "ds:notes@1", Backend: "x", MinReplayExamples: -1}},
		"cancel of no job":            ec.CancelJob{JobID: "x"},
		"a dataset without rows":      ec.CreateDataset{Dataset: contracts.Dataset{Name: "empty"}},
		"a dataset with a path":       ec.CreateDataset{Dataset: contracts.Dataset{Name: "../x", Rows: ectest.Dataset("n", 1).Rows}},
	} {
		_, err := e.Send(body)
		if kind := fault.Of(err); err == nil || kind == fault.Internal || kind == fault.Unavailable {
			t.Errorf("R-CMD-04 %s (%s): got %v, want a refusal that says what is wrong", name, body.Type(), err)
		}
		if now := e.View().Seq(); now != before {
			t.Errorf("R-CMD-04 R-CMD-08 %s changed something", name)
			before = now
		}
	}
	if _, err := e.Send(madeUp{}); err == nil || e.View().Seq() != before {
		t.Errorf("R-CMD-01 a command of an unknown type: got %v, want it refused", err)
	}
}

type madeUp struct{}

func (madeUp) Type() string { return "overlay.made_up" }
