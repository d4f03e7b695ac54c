package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/presets"
	"github.com/google/go-cmp/cmp"
)

const (
	someKey    = `{"surface_id":"t-1","surface_kind":"chat","thread_id":"t-1","workspace_id":"w"}`
	oneSession = "workspace_id=w&surface_kind=chat&surface_id=t-1"
)

func sessionKey(id string) contracts.OverlaySessionKey {
	return contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: id, ThreadID: id}
}

func feedbackBody(id, overlay string) string {
	return fmt.Sprintf(`{"feedback_id":%q,"overlay_id":%q,"workspace_id":"w","session_key":%s,"overlay_helpfulness_rating":"helpful"}`, id, overlay, someKey)
}

func signalBody(id string) string {
	return fmt.Sprintf(`{"signal_id":%q,"kind":"manual_abort","session_key":%s}`, id, someKey)
}

// truthBody is a receipt of a turn in which overlays were applied.
func truthBody(revision int, turn string, applied ...string) string {
	ids, err := json.Marshal(append([]string{}, applied...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"revision":%d,"turn_id":%q,"requested_overlay_ids":%s,"applied_overlay_ids":%s,"packet_hash":%q,"session_key":%s}`,
		revision, turn, ids, ids, strings.Repeat("a", 64), someKey)
}

// live is a rig whose clock the test moves, with the preset pack and three
// overlays of a person's: o-a, o-b and o-c.
func liveRig(t *testing.T, change ...func(*api.Config)) *rig {
	t.Helper()
	r := newRig(t, append([]func(*api.Config){func(c *api.Config) {
		env, ok := c.Service.(*ectest.Env)
		if !ok {
			t.Fatal("not the real EC")
		}
		c.Now = env.Clock.Now
	}}, change...)...)
	p, err := presets.Load()
	if err != nil {
		t.Fatal(err)
	}
	pack := ec.Pack{ID: p.ID, Version: p.Version}
	for _, o := range p.Overlays {
		pack.Overlays = append(pack.Overlays, ec.PackOverlay{Frontmatter: o.Frontmatter, Body: o.Body})
	}
	r.env.Must(ec.InstallPresets{Pack: pack})
	for _, id := range []string{"o-a", "o-b", "o-c"} {
		r.env.Must(ec.CreateOverlay{Record: ectest.Overlay(id, "Rule "+id+".\n")})
	}
	return r
}

func at(id, verb string) string {
	path := "/api/overlay-sessions/" + sessionKey(id).Token()
	if verb != "" {
		path += "/" + verb
	}
	return path
}

func on(id string) string { return fmt.Sprintf(`{"overlay_id":%q}`, id) }

func (r *rig) change(id, verb, body string, headers ...string) contracts.OverlaySessionResponse {
	r.t.Helper()
	a := r.ask(ec.RoleUser, "POST", at(id, verb), body, headers...)
	out := read[contracts.OverlaySessionResponse](r, verb+" "+body, a, 200)
	if want := fmt.Sprintf(`"%d"`, out.SessionState.Revision); a.header.Get("ETag") != want || a.header.Get("Cache-Control") != "no-store" {
		r.t.Errorf("%s: ETag %s, Cache-Control %s; want %s, no-store", verb, a.header.Get("ETag"), a.header.Get("Cache-Control"), want)
	}
	return out
}

func set(s contracts.OverlaySessionResponse) string {
	var out []string
	for _, a := range s.SessionState.ActiveOverlays {
		id := string(a.OverlayID)
		for _, p := range a.PinScopes {
			id += "/" + string(p)
		}
		out = append(out, id)
	}
	return fmt.Sprintf("%d: %s", s.SessionState.Revision, strings.Join(out, " "))
}

func TestSessionLife(t *testing.T) {
	r := liveRig(t)
	same := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	before := r.env.View().Seq()
	first := r.ask(ec.RoleAgent, "GET", at("t-1", ""), "")
	state := read[contracts.OverlaySessionResponse](r, "G-022 first read", first, 200)
	same("R-PIN-08 first read", set(state), "0: ")
	if first.header.Get("ETag") != `"0"` || first.header.Get("Cache-Control") != "no-store" || state.SessionState.SessionKey != sessionKey("t-1") {
		t.Errorf("first read: %v %+v", first.header, state.SessionState)
	}
	again := r.ask(ec.RoleUser, "GET", at("t-1", ""), "")
	if d := cmp.Diff(string(first.body), string(again.body)); d != "" || r.env.View().Seq() != before+1 {
		t.Errorf("G-022 reading twice: %d commands, want 1 (-first +second):\n%s", r.env.View().Seq()-before, d)
	}
	same("activate", set(r.change("t-1", "activate", on("o-a"))), "1: o-a")
	same("again", set(r.change("t-1", "activate", on("o-a"))), "1: o-a")
	same("activate with a pin", set(r.change("t-1", "activate", `{"overlay_id":"o-b","pin_scope":"workspace"}`, "If-Match", `"1"`)), "2: o-a o-b/workspace")
	same("pin", set(r.change("t-1", "pin", `{"overlay_id":"o-a","pin_scope":"thread"}`)), "3: o-a/thread o-b/workspace")
	same("unpin", set(r.change("t-1", "unpin", `{"overlay_id":"o-a","pin_scope":"thread"}`)), "4: o-a o-b/workspace")
	same("deactivate", set(r.change("t-1", "deactivate", on("o-a"))), "5: o-b/workspace")
	got := r.change("t-1", "refresh", "") // R-HTTP-14: the default is manual
	if !got.SessionState.ForceRefreshNextTurn || got.SessionState.Revision != 6 {
		t.Errorf("refresh: %+v", got.SessionState)
	}
	same("clear", set(r.change("t-1", "clear", "")), "7: ")
	same("a session that starts later has the pin", set(r.change("t-2", "bootstrap", "")), "0: o-b/workspace")
	r.change("t-2", "activate", on("o-c"))
	carried := r.change("t-3", "bootstrap", fmt.Sprintf(`{"carry_from":%s,"carry_overlay_ids":["o-c"]}`, sessionKey("t-2").JSON()))
	same("R-PIN-08 carried over", set(carried), "0: o-b/workspace o-c")
}

// TestRefusals is the table of what a session refuses: nothing changes then.
func TestRefusals(t *testing.T) {
	r := liveRig(t)
	r.change("t-1", "activate", on("creative-flow"))
	r.env.Must(ec.CreateOverlay{Record: ectest.Overlay("o-old", "Old.\n")})
	r.env.Must(ec.ArchiveOverlay{OverlayID: "o-old"})
	for _, tt := range []struct {
		name, verb, body, match string
		status                  int
		code, detail            string
	}{
		{"unknown overlay", "activate", on("nobody"), "", 404, "not_found", ""},
		{"archived overlay", "activate", on("o-old"), "", 409, "overlay_archived", ""},
		{"R-HTTP-12 hard pair", "activate", on("guided-verification"), "", 409, "hard_conflict", "creative-flow"},
		{"R-HTTP-12 hard pair by pin", "pin", `{"overlay_id":"legal-strict","pin_scope":"thread"}`, "", 409, "hard_conflict", "creative-flow"},
		{"R-HTTP-13 gate", "activate", `{"overlay_id":"o-a","source":"recommended"}`, "", 403, "gate_closed", ""},
		{"reserved source", "activate", `{"overlay_id":"o-a","source":"room_default"}`, "", 422, "source_not_allowed", "source"},
		{"odd source", "activate", `{"overlay_id":"o-a","source":"x"}`, "", 422, "validation_failed", "source"},
		{"odd scope", "activate", `{"overlay_id":"o-a","pin_scope":"x"}`, "", 422, "validation_failed", "pin_scope"},
		{"odd id", "activate", on("No Id"), "", 422, "validation_failed", "overlay_id"},
		{"no id", "activate", `{}`, "", 422, "validation_failed", "overlay_id"},
		{"odd switch", "activate", `{"overlay_id":"o-a","override_limit":"yes"}`, "", 422, "validation_failed", "override_limit"},
		{"G-006 stale", "activate", on("o-a"), `"0"`, 412, "precondition_failed", ""},
		{"weak tag", "activate", on("o-a"), `W/"1"`, 412, "precondition_failed", ""},
		{"two tags", "activate", on("o-a"), `"1", "2"`, 400, "bad_request", "If-Match"},
		{"stale", "deactivate", on("o-a"), `"7"`, 412, "precondition_failed", ""},
		{"unknown overlay", "deactivate", on("nobody"), "", 404, "not_found", ""},
		{"no id", "deactivate", `{}`, "", 422, "validation_failed", "overlay_id"},
		{"stale", "clear", `{}`, `"0"`, 412, "precondition_failed", ""},
		{"stale", "pin", `{"overlay_id":"o-a","pin_scope":"thread"}`, `"0"`, 412, "precondition_failed", ""},
		{"no scope", "pin", on("o-a"), "", 422, "validation_failed", "pin_scope"},
		{"unknown overlay", "pin", `{"overlay_id":"nobody","pin_scope":"thread"}`, "", 404, "not_found", ""},
		{"archived", "pin", `{"overlay_id":"o-old","pin_scope":"until_off"}`, "", 409, "overlay_archived", ""},
		{"stale", "unpin", `{"overlay_id":"o-a","pin_scope":"thread"}`, `"0"`, 412, "precondition_failed", ""},
		{"unknown overlay", "unpin", `{"overlay_id":"nobody","pin_scope":"thread"}`, "", 404, "not_found", ""},
		{"no scope", "unpin", on("o-a"), "", 422, "validation_failed", "pin_scope"},
		{"stale", "refresh", `{}`, `"0"`, 412, "precondition_failed", ""},
		{"reserved reason", "refresh", `{"reason":"compaction"}`, "", 422, "validation_failed", "reason"},
		{"odd reason", "refresh", `{"reason":"x"}`, "", 422, "validation_failed", "reason"},
		{"a session in use", "bootstrap", `{"carry_from":` + string(sessionKey("t-9").JSON()) + `,"carry_overlay_ids":["o-a"]}`, "", 409, "session_in_use", ""},
		{"no messages", "reanswer-plan", `{"selected_message_ids":[]}`, "", 422, "validation_failed", "selected_message_ids"},
		{"nine messages", "reanswer-plan", `{"selected_message_ids":["1","2","3","4","5","6","7","8","9"]}`, "", 422, "validation_failed", "selected_message_ids"},
		{"odd mode", "reanswer-plan", `{"selected_message_ids":["m"],"override_mode":"x"}`, "", 422, "validation_failed", "override_mode"},
		{"odd context", "reanswer-plan", `{"selected_message_ids":["m"],"context_mode":"x"}`, "", 422, "validation_failed", "context_mode"},
		{"nothing named", "reanswer-plan", `{"selected_message_ids":["m"],"override_mode":"one_time_overlay_only"}`, "", 422, "validation_failed", "overlay_ids"},
		{"unknown overlay", "reanswer-plan", `{"selected_message_ids":["m"],"override_mode":"one_time_overlay_only","overlay_ids":["nobody"]}`, "", 404, "not_found", ""},
		{"archived", "reanswer-plan", `{"selected_message_ids":["m"],"override_mode":"one_time_overlay_only","overlay_ids":["o-old"]}`, "", 409, "overlay_archived", ""},
		{"hard pair", "reanswer-plan", `{"selected_message_ids":["m"],"override_mode":"use_active_plus_one_time_overlay","overlay_ids":["guided-verification"]}`, "", 409, "hard_conflict", "creative-flow"},
		{"stale", "reanswer-plan", `{"selected_message_ids":["m"]}`, `"0"`, 412, "precondition_failed", ""},
	} {
		t.Run(tt.verb+" "+tt.name, func(t *testing.T) {
			r := &rig{t: t, env: r.env, srv: r.srv, addr: r.addr}
			seq := r.env.View().Seq()
			got := r.want("refusal", r.ask(ec.RoleUser, "POST", at("t-1", tt.verb), tt.body, "If-Match", tt.match), tt.status, tt.code)
			if tt.detail != "" && !strings.Contains(fmt.Sprint(got.Details), "{"+tt.detail+" ") {
				t.Errorf("details %+v do not name %s", got.Details, tt.detail)
			}
			if now := r.env.View().Seq(); now != seq {
				t.Errorf("a refusal was counted as %d commands", now-seq)
			}
		})
	}
	soft := r.change("t-5", "activate", on("concise-executive"))
	if len(soft.SessionState.Warnings) != 0 {
		t.Errorf("one overlay: warnings %v", soft.SessionState.Warnings)
	}
	r.env.Must(ec.CreateOverlay{Record: softPair("o-soft", "concise-executive")})
	soft = r.change("t-5", "activate", on("o-soft"))
	if w := strings.Join(soft.SessionState.Warnings, "\n"); !strings.Contains(w, "soft_conflict") || !strings.Contains(w, "o-soft") || len(soft.SessionState.ActiveOverlays) != 2 {
		t.Errorf("soft pair: %+v, want both on and a warning that names it", soft.SessionState)
	}
}

func softPair(id, other contracts.OverlayID) contracts.OverlayTemplateRecord {
	rec := ectest.Overlay(string(id), "Soft.\n")
	rec.Frontmatter.WarnsWith = contracts.List[contracts.OverlayID]{other}
	return rec
}

func TestRepeatsOfASessionWrite(t *testing.T) {
	r := liveRig(t)
	first := r.ask(ec.RoleUser, "POST", at("t-1", "activate"), on("o-a"), "Idempotency-Key", "k1")
	r.change("t-1", "activate", on("o-b"))
	second := r.ask(ec.RoleUser, "POST", at("t-1", "activate"), on("o-a"), "Idempotency-Key", "k1")
	if string(first.body) != string(second.body) || second.header.Get("ETag") != `"1"` {
		t.Errorf("a repeat answered %s, the first %s", second.body, first.body)
	}
	plan := func(key string) contracts.OverlayReanswerPlan {
		return read[contracts.OverlayReanswerPlan](r, "plan", r.ask(ec.RoleUser, "POST", at("t-1", "reanswer-plan"), `{"selected_message_ids":["m1"]}`, "Idempotency-Key", key), 201)
	}
	if a, b, c := plan("p1"), plan("p1"), plan("p2"); a.PlanID != b.PlanID || a.PlanID == c.PlanID {
		t.Errorf("plans: %s, %s for the same key, %s for another", a.PlanID, b.PlanID, c.PlanID)
	}
	r.env.Restart()
	third := r.ask(ec.RoleUser, "POST", at("t-1", "activate"), on("o-a"), "Idempotency-Key", "k1")
	if got := read[contracts.OverlaySessionResponse](r, "after a restart", third, 200); set(got) != "2: o-a o-b" {
		t.Errorf("a repeat after a restart: %s, want the session as it is", set(got))
	}
}

func TestTruthIsThereWhileTheSeamIs(t *testing.T) { // R-TRU-08, R-TRU-10, G-075, G-118
	r := liveRig(t)
	available := func() bool {
		t.Helper()
		return read[contracts.OverlaySessionResponse](r, "session", r.ask(ec.RoleUser, "GET", at("t-1", ""), ""), 200).PromptTruthAvailable
	}
	if available() {
		t.Error("G-075 truth is there although nobody was ever heard")
	}
	r.want("R-TRU-08 nobody there", r.ask(ec.RoleUser, "GET", at("t-1", "runtime-truth"), ""), 503, "truth_unavailable")
	r.want("a user is not the seam", r.ask(ec.RoleUser, "GET", "/internal/doc17/registry-events", ""), 403, "")
	if available() {
		t.Error("a refused call counts as the seam's")
	}
	r.want("any call", r.ask(ec.RoleSeam, "GET", "/internal/doc17/registry-events", ""), 200, "")
	if !available() {
		t.Error("R-TRU-10 the seam has called and truth is not there")
	}
	r.want("G-118 nothing told", r.ask(ec.RoleUser, "GET", at("t-1", "runtime-truth"), ""), 404, "truth_not_recorded")
	r.env.Clock.Add(29 * time.Second)
	if !available() {
		t.Error("29 s later: not there")
	}
	gate := func() contracts.Gate {
		st := read[contracts.Status](r, "status", r.ask(ec.RoleUser, "GET", "/api/doc17/status", ""), 200)
		for _, g := range st.Gates {
			if g.Name == "runtime_truth" {
				return g
			}
		}
		t.Fatal("status says nothing of runtime_truth")
		return contracts.Gate{}
	}
	if g := gate(); !g.Open || g.Reason != "" {
		t.Errorf("status: %+v", g)
	}
	r.env.Clock.Add(2 * time.Second)
	if g := gate(); available() || g.Open || g.Reason == "" {
		t.Errorf("31 s later: still there; status %+v", g)
	}
	inside := liveRig(t, func(c *api.Config) { c.TruthInside = func() bool { return true } })
	if !read[contracts.OverlaySessionResponse](inside, "session", inside.ask(ec.RoleUser, "GET", at("t-1", ""), ""), 200).PromptTruthAvailable {
		t.Error("a seam inside the process does not count")
	}
}

func TestTruthAndExplanation(t *testing.T) { // R-TRU-12, G-023
	r := liveRig(t)
	r.change("t-1", "activate", on("o-a"))
	submit := func(body string) answer {
		return r.ask(ec.RoleSeam, "POST", "/internal/doc17/runtime-truth", body)
	}
	if ack := read[api.TruthAck](r, "truth", submit(truthBody(1, "turn-1", "o-a")), 200); !ack.Recorded {
		t.Errorf("first receipt: %+v", ack)
	}
	if ack := read[api.TruthAck](r, "again", submit(truthBody(1, "turn-1", "o-a")), 200); ack.Recorded || ack.Note == "" {
		t.Errorf("the same receipt again: %+v", ack)
	}
	later := strings.Replace(truthBody(1, "turn-2", "o-a"), `{`, `{"of_a_later_version":[1],`, 1) // decision 8
	read[api.TruthAck](r, "later version", submit(later), 200)
	r.want("unknown session", submit(strings.ReplaceAll(truthBody(0, "t"), "t-1", "t-404")), 404, "not_found")
	r.want("future revision", submit(truthBody(9, "t", "o-a")), 409, "future_revision")
	bad := strings.Replace(truthBody(1, "t", "o-a"), `"applied_overlay_ids":["o-a"]`, `"applied_overlay_ids":["o-b"]`, 1)
	if got := r.want("unexplained", submit(bad), 422, "validation_failed"); len(got.Details) != 2 {
		t.Errorf("an overlay that was not asked for, and one without an end: %+v", got.Details)
	}
	r.want("no session key", submit(`{"revision":1}`), 422, "validation_failed")
	got := read[contracts.OverlayRuntimeTruthSummary](r, "read", r.ask(ec.RoleAgent, "GET", at("t-1", "runtime-truth"), ""), 200)
	if got.TurnID != "turn-2" || len(got.AppliedOverlayIDs) != 1 {
		t.Errorf("R-TRU-12 last receipt: %+v", got)
	}
	history := read[api.TruthHistory](r, "history", r.ask(ec.RoleAgent, "GET", at("t-1", "runtime-truth/history"), ""), 200)
	if len(history.Items) != 2 || history.Items[0].TurnID != "turn-1" || history.Items[1].TurnID != "turn-2" {
		t.Errorf("history: %+v", history)
	}
	if none := read[api.TruthHistory](r, "none", r.ask(ec.RoleAgent, "GET", at("t-7", "runtime-truth/history"), ""), 200); len(none.Items) != 0 {
		t.Errorf("history of nothing: %+v", none)
	}
	why := read[contracts.OverlayExplanations](r, "explain", r.ask(ec.RoleAgent, "GET", at("t-1", "explain"), ""), 200)
	if len(why.Items) != 1 || !why.Items[0].In || why.Items[0].LastTurn != "applied" || why.Items[0].Sentence == "" {
		t.Errorf("explanation: %+v", why)
	}
	if fresh := read[contracts.OverlayExplanations](r, "explain a new one", r.ask(ec.RoleAgent, "GET", at("t-8", "explain"), ""), 200); fresh.Revision != 0 {
		t.Errorf("explanation of a new session: %+v", fresh)
	}
}
