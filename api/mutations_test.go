package api_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// R-SES-27: whoever changes a session is told where it stands then: its whole
// state, whether receipts come, and the last one.
func TestSessionChangesAnswerWithEverything(t *testing.T) {
	r := liveRig(t)
	change := func(verb, body string) contracts.OverlaySessionResponse {
		t.Helper()
		return read[contracts.OverlaySessionResponse](r, "R-SES-27 "+verb, r.ask(ec.RoleUser, "POST", at("t-1", verb), body), 200)
	}
	if got := change("activate", on("o-a")); got.PromptTruthAvailable || got.RuntimeTruth != nil {
		t.Errorf("R-SES-27 before the seam was there: got %+v", got)
	}
	r.want("packet", r.ask(ec.RoleSeam, "GET", "/internal/doc17/overlay-packet?turn_id=x&"+oneSession, ""), 200, "")
	r.want("report", r.ask(ec.RoleSeam, "POST", "/internal/doc17/runtime-truth", truthBody(1, "x", "o-a")), 200, "")
	for _, c := range []struct{ verb, body, active string }{
		{"activate", on("o-b"), "o-a o-b"},
		{"pin", `{"overlay_id":"o-b","pin_scope":"thread"}`, "o-a o-b"},
		{"unpin", `{"overlay_id":"o-b","pin_scope":"thread"}`, "o-a o-b"},
		{"refresh", `{}`, "o-a o-b"},
		{"deactivate", on("o-a"), "o-b"},
		{"clear", "{}", ""},
	} {
		got := change(c.verb, c.body)
		var ids []string
		for _, a := range got.SessionState.ActiveOverlays {
			ids = append(ids, string(a.OverlayID))
		}
		if strings.Join(ids, " ") != c.active || got.SessionState.SessionKey != sessionKey("t-1") {
			t.Errorf("R-SES-27 %s: state %+v, want %q on", c.verb, got.SessionState, c.active)
		}
		if !got.PromptTruthAvailable || got.RuntimeTruth == nil || got.RuntimeTruth.TurnID != "x" {
			t.Errorf("R-SES-27 %s: truth available %v, last %+v, want the receipt of turn x", c.verb, got.PromptTruthAvailable, got.RuntimeTruth)
		}
	}
}

// R-CMD-03, R-CMD-07: an install takes nothing that a client could say about it,
// and no body names a command.
func TestClientsNameNoCommands(t *testing.T) {
	r := newRig(t)
	got := r.want("R-CMD-03", r.ask(ec.RoleUser, "POST", "/api/presets/install", `{"pack":{"id":"x"}}`), 422, "validation_failed")
	if len(got.Details) != 1 || got.Details[0].Field != "pack" || got.Details[0].Rule != "unknown_key" {
		t.Errorf("R-CMD-03 an install with a payload: details %+v, want pack refused", got.Details)
	}
	before := r.env.View().Seq()
	for _, rt := range table() {
		if !rt.writes() || rt.seam || rt.public {
			continue
		}
		for _, command := range []string{"session_key.create", "overlay.save_bundle", "maintenance.prune_sessions"} {
			body := `{"command_type":"` + command + `",` + strings.TrimPrefix(rt.body, "{")
			if rt.body == "{}" {
				body = `{"command_type":"` + command + `"}`
			}
			r.want("R-CMD-07 "+rt.path+" with "+command, r.ask(rt.role(), rt.method, rt.url(), body), 422, "validation_failed")
		}
	}
	if now := r.env.View().Seq(); now != before {
		t.Errorf("R-CMD-07 bodies that name commands led to %d, want none", now-before)
	}
}
