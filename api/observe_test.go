package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/problem"
)

// lines gives the request lines of the log that have a certain request id.
func (r *rig) lines(id string) []map[string]any {
	r.t.Helper()
	if err := r.stop(); err != nil { // a line is written after its answer: wait for all
		r.t.Fatal(err)
	}
	var out []map[string]any
	for line := range strings.Lines(r.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			r.t.Fatalf("log line %q: %v", line, err)
		}
		if m["request_id"] == id {
			out = append(out, m)
		}
	}
	return out
}

func TestOneLineARequest(t *testing.T) {
	r := newRig(t)
	a := r.ask(ec.RoleUser, "GET", "/api/overlays/marker-in-path", "", "X-Request-ID", "abc-123")
	r.want("not found", a, 404, "not_found")
	lines := r.lines("abc-123")
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1: %v", len(lines), lines)
	}
	l := lines[0]
	if l["msg"] != "request" || l["route"] != "/api/overlays/{overlay_id}" || l["status"] != 404.0 || l["role"] != "user" || l["method"] != "GET" || l["duration_ms"] == nil {
		t.Errorf("line: %v", l)
	}
	if strings.Contains(r.log.String(), "marker-in-path") {
		t.Error("the log holds the raw path")
	}
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t)
	for _, bad := range []string{"", "a b", strings.Repeat("x", 65), "x\"y", "caf\u00e9"} {
		if got := r.ask(ec.RoleUser, "GET", "/healthz", "", "X-Request-ID", bad).header.Get("X-Request-ID"); got == bad || len(got) != 36 {
			t.Errorf("request id %q: got %q, want one of ours", bad, got)
		}
	}
}

func TestDenialsAreSeen(t *testing.T) { // R-SEC-11
	r := newRig(t)
	for reason, headers := range map[string][]string{
		"fetch_site": {"Sec-Fetch-Site", "cross-site"}, "origin": {"Origin", "http://secret-origin.example"},
		"no_credentials": {"Authorization", ""}, "bad_credentials": {"Authorization", "Bearer secret-token"},
	} {
		a := r.ask(ec.RoleUser, "GET", "/api/overlays", "", append(headers, "X-Request-ID", reason)...)
		if a.status < 400 {
			t.Errorf("%s: got %d", reason, a.status)
		}
	}
	r.ask(ec.RoleAgent, "POST", "/api/overlays", overlayBody("secret-id", "secret text"))
	r.ask(ec.RoleUser, "POST", "/api/overlays", "secret body", "Content-Type", "text/plain")
	r.ask(ec.RoleUser, "POST", "/api/overlays", strings.Repeat("s", 2<<20))
	r.ask(ec.RoleUser, "GET", "/api/overlays?token=secret", "")
	metrics := string(r.ask(ec.RoleOperator, "GET", "/metrics", "").body)
	for _, reason := range []string{"fetch_site", "origin", "no_credentials", "bad_credentials", "wrong_role", "content_type", "too_large", "token_in_url"} {
		if !strings.Contains(metrics, `promptlab_http_denials_total{reason="`+reason+`"} 1`) {
			t.Errorf("no denial counted for %s", reason)
		}
	}
	if !strings.Contains(metrics, `promptlab_http_requests_total{class="4xx",method="GET",route="unmatched"}`) {
		t.Errorf("requests are not counted by route and class:\n%s", metrics)
	}
	if l := r.lines("origin"); len(l) != 1 || l[0]["denied"] != "origin" || l[0]["level"] != "WARN" {
		t.Errorf("line of a denial: %v", l)
	}
	if strings.Contains(r.log.String(), "secret") || strings.Contains(metrics, "secret") {
		t.Error("log or metrics hold what the client sent")
	}
}

func TestErrorsOfTheDoorAreLogged(t *testing.T) {
	r := newRig(t, func(c *api.Config) {
		c.Door = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			problem.Write(w, r, errors.New("the cause"))
		})
	})
	r.want("door", r.ask(ec.RoleWorker, "POST", "/internal/worker/tasks/x/claim", "{}", "X-Request-ID", "door-1"), 500, "internal")
	if l := r.lines("door-1"); len(l) != 1 || l[0]["error"] != "the cause" || l[0]["level"] != "ERROR" {
		t.Errorf("line: %v, want the cause", l)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := api.New(api.Config{}); err == nil || !strings.Contains(err.Error(), "Service") || !strings.Contains(err.Error(), "Tokens") {
		t.Errorf("empty configuration: got %v, want everything that is missing", err)
	}
	bad := config(func(c *api.Config) { c.Tokens[ec.RoleSystem] = c.Tokens[ec.RoleUser] })
	if _, err := api.New(bad); err == nil {
		t.Error("a token for the system's own role was taken")
	}
}
