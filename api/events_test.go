package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/api"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/life"
)

// watch opens an event stream.
func (r *rig) watch(path string, headers ...string) (*http.Response, *bufio.Reader) {
	r.t.Helper()
	return r.watchAs(ec.RoleUser, path, headers...)
}

func (r *rig) watchAs(role ec.Role, path string, headers ...string) (*http.Response, *bufio.Reader) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token(role))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{}}
	r.t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp, bufio.NewReader(resp.Body)
}

// message reads one block of the stream, without retry and comment lines.
func message(t *testing.T, b *bufio.Reader) string {
	t.Helper()
	var lines []string
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			t.Fatalf("stream ended: %v after %q", err, lines)
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line != "" && !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "retry:"):
			lines = append(lines, line)
		case line == "" && len(lines) > 0:
			return strings.Join(lines, "\n")
		}
	}
}

// parse takes a block apart: id, event, and the decoded data.
func parse(t *testing.T, block string) (id string, e contracts.LiveEvent) {
	t.Helper()
	for line := range strings.Lines(block) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			var err error
			if e, err = contracts.Decode[contracts.LiveEvent]([]byte(value), contracts.Stored); err != nil {
				t.Fatalf("event %q: %v", value, err)
			}
		}
	}
	return id, e
}

func TestEventsAsTheyHappen(t *testing.T) {
	r := newRig(t)
	resp, stream := r.watch("/api/events?after=0")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("stream: %d %v", resp.StatusCode, resp.Header)
	}
	r.env.Must(ec.CreateOverlay{Record: ectest.Overlay("one-a", "A.\n")})
	id1, e1 := parse(t, message(t, stream))
	if e1.Type != "overlay.installed" || e1.Overlay != "one-a" || id1 != fmt.Sprint(e1.Seq) {
		t.Errorf("first event: id %s, %+v", id1, e1)
	}
	r.env.Must(ec.CreateOverlay{Record: ectest.Overlay("two-b", "B.\n")})
	id2, e2 := parse(t, message(t, stream))
	if e2.Overlay != "two-b" || e2.Seq <= e1.Seq {
		t.Errorf("second event: id %s, %+v", id2, e2)
	}
	_, resumed := r.watch("/api/events?after=0", "Last-Event-ID", id1)
	if id, e := parse(t, message(t, resumed)); id != id2 || e.Overlay != "two-b" {
		t.Errorf("resumed after %s: got id %s %+v, want %s", id1, id, e, id2)
	}
	list := read[contracts.EventList](r, "list", r.ask(ec.RoleUser, "GET", "/api/events?after="+id1, "", "Accept", "application/json"), 200)
	if len(list.Items) != 1 || list.Items[0].Seq != e2.Seq {
		t.Errorf("list after %s: %+v", id1, list)
	}
	if empty := r.ask(ec.RoleUser, "GET", "/api/events?after="+id2, "", "Accept", "application/json"); !strings.Contains(string(empty.body), `"items":[]`) {
		t.Errorf("empty list: %s", empty.body)
	}
	r.want("odd position", r.ask(ec.RoleUser, "GET", "/api/events", "", "Last-Event-ID", "x"), 400, "bad_request")
	r.want("odd after", r.ask(ec.RoleUser, "GET", "/api/events?after=-1", ""), 400, "bad_request")
}

func TestStreamsEndWithTheServer(t *testing.T) {
	r := newRig(t)
	_, stream := r.watch("/api/events")
	r.env.Must(ec.CreateOverlay{Record: ectest.Overlay("one-a", "A.\n")})
	message(t, stream)
	start := time.Now()
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if d := time.Since(start); d > 2*time.Second { // the grace is 5 s
		t.Errorf("stopping with an open stream took %s", d)
	}
	if rest, err := io.ReadAll(stream); err != nil || len(rest) != 0 {
		t.Errorf("the stream's end: %q, %v; want a clean one", rest, err)
	}
}

func TestStreamsAreCapped(t *testing.T) { // R-SEC-10
	r := newRig(t)
	var last *http.Response
	for range api.MaxStreams {
		last, _ = r.watch("/api/events")
		if last.StatusCode != 200 {
			t.Fatalf("stream: got %d", last.StatusCode)
		}
	}
	r.want("one too many", r.ask(ec.RoleUser, "GET", "/api/events", ""), 503, "too_many_streams")
	if notices, _ := r.watchAs(ec.RoleSeam, "/internal/doc17/session-notices"); notices.StatusCode != 200 {
		t.Errorf("the seam's stream beside full ones: got %d", notices.StatusCode)
	}
	r.want("others are served", r.ask(ec.RoleUser, "GET", "/api/overlays", ""), 200, "")
	if m := string(r.ask(ec.RoleOperator, "GET", "/metrics", "").body); !strings.Contains(m, fmt.Sprintf("promptlab_http_streams %d\n", api.MaxStreams+1)) {
		t.Error("the gauge does not count the streams")
	}
}

// TestStreamOutlivesTheServersDeadlines runs on the bubble's clock: two minutes
// of silence pass in no time.
func TestStreamOutlivesTheServersDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := quietFeed{make(chan struct{}), make(chan struct{})}
		srv, err := api.New(config(func(c *api.Config) { c.Feed, c.Now, c.Hosts = quiet, time.Now, []string{"h:1"} }))
		if err != nil {
			t.Fatal(err)
		}
		ln := oneConn{make(chan net.Conn, 1), make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- life.Run(ctx, life.HTTP("api", ln, srv.Handler(), time.Second)) }()
		client, server := net.Pipe()
		ln.conns <- server
		fmt.Fprint(client, "GET /api/events HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer "+token(ec.RoleUser)+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, start := bufio.NewReader(resp.Body), time.Now()
		for beats := 0; beats < 8; {
			line, err := body.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended after %s: %v", time.Since(start), err)
			}
			if strings.HasPrefix(line, ":") {
				beats++
			}
		}
		if d := time.Since(start); d != 2*time.Minute {
			t.Errorf("8 heartbeats took %s, want 15s each", d)
		}
		stop()
		if rest, err := io.ReadAll(body); err != nil {
			t.Errorf("the stream's end: %q, %v", rest, err)
		}
		_ = client.Close()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

type quietFeed struct{ _, never chan struct{} }

func (quietFeed) Last() uint64 { return 0 }

func (quietFeed) After(uint64) []contracts.LiveEvent { return nil }

func (q quietFeed) Wait(ctx context.Context, _ uint64) error {
	select {
	case <-q.never:
	case <-ctx.Done():
	}
	return ctx.Err()
}

type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error { close(l.closed); return nil }

func (oneConn) Addr() net.Addr { return &net.TCPAddr{Port: 1} }
