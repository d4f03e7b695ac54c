package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
	"github.com/elnor/promptlab/internal/wall"
)

// exchange is one request on its way: what its log line and its metrics will
// say. It is the response writer too, so that it sees the status.
type exchange struct {
	http.ResponseWriter
	id     string
	method string // one of methodLabel
	start  time.Time
	role   ec.Role
	cookie bool   // the credential came as a cookie
	route  string // template, never the raw path
	denied string // reason of a security refusal, from a fixed set
	err    error
	status int
	bytes  int64
	headed bool      // what every answer carries is on its way, not among the headers
	heads  [3]string // values of headers that this package sets on every way; see head
	ready  *ready    // of its route, may be nil
}

type exchangeKey struct{}

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	id := wall.RequestID(r, s.cfg.NewID)
	x := &exchange{ResponseWriter: w, id: id, method: methodLabel(r.Method), start: s.cfg.Now()}
	x.head(0, "X-Request-Id", id)
	return x
}

// head sets a header, its name in canonical form, and keeps the value in place i
// of the exchange: every packet comes this way.
func (x *exchange) head(i int, name, value string) {
	x.heads[i] = value
	x.Header()[name] = x.heads[i : i+1 : i+1]
}

func (x *exchange) context(ctx context.Context) context.Context {
	ctx = problem.WithObserver(ctx, func(err error) { x.err = err })
	return problem.WithRequestID(context.WithValue(ctx, exchangeKey{}, x), x.id)
}

func exchangeOf(ctx context.Context) *exchange {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		panic("api: a handler outside of serve") // a mistake of ours
	}
	return x
}

// WriteHeader sends the status once; a second one is dropped.
func (x *exchange) WriteHeader(status int) {
	if x.status != 0 {
		return
	}
	if status >= http.StatusOK {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write sends body bytes.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	return n, err //nolint:wrapcheck // a writer in between
}

// Flush sends what is buffered; gin asks for this method by name.
func (x *exchange) Flush() {
	_ = http.NewResponseController(x.ResponseWriter).Flush() // nobody to tell
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// fail answers with err.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		err = fault.New(fault.TooLarge, "payload_too_large", "the body is larger than %d bytes", tooLarge.Limit)
	case fault.Of(err) == fault.Internal && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		err = fault.Wrap(fault.Unavailable, "given_up", err, "the request ended before it was answered; it may have been carried out")
	}
	if fault.Of(err) == fault.TooLarge {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	problem.Write(w, r, err)
}

// finish ends an exchange: it turns a panic, p, into an answer and writes the
// log line.
func (s *Server) finish(x *exchange, r *http.Request, p any) {
	cut := p == http.ErrAbortHandler //nolint:errorlint // the very value, as net/http compares it
	if p != nil && !cut && x.err == nil {
		x.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		if x.status == 0 {
			if !x.headed {
				setHeaders(x.Header(), areaOf(r.URL.Path))
			}
			problem.Write(x, r.WithContext(x.context(r.Context())), x.err)
		}
	}
	if x.status == 0 {
		x.status = http.StatusOK // net/http sends it for a handler that wrote nothing
	}
	if x.denied == "" {
		x.denied = denialOf(x.err)
	}
	took := s.cfg.Now().Sub(x.start)
	s.meters.request(x, took)
	s.logLine(x, r, took)
	if p != nil && (cut || x.status < http.StatusInternalServerError) {
		panic(http.ErrAbortHandler) // an answer had begun: cut the connection, do not pretend it is whole
	}
}

func (s *Server) logLine(x *exchange, r *http.Request, took time.Duration) {
	level, log := slog.LevelInfo, s.cfg.Log
	attrs := []slog.Attr{
		slog.Int("status", x.status), slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", x.bytes), slog.String("request_id", x.id),
	}
	if x.ready != nil {
		log = x.ready.log
	} else {
		attrs = append(attrs, slog.String("method", x.method), slog.String("route", x.route), slog.String("role", string(x.role)))
	}
	if x.denied != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("denied", x.denied))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("code", fault.Code(x.err)))
		// Only these two have a cause to look for; the others are the client's
		// doing, and their messages may quote the client.
		if k := fault.Of(x.err); k == fault.Internal || k == fault.Unavailable {
			level = slog.LevelError
			attrs = append(attrs, slog.String("error", x.err.Error()))
		}
	}
	h := log.Handler()
	if ctx := r.Context(); h.Enabled(ctx, level) {
		// Without the place in the code, which is here for all of them, and whose
		// search costs as much as the rest of the line.
		record := slog.NewRecord(x.start.Add(took), level, "request", 0)
		record.AddAttrs(attrs...)
		_ = h.Handle(ctx, record) // nobody to tell
	}
}

// methodLabel keeps made-up methods out of logs and metrics.
func methodLabel(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	default:
		return "other"
	}
}
