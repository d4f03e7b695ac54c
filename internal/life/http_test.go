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
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/internal/life"
)

// pipes is a listener whose connections are in memory, so that the bubble's
// clock drives the server's timeouts.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7717} }

func (p *pipes) dial() net.Conn {
	c, s := net.Pipe()
	p.conns <- s
	return c
}

func serve(t *testing.T, h http.HandlerFunc, grace time.Duration, test func(p *pipes, stop context.CancelFunc, ended <-chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- life.Run(ctx, life.HTTP("api", p, h, grace)) }()
		test(p, stop, ended)
	})
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("send: %v", err)
	}
}

const plainRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

func TestSlowHeadersAreCutOff(t *testing.T) { // R-SEC-10 slowloris
	serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, time.Second,
		func(p *pipes, stop context.CancelFunc, ended <-chan error) {
			start := time.Now()
			var slow []net.Conn
			for range 50 {
				c := p.dial()
				send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ")
				slow = append(slow, c)
			}
			good := p.dial()
			send(t, good, plainRequest)
			resp, err := http.ReadResponse(bufio.NewReader(good), nil)
			if err != nil || resp.StatusCode != 200 || time.Since(start) != 0 {
				t.Errorf("good request beside slow ones: got %v %v after %s, want 200 at once", resp, err, time.Since(start))
			}
			for _, c := range slow {
				_, _ = io.Copy(io.Discard, c)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("slow connections closed after %s, want at most 5s", d)
			}
			_ = good.Close()
			stop()
			if err := <-ended; err != nil {
				t.Errorf("end: %v", err)
			}
		})
}

func TestHeadersOverTheLimit(t *testing.T) {
	serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, time.Second,
		func(p *pipes, stop context.CancelFunc, ended <-chan error) {
			c := p.dial()
			go func() { // the server stops reading before the end
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nX-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
			}()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("64 KiB of headers: got %v %v, want 431", resp, err)
			}
			_ = c.Close()
			stop()
			<-ended
		})
}

func TestRunningRequestsFinishAndStreamsEnd(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			rc := http.NewResponseController(w)
			_, _ = io.WriteString(w, "first\n")
			_ = rc.Flush()
			select {
			case <-life.Stopping(r.Context()):
				_, _ = io.WriteString(w, "bye\n")
			case <-r.Context().Done():
			}
			return
		}
		time.Sleep(2 * time.Second) // the bubble's clock
		fmt.Fprint(w, "done")
	}
	serve(t, h, 5*time.Second, func(p *pipes, stop context.CancelFunc, ended <-chan error) {
		slow, stream := p.dial(), p.dial()
		send(t, slow, plainRequest)
		send(t, stream, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
		sresp, err := http.ReadResponse(bufio.NewReader(stream), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(sresp.Body)
		if line, _ := body.ReadString('\n'); line != "first\n" {
			t.Fatalf("stream: got %q", line)
		}
		synctest.Wait()
		start := time.Now()
		stop()
		if rest, _ := io.ReadAll(body); string(rest) != "bye\n" || time.Since(start) > 0 {
			t.Errorf("stream after stop: got %q after %s, want bye at once", rest, time.Since(start))
		}
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			t.Fatalf("running request: %v", err)
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != "done" {
			t.Errorf("running request: got %q, want its answer", b)
		}
		if err := <-ended; err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

func TestGraceEnds(t *testing.T) {
	h := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	serve(t, h, time.Second, func(p *pipes, stop context.CancelFunc, ended <-chan error) {
		c := p.dial()
		send(t, c, plainRequest)
		synctest.Wait()
		start := time.Now()
		stop()
		err := <-ended
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "api: ") || time.Since(start) != time.Second {
			t.Errorf("end with a request that does not end: got %v after %s, want a named error after 1s", err, time.Since(start))
		}
	})
}

func TestLostListenerIsAFailure(t *testing.T) {
	serve(t, func(http.ResponseWriter, *http.Request) {}, time.Second, func(p *pipes, _ context.CancelFunc, ended <-chan error) {
		_ = p.Close()
		if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "api: serve 127.0.0.1:7717") {
			t.Errorf("listener gone: got %v, want an error that names part and address", err)
		}
	})
}

func TestStoppingOutsideOfAServer(t *testing.T) {
	if life.Stopping(t.Context()) != nil {
		t.Error("a context of no server says stopping")
	}
}

func TestConnectionsAreCapped(t *testing.T) { // R-SEC-10
	serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, time.Second,
		func(p *pipes, stop context.CancelFunc, ended <-chan error) {
			const most = 1024
			var open []net.Conn
			for range most {
				open = append(open, p.dial())
			}
			accepted := make(chan net.Conn, 1)
			go func() { accepted <- p.dial() }()
			synctest.Wait()
			select {
			case <-accepted:
				t.Errorf("connection %d was taken", most+1)
			default:
			}
			_ = open[0].Close()
			synctest.Wait()
			select {
			case c := <-accepted:
				_ = c.Close()
			default:
				t.Error("a free place was not given to who waits")
			}
			for _, c := range open {
				_ = c.Close()
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("end: %v", err)
			}
		})
}
