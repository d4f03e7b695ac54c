package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"github.com/elnor/promptlab/internal/wall"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/ec/feed"
	"github.com/elnor/promptlab/internal/life"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// rig is a running server over a real EC, on a real port.
type rig struct {
	t    *testing.T
	env  *ectest.Env
	srv  *api.Server
	addr string
	log  *lockedBuffer
	reg  *prometheus.Registry
	stop func() error
	ids  *strings.Replacer // ids of the table by ids that are there; see everything
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func token(role ec.Role) string { return "token-of-" + string(role) + "-0123456789abcdef0123456789" }

func newRig(t *testing.T, change ...func(*api.Config)) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	env := ectest.New(t)
	r := &rig{t: t, env: env, addr: ln.Addr().String(), log: &lockedBuffer{}, reg: prometheus.NewRegistry()}
	cfg := config(func(c *api.Config) {
		c.Service, c.Feed, c.Hosts, c.Metrics = env, env.Feed, wall.LoopbackHosts(ln.Addr()), r.reg
		c.Log = slog.New(slog.NewJSONHandler(r.log, nil))
	})
	for _, c := range change {
		c(&cfg)
	}
	if r.srv, err = api.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- life.Run(ctx, life.HTTP("api", ln, r.srv.Handler(), 5*time.Second)) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop server: %v", err)
		}
	})
	return r
}

// fixed is a service of an empty library that nobody can change.
type fixed struct{ view *ec.View }

func (fixed) Do(context.Context, ec.Command) (ec.Receipt, error) { return ec.Receipt{}, nil }

func (f fixed) View() *ec.View { return f.view }

// config is a complete configuration over an empty library.
func config(change func(*api.Config)) api.Config {
	cfg := api.Config{
		Service: fixed{ec.NewView(ec.New(ec.DefaultPolicy()))}, Feed: feed.New(1), Hosts: []string{"127.0.0.1:1"}, Metrics: prometheus.NewRegistry(),
		Presets: func() (ec.Pack, error) { return pack(), nil },
		Door:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"door":true}`) }),
		Dashboard: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<!doctype html><html><script>window.x=1</script><script src=\"/dashboard/a.js\"></script></html>")
		}),
		Tokens: map[ec.Role][sha256.Size]byte{}, Log: slog.New(slog.DiscardHandler),
		Version: "1.2.3", Now: time.Now, NewID: uuid.NewString,
	}
	for _, role := range []ec.Role{ec.RoleUser, ec.RoleOperator, ec.RoleSeam, ec.RoleWorker, ec.RoleAgent} {
		cfg.Tokens[role] = sha256.Sum256([]byte(token(role)))
	}
	change(&cfg)
	return cfg
}

func pack() ec.Pack {
	rec := ectest.Overlay("plain-words", "Use plain words.\n")
	fm := rec.Frontmatter
	fm.Preset = true
	return ec.Pack{ID: strings.Repeat("a", 64), Version: "1", Overlays: []ec.PackOverlay{{Frontmatter: fm, Body: rec.Body}}}
}

// patience is how long an answer may take before a test fails.
const patience = 20 * time.Second

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends one request; headers come as name, value pairs, and an empty value
// takes the header away.
func (r *rig) ask(role ec.Role, method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if role != "" {
		req.Header.Set("Authorization", "Bearer "+token(role))
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read body: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, b}
}

// want checks the status, and for an error the shape and code.
func (r *rig) want(what string, a answer, status int, code string) contracts.APIErrorBody {
	r.t.Helper()
	if a.status != status {
		r.t.Errorf("%s: got %d %s, want %d", what, a.status, a.body, status)
		return contracts.APIErrorBody{}
	}
	if status < 400 {
		return contracts.APIErrorBody{}
	}
	doc, err := contracts.Decode[contracts.APIError](a.body, contracts.Stored) // R-CON-13
	if err != nil {
		r.t.Errorf("%s: body %q is not an error document: %v", what, a.body, err)
		return doc.Error
	}
	if code != "" && doc.Error.Code != code {
		r.t.Errorf("%s: got code %q (%s), want %q", what, doc.Error.Code, doc.Error.Message, code)
	}
	if doc.Error.RequestID == "" || doc.Error.RequestID != a.header.Get("X-Request-ID") {
		r.t.Errorf("%s: request id %q in the body, %q in the header", what, doc.Error.RequestID, a.header.Get("X-Request-ID"))
	}
	return doc.Error
}

// read decodes a good answer by the shared shapes.
func read[T any](r *rig, what string, a answer, status int) T {
	r.t.Helper()
	r.want(what, a, status, "")
	v, err := contracts.Decode[T](a.body, contracts.Stored) // R-HTTP-08
	if err != nil {
		r.t.Fatalf("%s: answer %s does not have its shape: %v", what, a.body, err)
	}
	return v
}

func overlayBody(id, text string) string {
	b, err := json.Marshal(map[string]any{"body": text, "frontmatter": map[string]any{
		"id": id, "title": "Title of " + id, "artifact_class": "live_overlay", "category": "quality",
		"description": "What it is for", "supported_surfaces": []string{"chat"}, "live_token_target": 200,
	}})
	if err != nil {
		panic(err)
	}
	return string(b)
}
