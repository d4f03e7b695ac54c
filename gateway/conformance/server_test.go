package conformance_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long the server waits for a client to hang up.
const patience = 20 * time.Second

// server speaks TCP by a script: one connection, one request, and then whatever
// the script says.
type server struct {
	t      *testing.T
	ln     net.Listener
	script func(*conn)
	work   sync.WaitGroup

	mu    sync.Mutex
	conns int
	asked []request
}

// request is what a client sent.
type request struct {
	method, path string
	header       http.Header
	body         string
}

func serve(t *testing.T, script func(*conn)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, ln: ln, script: script}
	s.work.Go(s.accept)
	return s
}

func (s *server) url() string { return "http://" + s.ln.Addr().String() + "/v1" }

func (s *server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() { s.talk(c) })
	}
}

func (s *server) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	s.mu.Lock()
	s.conns++
	n := s.conns
	s.mu.Unlock()
	s.script(&conn{Conn: c, server: s, r: bufio.NewReader(c), n: n})
}

// stop waits for every connection: a client that did not hang up is noticed.
func (s *server) stop() {
	_ = s.ln.Close()
	s.work.Wait()
}

// requests gives what was asked so far.
func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.asked...)
}

// conn is one connection in the hands of a script.
type conn struct {
	net.Conn
	server *server
	r      *bufio.Reader
	n      int // of the connection, from 1
	d      dialect
	stream bool
	taken  <-chan struct{} // closed when the consumer has the first piece
}

// read takes the request. A script that does not may answer all the same.
func (c *conn) read() bool {
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return false
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.asked = append(c.server.asked, request{r.Method, r.URL.Path, r.Header, string(b)})
	return true
}

// write sends each part in a segment of its own, as far as TCP has any.
func (c *conn) write(parts ...string) bool {
	for _, p := range parts {
		if _, err := io.WriteString(c.Conn, p); err != nil {
			return false
		}
	}
	return true
}

// head sends a status and headers; without a length the body ends with the
// connection.
func (c *conn) head(status int, headers ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nConnection: close\r\nX-Request-Id: req-%d\r\n", status, http.StatusText(status), c.n)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	c.write(b.String() + "\r\n")
}

// document sends a whole answer.
func (c *conn) document(status int, body string, headers ...string) {
	c.head(status, append([]string{"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))}, headers...)...)
	c.write(body)
}

// events begins a stream and sends parts of it.
func (c *conn) events(parts ...string) {
	c.head(200, "Content-Type: text/event-stream")
	c.write(parts...)
}

// chunks sends an answer in the pieces that HTTP has for it.
func (c *conn) chunks(kind string, parts ...string) {
	c.head(200, "Content-Type: "+kind, "Transfer-Encoding: chunked")
	for _, p := range parts {
		c.write(fmt.Sprintf("%x\r\n%s\r\n", len(p), p))
	}
	c.write("0\r\n\r\n")
}

// reply sends body as a document or as a stream, as it was asked for.
func (c *conn) reply(document string, stream ...string) {
	if c.stream {
		c.events(stream...)
		return
	}
	c.document(200, document)
}

// wait does nothing until the client hangs up.
func (c *conn) wait() {
	if _, err := io.Copy(io.Discard, c.r); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // as net gives it
			c.server.t.Error("the client did not hang up")
		}
	}
}

// forever sends a part again and again until the client hangs up.
func (c *conn) forever(part string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for range tick.C {
		if !c.write(part) {
			return
		}
		if time.Since(began) > patience {
			c.server.t.Error("the client took keep-alives for progress")
			return
		}
	}
}

// reset breaks the connection off, as a process that dies does.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
