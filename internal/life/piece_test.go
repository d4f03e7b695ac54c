package life_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elnor/promptlab/internal/life"
)

// counted is a connection that counts the calls that send.
type counted struct {
	net.Conn
	writes *atomic.Int32
	fails  *atomic.Bool
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	if c.fails.Load() {
		return 0, errors.New("the cable is cut")
	}
	return c.Conn.Write(p)
}

// pieces asks a handler over one connection, request by request, and gives the
// answers with the number of calls that each was sent with.
func pieces(t *testing.T, h http.HandlerFunc, requests ...string) (bodies []string, heads []http.Header, calls []int32) {
	t.Helper()
	serve(t, h, time.Second, func(p *pipes, stop context.CancelFunc, ended <-chan error) {
		mine, theirs := net.Pipe()
		conn := counted{theirs, &atomic.Int32{}, &atomic.Bool{}}
		p.conns <- conn
		r := bufio.NewReader(mine)
		for _, text := range requests {
			before := conn.writes.Load()
			send(t, mine, text)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("read the answer to %q: %v", text, err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatalf("read the body of the answer to %q: %v", text, err)
			}
			bodies, heads, calls = append(bodies, string(body)), append(heads, resp.Header), append(calls, conn.writes.Load()-before)
		}
		mine.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return bodies, heads, calls
}

// R-PKT-25: an answer that is sent in one piece is whole, has the lines once, and
// leaves the connection as it was for the next one.
func TestAnAnswerInOnePiece(t *testing.T) {
	large := strings.Repeat("x", 5000)
	bodies, heads, calls := pieces(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/piece" && !life.InOnePiece(r.Context(), []byte("X-Always: yes\r\n")) {
			t.Error("a connection of ours cannot send in one piece")
		}
		w.Header().Set("Content-Length", "5000")
		fmt.Fprint(w, large)
	}, "GET /piece HTTP/1.1\r\nHost: h\r\n\r\n", "GET /plain HTTP/1.1\r\nHost: h\r\n\r\n", "GET /piece HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	for i, want := range []struct {
		always string
		most   int32
	}{{"yes", 1}, {"", 2}, {"yes", 1}} {
		if bodies[i] != large || heads[i].Get("X-Always") != want.always || len(heads[i]["X-Always"]) > 1 || heads[i].Get("Content-Length") != "5000" || calls[i] != want.most {
			t.Errorf("answer %d: %d bytes, head %v, %d calls; want 5000 bytes, X-Always %q, %d calls", i, len(bodies[i]), heads[i], calls[i], want.always, want.most)
		}
	}
}

// What is more than a connection keeps goes out on the way, and all of it.
func TestALargeAnswerInOnePiece(t *testing.T) {
	large := strings.Repeat("0123456789", 30_000)
	bodies, heads, _ := pieces(t, func(w http.ResponseWriter, r *http.Request) {
		life.InOnePiece(r.Context(), []byte("X-Always: yes\r\n"))
		for part := range 30 {
			_, _ = io.WriteString(w, large[part*10_000:(part+1)*10_000])
			_ = http.NewResponseController(w).Flush()
		}
	}, plainRequest, plainRequest)
	for i := range bodies {
		if bodies[i] != large || heads[i].Get("X-Always") != "yes" {
			t.Errorf("answer %d: %d bytes, head %v; want all %d with X-Always", i, len(bodies[i]), heads[i], len(large))
		}
	}
}

// A reader that is gone ends the connection, not the server.
func TestAPieceThatCannotBeSent(t *testing.T) {
	serve(t, func(w http.ResponseWriter, r *http.Request) {
		life.InOnePiece(r.Context(), nil)
		fmt.Fprint(w, "ok")
	}, time.Second, func(p *pipes, stop context.CancelFunc, ended <-chan error) {
		mine, theirs := net.Pipe()
		conn := counted{theirs, &atomic.Int32{}, &atomic.Bool{}}
		conn.fails.Store(true)
		p.conns <- conn
		send(t, mine, plainRequest)
		mine.Close()
		next := p.dial()
		send(t, next, plainRequest)
		resp, err := http.ReadResponse(bufio.NewReader(next), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("another connection: %v, %v; want 200", resp, err)
		}
		next.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
}

// Elsewhere than on a connection of ours nothing happens, and the handler hears it.
func TestOnePieceOutsideOfAServer(t *testing.T) {
	if life.InOnePiece(t.Context(), []byte("X-Always: yes\r\n")) {
		t.Error("there is no connection, and it said that it keeps")
	}
}
