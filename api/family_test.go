package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// R-SEC-10: the wall stands before everything, not before the API alone. Each
// kind of hostile request meets every operation of the document, the start page,
// the dashboard with its files and its mutating routes, the worker door, and
// addresses where nothing is, with the best credentials there are.
//
// What the public failures of others have in common, and where it is tried:
//   - rebinding, Host and Origin both the attacker's: Transmission CVE-2018-5702,
//     Ollama CVE-2024-28224, the MCP SDKs CVE-2025-66414 and CVE-2025-66416,
//     Syncthing 3558: "rebinding", "other host" and their kin here and in
//     TestRawRequests;
//   - no token, and a stream that any site can open by GET: MCP Inspector
//     CVE-2025-49596: "image of another site" here, "stream without a token" there;
//   - 0.0.0.0 as a name for this machine: CVE-2025-49596: "unspecified address";
//   - script from a hostile server in our page: MCP Inspector CVE-2025-58444,
//     Jupyter's stored scripts: TestEveryAnswerCarriesTheHeaders, TestDocumentToRead;
//   - a missing Origin taken for a good one, and a secret handed to the rebound
//     page: UI-TARS-desktop 1975: "rebinding without Origin";
//   - a dashboard without credentials and with 48 mutating routes: asynqmon 78:
//     TestDashboard, and the addresses below;
//   - a filter that lets everything through for some address: CVE-2025-47910:
//     there is no such filter, and every address is tried.
func TestWallStandsBeforeEveryAddress(t *testing.T) {
	r := newRig(t)
	_, port, _ := strings.Cut(r.addr, ":")
	before := r.env.View().Seq()
	type place struct {
		line, body string
		role       ec.Role
	}
	var places []place
	for _, d := range readSpec(r).operations() {
		if rt, ok := d.fixture(t); ok {
			places = append(places, place{d.method + " " + rt.url() + " HTTP/1.1", rt.body, rt.role()})
		}
	}
	places = append(places, []place{
		{"GET / HTTP/1.1", "", ec.RoleUser}, {"GET /favicon.ico HTTP/1.1", "", ec.RoleUser}, {"GET /assets/app.js HTTP/1.1", "", ec.RoleUser},
		{"GET /dashboard/ HTTP/1.1", "", ec.RoleOperator}, {"GET /dashboard/static/js/main.js HTTP/1.1", "", ec.RoleOperator},
		{"GET /dashboard/api/queues HTTP/1.1", "", ec.RoleOperator}, {"POST /dashboard/api/queues/default:pause HTTP/1.1", "{}", ec.RoleOperator},
		{"POST /internal/worker/tasks/" + someID + "/claim HTTP/1.1", "{}", ec.RoleWorker}, {"GET /api/nothing HTTP/1.1", "", ec.RoleUser},
		{"DELETE /api/overlays HTTP/1.1", "", ec.RoleUser}, {"OPTIONS /api/overlays HTTP/1.1", "", ec.RoleUser},
	}...)
	host := "Host: " + r.addr
	for _, h := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"rebinding", []string{"Host: evil.example:" + port, "Origin: http://evil.example:" + port, "Sec-Fetch-Site: same-origin"}, 421},
		{"rebinding without Origin", []string{"Host: evil.example:" + port}, 421},
		{"localhost as a label", []string{"Host: localhost.evil.example:" + port}, 421},
		{"loopback in a wildcard name", []string{"Host: 127.0.0.1.nip.io:" + port}, 421},
		{"unspecified address", []string{"Host: 0.0.0.0:" + port}, 421},
		{"no port", []string{"Host: 127.0.0.1"}, 421},
		{"other host, forwarded", []string{"Host: evil.example", "X-Forwarded-Host: " + r.addr}, 421},
		{"image of another site", []string{host, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
		{"same site, other port", []string{host, "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"}, 403},
		{"form of another site", []string{host, "Origin: http://evil.example"}, 403},
		{"Origin null", []string{host, "Origin: null"}, 403},
		{"other scheme", []string{host, "Origin: https://" + r.addr}, 403},
	} {
		t.Run("R-SEC-10 "+h.name, func(t *testing.T) {
			r := &rig{t: t, addr: r.addr}
			for _, p := range places {
				headers := append(slices.Clone(h.headers), "Authorization: Bearer "+token(p.role), "Content-Type: application/json")
				a := r.raw(request(p.line, p.body, headers...))
				r.want(p.line, a, h.status, "")
				for name := range a.header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s permits another origin: %s", p.line, name)
					}
				}
				if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") {
					t.Errorf("%s: policy %q", p.line, csp)
				}
			}
		})
	}
	t.Run("R-SEC-10 nobody", func(t *testing.T) {
		r := &rig{t: t, addr: r.addr}
		for _, p := range places {
			open := strings.Contains(p.line, " /login") || strings.Contains(p.line, "z HTTP") || strings.HasPrefix(p.line, "OPTIONS")
			if a := r.raw(request(p.line, p.body, host, "Content-Type: application/json")); !open {
				r.want(p.line, a, 401, "unauthenticated")
			}
			at, tail, _ := strings.Cut(p.line, " HTTP")
			mark := "?"
			if strings.Contains(at, "?") {
				mark = "&"
			}
			if !strings.HasPrefix(p.line, "OPTIONS") {
				r.want("token in the address "+p.line, r.raw(request(at+mark+"token=x HTTP"+tail, p.body, host, "Content-Type: application/json")), 400, "bad_request")
			}
		}
	})
	if got := r.env.View().Seq(); got != before {
		t.Errorf("refused requests led to %d commands, want none", got-before)
	}
}

// R-LIB-01: a list has index entries, their number and the state of evidence.
func TestListHasItsThreeParts(t *testing.T) {
	r := liveRig(t)
	a := r.ask(ec.RoleUser, "GET", "/api/overlays?limit=0", "")
	got := read[contracts.OverlayListResponse](r, "list", a, 200)
	if got.Total != len(got.Items) || got.Total == 0 || got.EvidenceState == "" {
		t.Errorf("R-LIB-01 total %d of %d items, evidence %q", got.Total, len(got.Items), got.EvidenceState)
	}
	page := read[contracts.OverlayListResponse](r, "page", r.ask(ec.RoleUser, "GET", "/api/overlays?limit=2", ""), 200)
	if len(page.Items) != 2 || page.Total != got.Total {
		t.Errorf("R-LIB-01 a page of %d items says that there are %d, want 2 of %d", len(page.Items), page.Total, got.Total)
	}
}

// R-SES-27: each change of a session answers with the whole session after it, with
// whether truth can be had, and with the last receipt once there is one.
func TestEveryChangeAnswersWithTheSession(t *testing.T) {
	r := liveRig(t)
	schema := readSpec(r).compiler()
	changes := [][2]string{
		{"activate", on("o-a")}, {"pin", `{"overlay_id":"o-b","pin_scope":"thread"}`}, {"unpin", `{"overlay_id":"o-b","pin_scope":"thread"}`},
		{"deactivate", on("o-b")}, {"refresh", "{}"}, {"clear", "{}"},
	}
	for round := range 2 {
		for _, c := range changes {
			a := r.ask(ec.RoleUser, "POST", at("t-1", c[0]), c[1])
			got := read[contracts.OverlaySessionResponse](r, c[0], a, 200)
			fits(t, c[0], schema("components/schemas/OverlaySessionResponse"), a.body)
			if now := read[contracts.OverlaySessionResponse](r, "read", r.ask(ec.RoleUser, "GET", at("t-1", ""), ""), 200); now.SessionState.Revision != got.SessionState.Revision {
				t.Errorf("R-SES-27 %s answers with revision %d, the session has %d", c[0], got.SessionState.Revision, now.SessionState.Revision)
			}
			if !strings.Contains(string(a.body), `"prompt_truth_available":`) || got.PromptTruthAvailable != (round == 1) || (got.RuntimeTruth != nil) != (round == 1) {
				t.Errorf("R-SES-27 %s in round %d: truth available %v, last receipt %v", c[0], round, got.PromptTruthAvailable, got.RuntimeTruth)
			}
		}
		r.want("receipt", r.ask(ec.RoleSeam, "POST", "/internal/doc17/runtime-truth", truthBody(1, "turn-1", "o-a")), 200, "")
	}
}
