package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// TestChatStory tells, over separate processes and through an official client,
// how a session's overlays come into turns and stay there, and how chat goes on
// while EC is killed and comes back.
func TestChatStory(t *testing.T) {
	c := startPython(t).speaking(openAI())
	s := &story{newClientRig(t, c), c, "story"}
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"I01 E01 R-TRU-01 R-TRU-02 an activation is in the next turn and in its receipt", s.activation},
		{"I04 R-SES-12 what excludes it is refused and changes nothing", s.conflict},
		{"I11 E02 R-PKT-17 R-PKT-22 a refresh is told once", s.refresh},
		{"I12 R-SES-26 R-TRU-06 R-TRU-07 compaction keeps the set", s.compaction},
		{"I13 R-PKT-05 R-TRU-07 another model keeps the set", s.modelSwitch},
		{"I14 E03 R-REA-03 R-REA-05 R-REA-10 a second answer leaves the session as it was", s.reanswer},
		{"I14 R-REA-07 R-REA-09 R-TRU-03 an overlay for one answer alone", s.onceOnly},
		{"I15 R-REA-04 an overlay that stays on", s.keepOn},
		{"I05 R-PIN-11 a workspace's pin is in its new threads", s.workspacePin},
		{"kill -9 of the chat endpoint", s.chatKilled},
		{"R-BND-03 EC hangs and goes on", s.hangs},
		{"R-BND-03 G-044 kill -9 of EC while an answer is on its way", s.killed},
		{"R-BND-03 R-TRU-08 R-TRU-09 turns while EC is away", s.away},
		{"R-TRU-12 R-TRU-05 EC is back: overlays, what waited, and what was kept", s.back},
	} {
		ok := t.Run(chapter.name, func(t *testing.T) {
			whole := s.t
			defer func() { s.t = whole }()
			s.t = t // whose failure it is when something does not come
			chapter.tell(t)
		})
		if !ok {
			return // the chapters build on each other
		}
	}
}

func (s *story) activation(t *testing.T) {
	state := s.change(t, "activate", contracts.OverlayActivateRequest{OverlayID: "legal-research", Source: contracts.FromManual})
	if active(state) != "legal-research" {
		t.Fatalf("active %q", active(state))
	}
	truth := s.applied(t, "t1", s.say(t, "t1"), contracts.RefreshActivation, "legal-research")
	s.verbatim(t, "user: Question of t1")
	if truth.Revision != state.Revision || truth.SourcesByOverlay["legal-research"] != "manual" {
		t.Errorf("receipt %+v, want revision %d and the source manual", truth, state.Revision)
	}
	got, _, err := s.user.Session(t.Context(), chatKey(s.thread))
	if err != nil || !got.PromptTruthAvailable || got.RuntimeTruth == nil || got.RuntimeTruth.TurnID != "t1" {
		t.Errorf("R-TRU-10 session %+v, %v; want the receipt of t1 available", got, err)
	}
	if now := got.SessionState; now.LastAppliedRevision == nil || *now.LastAppliedRevision != state.Revision || now.LastAppliedPacketHash != truth.PacketHash || now.Revision != state.Revision {
		t.Errorf("R-TRU-04 session %+v, want the last applied packet %s at revision %d", now, truth.PacketHash, state.Revision)
	}
	if again := s.applied(t, "t2", s.say(t, "t2"), "", "legal-research"); again.PacketHash != truth.PacketHash {
		t.Errorf("R-PKT-05 the second turn has packet %s, want %s again", again.PacketHash, truth.PacketHash)
	}
}

func (s *story) conflict(t *testing.T) {
	before := s.state(t)
	_, err := s.user.ChangeSession(t.Context(), chatKey(s.thread), "activate", contracts.OverlayActivateRequest{OverlayID: "creative-flow", Source: contracts.FromManual}, "")
	if fault.Of(err) != fault.Conflict || !strings.Contains(err.Error(), "creative-flow") && !strings.Contains(err.Error(), "Creative Flow") {
		t.Errorf("got %v, want a conflict that names it", err)
	}
	if diff := cmp.Diff(before, s.state(t)); diff != "" {
		t.Errorf("the session has changed (-before +after):\n%s", diff)
	}
}

func (s *story) refresh(t *testing.T) {
	if state := s.change(t, "refresh", contracts.OverlayRefreshRequest{Reason: contracts.RefreshManual}); !state.ForceRefreshNextTurn {
		t.Errorf("after the refresh: %+v, want it to wait for the next turn", state)
	}
	s.applied(t, "t3", s.say(t, "t3"), contracts.RefreshManual, "legal-research")
	s.applied(t, "t4", s.say(t, "t4"), "", "legal-research")
}

func (s *story) compaction(t *testing.T) {
	before := s.state(t)
	got := s.say(t, "t5", map[string]any{"promptlab": map[string]any{"compacted": true, "context": map[string]any{"summary": "So far: four questions."}}})
	s.applied(t, "t5", got, contracts.RefreshCompaction, "legal-research")
	s.sameSet(t, before)
	if text := s.up.last().Messages[0].text(); !strings.Contains(text, "So far: four questions.") {
		t.Errorf("the summary was not sent: %s", text)
	}
}

// sameSet checks that what is on is what was on, entry for entry; a refresh that
// was asked for raises the revision.
func (s *story) sameSet(t *testing.T, before contracts.OverlaySessionState) {
	t.Helper()
	after := s.state(t)
	if diff := cmp.Diff(before.ActiveOverlays, after.ActiveOverlays); diff != "" || after.Revision != before.Revision+1 {
		t.Errorf("R-SES-04 revision %d, before %d; the set (-before +after):\n%s", after.Revision, before.Revision, diff)
	}
}

func (s *story) modelSwitch(t *testing.T) {
	before := s.state(t)
	s.applied(t, "t6", s.say(t, "t6", map[string]any{"model": "deep"}), contracts.RefreshModelSwitch, "legal-research")
	if model := s.up.last().Model; model != "deep-2026-01-01" {
		t.Errorf("the turn went to %s", model)
	}
	s.applied(t, "t7", s.say(t, "t7", map[string]any{"model": "deep"}), "", "legal-research")
	s.sameSet(t, before)
}

func (s *story) reanswer(t *testing.T) {
	before := s.state(t)
	plan, params := s.plan(t, contracts.OverlayReanswerPlanRequest{ContextMode: contracts.ContextClean, OverrideMode: contracts.OverrideUseActive})
	truth := s.applied(t, "re1", s.say(t, "re1", params), "", "legal-research")
	s.verbatim(t, "user: q2", "user: "+plan.PromptSeed)
	if truth.ReanswerPlanID != plan.PlanID {
		t.Errorf("R-TRU-03 the receipt names plan %q, want %q", truth.ReanswerPlanID, plan.PlanID)
	}
	if got := s.turn(t, "create", "re1-again", params); got.Error != "ConflictError" || got.Status != 409 {
		t.Errorf("R-REA-05 the plan's second use: %+v, want ConflictError", got)
	}
	_, params = s.plan(t, contracts.OverlayReanswerPlanRequest{ContextMode: contracts.ContextSelected, OverrideMode: contracts.OverrideUseActive})
	s.say(t, "re2", params)
	if got := s.up.last().Messages; len(got) != 4 || got[1].text() != "q2" || got[2].text() != "a2" {
		t.Errorf("R-REA-10 with the selected turns alone the model server got %+v", got)
	}
	if diff := cmp.Diff(before, s.state(t)); diff != "" {
		t.Errorf("R-REA-03 the session has changed (-before +after):\n%s", diff)
	}
}

func (s *story) onceOnly(t *testing.T) {
	before := s.state(t)
	plan, params := s.plan(t, contracts.OverlayReanswerPlanRequest{
		ContextMode: contracts.ContextClean, OverrideMode: contracts.OverrideOneTime, OverlayIDs: contracts.List[contracts.OverlayID]{"guided-verification"},
	})
	truth := s.applied(t, "once1", s.say(t, "once1", params), "", "guided-verification")
	if truth.OverrideMode != contracts.OverrideOneTime || truth.ReanswerPlanID != plan.PlanID {
		t.Errorf("R-TRU-03 receipt %+v, want mode and plan", truth)
	}
	if diff := cmp.Diff(before, s.state(t)); diff != "" {
		t.Errorf("R-REA-03 the session has changed (-before +after):\n%s", diff)
	}
	s.applied(t, "t8", s.say(t, "t8", map[string]any{"model": "deep"}), "", "legal-research")
	got := s.say(t, "once2", map[string]any{"model": "deep", "promptlab": map[string]any{"override": map[string]any{"mode": "use_active_plus_one_time_overlay", "overlay_ids": []string{"guided-verification"}}}})
	s.applied(t, "once2", got, "", "guided-verification", "legal-research")
	s.applied(t, "t9", s.say(t, "t9", map[string]any{"model": "deep"}), "", "legal-research")
}

func (s *story) keepOn(t *testing.T) {
	before := s.state(t)
	_, params := s.plan(t, contracts.OverlayReanswerPlanRequest{
		ContextMode: contracts.ContextClean, OverrideMode: contracts.OverrideActivePlus, OverlayIDs: contracts.List[contracts.OverlayID]{"guided-verification"}, KeepOverlayActiveAfterDispatch: true,
	})
	if now := s.state(t); active(now) != "guided-verification legal-research" || now.Revision != before.Revision+1 {
		t.Errorf("before the dispatch: active %q at revision %d, want both at %d", active(now), now.Revision, before.Revision+1)
	}
	s.applied(t, "keep1", s.say(t, "keep1", params), "", "guided-verification", "legal-research")
	s.applied(t, "t10", s.say(t, "t10", map[string]any{"model": "deep"}), contracts.RefreshActivation, "guided-verification", "legal-research")
	if s.change(t, "deactivate", contracts.OverlayDeactivateRequest{OverlayID: "guided-verification"}); active(s.state(t)) != "legal-research" {
		t.Fatal("guided-verification is still on")
	}
	s.applied(t, "t11", s.say(t, "t11", map[string]any{"model": "deep"}), contracts.RefreshDeactivation, "legal-research")
}

// workspacePin turns an overlay on for good in one thread of another workspace;
// the threads that come later have it.
func (s *story) workspacePin(t *testing.T) {
	key := contracts.OverlaySessionKey{WorkspaceID: "pinned", SurfaceKind: contracts.SurfaceChat, SurfaceID: "first", ThreadID: "first"}
	if _, err := s.user.ChangeSession(t.Context(), key, "pin", contracts.OverlayPinRequest{OverlayID: "guided-verification", PinScope: contracts.PinWorkspace}, ""); err != nil {
		t.Fatal(err)
	}
	o := s.as("create", "second", s.c.params("fast", "Question"))
	o.Headers["X-PromptLab-Workspace"], o.Headers["X-PromptLab-Turn"] = "pinned", "p1"
	got := s.c.do(t, o).ok(t)
	key.SurfaceID, key.ThreadID = "second", "second"
	truth, err := s.user.Receipt(t.Context(), key, "p1")
	if !slices.Equal(got.PromptLab.Applied, []string{"guided-verification"}) || err != nil || truth.SourcesByOverlay["guided-verification"] != "workspace_pin" {
		t.Errorf("a new thread: applied %v, receipt %+v, %v; want guided-verification by the workspace's pin", got.PromptLab.Applied, truth, err)
	}
}

// chatKilled: the endpoint keeps nothing but the bills and receipts that are on
// their way to EC; what a kill takes is at most the bills of two seconds.
func (s *story) chatKilled(t *testing.T) {
	s.booked(t)
	s.chat.kill(syscall.SIGKILL)
	if got := s.turn(t, "create", "nobody-there"); got.Error != "APIConnectionError" {
		t.Errorf("without the endpoint the client gave %+v", got)
	}
	s.chat.start()
	s.until(time.Minute, "the chat endpoint hears from EC", s.chatHearsEC)
	s.applied(t, "t11b", s.say(t, "t11b", map[string]any{"model": "deep"}), "", "legal-research")
}

// hangs stops EC in its tracks: connections to it open and nothing comes back.
func (s *story) hangs(t *testing.T) {
	s.serve.signal(syscall.SIGSTOP)
	got := s.turn(t, "stream", "hung", map[string]any{"model": "deep"})
	s.serve.signal(syscall.SIGCONT)
	if got.Text != heard || got.Finish != "stop" || got.PromptLab.Overlays != "unavailable" {
		t.Errorf("a turn while EC hangs: %+v, want an answer without overlays", got)
	}
	s.until(time.Minute, "the chat endpoint hears from EC", s.chatHearsEC)
	s.until(time.Minute, "the receipt that waited is there", func() bool {
		truth, err := s.user.Receipt(t.Context(), chatKey(s.thread), "hung")
		return err == nil && truth.DropReasonsByOverlay["legal-research"] == contracts.DropUnavailable
	})
	s.applied(t, "t11c", s.say(t, "t11c", map[string]any{"model": "deep"}), "", "legal-research")
}

// killed takes EC away while a streamed answer is half told.
func (s *story) killed(t *testing.T) {
	s.up.play("wait")
	got := make(chan said, 1)
	go func() { got <- s.turn(t, "stream", "mid", map[string]any{"model": "deep"}) }()
	select {
	case <-s.up.wait:
	case <-time.After(time.Minute):
		t.Fatal("the model was not asked")
	}
	s.serve.kill(syscall.SIGKILL)
	s.up.play("words")
	s.up.onward <- struct{}{}
	if a := <-got; a.Error != "" || a.Text != heard || a.Finish != "stop" || !slices.Equal(a.PromptLab.Applied, []string{"legal-research"}) {
		t.Errorf("the answer that was on its way: %+v, want it whole, with the overlay it was begun with", a)
	}
}

func (s *story) away(t *testing.T) {
	for i, do := range []string{"create", "stream", "create"} {
		turn := fmt.Sprint("away-", i)
		got := s.turn(t, do, turn, map[string]any{"model": "deep"}).ok(t)
		if got.Text != heard || got.Finish != "stop" || got.head("X-PromptLab-Overlays") != "unavailable" || got.PromptLab.Overlays != "unavailable" || len(got.PromptLab.Applied) != 0 {
			t.Errorf("turn %s: %+v, want an answer that says that there are no overlays", turn, got)
		}
		if got.PromptLab.Dropped["legal-research"] != string(contracts.DropUnavailable) || do == "create" && got.head("X-PromptLab-Truth") != "waiting" {
			t.Errorf("turn %s: dropped %v, truth %q; want legal-research told as dropped, and the receipt to wait", turn, got.PromptLab.Dropped, got.head("X-PromptLab-Truth"))
		}
		if m := s.up.last().Messages; len(m) != 1 || m[0].text() != "Question of "+turn {
			t.Errorf("turn %s: the model server got %+v, want the question alone", turn, m)
		}
	}
	got := s.turn(t, "create", "away-once", map[string]any{"promptlab": map[string]any{"override": map[string]any{"mode": "one_time_overlay_only", "overlay_ids": []string{"guided-verification"}}}})
	if got.Error != "InternalServerError" || got.Status != 503 || got.Code != "ec_unavailable" {
		t.Errorf("a turn that only EC can equip: %+v, want 503 ec_unavailable", got)
	}
}

func (s *story) back(t *testing.T) {
	s.serve.start()
	s.waitReady()
	s.until(time.Minute, "the chat endpoint hears from EC", s.chatHearsEC)
	if now := s.state(t); active(now) != "legal-research" {
		t.Fatalf("after the restart active %q", active(now))
	}
	truth := func(turn string) contracts.OverlayRuntimeTruthSummary {
		var got contracts.OverlayRuntimeTruthSummary
		s.until(time.Minute, "the receipt of "+turn+" is there", func() (ok bool) {
			var err error
			got, err = s.user.Receipt(t.Context(), chatKey(s.thread), turn)
			return err == nil
		})
		return got
	}
	for i := range 3 {
		if got := truth(fmt.Sprint("away-", i)); len(got.AppliedOverlayIDs) != 0 || got.PacketHash != "" || got.DropReasonsByOverlay["legal-research"] != contracts.DropUnavailable {
			t.Errorf("receipt that waited: %+v, want legal-research dropped as unavailable", got)
		}
	}
	if got := truth("mid"); !slices.Equal(got.AppliedOverlayIDs, contracts.List[contracts.OverlayID]{"legal-research"}) {
		t.Errorf("receipt of the answer that was on its way: %+v", got)
	}
	if got := truth("t11"); got.RefreshReason != contracts.RefreshDeactivation {
		t.Errorf("R-TRU-12 a receipt from before the kill: %+v", got)
	}
	got := s.say(t, "t12", map[string]any{"model": "deep"})
	s.applied(t, "t12", got, "", "legal-research")
	if last, err := s.user.Truth(t.Context(), chatKey(s.thread)); err != nil || last.TurnID != "t12" {
		t.Errorf("R-TRU-05 the last receipt is of %q (%v), want t12: what came late is not the latest", last.TurnID, err)
	}
	s.printed(t, got.head("X-PromptLab-Receipt"), "Turn t12", "legal-research", "applied")
	s.printed(t, chatKey(s.thread).Token()+".away-1", "Turn away-1", "legal-research", "dropped", "packet_unavailable")
	s.booked(t)
}

// booked waits until EC has a row of each call that the model server got.
func (s *story) booked(t *testing.T) {
	t.Helper()
	s.until(time.Minute, "each call is booked once", func() bool {
		u, err := s.user.Usage(t.Context(), client.UsageQuery{})
		if err == nil && u.Total.Calls > s.up.calls() {
			t.Fatalf("R-GWL-01 %d calls are booked, the model server was called %d times", u.Total.Calls, s.up.calls())
		}
		return err == nil && u.Total.Calls == s.up.calls()
	})
}
