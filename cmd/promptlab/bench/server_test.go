package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/app"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
)

// server is EC with its API as `promptlab serve` composes it, in this process,
// on a real port, with an embedded broker and no worker.
type server struct {
	base, token string // the token of the role user
	seam        string // that of the role seam
	http        *http.Client
	stop        func() // again: nothing
}

// serve starts a server over a home that may have data already.
func serve(t *testing.T, dir string) *server {
	t.Helper()
	env := func(string) (string, bool) { return "", false }
	cfg, _, err := config.Load(config.Input{
		Flags: map[string]string{"home": dir, "listen": "127.0.0.1:0"}, Env: env, WorkDir: dir,
		ReadFile: func(string) ([]byte, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := home.Home{Dir: cfg.Home, Memory: cfg.Memory}
	if err := home.Open(h, ""); err != nil {
		t.Fatal(err)
	}
	ready := make(chan cli.Ready, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- app.Servers{Version: "bench"}.Serve(ctx, cli.ServerRun{
			Config: cfg, Home: h, Env: env,
			Log:   slog.New(slog.NewTextHandler(io.Discard, nil)), //nolint:sloglint // making the lines is part of the work
			Ready: func(r cli.Ready) error { ready <- r; return nil },
		})
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Errorf("stop server: %v", err)
		}
	})
	t.Cleanup(stop)
	s := &server{stop: stop, http: newClient()}
	t.Cleanup(s.http.CloseIdleConnections)
	select {
	case r := <-ready:
		s.base = r.API
	case err := <-ended:
		t.Fatalf("start server: %v", err)
	}
	if s.token, err = h.Token("user"); err != nil {
		t.Fatal(err)
	}
	if s.seam, err = h.Token("seam"); err != nil {
		t.Fatal(err)
	}
	return s
}

func newClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
}

// memory is where a home keeps its data.
func memory(dir string) string { return filepath.Join(dir, "ELNOR_MEMORY") }

// send sends one request over a kept connection and reads the answer whole.
func (s *server) send(method, path, body string) ([]byte, error) {
	req, err := http.NewRequest(method, s.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %.300s", method, path, resp.StatusCode, answer)
	}
	return answer, err
}

// overlayJSON is a valid overlay as a client sends it, about 500 bytes.
func overlayJSON(id string, version int) string {
	return fmt.Sprintf(`{"frontmatter":{"id":%q,"title":"Title of %s","artifact_class":"live_overlay","category":"quality",`+
		`"description":"What it is for","supported_surfaces":["chat"],"live_token_target":200},`+
		`"body":"Write the note in plain words, version %d.\n\n- Say what changed and why.\n- Never guess a date.\n"}`, id, id, version)
}
