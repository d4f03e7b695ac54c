package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/chat/seam"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
	"github.com/elnor/promptlab/internal/wall"
)

// turnBound is what a turn may add at the median. It is a bound of ours: a person
// does not notice it beside the time a model takes.
const turnBound = 15 * time.Millisecond

// chatRow: a turn of a session with three overlays through the chat endpoint (wall,
// notices, held packet, layers, chain, receipt made durable) against the same
// messages sent to the model by a bare client. R-BND-19: what a live turn may add is
// stated, and nothing of the lab is on its way.
func chatRow(t *testing.T, b *board) {
	const rounds, clients, span = 3, 16, 3 * time.Second
	s := serve(t, t.TempDir())
	_ = openPacket(t, s)
	up := upstream(t, 200*time.Millisecond)
	endpoint := serveChat(t, s, up.URL)
	sessions := make([]string, clients)
	for i := range sessions {
		thread := fmt.Sprintf("chat-%d", i)
		sessions[i] = contracts.OverlaySessionKey{WorkspaceID: "bench", SurfaceKind: contracts.SurfaceChat, SurfaceID: thread, ThreadID: thread}.Token()
		for n := range 3 {
			if _, err := s.send(http.MethodPost, "/api/overlay-sessions/"+sessions[i]+"/activate", fmt.Sprintf(`{"overlay_id":"packet-%d"}`, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := strings.Repeat("Write the note in plain words. ", 50)
	client := newClient()
	t.Cleanup(client.CloseIdleConnections)
	turn := func(who int) error {
		req, err := http.NewRequest(http.MethodPost, endpoint+"/v1/chat/completions", bytes.NewReader(fmt.Appendf(nil, `{"max_tokens":1024,"messages":[{"role":"user","content":%q}]}`, text)))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+s.token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-PromptLab-Session", sessions[who])
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != http.StatusOK || strings.Count(res.Header.Get("X-PromptLab-Applied"), "packet-") != 3 || res.Header.Get("X-PromptLab-Truth") != "recorded") {
			err = fmt.Errorf("a turn got %d %v %.200s", res.StatusCode, res.Header, body)
		}
		return err
	}
	plain := newClient()
	t.Cleanup(plain.CloseIdleConnections)
	direct := func(int) error { return ask(plain, up.URL+"/v1/chat/completions", text) }
	var ours, reference, added []float64
	for i := range rounds + 1 {
		bare, bareRate, err := crowd(clients, span, direct)
		if err != nil {
			t.Fatal(err)
		}
		own, ownRate, err := crowd(clients, span, turn)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 { // the first opens connections and fetches packets
			ours, reference = append(ours, ownRate), append(reference, bareRate)
			added = append(added, float64(median(own)-median(bare))/float64(time.Millisecond))
		}
	}
	r := ratios(ours, reference)
	bound := float64(turnBound) / float64(time.Millisecond)
	b.add(line{"chat added p50", fmt.Sprintf("%.2f ms", median(added)), "-", fmt.Sprintf("%.3f", median(r)), fmt.Sprintf("<= %.0f ms", bound), verdict(median(added) <= bound)})
	b.note("chat: 16 sessions with three overlays, upstream that waits 200 ms; a turn asks EC for notices and makes its receipt durable before it is answered. The ratio is turns/s against the same messages posted to the upstream by a bare client: "+
		"min/median/max of %d rounds %s; added p50 %s ms.", rounds, spread(r, "%.3f"), spread(added, "%.2f"))
}

// serveChat starts the chat endpoint in front of a model server.
func serveChat(t *testing.T, s *server, model string) string {
	t.Helper()
	ec, err := seam.New(seam.Config{BaseURL: s.base, Token: s.seam})
	if err != nil {
		t.Fatal(err)
	}
	price, rows := 0.0, chat.NewRows()
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{Name: "local", Protocol: gateway.ProtocolOpenAI, BaseURL: model + "/v1", Model: "local-model", Routes: gateway.Roles(),
			Prices: &gateway.Prices{Input: &price, Output: &price}, Limits: gateway.Limits{Concurrency: 64}}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: openai.New(openai.Config{})}, Rows: rows,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(nil)
	endpoint, err := chat.New(chat.Config{
		Seam: ec, Ledger: ec, Models: g, Rows: rows, UserToken: sha256.Sum256([]byte(s.token)), Hosts: wall.LoopbackHosts(srv.Listener.Addr()),
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), //nolint:sloglint // making the lines is part of the work
		Now: time.Now, NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Config.Handler = endpoint.Handler()
	srv.Start()
	t.Cleanup(srv.Close)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- endpoint.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	<-endpoint.Heard()
	return srv.URL
}
