package openai_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

// upstream is a streaming server that says when its client leaves.
type upstream struct {
	*httptest.Server
	left chan struct{}
}

func streaming(t *testing.T, serve func(w io.Writer, flush func(), left <-chan struct{})) *upstream {
	t.Helper()
	u := &upstream{left: make(chan struct{}, 10)}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		serve(w, func() { _ = http.NewResponseController(w).Flush() }, r.Context().Done())
		if r.Context().Err() != nil {
			u.left <- struct{}{}
		}
	}))
	t.Cleanup(u.Close)
	return u
}

func chain(t *testing.T, url string, rows gateway.Rows, transport http.RoundTripper, limits gateway.StreamLimits) *gateway.Gateway {
	t.Helper()
	price := 1.0
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{Name: "one", Protocol: gateway.ProtocolOpenAI, BaseURL: url + "/v1", Model: "m1-0001",
			Routes: gateway.Roles(), Prices: &gateway.Prices{Input: &price, Output: &price}, Limits: gateway.Limits{StreamLimits: limits}}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: openai.New(openai.Config{Transport: transport})},
		Rows:     rows, Rand: func() float64 { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func question() gateway.Request {
	return gateway.Request{Role: gateway.RoleChat, MaxTokens: 100, Messages: []gateway.Message{{Role: "user", Content: "hello"}}}
}

// R-GWS-19: a client that hangs up in the middle of an answer cancels the call
// at the provider, over real connections on both sides.
func TestAClientThatHangsUpCancelsTheProvider(t *testing.T) {
	up := streaming(t, func(w io.Writer, flush func(), left <-chan struct{}) {
		_, _ = io.WriteString(w, events(said2("hi")))
		flush()
		<-left
	})
	rows := make(gateway.RowChan, 10)
	g := chain(t, up.URL, rows, nil, gateway.StreamLimits{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = g.Stream(r.Context(), question(), gateway.Unlimited(), func(e gateway.Event) error {
			if _, err := fmt.Fprintf(w, "%s\n", e.Text); err != nil {
				return err
			}
			return http.NewResponseController(w).Flush()
		})
	}))
	t.Cleanup(front.Close)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := front.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != "hi\n" {
		t.Fatalf("the client read %q, error %v", line, err)
	}
	hangUp()
	<-up.left
	if row := <-rows; row.Class != gateway.ClassCallerGone || !row.Committed || row.CostNanoUSD != row.HoldNanoUSD {
		t.Errorf("R-GWS-19 row %+v, want caller_gone, booked by its bound", row)
	}
}

// R-GWS-05, R-GWS-06, R-GWS-10: comments and pings are signs of life and no
// progress: the stream is given up, its endless body not drained, and the row
// tells the two apart.
func TestAStreamOfPingsIsGivenUp(t *testing.T) {
	up := streaming(t, func(w io.Writer, flush func(), left <-chan struct{}) {
		_, _ = io.WriteString(w, events(said2("hi")))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = io.WriteString(w, ": ping\n\n"+events("ping", delta(`{"content":""}`)))
			flush()
			select {
			case <-tick.C:
			case <-left:
				return
			}
		}
	})
	rows := make(gateway.RowChan, 10)
	g := chain(t, up.URL, rows, nil, gateway.StreamLimits{IdleTimeoutSeconds: 1})
	_, err := g.Stream(t.Context(), question(), gateway.Unlimited(), nil)
	if gateway.ClassOf(err) != gateway.ClassStreamIdle {
		t.Fatalf("R-GWS-05 error %v, want stream_idle", err)
	}
	<-up.left
	if row := <-rows; row.Silence < time.Second || row.WireSilence > 500*time.Millisecond || row.WireBytes < 500 || row.MalformedChunks < 10 || row.Chunks != 1 {
		t.Errorf("R-GWS-06 row says %s without progress, %s without a byte, %d bytes, %d malformed, %d pieces",
			row.Silence, row.WireSilence, row.WireBytes, row.MalformedChunks, row.Chunks)
	}
}

// R-GWS-11: over HTTP/2 a cancel ends the stream and not the connection: the
// next call takes the same one.
func TestACancelKeepsAnHTTP2Connection(t *testing.T) {
	var conns atomic.Int64
	left := make(chan struct{}, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(said2(r.Proto)))
		_ = http.NewResponseController(w).Flush()
		if strings.Contains(string(body), "hang") {
			<-r.Context().Done()
			left <- struct{}{}
			return
		}
		_, _ = io.WriteString(w, events(ended("stop"), done))
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	g := chain(t, s.URL, make(gateway.RowChan, 10), s.Client().Transport, gateway.StreamLimits{})
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		req := question()
		req.Messages[0].Content = "hang"
		_, err := g.Stream(ctx, req, gateway.Unlimited(), func(e gateway.Event) error {
			if e.Text != "HTTP/2.0" {
				t.Errorf("spoken to by %s", e.Text)
			}
			cancel()
			return nil
		})
		cancel()
		if gateway.ClassOf(err) != gateway.ClassCallerGone {
			t.Fatalf("error %v, want caller_gone", err)
		}
		<-left
	}
	if resp, err := g.Stream(t.Context(), question(), gateway.Unlimited(), nil); err != nil || resp.Text != "HTTP/2.0" || conns.Load() != 1 {
		t.Errorf("R-GWS-11 response %+v, error %v over %d connections, want one", resp, err, conns.Load())
	}
}
