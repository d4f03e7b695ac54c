package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/google/go-cmp/cmp"
)

// refusal is how a request is answered.
type refusal struct {
	status int
	code   string
}

// unknownIDs gives a well-formed value that names nothing, for each parameter of
// a path; "" for those that name whatever somebody asks for.
func unknownIDs() map[string]string {
	none := string(contracts.DeriveID("no", "body", 0))
	return map[string]string{
		"overlay_id": "no-such-overlay", "dataset_ref": "ds:none@9", "job_id": none, "candidate_id": none, "plan_id": none, "key_id": none,
		"session_key": "", "moderator_id": "", "room_key": "", "notice_id": none, "model_name": "no-such-model",
	}
}

// R-HTTP-11: an id of nothing, in a path, is 404 whatever the rest says.
func TestEveryUnknownIDOfAPath(t *testing.T) {
	r := everything(t)
	before := r.env.View().Seq()
	every(t, r, func(r *rig, _ *spec, d described, rt route) {
		for _, p := range d.params {
			if p["in"] != "path" {
				continue
			}
			name := fmt.Sprint(p["name"])
			id, known := unknownIDs()[name]
			if !known {
				r.t.Errorf("unknownIDs() has nothing for the parameter %s", name)
			}
			if id == "" {
				continue
			}
			address := strings.Replace(rt.path, ":"+name, id, 1)
			body := strings.ReplaceAll(rt.body, "some-id", id) // the id in a record is the one of the address
			r.want("unknown "+name, r.ask(rt.role(), d.method, address, body), 404, "not_found")
			for _, odd := range []string{strings.Repeat("x", 201), "%07", "a%20b", "caf%C3%A9", "..%2f..%2fetc", ".", "%00"} {
				a := r.ask(rt.role(), d.method, strings.Replace(rt.path, ":"+name, odd, 1), body)
				if a.status != 404 && a.status != 400 || strings.Contains(string(a.body), "etc") {
					r.t.Errorf("R-HTTP-15 odd %s %.20q: got %d %s, want a refusal that does not repeat it", name, odd, a.status, a.body)
				}
			}
		}
	})
	if got := r.env.View().Seq(); got != before {
		t.Errorf("refused requests led to %d commands, want none", got-before)
	}
}

// references says what becomes of a body that names an overlay, an artifact or a
// dataset that is not there, and one that is archived. Each route whose body has
// such a field must be here.
func references() map[string]map[string][2]refusal {
	missing, archived, fine := refusal{404, "not_found"}, refusal{409, "overlay_archived"}, refusal{200, ""}
	begun := refusal{409, "session_in_use"}
	const session = "POST /api/overlay-sessions/{session_key}/"
	return map[string]map[string][2]refusal{
		session + "activate":                         {"overlay_id": {missing, archived}},
		session + "deactivate":                       {"overlay_id": {missing, fine}}, // what was archived can be turned off
		session + "pin":                              {"overlay_id": {missing, archived}},
		session + "unpin":                            {"overlay_id": {missing, fine}},
		session + "reanswer-plan":                    {"overlay_ids": {missing, archived}},
		session + "bootstrap":                        {"carry_overlay_ids": {begun, begun}}, // asked before what it names
		"POST /api/overlay-feedback":                 {"overlay_id": {missing, {201, ""}}, "active_overlay_ids": {{201, ""}, {201, ""}}},
		"POST /api/overlay-signals":                  {"active_overlay_ids": {{201, ""}, {201, ""}}}, // what was on when it happened
		"PUT /api/moderator-defaults/{moderator_id}": {"overlay_ids": {{422, "validation_failed"}, archived}},
		"PUT /api/surface-defaults":                  {"overlay_ids": {{422, "validation_failed"}, archived}},
		"POST /api/prompt-lab/jobs":                  {"artifact_id": {{404, "artifact_not_found"}, {409, "overlay_archived"}}, "dataset_ref": {missing, missing}},
	}
}

// R-HTTP-11: an id of nothing, or of something archived, in a body.
func TestEveryReferenceOfABody(t *testing.T) {
	want := references()
	every(t, everything(t), func(r *rig, s *spec, d described, rt route) {
		props := s.object(d.body, "properties")
		for _, field := range []string{"overlay_id", "overlay_ids", "active_overlay_ids", "carry_overlay_ids", "artifact_id", "dataset_ref"} {
			schema := s.object(props, field)
			given, _ := props[field].(map[string]any)
			if schema == nil || given["description"] != nil || rt.seam { // the server's own; or a report of what was
				continue
			}
			both, ok := want[d.name][field]
			if !ok {
				r.t.Errorf("references() does not say what %s of nothing means at %s", field, d.name)
				continue
			}
			for i, id := range []string{"no-such", "old-id"} {
				var value any = id
				if field == "dataset_ref" {
					value = "ds:" + id + "@1"
				}
				if schema["type"] == "array" {
					value = []any{value}
				}
				body := put(decode(r.t, rt.body), []any{field}, value)
				if d.name == "POST /api/overlay-feedback" {
					body = put(body, []any{"feedback_id"}, string(contracts.DeriveID(field, id, 0)))
				}
				if d.name == "POST /api/overlay-signals" {
					body = put(body, []any{"signal_id"}, string(contracts.DeriveID(field, id, 0)))
				}
				if field == "overlay_ids" && strings.HasSuffix(d.path, "/reanswer-plan") {
					body = put(body, []any{"override_mode"}, "one_time_overlay_only")
				}
				r.want(fmt.Sprintf("%s %s", field, id), r.ask(rt.role(), d.method, rt.url(), encode(r.t, body)), both[i].status, both[i].code)
			}
		}
	})
}

// R-HTTP-11: what is archived stays readable and is not changed.
func TestArchivedOverlay(t *testing.T) {
	r := everything(t)
	read[contracts.OverlayDetail](r, "read", r.ask(ec.RoleUser, "GET", "/api/overlays/old-id", ""), 200)
	r.want("replace", r.ask(ec.RoleUser, "PUT", "/api/overlays/old-id", overlayBody("old-id", "New.\n")), 409, "overlay_archived")
	r.want("make again", r.ask(ec.RoleUser, "POST", "/api/overlays", overlayBody("old-id", "New.\n")), 409, "")
	seq := r.env.View().RegistryEvents(0, 0)
	read[contracts.OverlayDetail](r, "R-LIB-08 archive again", r.ask(ec.RoleUser, "POST", "/api/overlays/old-id/archive", ""), 200)
	if d := cmp.Diff(seq, r.env.View().RegistryEvents(0, 0)); d != "" {
		t.Errorf("R-LIB-08 archiving again made an event:\n%s", d)
	}
}

// R-HTTP-07, decision on If-Match: it is heeded wherever it is taken; a version
// that is not the present one never wins, whoever held it in a cache.
func TestStaleIfMatchEverywhere(t *testing.T) {
	r := everything(t)
	r.change("t-1", "activate", on("o-a"))
	before := r.env.View().Seq()
	var took []string
	every(t, r, func(r *rig, _ *spec, d described, rt route) {
		if !d.takes("If-Match") {
			return
		}
		took = append(took, d.name)
		for _, tag := range []string{`"stale"`, `"0"`, `W/"1"`, "stale", `"` + strings.Repeat("0", 64) + `"`} {
			r.want("If-Match "+tag, r.ask(rt.role(), d.method, rt.url(), rt.body, "If-Match", tag), 412, "precondition_failed")
		}
		r.want("If-Match list", r.ask(rt.role(), d.method, rt.url(), rt.body, "If-Match", `"a", "b"`), 400, "bad_request")
	})
	if got := r.env.View().Seq(); got != before {
		t.Errorf("refused requests led to %d commands, want none", got-before)
	}
	for _, d := range readSpec(r).operations() {
		changes := d.method != "GET" && (strings.HasPrefix(d.path, "/api/overlays") || strings.HasPrefix(d.path, "/api/overlay-sessions"))
		if changes != slices.Contains(took, d.name) {
			t.Errorf("%s takes If-Match: %v, want %v", d.name, !changes, changes)
		}
	}
}

// The order of checks: who asks, then form (400), then the schema (422), then
// gates (403), then existence (404). The library is empty and every gate closed.
func TestOrderOfChecks(t *testing.T) {
	r := newRig(t)
	every(t, r, func(r *rig, s *spec, d described, rt route) {
		if d.body == nil || rt.public {
			return
		}
		wrong := rt.body
		if list := s.mutants(d.body, decode(r.t, rt.body)); len(list) > 0 {
			wrong = encode(r.t, list[0].doc)
		}
		bad := rt.with("surprise=1")
		r.want("nobody, all wrong", r.ask("", d.method, bad, `{"a":`), 401, "unauthenticated")
		r.want("wrong role, all wrong", r.ask(ec.RoleWorker, d.method, bad, `{"a":`), 403, "forbidden")
		r.want("bad query, bad body", r.ask(rt.role(), d.method, bad, wrong), 400, "bad_request")
		r.want("not JSON", r.ask(rt.role(), d.method, rt.url(), `{"a":`, "If-Match", ""), 400, "bad_request")
		if wrong != rt.body {
			r.want("bad field", r.ask(rt.role(), d.method, rt.url(), wrong), 422, "validation_failed")
		}
		if strings.Contains(rt.path, ":session_key") {
			r.want("bad key, bad body", r.ask(rt.role(), d.method, strings.Replace(rt.path, ":session_key", "x", 1), wrong), 400, "bad_session_key")
		}
	})
	const jobs = "/api/prompt-lab/jobs"
	body := `{"artifact_kind":"overlay_template","artifact_id":"nobody","dataset_ref":"ds:none@1"}`
	gate := r.want("R-HTTP-13 gate before existence", r.ask(ec.RoleUser, "POST", jobs, body), 403, "gate_closed")
	if !strings.Contains(gate.Message, "promptlab flags set prompt_lab on") {
		t.Errorf("R-HTTP-13 the refusal %q does not say how to open the gate", gate.Message)
	}
	r.want("flags", r.ask(ec.RoleOperator, "PUT", "/api/flags", `{"prompt_lab":true,"promptolution":true}`), 200, "")
	r.want("existence at last", r.ask(ec.RoleUser, "POST", jobs, body), 404, "artifact_not_found")
}
