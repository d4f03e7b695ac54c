package ec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

// R-PKT-05, R-TRU-06, R-TRU-07, R-SES-25, R-SES-26: what is on acts on every turn
// and is in every receipt, through a compaction and another model.
func TestFiftyTurns(t *testing.T) {
	l := newLive(t)
	k := chat("long")
	l.on(k, "secure-code", "verify-first")
	reasons := map[int]contracts.OverlayRefreshReason{1: "activation_change", 20: "compaction", 30: "model_switch"}
	for n := 1; n <= 50; n++ {
		if r := reasons[n]; r == contracts.RefreshCompaction || r == contracts.RefreshModelSwitch {
			l.Must(ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: k, EventKind: r}})
		}
		turn := fmt.Sprint("turn-", n)
		p, _ := l.packet(k, ec.PacketQuery{TurnID: turn})
		l.receipt(k, p.Revision, turn)
		got, err := l.View().Truth(k, true)
		if err != nil || got.TurnID != turn || fmt.Sprint(got.AppliedOverlayIDs) != "[secure-code verify-first]" || got.PacketHash != p.PacketHash || got.RefreshReason != reasons[n] {
			t.Fatalf("R-TRU-06 turn %d: receipt %+v, %v; want both overlays applied and the reason %q", n, got, err, reasons[n])
		}
		if n == 25 {
			l.Restart()
		}
	}
}

// R-PKT-14: each change of the set shows in the receipt as another packet, and
// going back to a set goes back to its hash.
func TestEverySetHasItsHash(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	seen := map[string]string{}
	hashOf := func(set string) string {
		t.Helper()
		turn := fmt.Sprint("after-", len(seen), set)
		p, _ := l.packet(k, ec.PacketQuery{TurnID: turn})
		l.receipt(k, p.Revision, turn)
		got, err := l.View().Truth(k, true)
		if err != nil {
			t.Fatal(err)
		}
		return got.PacketHash
	}
	for _, b := range []ec.Body{
		activate(k, "secure-code"), activate(k, "verify-first"), ec.DeactivateOverlay{Key: k, OverlayID: "secure-code"}, activate(k, "step-back-principles"), ec.ClearSession{Key: k},
	} {
		l.Must(b)
		set := l.set(k)
		hash := hashOf(set)
		if other, taken := seen[hash]; taken {
			t.Errorf("R-PKT-14 the sets %q and %q have one hash", set, other)
		}
		seen[hash] = set
	}
	l.on(k, "secure-code")
	if seen[hashOf("again")] != "secure-code" {
		t.Error("R-PKT-14 the same set again has another hash")
	}
}

// R-SES-05: a running turn keeps its set; the change counts from the next one.
func TestARunningTurnKeepsItsSet(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.on(k, "secure-code")
	running, _ := l.packet(k, ec.PacketQuery{TurnID: "1"})
	l.on(k, "verify-first")
	l.Must(ec.DeactivateOverlay{Key: k, OverlayID: "secure-code"})
	l.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
		SessionKey: k, Revision: running.Revision, TurnID: "1", PacketHash: running.PacketHash,
		RequestedOverlayIDs: running.RequestedOverlayIDs, AppliedOverlayIDs: running.RequestedOverlayIDs,
	}})
	got, err := l.View().Truth(k, true)
	st := l.state(k)
	if err != nil || fmt.Sprint(got.AppliedOverlayIDs) != "[secure-code]" || *st.LastAppliedRevision != 1 || st.Revision != 3 {
		t.Errorf("R-SES-05 receipt of the running turn %+v, %v; state %+v", got, err, st)
	}
	if next, _ := l.packet(k, ec.PacketQuery{TurnID: "2"}); blocks(next) != "verify-first" {
		t.Errorf("R-SES-05 the next turn has %q", blocks(next))
	}
}

// R-PKT-01, R-PKT-12, R-REA-12: packets and plans are data: one block an overlay
// with the text as it is in the library, notices for people outside of the
// blocks, messages by their ids.
func TestPacketsAndPlansAreData(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	for range 10 { // twenty activations
		l.Must(ec.ClearSession{Key: k})
		l.on(k, "secure-code", "verify-first")
	}
	p, b := l.packet(k, ec.PacketQuery{TurnID: "1"})
	bodies := map[contracts.OverlayID]string{}
	for _, block := range p.OverlayBlocks {
		d, _, err := l.View().Overlay(block.OverlayID)
		if err != nil || block.Body != d.Record.Body || block.Title != d.Record.Frontmatter.Title {
			t.Errorf("R-PKT-12 the block of %s is not the library's text", block.OverlayID)
		}
		bodies[block.OverlayID] = block.Body
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, x := range v {
				walk(at+"."+name, x)
			}
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), x)
			}
		case string:
			n := 0
			for _, body := range bodies {
				if strings.Contains(v, body) {
					n++
				}
			}
			if n > 1 {
				t.Errorf("R-PKT-01 %s holds several overlays in one text", at)
			}
		}
	}
	var doc any
	if err := json.Unmarshal(b.Body, &doc); err != nil {
		t.Fatal(err)
	}
	walk("packet", doc)
	if len(bodies) != 2 {
		t.Errorf("R-PKT-01 %d blocks, want one for each of two overlays", len(bodies))
	}
	r := l.Must(ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
		SelectedMessageIDs: contracts.List[string]{"m1", strings.Repeat("m", 200)}, ContextMode: "thread_plus_selected", OverrideMode: contracts.OverrideUseActive,
	}})
	if err := l.Store.Flush(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(l.Dir, "system/overlays/reanswer_plans", string(r.Plan.PlanID)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		if strings.Contains(string(file), strings.TrimSpace(body)) {
			t.Error("R-REA-12 a plan holds an overlay's text before it is dispatched")
		}
	}
	var plan struct {
		Plan map[string]any `json:"plan"`
	}
	decode(t, string(file), &plan)
	if ids := fmt.Sprint(plan.Plan["selected_message_ids"]); ids != "[m1 "+strings.Repeat("m", 200)+"]" {
		t.Errorf("R-REA-12 the plan names %s", ids)
	}
}

// R-REA-09: an override is for one dispatch; the turn after it is the session's own.
func TestAnOverrideEndsWithItsDispatch(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.on(k, "secure-code")
	l.packet(k, ec.PacketQuery{TurnID: "0"})
	_, own := l.packet(k, ec.PacketQuery{TurnID: "1"})
	r := l.Must(ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
		SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "clean_context", OverrideMode: contracts.OverrideOneTime, OverlayIDs: contracts.List[contracts.OverlayID]{"verify-first"},
	}})
	if !r.Plan.OverlayOverride.ClearAfterDispatch {
		t.Error("R-REA-09 a plan does not clear its override after the dispatch")
	}
	if p, _ := l.packet(k, ec.PacketQuery{PlanID: r.Plan.PlanID, TurnID: "2"}); blocks(p) != "verify-first" {
		t.Errorf("the dispatch: %q", blocks(p))
	}
	if _, next := l.packet(k, ec.PacketQuery{TurnID: "3"}); string(next.Body) != string(own.Body) {
		t.Errorf("R-REA-09 the next turn is another than before: %s", next.Body)
	}
}

// R-BND-16, R-BND-17: an overlay acts in its session, on its surface, and nowhere else.
func TestSessionsAreApart(t *testing.T) {
	l := newLive(t)
	kinds := []contracts.SupportedSurface{contracts.SurfaceChat, contracts.SurfaceRoom, contracts.SurfacePanel, contracts.SurfaceTask}
	l.own("everywhere", 60, kinds...)
	for _, on := range kinds {
		l.on(key(on, "w", "same"), "everywhere")
		for _, other := range kinds {
			for _, ws := range []string{"w", "v"} {
				k := key(other, ws, "same")
				p, _ := l.packet(k, ec.PacketQuery{})
				if want := ws == "w" && other == on; (blocks(p) == "everywhere") != want {
					t.Errorf("R-BND-16 turned on in the %s: the %s of workspace %s has %q", on, other, ws, blocks(p))
				}
			}
		}
		l.Must(ec.DeactivateOverlay{Key: key(on, "w", "same"), OverlayID: "everywhere"})
	}
	l.Ready()
	ref := l.Must(ec.CreateDataset{Dataset: ectest.Dataset("notes", 40)}).Subject
	for _, kind := range []contracts.PromptArtifactKind{"room_role_prompt"} {
		_, err := l.Send(ec.CreateJob{Job: contracts.PromptLabJob{
			ArtifactKind: kind, ArtifactID: "x", Backend: contracts.BackendPromptolution, RequestReason: contracts.ReasonManual, RequestedBy: "user", DatasetRef: ref, MinReplayExamples: 20,
		}})
		if fault.Of(err) != fault.Invalid {
			t.Errorf("R-BND-17 a job for a %s: %v, want it refused", kind, err)
		}
	}
}

// R-PIN-15: pins of many at once are all kept, with who and when.
func TestConcurrentPinsAreAllKept(t *testing.T) {
	l := newLive(t)
	const n = 30
	for i := range n {
		l.own(fmt.Sprintf("p-%02d", i), 20)
		l.start(chat(fmt.Sprint("s", i))) // before there are pins
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := l.Send(ec.PinOverlay{Key: chat(fmt.Sprint("s", i)), OverlayID: contracts.OverlayID(fmt.Sprintf("p-%02d", i)), Scope: contracts.PinWorkspace}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 2 {
		p := l.View().Pins(contracts.PinWorkspace, "w")
		if len(p.OverlayIDs) != n || p.UpdatedBy != "person" || p.UpdatedAt.IsZero() {
			t.Errorf("R-PIN-15 %d of %d pins are kept, by %q at %v", len(p.OverlayIDs), n, p.UpdatedBy, p.UpdatedAt)
		}
		l.Restart()
	}
}

// R-SES-19: every entry says where it came from, which text it is, and when; a
// candidate is named with a trial and with nothing else.
func TestEntriesSayWhereTheyComeFrom(t *testing.T) {
	l := newLive(t)
	l.own("d-room", 40, contracts.SurfaceRoom)
	l.Must(surface(contracts.SurfaceRoom, nil, "d-room"))
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "secure-code", Scope: contracts.PinWorkspace})
	l.Must(ec.SetFlags{Flags: contracts.Flags{LearnedRecommendations: true}})
	k := roomOf("r")
	l.start(k)
	l.Must(ec.ActivateOverlay{Key: k, OverlayID: "verify-first", Source: contracts.FromRecommended, Truth: true, Retrieval: true})
	sources := map[contracts.OverlayActivationSource]bool{}
	ids := map[contracts.UUID]bool{}
	for _, a := range l.state(k).ActiveOverlays {
		sources[a.Source], ids[a.ActivationID] = true, true
		d, _, _ := l.View().Overlay(a.OverlayID)
		if a.OverlayBodyHash != d.Record.BodyHash || a.PriorityRank < 1 || a.ActivatedAt.IsZero() || a.ActivatedBy == "" || a.CandidateID != "" {
			t.Errorf("R-SES-19 entry %+v", a)
		}
	}
	if len(sources) != 3 || len(ids) != 3 {
		t.Errorf("R-SES-19 sources %v, activations %v; want three of each", sources, ids)
	}
}

// R-TRU-11, R-ROM-11: the receipt of a trial names the candidate, whether or not
// the one who reports does.
func TestReceiptOfATrialNamesItsCandidate(t *testing.T) {
	b := bench{s: modelState(t), n: 1}
	k := chat("t")
	if _, err := b.do(ec.ActivateOverlay{Key: k, OverlayID: "b", Source: contracts.FromManual}); err != nil {
		t.Fatal(err)
	}
	candidate := contracts.DeriveID("c", "candidate", 0)
	ec.TrialForTest(b.s, k, "b", candidate)
	r, err := b.do(ec.BuildPacket{Key: k, TurnID: "1"})
	if err != nil || r.Packet.OverlayBlocks[0].CandidateID != candidate {
		t.Fatalf("packet %+v, %v", r.Packet, err)
	}
	for turn, told := range map[string]contracts.List[contracts.UUID]{"1": nil, "2": {candidate}} {
		ids := contracts.List[contracts.OverlayID]{"b"}
		if _, err := b.do(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{SessionKey: k, Revision: 1, TurnID: turn, RequestedOverlayIDs: ids, AppliedOverlayIDs: ids, CandidateIDs: told}}); err != nil {
			t.Fatal(err)
		}
		got, err := ec.NewView(b.s).Truth(k, true)
		if err != nil || fmt.Sprint(got.CandidateIDs) != fmt.Sprint([]contracts.UUID{candidate}) {
			t.Errorf("R-TRU-11 turn %s: candidates %v, %v", turn, got.CandidateIDs, err)
		}
	}
}

// R-FBK-04, R-FBK-08, R-BND-07: opinions and signs go to their one stream, and no
// number of them changes a text or what is on.
func TestSignalsChangeNothing(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.on(k, "secure-code")
	texts := func() string {
		var out []string
		for _, o := range l.View().Overlays(ec.OverlayFilter{IncludeArchived: true}).Items {
			_, etag, _ := l.View().Overlay(o.OverlayID)
			out = append(out, etag)
		}
		return strings.Join(out, " ") + mustEncode(l.state(k))
	}
	before := texts()
	const n = 1000
	for i := range n {
		if i%2 == 0 {
			l.Must(feedback(k, fmt.Sprint("n", i), nil))
		} else {
			l.Must(ec.AppendSignal{Signal: contracts.OverlaySignal{SignalID: contracts.DeriveID(fmt.Sprint(i), "s", 0), Kind: "correction_followup", SessionKey: k}})
		}
	}
	if texts() != before {
		t.Error("R-FBK-08 R-BND-07 a thousand bad opinions changed a text or a session")
	}
	if got := strings.Count(l.signals(), "\n"); got != n {
		t.Errorf("R-FBK-04 the stream of overlays has %d lines, want %d", got, n)
	}
	entries, err := os.ReadDir(filepath.Join(l.Dir, "signals/doc17"))
	if err != nil || len(entries) != 1 {
		t.Errorf("R-FBK-04 streams that were written: %v, %v; want overlay_feedback alone", entries, err)
	}
}
