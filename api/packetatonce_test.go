package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/life"
)

// twoWays are two servers over one library: one answers packets in front of the
// router, the other never does.
func twoWays(t *testing.T) (front, router http.Handler, logs [2]*bytes.Buffer) {
	t.Helper()
	env := ectest.New(t)
	env.Must(ec.CreateOverlay{Record: ectest.Overlay("o-a", "Rule a.\n")})
	env.Must(ec.ActivateOverlay{Key: sessionKey("t-1"), OverlayID: contracts.OverlayID("o-a"), Source: contracts.FromManual})
	var out [2]*api.Server
	for i := range out {
		logs[i] = &bytes.Buffer{}
		var err error
		out[i], err = api.New(config(func(c *api.Config) {
			c.Service, c.Feed, c.Now = env, env.Feed, env.Clock.Now
			c.NewID = func() string { return "an-id" }
			c.Log = slog.New(slog.NewJSONHandler(logs[i], nil))
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	out[1].ByRouterOnly()
	return out[0].Handler(), out[1].Handler(), logs
}

// fields gives those of a log line, without what differs between any two requests.
func fields(t *testing.T, line string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(line), &out); err != nil {
		t.Fatalf("the log line %q: %v", line, err)
	}
	delete(out, "time")
	delete(out, "duration_ms")
	return out
}

// R-SEC-10, R-PKT-01: what is answered in front of the router has passed the same
// wall, and is the same to the last header and in the log; so is every refusal.
func TestThePacketInFrontOfTheRouterIsTheRouters(t *testing.T) {
	front, router, logs := twoWays(t)
	warm := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1"+packetPath, http.NoBody)
	warm.Header.Set("Authorization", "Bearer "+token(ec.RoleSeam))
	first := httptest.NewRecorder()
	router.ServeHTTP(first, warm)
	plain := httptest.NewRecorder()
	router.ServeHTTP(plain, warm)
	tag := plain.Header().Get("ETag")
	if tag == "" {
		t.Fatalf("the packet: %d %s", plain.Code, plain.Body)
	}
	for name, change := range map[string]func(*http.Request){
		"plain":                   func(*http.Request) {},
		"held":                    func(r *http.Request) { r.Header.Set("If-None-Match", tag) },
		"held, weak, of several":  func(r *http.Request) { r.Header.Set("If-None-Match", `"x", W/`+tag) },
		"another version":         func(r *http.Request) { r.Header.Set("If-None-Match", `"x"`) },
		"a turn":                  func(r *http.Request) { r.URL.RawQuery += "&turn_id=a%20turn+1" },
		"a revision":              func(r *http.Request) { r.URL.RawQuery += "&revision=1" },
		"a future revision":       func(r *http.Request) { r.URL.RawQuery += "&revision=1000" },
		"a revision that is none": func(r *http.Request) { r.URL.RawQuery += "&revision=01" },
		"forced is false":         func(r *http.Request) { r.URL.RawQuery += "&force_refresh=false" },
		"a plan":                  func(r *http.Request) { r.URL.RawQuery += "&plan_id=" + someID },
		"an override":             func(r *http.Request) { r.URL.RawQuery += "&override_mode=one_time_overlay_only&overlay_ids=nobody" },
		"a request id":            func(r *http.Request) { r.Header.Set("X-Request-ID", "mine-1") },
		"a bad request id":        func(r *http.Request) { r.Header.Set("X-Request-ID", "a b") },
		"HEAD":                    func(r *http.Request) { r.Method = http.MethodHead },
		"POST":                    func(r *http.Request) { r.Method = http.MethodPost },
		"OPTIONS":                 func(r *http.Request) { r.Method = http.MethodOptions },
		"with a body":             func(r *http.Request) { r.ContentLength = 2 },
		"of unknown length":       func(r *http.Request) { r.ContentLength = -1 },
		"another host":            func(r *http.Request) { r.Host = "evil.example" },
		"another origin":          func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another site":            func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"no token":                func(r *http.Request) { r.Header.Del("Authorization") },
		"a wrong token":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer nobody") },
		"two tokens":              func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") },
		"not a bearer":            func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token(ec.RoleSeam)) },
		"a user":                  func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token(ec.RoleUser)) },
		"a worker":                func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token(ec.RoleWorker)) },
		"token in the address":    func(r *http.Request) { r.URL.RawQuery += "&turn_id=" + token(ec.RoleSeam) },
		"token by name":           func(r *http.Request) { r.URL.RawQuery += "&access_token=x" },
		"a path with a slash":     func(r *http.Request) { r.URL.Path += "/" },
		"a path with dots":        func(r *http.Request) { r.URL.Path = "/internal/doc17/../doc17/overlay-packet" },
		"an unknown parameter":    func(r *http.Request) { r.URL.RawQuery += "&more=1" },
		"a parameter twice":       func(r *http.Request) { r.URL.RawQuery += "&surface_id=t-1" },
		"a semicolon":             func(r *http.Request) { r.URL.RawQuery += "&turn_id=a;b" },
		"a bad escape":            func(r *http.Request) { r.URL.RawQuery += "&turn_id=%zz" },
		"an escaped name":         func(r *http.Request) { r.URL.RawQuery += "&turn%5fid=x" },
		"a control character":     func(r *http.Request) { r.URL.RawQuery += "&turn_id=%01" },
		"too long":                func(r *http.Request) { r.URL.RawQuery += "&turn_id=" + strings.Repeat("x", 201) },
		"an empty pair":           func(r *http.Request) { r.URL.RawQuery += "&&" },
		"another thread":          func(r *http.Request) { r.URL.RawQuery += "&thread_id=t-2" },
		"no session":              func(r *http.Request) { r.URL.RawQuery = "" },
		"not NFC":                 func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "t-1", "e%CC%81", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			var got [2]*httptest.ResponseRecorder
			var lines [2]string
			for i, h := range []http.Handler{front, router} {
				r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1"+packetPath, http.NoBody)
				r.ContentLength = 0
				r.Header.Set("Authorization", "Bearer "+token(ec.RoleSeam))
				change(r)
				got[i] = httptest.NewRecorder()
				logs[i].Reset()
				h.ServeHTTP(got[i], r)
				lines[i] = logs[i].String()
			}
			if d := cmp.Diff([]any{got[1].Code, got[1].Header(), got[1].Body.String()}, []any{got[0].Code, got[0].Header(), got[0].Body.String()}); d != "" {
				t.Errorf("%s (-router +in front):\n%s", name, d)
			}
			if d := cmp.Diff(fields(t, lines[1]), fields(t, lines[0])); d != "" {
				t.Errorf("%s: the log line in front (+) is not the router's (-):\n%s", name, d)
			}
		})
	}
}

// R-SEC-10, R-PKT-01: over a real connection, where the answer is sent in one
// piece, it has the same fields as the router's, each once.
func TestThePacketOverAConnectionIsTheRouters(t *testing.T) {
	front, router, _ := twoWays(t)
	var answers [2][]*http.Response
	for i, h := range []http.Handler{front, router} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- life.Run(ctx, life.HTTP("api", ln, h, time.Second)) }()
		client := &http.Client{Transport: &http.Transport{}}
		ask := func(tag string) *http.Response {
			r, err := http.NewRequest(http.MethodGet, "http://"+ln.Addr().String()+packetPath, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "127.0.0.1:1"
			r.Header.Set("Authorization", "Bearer "+token(ec.RoleSeam))
			r.Header.Set("If-None-Match", tag)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			resp.Header.Del("Date")
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp
		}
		ask("") // it is built
		whole := ask(`"x"`)
		answers[i] = append(answers[i], whole, ask(whole.Header.Get("ETag")), ask(`"x"`))
		client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{http.StatusOK, http.StatusNotModified, http.StatusOK} {
		a, b := answers[0][i], answers[1][i]
		text, _ := io.ReadAll(a.Body)
		other, _ := io.ReadAll(b.Body)
		if d := cmp.Diff([]any{want, b.Header, string(other)}, []any{a.StatusCode, a.Header, string(text)}); d != "" {
			t.Errorf("answer %d (-router +in front):\n%s", i, d)
		}
		if got := a.Header["Content-Security-Policy"]; len(got) != 1 {
			t.Errorf("answer %d: content security policy %q, want one", i, got)
		}
	}
}

// blind is a service that panics when it is looked at.
type blind struct{ ec.Service }

func (blind) View() *ec.View { panic("blind") }

// R-HTTP-03, R-SEC-10: a panic in front of the router is an answer like any other.
func TestAPanicInFrontOfTheRouter(t *testing.T) {
	srv, err := api.New(config(func(c *api.Config) { c.Service = blind{c.Service} }))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1"+packetPath, http.NoBody)
	r.ContentLength = 0
	r.Header.Set("Authorization", "Bearer "+token(ec.RoleSeam))
	w := httptest.NewRecorder()
	srv.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("a panic: got %d with headers %v, want 500 with what every answer carries", w.Code, w.Header())
	}
}
