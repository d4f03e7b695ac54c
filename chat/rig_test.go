package chat_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/chat/seam"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/wall"
	"github.com/elnor/promptlab/presets"
)

const (
	userToken = "token-of-user-0123456789abcdef"
	seamToken = "token-of-seam-0123456789abcdef"
)

// rig is a chat endpoint over a real EC behind its real API, with a scripted
// model that keeps what it was sent.
type rig struct {
	t     *testing.T
	env   *ectest.Env
	api   *httptest.Server
	chat  *httptest.Server
	srv   *chat.Server
	model *model
	log   *buffer
	reg   *prometheus.Registry
	wait  time.Duration // for EC; 0: as ever
	stop  func()        // ends the delivery of receipts, after a last try

	ruling  gateway.Active              // what EC said about models
	refresh func(context.Context) error // asks it

	away atomic.Bool // EC does not answer
	mu   sync.Mutex
	seen []string // "GET overlay-packet?..." of the seam, in order
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// model is an adapter that a test scripts.
type model struct {
	mu    sync.Mutex
	calls []gateway.Call
	do    func(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error)
}

func (m *model) answer(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	m.mu.Lock()
	m.calls = append(m.calls, c)
	do := m.do
	m.mu.Unlock()
	return do(ctx, c, emit)
}

func (m *model) Complete(ctx context.Context, c gateway.Call) (gateway.Reply, error) {
	return m.answer(ctx, c, nil)
}

func (m *model) Stream(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	return m.answer(ctx, c, emit)
}

func (m *model) last(t *testing.T) gateway.Request {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.calls) == 0 {
		t.Fatal("the model was not called")
	}
	return m.calls[len(m.calls)-1].Request
}

func (m *model) says(do func(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.do = do
}

func plain(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	r := gateway.Reply{Text: "Fine.", Finish: gateway.FinishStop, ServedModel: "served-1", Usage: gateway.Usage{Known: true, Input: 11, Output: 3, CacheRead: 2}}
	if emit == nil {
		return r, nil
	}
	for _, piece := range []string{"Fi", "ne."} {
		if err := emit(gateway.Event{Kind: gateway.EventDelta, Text: piece}); err != nil {
			return r, err
		}
	}
	return r, emit(gateway.Event{Kind: gateway.EventFinish})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, env: ectest.New(t), model: &model{do: plain}, log: &buffer{}, reg: prometheus.NewRegistry()}
	r.startAPI()
	r.install()
	r.startChat()
	return r
}

func (r *rig) startAPI() {
	r.api = httptest.NewUnstartedServer(nil)
	hosts := wall.LoopbackHosts(r.api.Listener.Addr())
	s, err := api.New(api.Config{
		Service: r.env, Feed: r.env.Feed, Presets: func() (ec.Pack, error) { return ec.Pack{}, nil },
		Tokens: map[ec.Role][sha256.Size]byte{ec.RoleUser: sha256.Sum256([]byte(userToken)), ec.RoleSeam: sha256.Sum256([]byte(seamToken))},
		Hosts:  hosts, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: r.env.Clock.Now, NewID: uuid.NewString,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/internal/") {
			r.mu.Lock()
			r.seen = append(r.seen, req.Method+" "+strings.TrimPrefix(req.URL.Path, "/internal/doc17/")+"?"+req.URL.RawQuery)
			r.mu.Unlock()
			if r.away.Load() {
				panic(http.ErrAbortHandler)
			}
		}
		s.Handler().ServeHTTP(w, req)
	})
	r.api.Start()
	r.t.Cleanup(r.api.Close)
}

// install puts the presets and some small overlays into the library.
func (r *rig) install() {
	p, err := presets.Load()
	if err != nil {
		r.t.Fatal(err)
	}
	pack := ec.Pack{ID: p.ID, Version: p.Version}
	for _, o := range p.Overlays {
		pack.Overlays = append(pack.Overlays, ec.PackOverlay{Frontmatter: o.Frontmatter, Body: o.Body})
	}
	r.env.Must(ec.InstallPresets{Pack: pack})
	for _, id := range []string{"o-a", "o-b"} {
		r.env.Must(ec.CreateOverlay{Record: ectest.Overlay(id, "Rule "+id+".\n")})
	}
}

func (r *rig) startChat() {
	client, err := seam.New(seam.Config{BaseURL: r.api.URL, Token: seamToken})
	if err != nil {
		r.t.Fatal(err)
	}
	r.refresh = func(ctx context.Context) error {
		list, err := client.ActiveModels(ctx)
		r.ruling.Set(list)
		return err
	}
	r.serve(client, client)
}

// configured are the models of the rig.
func configured() []gateway.ModelConfig {
	price := 1.0
	return []gateway.ModelConfig{
		{Name: "fast", Protocol: gateway.ProtocolOpenAI, Profile: "openai", BaseURL: "http://127.0.0.1:1/v1", Model: "fast-2026-01-01", Routes: []gateway.Role{gateway.RoleChat},
			Prices: &gateway.Prices{Input: &price, Output: &price}, Limits: gateway.Limits{ImageTokens: 1000}},
		{Name: "deep", Protocol: gateway.ProtocolOpenAI, BaseURL: "http://127.0.0.1:1/v1", Model: "deep-2026-01-01", Routes: []gateway.Role{gateway.RoleChat}},
		{Name: "lab", Protocol: gateway.ProtocolOpenAI, BaseURL: "http://127.0.0.1:1/v1", Model: "lab-1", Routes: []gateway.Role{gateway.RoleTask}},
	}
}

// serve starts the chat endpoint for an EC.
func (r *rig) serve(from chat.Seam, to chat.Ledger) {
	rows := chat.NewRows()
	log := slog.New(slog.NewJSONHandler(r.log, nil))
	g, err := gateway.New(gateway.Config{
		Models: configured(), Active: func(_ context.Context, name, fingerprint string) bool { return r.ruling.Allows(name, fingerprint) },
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: r.model}, Rows: rows, Log: log, Rand: func() float64 { return 0 },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.chat = httptest.NewUnstartedServer(nil)
	r.srv, err = chat.New(chat.Config{
		Seam: from, Ledger: to, Models: g, Rows: rows, Refresh: r.refresh,
		UserToken: sha256.Sum256([]byte(userToken)), Others: map[string][sha256.Size]byte{"seam": sha256.Sum256([]byte(seamToken)), "operator": sha256.Sum256([]byte("operator-token-0123456789"))},
		Hosts: wall.LoopbackHosts(r.chat.Listener.Addr()), Metrics: r.reg, Log: log, Now: r.env.Clock.Now, NewID: uuid.NewString, SeamTimeout: r.wait,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.chat.Config.Handler = r.srv.Handler()
	r.chat.Start()
	r.t.Cleanup(r.chat.Close)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.srv.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { stop(); <-ended })
	r.t.Cleanup(r.stop)
	<-r.srv.Heard()
}

// asked gives the packet requests since the last time.
func (r *rig) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, s := range r.seen {
		if strings.HasPrefix(s, "GET overlay-packet") {
			out = append(out, s)
		}
	}
	r.seen = nil
	return out
}

func key(thread string) contracts.OverlaySessionKey {
	return contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: thread, ThreadID: thread}
}

func (r *rig) activate(thread, id string) {
	r.t.Helper()
	r.env.Must(ec.ActivateOverlay{Key: key(thread), OverlayID: contracts.OverlayID(id), Source: contracts.FromManual})
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// completion is what the tests read of an answer.
type completion struct {
	Choices []struct {
		Message struct {
			Content   *string
			Refusal   *string
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	}
	PromptLab struct {
		Receipt, Overlays, Path string
		Applied                 []string
		Dropped                 map[string]string
		RefreshReason           string `json:"refresh_reason"`
	} `json:"promptlab"`
	Error struct {
		Message, Type, Code string
		Param               *string
		Details             []struct{ Field, Rule string }
	}
}

func (r *rig) post(body string, headers ...string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, "/v1/chat/completions", body, headers...)
}

func (r *rig) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.chat.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil && !strings.Contains(body, `"stream":true`) {
		r.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b}
}

func (r *rig) read(a answer, status int) completion {
	r.t.Helper()
	var c completion
	if err := json.Unmarshal(a.body, &c); err != nil || a.status != status {
		r.t.Fatalf("got %d %s (%v), want %d", a.status, a.body, err, status)
	}
	return c
}

// say sends one message of the person in a thread of workspace w.
func (r *rig) say(thread, text string, headers ...string) completion {
	r.t.Helper()
	return r.read(r.post(`{"model":"fast","messages":[{"role":"user","content":"`+text+`"}]}`, append([]string{"X-PromptLab-Workspace", "w", "X-PromptLab-Thread", thread}, headers...)...), 200)
}

// truth gives the receipt of a session's last turn as EC has it.
func (r *rig) truth(thread string) contracts.OverlayRuntimeTruthSummary {
	r.t.Helper()
	t, err := r.env.View().Truth(key(thread), true)
	if err != nil {
		r.t.Fatalf("receipt of %s: %v", thread, err)
	}
	return t
}
