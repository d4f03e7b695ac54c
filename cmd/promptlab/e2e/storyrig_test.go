package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
)

// story is a chat of the Python client with serve, chat and Redis as processes
// of their own.
type story struct {
	*clientRig
	c      *sdk
	thread string
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
