package api_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// route is one line of the route table.
type route struct {
	method, path string
	body         string // a well-formed one; "" for reads
	optional     bool   // the body may be left out
	operator     bool
	people       bool // the agent is not let in
	public       bool
	seam         bool   // for the prompt plan's side alone; fields of later versions are let through
	match        bool   // takes If-Match
	query        string // parameters that must be there
	stream       bool   // may hold the connection
	free         bool   // does not look at a body
	limit        int
}

const someID = "0198a0c6-0000-7000-8000-000000000001"

// someReplay is the job on whose record some-model is activated.
const someReplay = "0198a0c6-0000-7000-8000-000000000002"

// table is what this API promises.
func table() []route {
	const mib = 1 << 20
	return []route{
		{method: "GET", path: "/api/overlays"},
		{method: "GET", path: "/api/overlays/search"},
		{method: "GET", path: "/api/overlays/:overlay_id"},
		{method: "POST", path: "/api/overlays", body: overlayBody("made-here", "Text.\n"), match: true, limit: mib},
		{method: "POST", path: "/api/overlay-bundles", body: `{"items":[{"record":` + overlayBody("made-in-a-bundle", "Text.\n") + `}]}`, limit: 32 * mib},
		{method: "PUT", path: "/api/overlays/:overlay_id", body: overlayBody("some-id", "Text.\n"), match: true, limit: mib},
		{method: "POST", path: "/api/overlays/:overlay_id/archive", body: "{}", optional: true, match: true, limit: mib},
		{method: "POST", path: "/api/overlays/:overlay_id/restore", body: "{}", optional: true, match: true, limit: mib},
		{method: "POST", path: "/api/presets/install", body: "{}", optional: true, limit: mib},
		{method: "POST", path: "/api/prompt-lab/datasets", body: `{"name":"notes","rows":[{"input_text":"a","expected_signal":"contains: b"}]}`, limit: 32 * mib},
		{method: "GET", path: "/api/prompt-lab/datasets"},
		{method: "GET", path: "/api/prompt-lab/datasets/:dataset_ref"},
		{method: "POST", path: "/api/prompt-lab/jobs", body: `{"artifact_kind":"overlay_template","artifact_id":"note-style","dataset_ref":"ds:notes@1"}`, limit: mib},
		{method: "GET", path: "/api/prompt-lab/jobs"},
		{method: "GET", path: "/api/prompt-lab/jobs/:job_id"},
		{method: "POST", path: "/api/prompt-lab/jobs/:job_id/cancel", body: "{}", optional: true, limit: mib},
		{method: "GET", path: "/api/prompt-lab/candidates"},
		{method: "GET", path: "/api/prompt-lab/candidates/:candidate_id"},
		{method: "GET", path: "/api/overlay-sessions"},
		{method: "GET", path: "/api/session-keys", people: true},
		{method: "POST", path: "/api/session-keys", body: `{"session_key":` + someKey + `}`, people: true, limit: mib},
		{method: "POST", path: "/api/session-keys/:key_id/revoke", body: "{}", optional: true, people: true, limit: mib},
		{method: "POST", path: "/internal/doc17/session-keys/resolve", body: `{"key_sha256":"` + strings.Repeat("0", 64) + `"}`, seam: true, limit: mib},
		{method: "GET", path: "/api/overlay-sessions/:session_key"},
		{method: "GET", path: "/api/overlay-sessions/:session_key/runtime-truth"},
		{method: "GET", path: "/api/overlay-sessions/:session_key/runtime-truth/history"},
		{method: "GET", path: "/api/overlay-sessions/:session_key/explain"},
		{method: "POST", path: "/api/overlay-sessions/:session_key/activate", body: `{"overlay_id":"some-id"}`, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/deactivate", body: `{"overlay_id":"some-id"}`, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/clear", body: "{}", optional: true, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/pin", body: `{"overlay_id":"some-id","pin_scope":"thread"}`, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/unpin", body: `{"overlay_id":"some-id","pin_scope":"thread"}`, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/refresh", body: `{"reason":"manual"}`, optional: true, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/bootstrap", body: "{}", optional: true, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-sessions/:session_key/reanswer-plan", body: `{"selected_message_ids":["m1"]}`, match: true, limit: mib},
		{method: "POST", path: "/api/overlay-feedback", body: feedbackBody(someID, "some-id"), limit: mib},
		{method: "POST", path: "/api/overlay-signals", body: signalBody(someID), limit: mib},
		{method: "GET", path: "/api/moderator-defaults/:moderator_id"},
		{method: "PUT", path: "/api/moderator-defaults/:moderator_id", body: `{"moderator_id":"mod-1","overlay_ids":[]}`, limit: mib},
		{method: "GET", path: "/internal/doc17/overlay-packet", seam: true, query: oneSession},
		{method: "POST", path: "/internal/doc17/runtime-truth", body: truthBody(0, ""), seam: true, limit: mib},
		{method: "POST", path: "/internal/doc17/session-events", body: `{"event_kind":"compaction","session_key":` + someKey + `}`, seam: true, limit: mib},
		{method: "POST", path: "/internal/doc17/task-events", body: `{"status":"completed","session_key":` + someKey + `}`, seam: true, limit: mib},
		{method: "GET", path: "/internal/doc17/brief-facts", seam: true, query: oneSession},
		{method: "GET", path: "/internal/doc17/registry-events", seam: true},
		{method: "GET", path: "/internal/doc17/session-notices", seam: true, stream: true},
		{method: "GET", path: "/internal/doc17/reanswer-plans/:plan_id", seam: true},
		{method: "POST", path: "/internal/doc17/usage", body: usageBody, seam: true, limit: mib},
		{method: "GET", path: "/api/rooms"},
		{method: "GET", path: "/api/surface-defaults"},
		{method: "PUT", path: "/api/surface-defaults", body: `{"workspace_id":"w","surface_kind":"task","overlay_ids":[]}`, limit: mib},
		{method: "GET", path: "/api/rooms/:room_key"},
		{method: "PUT", path: "/api/rooms/:room_key", body: `{"participants":[{"participant_id":"p-1"}]}`, limit: mib},
		{method: "GET", path: "/internal/doc17/room-state", seam: true, query: strings.Replace(oneSession, "surface_kind=chat", "surface_kind=room", 1)},
		{method: "GET", path: "/internal/doc17/route-facts", seam: true, query: oneSession},
		{method: "GET", path: "/internal/doc17/context-facts", seam: true, query: oneSession},
		{method: "GET", path: "/internal/doc17/observations", seam: true},
		{method: "GET", path: "/api/notices"},
		{method: "POST", path: "/api/notices/:notice_id/dismiss", body: "{}", optional: true, limit: mib},
		{method: "GET", path: "/api/models"},
		{method: "GET", path: "/api/models/:model_name"},
		{method: "POST", path: "/api/models/:model_name/activate", body: `{"replay_job_id":"` + someReplay + `"}`, operator: true, limit: mib},
		{method: "POST", path: "/api/models/:model_name/rollback", body: "{}", optional: true, operator: true, limit: mib},
		{method: "POST", path: "/api/models/:model_name/deprecate", body: "{}", optional: true, operator: true, limit: mib},
		{method: "GET", path: "/internal/doc17/models", seam: true},
		{method: "GET", path: "/api/flags"},
		{method: "POST", path: "/api/maintenance/prune-sessions", body: "{}", optional: true, operator: true, limit: mib},
		{method: "PUT", path: "/api/flags", body: `{"prompt_lab":true}`, operator: true, limit: mib},
		{method: "GET", path: "/api/doc17/status"},
		{method: "GET", path: "/api/usage"},
		{method: "GET", path: "/api/events", stream: true},
		{method: "GET", path: "/healthz", public: true},
		{method: "GET", path: "/readyz", public: true},
		{method: "GET", path: "/login", public: true},
		{method: "POST", path: "/login", body: `{"code":"x"}`, public: true, limit: 4 << 10},
		{method: "GET", path: "/metrics", operator: true},
		{method: "GET", path: "/openapi.json"},
		{method: "GET", path: "/docs", people: true, free: true},
		{method: "GET", path: "/docs.css", people: true, free: true},
	}
}

const usageBody = `{"rows":[{"attempt_id":"01890a5d-ac96-774b-bcce-b302099a8057","request_id":"r","feature":"chat","target":"t","provider":"p","model":"m","attempt":1,"success":true,` +
	`"usage_known":true,"cost_known":true,"at":"2026-01-31T09:30:00Z"}]}`

func (rt route) url() string {
	path := strings.NewReplacer(":overlay_id", "some-id", ":dataset_ref", "ds:notes@1", ":job_id", someID, ":candidate_id", someID, ":plan_id", someID, ":key_id", someID,
		":session_key", sessionKey("t-1").Token(), ":room_key", roomKey("board").Token(), ":moderator_id", "mod-1", ":notice_id", "some-notice", ":model_name", "some-model").Replace(rt.path)
	if rt.query != "" {
		path += "?" + rt.query
	}
	return path
}

// with adds parameters to the route's address.
func (rt route) with(query string) string {
	if rt.query != "" {
		return rt.url() + "&" + query
	}
	return rt.url() + "?" + query
}

// role is who may.
func (rt route) role() ec.Role {
	switch {
	case rt.operator:
		return ec.RoleOperator
	case rt.seam:
		return ec.RoleSeam
	}
	return ec.RoleUser
}

func (rt route) writes() bool { return rt.method != http.MethodGet }

func TestRouteTable(t *testing.T) { // R-HTTP-01, R-HTTP-14
	r := newRig(t)
	var want []string
	for _, rt := range table() {
		want = append(want, rt.method+" "+rt.path)
	}
	slices.Sort(want)
	got := r.srv.Routes()
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("routes (-want +got):\n%s", d)
	}
}

func TestEveryRouteKeepsTheRules(t *testing.T) {
	r := newRig(t)
	before := r.env.View().Seq()
	for _, rt := range table() {
		name := rt.method + " " + rt.path
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, env: r.env, srv: r.srv, addr: r.addr, log: r.log}
			if !rt.public {
				r.credentials(rt)
			}
			good := rt.role()
			r.want("R-HTTP-14 unknown query parameter", r.ask(good, rt.method, rt.with("surprise=1"), rt.body), 400, "bad_request")
			r.want("R-HTTP-14 broken query", r.ask(good, rt.method, rt.with("a=%zz"), rt.body), 400, "bad_request")
			if strings.Contains(rt.path, ":session_key") {
				r.keys(good, rt)
			}
			if rt.writes() {
				r.bodies(good, rt)
				return
			}
			if rt.path != "/metrics" && rt.path != "/openapi.json" && !rt.free && !rt.stream && rt.path != "/login" {
				r.want("a read with a body", r.ask(good, rt.method, rt.url(), "{}"), 400, "bad_request")
			}
		})
	}
	if got := r.env.View().Seq(); got != before { // R-HTTP-04
		t.Errorf("refused requests led to %d commands, want none", got-before)
	}
}

// credentials checks that nobody gets in who should not: R-HTTP-04, R-HTTP-05.
func (r *rig) credentials(rt route) {
	r.t.Helper()
	r.want("R-HTTP-04 no token", r.ask("", rt.method, rt.url(), rt.body), 401, "unauthenticated")
	r.want("R-HTTP-04 wrong token", r.ask("", rt.method, rt.url(), rt.body, "Authorization", "Bearer nonsense"), 401, "unauthenticated")
	r.want("R-HTTP-04 wrong scheme", r.ask("", rt.method, rt.url(), rt.body, "Authorization", "Basic "+token(ec.RoleUser)), 401, "unauthenticated")
	r.want("R-HTTP-04 wrong cookie", r.ask("", rt.method, rt.url(), rt.body, "Cookie", "promptlab_session_"+strings.Split(r.addr, ":")[1]+"=x"), 401, "unauthenticated")
	refused := []ec.Role{ec.RoleSeam, ec.RoleWorker}
	if rt.writes() || rt.people {
		refused = append(refused, ec.RoleAgent)
	}
	switch {
	case rt.operator:
		refused = append(refused, ec.RoleUser)
	case rt.seam: // R-PKT-28
		refused = []ec.Role{ec.RoleUser, ec.RoleOperator, ec.RoleAgent, ec.RoleWorker}
	}
	for _, role := range refused {
		r.want("R-HTTP-05 role "+string(role), r.ask(role, rt.method, rt.url(), rt.body), 403, "forbidden")
	}
}

// bodies checks everything that can be wrong with a body, whatever it says.
func (r *rig) bodies(role ec.Role, rt route) {
	r.t.Helper()
	send := func(body string, headers ...string) answer { return r.ask(role, rt.method, rt.url(), body, headers...) }
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1", "application/jsonp", ""} {
		r.want("content type "+media, send(rt.body, "Content-Type", media), 415, "unsupported_media_type")
	}
	r.want("compressed", send(rt.body, "Content-Encoding", "gzip"), 415, "unsupported_media_type")
	for what, body := range map[string]string{
		"cut": `{"a":`, "trailing document": rt.body + "{}", "trailing garbage": rt.body + " x", "bad utf-8": "{\"a\":\"\xff\"}", "bom": "\ufeff" + rt.body,
		"not json": "a=b", "deep": strings.Repeat("[", 3000), "single quotes": "{'a':1}", "comment": "{/**/}",
	} {
		r.want(what, send(body), 400, "bad_request")
	}
	if !rt.optional {
		r.want("empty", send(""), 400, "bad_request")
	}
	for what, c := range map[string]struct{ body, field, rule string }{
		"unknown field":    {`{"zz_unknown":1,` + strings.TrimPrefix(rt.body, "{"), "zz_unknown", "unknown_key"},
		"null document":    {"null", "body", "type"},
		"list":             {"[]", "body", "type"},
		"string":           {`"x"`, "body", "type"},
		"hostile key name": {"{\"\\u0000\\u202e" + strings.Repeat("k", 500) + "\":1}", "", "unknown_key"},
	} {
		if rt.body == "{}" && strings.HasPrefix(what, "unknown") {
			c.body = `{"zz_unknown":1}`
		}
		if rt.seam && c.rule == "unknown_key" { // a later version may have more to say
			continue
		}
		got := r.want(what, send(c.body), 422, "validation_failed")
		if !slices.ContainsFunc(got.Details, detailIs(c.field, c.rule)) {
			r.t.Errorf("%s: details %+v do not name %s (%s)", what, got.Details, c.field, c.rule)
		}
	}
	if key := firstKey(rt.body); key != "" {
		first, _, _ := strings.Cut(strings.TrimPrefix(rt.body, "{"), ",")
		if json.Valid([]byte("{" + first + "}")) {
			got := r.want("duplicate key", send("{"+first+","+strings.TrimPrefix(rt.body, "{")), 422, "validation_failed")
			if !slices.ContainsFunc(got.Details, detailIs(key, "duplicate_key")) {
				r.t.Errorf("duplicate key: details %+v do not name %s", got.Details, key)
			}
		}
		got := r.want("null field", send(`{"`+key+`":null}`), 422, "validation_failed")
		if !slices.ContainsFunc(got.Details, detailIs(key, "null")) {
			r.t.Errorf("null field: details %+v do not name %s", got.Details, key)
		}
	}
	if rt.limit <= 4<<20 { // the large one has a test of its own
		r.want("R-HTTP-09 over the limit", send(`{"pad":"`+strings.Repeat("x", rt.limit)+`"}`), 413, "payload_too_large")
	}
	if rt.public {
		return
	}
	r.want("long idempotency key", send(rt.body, "Idempotency-Key", strings.Repeat("k", 129)), 400, "bad_request")
	r.want("odd idempotency key", send(rt.body, "Idempotency-Key", "caf\u00e9"), 400, "bad_request")
	if !rt.match {
		r.want("If-Match where it means nothing", send(rt.body, "If-Match", `"x"`), 400, "bad_request")
	}
}

// keys checks that a path names a session in the one documented form or is
// refused before anything else is looked at: R-HTTP-10, G-004.
func (r *rig) keys(role ec.Role, rt route) {
	r.t.Helper()
	good := sessionKey("t-1").Token()
	raw := base64.RawURLEncoding.EncodeToString
	for what, token := range map[string]string{
		"not base64":     "%21%21%21",
		"padded":         base64.URLEncoding.EncodeToString([]byte(someKey + " ")),
		"other alphabet": "+" + good[1:],
		"line end":       good + "%0A",
		"loose bits":     "eyJ9",
		"not JSON":       raw([]byte("chat:w:t")),
		"trailing":       raw([]byte(someKey + "{}")),
		"list":           raw([]byte("[]")),
		"empty":          raw([]byte("{}")),
		"no surface":     raw([]byte(`{"workspace_id":"w","surface_kind":"chat"}`)),
		"other surface":  raw([]byte(`{"workspace_id":"w","surface_kind":"mail","surface_id":"x"}`)),
		"other thread":   raw([]byte(`{"workspace_id":"w","surface_kind":"chat","surface_id":"x","thread_id":"y"}`)),
		"unknown field":  raw([]byte(`{"workspace_id":"w","surface_kind":"chat","surface_id":"x","z":"y"}`)),
		"long id":        raw([]byte(`{"workspace_id":"w","surface_kind":"chat","surface_id":"` + strings.Repeat("x", 201) + `"}`)),
		"very long":      strings.Repeat("A", 12_001),
	} {
		if strings.HasSuffix(token, "=") == (what != "padded") {
			r.t.Errorf("the token %q does not show what it is for: %s", what, token)
		}
		r.want("R-HTTP-10 session key "+what, r.ask(role, rt.method, strings.Replace(rt.url(), good, token, 1), rt.body), 400, "bad_session_key")
	}
}

func detailIs(field, rule string) func(fault.Detail) bool {
	return func(d fault.Detail) bool { return d.Rule == rule && (field == "" || d.Field == field) }
}

func firstKey(body string) string {
	_, rest, _ := strings.Cut(body, `{"`)
	key, _, _ := strings.Cut(rest, `"`)
	return key
}

func TestAddressesThatAreNotThere(t *testing.T) { // R-HTTP-03
	r := newRig(t)
	for _, path := range []string{"/api", "/api/", "/api/nothing", "/api/overlays/a/b/c", "/api/overlays/", "/metrics/x", "/Api/overlays", "/nothing"} {
		r.want("no token "+path, r.ask("", "GET", path, ""), 401, "unauthenticated")
		r.want("user "+path, r.ask(ec.RoleUser, "GET", path, ""), 404, "not_found")
	}
	for _, path := range []string{"/api//overlays", "/api/./overlays", "/x/../api/overlays", "/api/%2e%2e/metrics", "//api/overlays", "/api/overlays//", `/api\overlays`} {
		r.want("unclean "+path, r.ask(ec.RoleUser, "GET", path, ""), 400, "bad_request")
	}
	a := r.ask(ec.RoleUser, "DELETE", "/api/overlays", "")
	r.want("R-HTTP-03 method", a, 405, "method_not_allowed")
	if allow := a.header.Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "POST") {
		t.Errorf("Allow of a 405: got %q", allow)
	}
	r.want("POST where GET is", r.ask(ec.RoleUser, "POST", "/api/overlays/search", "{}"), 405, "method_not_allowed")
	r.want("R-HTTP-11 odd id", r.ask(ec.RoleUser, "GET", "/api/overlays/"+strings.Repeat("x", 201), ""), 404, "not_found")
	r.want("R-HTTP-11 unknown id", r.ask(ec.RoleUser, "GET", "/api/prompt-lab/jobs/"+strings.ToUpper(someID), ""), 404, "not_found")
}

func TestInsideDoorsAreNotForPeople(t *testing.T) { // R-HTTP-05
	r := newRig(t)
	door := "/internal/worker/tasks/" + someID + "/claim"
	r.want("worker", r.ask(ec.RoleWorker, "POST", door, "{}"), 200, "")
	r.want("nobody", r.ask("", "POST", door, "{}"), 401, "unauthenticated")
	for _, role := range []ec.Role{ec.RoleUser, ec.RoleOperator, ec.RoleSeam, ec.RoleAgent} {
		r.want("R-HTTP-05 "+string(role), r.ask(role, "POST", door, "{}"), 403, "forbidden")
	}
	r.want("R-HTTP-05 user at the seam", r.ask(ec.RoleUser, "GET", "/internal/doc17/overlay-packet", ""), 403, "forbidden")
	r.want("R-HTTP-05 seam at a public write", r.ask(ec.RoleSeam, "POST", "/api/overlay-sessions/"+sessionKey("t-1").Token()+"/clear", "{}"), 403, "forbidden")
	r.want("nothing there", r.ask(ec.RoleSeam, "GET", "/internal/doc17/nothing", ""), 404, "not_found")
	r.want("operator's dashboard", r.ask(ec.RoleOperator, "GET", "/dashboard/", ""), 200, "")
	r.want("user at the dashboard", r.ask(ec.RoleUser, "GET", "/dashboard", ""), 403, "forbidden")
	r.want("agent at the console", r.ask(ec.RoleAgent, "GET", "/", ""), 403, "forbidden")
}

func TestQueriesAreStrict(t *testing.T) { // R-LIB-02, G-062
	r := newRig(t)
	for _, path := range []string{"/api/overlays", "/api/overlays/search"} {
		for query, field := range map[string]string{
			"include_archived=TRUE": "include_archived", "include_archived=1": "include_archived", "include_archived=": "include_archived",
			"category=nope": "category", "limit=-1": "limit", "limit=1e3": "limit", "limit=01": "limit", "limit=1001": "limit",
			"limit=1&limit=2": "limit", "query=%00": "query", "query=" + strings.Repeat("q", 501): "query",
			"include_archived=x&limit=y": "include_archived",
		} {
			got := r.want(path+"?"+query, r.ask(ec.RoleUser, "GET", path+"?"+query, ""), 400, "bad_request")
			if len(got.Details) == 0 || got.Details[0].Field != field {
				t.Errorf("%s: details %+v, want %s named", query, got.Details, field)
			}
		}
	}
	if got := r.want("all at once", r.ask(ec.RoleUser, "GET", "/api/overlays?limit=x&category=y&z=1", ""), 400, ""); len(got.Details) != 3 {
		t.Errorf("three wrong parameters: got %+v, want all three named", got.Details)
	}
	r.want("good query", r.ask(ec.RoleUser, "GET", "/api/overlays/search?include_archived=false&category=quality&limit=10&query=a%20b", ""), 200, "")
}
