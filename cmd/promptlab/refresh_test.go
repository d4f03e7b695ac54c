package main

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/wall"
)

// heard is a real EC that notes what it is told to do.
type heard struct {
	*ectest.Env
	mu   sync.Mutex
	said []ec.Command
}

func (h *heard) Do(ctx context.Context, c ec.Command) (ec.Receipt, error) {
	h.mu.Lock()
	h.said = append(h.said, c)
	h.mu.Unlock()
	return h.Env.Do(ctx, c)
}

// last gives the last command without what is each request's own: its ids.
func (h *heard) last() (ec.Body, ec.Actor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.said) == 0 {
		return nil, ec.Actor{}
	}
	c := h.said[len(h.said)-1]
	h.said = nil
	return c.Body, c.Actor
}

// R-PKT-17: a refresh that a person asks for is one command, whether it comes from
// the terminal or from a surface that calls the API.
func TestRefreshIsOneCommandFromEverywhere(t *testing.T) {
	core := &heard{Env: ectest.New(t)}
	srv := httptest.NewUnstartedServer(nil)
	const token = "token-of-user-0123456789abcdef0123456789"
	s, err := api.New(api.Config{
		Service: core, Feed: core.Feed, Hosts: wall.LoopbackHosts(srv.Listener.Addr()), Metrics: prometheus.NewRegistry(), Presets: presetsOf,
		Tokens: map[ec.Role][sha256.Size]byte{ec.RoleUser: sha256.Sum256([]byte(token))}, Log: slog.New(slog.DiscardHandler), Now: core.Clock.Now, NewID: uuid.NewString,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = s.Handler()
	srv.Start()
	defer srv.Close()
	key, err := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "t-1", ThreadID: "t-1"}.Canonical("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "user.token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	terminal := func(args ...string) {
		var out strings.Builder
		code := cli.Run(t.Context(), cli.Process{
			Args: append(args, "--workspace", "w", "--id", "t-1", "--api", srv.URL, "--token-file", file, "--home", dir),
			Env:  func(string) (string, bool) { return "", false }, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, UserHome: dir, WorkDir: dir, TempDir: dir,
		})
		if code != cli.Done {
			t.Fatalf("promptlab %v: exit %d\n%s", args, code, out.String())
		}
	}
	surface := func(body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/overlay-sessions/"+key.Token()+"/refresh", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			t.Fatalf("refresh with %q: %s %s", body, resp.Status, b)
		}
	}
	want := ec.RequestRefresh{Key: key, Reason: contracts.RefreshManual}
	for _, c := range []struct {
		name string
		ask  func()
	}{
		{"the terminal", func() { terminal("sessions", "refresh") }},
		{"a surface", func() { surface(`{"reason":"manual"}`) }},
		{"a surface that says no more", func() { surface("") }},
	} {
		c.ask()
		body, actor := core.last()
		got, ok := body.(ec.RequestRefresh)
		if !ok {
			t.Fatalf("R-PKT-17 a refresh from %s is %T", c.name, body)
		}
		got.IfMatch = "" // the terminal names the revision that it has seen
		if d := cmp.Diff(want, got); d != "" || actor.Role != ec.RoleUser {
			t.Errorf("R-PKT-17 a refresh from %s of %+v (-want +got):\n%s", c.name, actor, d)
		}
	}
}
