package ec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

func feedback(k contracts.OverlaySessionKey, n string, change func(*contracts.OverlayFeedback)) ec.SubmitFeedback {
	f := contracts.OverlayFeedback{
		FeedbackID: contracts.DeriveID(n, "feedback", 0), OverlayID: "secure-code", WorkspaceID: k.WorkspaceID, SessionKey: k, ResponseRating: "negative",
		OverlayHelpfulnessRating: "not_helpful", FailureCategory: "missed_context", Comment: "marker-comment",
	}
	if change != nil {
		change(&f)
	}
	return ec.SubmitFeedback{Feedback: f}
}

func (l live) signals() string {
	l.t.Helper()
	if err := l.Store.Flush(); err != nil {
		l.t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(l.Dir, "signals/doc17/overlay_feedback.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	return string(b)
}

func TestFeedbackAndSignals(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	t.Run("R-FBK-12 G-049 unknown facts say so", func(t *testing.T) {
		l.Must(feedback(k, "early", nil))
		if s := l.signals(); strings.Count(s, "\n") != 1 || !strings.Contains(s, `"task_type":"unknown"`) || !strings.Contains(s, `"baseline":"unknown"`) {
			t.Errorf("stream: %s", s)
		}
	})
	l.on(k, "secure-code")
	l.packet(k, ec.PacketQuery{TurnID: "1"})
	l.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
		SessionKey: k, Revision: 1, TurnID: "1", PacketHash: strings.Repeat("a", 64), Model: "m-1", TaskType: "drafting",
		RequestedOverlayIDs: contracts.List[contracts.OverlayID]{"secure-code"}, AppliedOverlayIDs: contracts.List[contracts.OverlayID]{"secure-code"},
	}})
	t.Run("R-FBK-01 R-FBK-09 R-FBK-10 once, with its context", func(t *testing.T) {
		first := l.Must(feedback(k, "one", nil))
		if again := l.Must(feedback(k, "one", nil)); !first.Changed || again.Changed {
			t.Errorf("changed: %v then %v", first.Changed, again.Changed)
		}
		s := l.signals()
		if strings.Count(s, "\n") != 2 || !strings.Contains(s, `"model":"m-1"`) || !strings.Contains(s, `"baseline":"no"`) || !strings.Contains(s, `"task_type":"drafting"`) {
			t.Errorf("stream: %s", s)
		}
		for range 2 {
			d, _, _ := l.View().Overlay("secure-code")
			if d.Metadata.LastFeedbackAt == nil || !strings.Contains(s, d.Metadata.LastFeedbackAt.String()) {
				t.Errorf("R-FBK-10 last feedback at %v", d.Metadata.LastFeedbackAt)
			}
			l.Restart() // and it is the same after a restart
		}
		if l.Must(feedback(k, "one", nil)).Changed {
			t.Error("R-FBK-09 recorded again after a restart")
		}
	})
	t.Run("R-FBK-02 R-FBK-11 G-105 what is refused", func(t *testing.T) {
		for what, change := range map[string]func(*contracts.OverlayFeedback){
			"category of a good rating": func(f *contracts.OverlayFeedback) { f.ResponseRating, f.OverlayHelpfulnessRating = "positive", "" },
			"unknown category":          func(f *contracts.OverlayFeedback) { f.FailureCategory = "bad_mood" },
			"another workspace":         func(f *contracts.OverlayFeedback) { f.WorkspaceID = "v" },
			"another thread":            func(f *contracts.OverlayFeedback) { f.ThreadID = "v" },
			"no session":                func(f *contracts.OverlayFeedback) { f.SessionKey = contracts.OverlaySessionKey{} },
		} {
			if f := l.refuses(feedback(k, what, change), fault.Invalid, "validation_failed"); len(f.Details) == 0 {
				t.Errorf("%s: no field is named", what)
			}
		}
		l.refuses(feedback(k, "x", func(f *contracts.OverlayFeedback) { f.OverlayID = "nowhere" }), fault.NotFound, "not_found")
	})
	t.Run("R-FBK-06 R-FBK-07 G-048 implicit signals", func(t *testing.T) {
		signal := func(kind string, metrics bool) ec.AppendSignal {
			return ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: contracts.DeriveID(kind, "signal", 0), Kind: kind, Confidence: "high", SessionKey: k, ApplyMetrics: metrics}}
		}
		for kind, confidence := range map[string]string{
			"correction_followup": "high", "manual_abort": "high", "apply_with_edits": "high", "retry_other_overlays": "high", "model_switch": "low", "zero_copy": "low",
		} {
			l.Must(signal(kind, true))
			if !strings.Contains(l.signals(), `"kind":"`+kind+`","confidence":"`+confidence+`"`) {
				t.Errorf("%s is not recorded with confidence %s", kind, confidence)
			}
		}
		l.refuses(ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: contracts.DeriveID("z", "s", 0), Kind: "zero_copy", SessionKey: k}}, fault.Invalid, "validation_failed")
	})
	t.Run("R-FBK-09 feedback and signals do not share their ids", func(t *testing.T) {
		both := contracts.DeriveID("both", "feedback", 0)
		signal := ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: both, Kind: "manual_abort", SessionKey: k}}
		for range 2 {
			a, b := l.Must(feedback(k, "both", nil)), l.Must(signal)
			if first := strings.Count(l.signals(), string(both)); first != 2 || a.Changed != b.Changed {
				t.Errorf("%d lines have the id, want one of each kind; recorded %v and %v", first, a.Changed, b.Changed)
			}
			l.Restart()
		}
	})
	t.Run("R-FBK-15 R-CMD-06 comments are in their stream only", func(t *testing.T) {
		err := filepath.Walk(filepath.Join(l.Dir, "system"), func(p string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			if strings.Contains(string(b), "marker-comment") {
				t.Errorf("%s holds the comment", p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// R-REG-01 to R-REG-03, G-078, G-112: one ordered feed, the same after a restart.
func TestRegistryFeed(t *testing.T) {
	l := newLive(t)
	all := l.View().RegistryEvents(0, 0)
	if len(all.Events) != 21 {
		t.Fatalf("an install of 21 presets gives %d events", len(all.Events))
	}
	rec := l.own("mine", 50)
	rec.Body += "- More.\n"
	l.Must(ec.UpdateOverlay{OverlayID: "mine", Record: rec})
	l.Must(ec.UpdateOverlay{OverlayID: "mine", Record: rec}) // changes nothing
	l.on(chat("t"), "mine")
	l.Must(ec.ArchiveOverlay{OverlayID: "mine"}) // takes it out of the session too
	l.Must(ec.ArchiveOverlay{OverlayID: "mine"})
	l.Must(ec.RestoreOverlay{OverlayID: "mine"})
	d, _, _ := l.View().Overlay("mine")
	var got []string
	var at uint64
	for page := l.View().RegistryEvents(all.Next, 2); len(page.Events) > 0; page = l.View().RegistryEvents(page.Next, 2) {
		for _, e := range page.Events {
			got = append(got, string(e.Event.EventType))
			if e.Cursor <= at || e.Event.OverlayID != "mine" || e.Event.PromptRecipeID != "" || len(e.Event.BodyHash) != 64 {
				t.Errorf("R-REG-02 event %+v", e)
			}
			at = e.Cursor
		}
	}
	if d := cmp.Diff([]string{"overlay.installed", "overlay.updated", "overlay.archived", "overlay.restored"}, got); d != "" {
		t.Errorf("R-REG-01 events (-want +got):\n%s", d)
	}
	before := l.View().RegistryEvents(0, 0)
	if last := before.Events[len(before.Events)-1]; last.Event.BodyHash != d.Record.BodyHash {
		t.Errorf("hash of the last event %s, want %s", last.Event.BodyHash, d.Record.BodyHash)
	}
	l.Restart()
	if d := cmp.Diff(mustEncode(before), mustEncode(l.View().RegistryEvents(0, 0))); d != "" {
		t.Errorf("R-REG-03 after a restart:\n%s", d)
	}
}

// R-ROM-11, G-098.
func TestBriefFacts(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	if _, err := l.View().Brief(k); fault.Of(err) != fault.NotFound {
		t.Errorf("unknown session: %v", err)
	}
	l.on(k, "secure-code", "verify-first")
	got, err := l.View().Brief(k)
	want := contracts.OverlayBriefFacts{SessionKey: k, Revision: 2, ActiveOverlayIDs: contracts.List[contracts.OverlayID]{"secure-code", "verify-first"}, EvidenceLabels: contracts.Map[contracts.EvidenceLabel]{}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// Every overlay that concerns a session is explained, whatever its state.
func TestExplain(t *testing.T) {
	l := newLive(t)
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "concise-executive", Scope: contracts.PinWorkspace})
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "secure-code", Scope: contracts.PinWorkspace})
	l.Must(ec.PinOverlay{Key: chat("y"), OverlayID: "verify-first", Scope: contracts.PinUntilOff})
	l.Must(ec.ArchiveOverlay{OverlayID: "verify-first"})
	k := key(contracts.SurfaceTask, "w", "t")
	l.start(k)
	l.on(k, "spec-architect")
	got, err := l.View().Explain(k)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[contracts.OverlayID][2]string{
		"concise-executive": {"surface_unsupported", "concise-executive is out: it does not support the surface task."},
		"secure-code":       {"active", "secure-code is in: pinned in the workspace, rank 10."},
		"spec-architect":    {"active", "spec-architect is in: asked for by person for one dispatch, rank 10."},
		"verify-first":      {"overlay_archived", "verify-first is out: it is archived and was left out."},
	} {
		found := false
		for _, i := range got.Items {
			if i.OverlayID == id {
				found = true
				if i.Code != want[0] || i.Sentence != want[1] || i.Tokens < 1 || i.Title == "" {
					t.Errorf("%s: %+v", id, i)
				}
			}
		}
		if !found {
			t.Errorf("%s is not explained: %+v", id, got.Items)
		}
	}
}

// The scopes of an overlay's pins are part of why it is in, each one once.
func TestExplainNamesPins(t *testing.T) {
	l := newLive(t)
	k := chat("pins")
	for _, scope := range []contracts.OverlayPinScope{contracts.PinThread, contracts.PinWorkspace, contracts.PinUntilOff} {
		l.Must(ec.PinOverlay{Key: k, OverlayID: "secure-code", Scope: scope})
	}
	l.start(chat("later"))
	for at, want := range map[string]string{
		"pins":  "secure-code is in: turned on by person, pinned here, pinned in the workspace, pinned everywhere, rank 10.",
		"later": "secure-code is in: pinned in the workspace, pinned everywhere, rank 10.",
	} {
		got, err := l.View().Explain(chat(at))
		if err != nil || len(got.Items) != 1 || got.Items[0].Sentence != want {
			t.Errorf("R-PIN-01 %s: %+v, %v; want %q", at, got.Items, err, want)
		}
	}
}

// Item 5 of what must hold: every preset alone on every surface.
func TestEveryPresetOnEverySurface(t *testing.T) {
	l := newLive(t)
	for _, o := range shipped(t).Overlays {
		for _, kind := range []contracts.SupportedSurface{contracts.SurfaceChat, contracts.SurfaceRoom, contracts.SurfacePanel, contracts.SurfaceTask} {
			k := key(kind, "w", "alone-"+string(o.Frontmatter.ID))
			ok := o.Frontmatter.ArtifactClass != contracts.ClassPostTask
			found := false
			for _, s := range o.Frontmatter.SupportedSurfaces {
				found = found || s == kind
			}
			_, err := l.Send(activate(k, o.Frontmatter.ID))
			if (err == nil) != (ok && found) {
				t.Errorf("R-SES-09 %s on %s: %v", o.Frontmatter.ID, kind, err)
			}
		}
	}
}
