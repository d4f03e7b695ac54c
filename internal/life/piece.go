package life

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
)

// maxPiece is what a connection keeps at most before it sends, in bytes.
const maxPiece = 64 << 10

type pieceKey struct{}

// InOnePiece has the answer to a request sent with a single call to the system,
// at its end or when it has become large: net/http alone sends an answer of more
// than 4 KiB in two, and each wakes its reader. The lines are header fields as
// they stand on the wire, each with its line end; they are put in front of the
// answer's own, which must not have them too. It is for a handler that has its
// whole answer at hand and has not begun to write: what is flushed on the way
// stays here as well.
//
// Outside of a server made by HTTP it does nothing and says false.
func InOnePiece(ctx context.Context, lines []byte) bool {
	c, ok := ctx.Value(pieceKey{}).(*pieceConn)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeping, c.lines = true, lines
	return true
}

// pieceConn can keep what is written to it until the request has ended.
type pieceConn struct {
	net.Conn

	mu      sync.Mutex // whoever cuts a server off closes from elsewhere
	keeping bool
	lines   []byte // to stand behind the first line of what is kept
	kept    []byte
}

func (c *pieceConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.keeping {
		return c.Conn.Write(p) //nolint:wrapcheck // a connection in between
	}
	rest := p
	if first := bytes.IndexByte(p, '\n') + 1; first > 0 && len(c.lines) > 0 {
		c.kept = append(append(c.kept, p[:first]...), c.lines...)
		rest, c.lines = p[first:], nil
	}
	c.kept = append(c.kept, rest...)
	if len(c.kept) < maxPiece {
		return len(p), nil
	}
	if err := c.send(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send sends what was kept and keeps no more.
func (c *pieceConn) send() error {
	c.keeping, c.lines = false, nil
	if len(c.kept) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.kept)
	c.kept = c.kept[:0]
	return err //nolint:wrapcheck // a connection in between
}

// end sends what was kept. Nobody asks for its error any more; whoever reads or
// writes next meets it.
func (c *pieceConn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.send()
}

// Close sends what is kept and closes.
func (c *pieceConn) Close() error {
	c.end()
	return c.Conn.Close() //nolint:wrapcheck // a connection in between
}

// pieceListener gives connections that can keep.
type pieceListener struct{ net.Listener }

func (l pieceListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // a listener in between
	}
	return &pieceConn{Conn: c}, nil
}

// keepPieces makes a server's connections known to InOnePiece.
func keepPieces(srv *http.Server) {
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, pieceKey{}, c) }
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		if p, ok := c.(*pieceConn); ok && state == http.StateIdle {
			p.end()
		}
	}
}
