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

// story is a chat of the Python client with serve, chat and Redis as processes
// of their own.
type story struct {
	*clientRig
	c      *sdk
	thread string
}

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

// say has the client take a turn; more are further parameters.
func (s *story) say(t *testing.T, turn string, more ...map[string]any) said {
	t.Helper()
	return s.turn(t, "create", turn, more...).ok(t)
}

func (s *story) turn(t *testing.T, do, turn string, more ...map[string]any) said {
	t.Helper()
	o := s.as(do, s.thread, s.c.params("fast", "Question of "+turn, more...))
	o.Headers["X-PromptLab-Turn"] = turn
	return s.c.do(t, o)
}

// change changes the session over the API.
func (s *story) change(t *testing.T, verb string, body any) contracts.OverlaySessionState {
	t.Helper()
	got, err := s.user.ChangeSession(t.Context(), chatKey(s.thread), verb, body, "")
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return got.SessionState
}

// state is the session as EC has it.
func (s *story) state(t *testing.T) contracts.OverlaySessionState {
	t.Helper()
	got, _, err := s.user.Session(t.Context(), chatKey(s.thread))
	if err != nil {
		t.Fatal(err)
	}
	return got.SessionState
}

func active(state contracts.OverlaySessionState) string {
	var ids []string
	for _, a := range state.ActiveOverlays {
		ids = append(ids, string(a.OverlayID))
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// applied checks that a turn was sent with exactly these overlays: in what the
// model server got, in the answer, and in EC's receipt, which it gives.
func (s *story) applied(t *testing.T, turn string, got said, reason contracts.OverlayRefreshReason, want ...string) contracts.OverlayRuntimeTruthSummary {
	t.Helper()
	if noted := slices.Sorted(slices.Values(got.PromptLab.Applied)); !slices.Equal(noted, want) || got.PromptLab.RefreshReason != string(reason) || got.head("X-PromptLab-Overlays") != "available" {
		t.Errorf("turn %s: the answer says %+v (header %s); want %v applied, reason %q", turn, got.PromptLab, got.head("X-PromptLab-Overlays"), want, reason)
	}
	truth, err := s.user.Receipt(t.Context(), chatKey(s.thread), turn)
	if err != nil {
		t.Fatalf("receipt of turn %s: %v", turn, err)
	}
	var kept []string
	for _, id := range truth.AppliedOverlayIDs {
		kept = append(kept, string(id))
	}
	slices.Sort(kept)
	if !slices.Equal(kept, want) || truth.RefreshReason != reason || len(truth.RequestedOverlayIDs) != len(want) || len(truth.DroppedOverlayIDs) != 0 || truth.PacketHash == "" || truth.AppliedAt == nil || truth.Model != "served-1" {
		t.Errorf("turn %s: receipt %+v; want %v applied, reason %q", turn, truth, want, reason)
	}
	var sent []string
	for i, m := range s.up.last().Messages {
		for line := range strings.SplitSeq(m.text(), "\n") {
			if id, ok := strings.CutPrefix(line, "[[promptlab:overlay id="); ok {
				id, _, _ = strings.Cut(id, " ")
				sent = append(sent, id)
				if i != 0 || m.Role == "user" {
					t.Errorf("R-PKT-13 R-REA-06 turn %s: overlay %s was sent in message %d of role %s", turn, id, i, m.Role)
				}
			}
		}
		if m.Role != "user" && strings.Contains(strings.ToLower(m.text()), "activat") {
			t.Errorf("I03 R-PKT-12 turn %s: a message of role %s tells of an activation: %s", turn, m.Role, m.text())
		}
	}
	if slices.Sort(sent); !slices.Equal(sent, want) {
		t.Errorf("turn %s: the model server got overlays %v, want %v", turn, sent, want)
	}
	return truth
}

// verbatim checks what the model server got besides the system text.
func (s *story) verbatim(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, m := range s.up.last().Messages {
		if m.Role != "system" && m.Role != "developer" {
			got = append(got, m.Role+": "+m.text())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("I03 R-PKT-12 messages at the model server (-want +got):\n%s", diff)
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

// plan prepares a second answer to the second question of a thread of two, and
// gives the parameters of the turn that dispatches it.
func (s *story) plan(t *testing.T, r contracts.OverlayReanswerPlanRequest) (contracts.OverlayReanswerPlan, map[string]any) {
	t.Helper()
	r.SelectedMessageIDs = contracts.List[string]{"m3", "m4"}
	plan, err := s.user.PrepareReanswer(t.Context(), chatKey(s.thread), r, "")
	if err != nil {
		t.Fatal(err)
	}
	message := func(role, text string) any { return map[string]any{"role": role, "content": text} }
	return plan, map[string]any{
		"model":     "deep",
		"messages":  []any{message("user", "q1"), message("assistant", "a1"), message("user", "q2"), message("assistant", "a2"), message("user", "q3")},
		"promptlab": map[string]any{"plan_id": plan.PlanID, "message_ids": []string{"m1", "m2", "m3", "m4", "m5"}},
	}
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
	s.until(time.Minute, "each call is booked once", func() bool {
		u, err := s.user.Usage(t.Context(), client.UsageQuery{})
		if err == nil && u.Total.Calls > s.up.calls() {
			t.Fatalf("R-GWL-01 %d calls are booked, the model server was called %d times", u.Total.Calls, s.up.calls())
		}
		return err == nil && u.Total.Calls == s.up.calls()
	})
}

// printed checks what promptlab sessions receipt says of a receipt's id.
func (s *story) printed(t *testing.T, id string, want ...string) {
	t.Helper()
	out, err := s.command("sessions", "receipt", id).CombinedOutput()
	if err != nil {
		t.Fatalf("sessions receipt %s: %v\n%s", id, err, out)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			t.Errorf("sessions receipt prints\n%s\nwithout %q", out, w)
		}
	}
}
