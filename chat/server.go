package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/problem"
	"github.com/elnor/promptlab/internal/wall"
)

// exchange is one request with what is found out on its way.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	id     string
	who    caller
	status int
	begun  bool    // the answer's first byte has gone
	speaks dialect // nil: of completions
}

// failure gives the body of an error in the client's dialect.
func (x *exchange) failure(e *apiError) any {
	if x.speaks == nil {
		return completions{}.failure(e, x.id)
	}
	return x.speaks.failure(e, x.id)
}

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	x.status, x.begun = status, true
	x.w.WriteHeader(status)
}

// Header gives the answer's headers.
func (x *exchange) Header() http.Header { return x.w.Header() }

// Write sends a part of the answer.
func (x *exchange) Write(b []byte) (int, error) {
	if !x.begun {
		x.WriteHeader(http.StatusOK)
	}
	return x.w.Write(b)
}

// open serves what needs no credentials.
func (s *Server) open(route string, h func(*exchange) error) http.HandlerFunc {
	return s.handle(route, nil, h, func(*exchange) error { return nil })
}

// asking serves turns in a dialect.
func (s *Server) asking(route string, d dialect) http.HandlerFunc {
	return s.handle(route, d, s.turning(d), s.credentials)
}

// guarded serves what needs credentials.
func (s *Server) guarded(route string, h func(*exchange) error) http.HandlerFunc {
	return s.handle(route, nil, h, s.credentials)
}

func (s *Server) credentials(x *exchange) (err error) {
	if err := checkMedia(x.r); err != nil {
		return err
	}
	x.who, err = s.keys.authenticate(x.r.Context(), x.r)
	return err
}

// operator admits the operator alone.
func (s *Server) operator(x *exchange) error {
	return s.keys.only("operator", x.r)
}

// handle is the whole way of a request: the wall, the credentials, the answer
// and the line in the log. What is refused is told in d, nil for the plainest.
func (s *Server) handle(route string, d dialect, h, admit func(*exchange) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{w: w, speaks: d, id: wall.RequestID(r, s.cfg.NewID)}
		x.r = r.WithContext(problem.WithRequestID(r.Context(), x.id))
		began := time.Now()
		wall.SetHeaders(w.Header())
		w.Header().Set("X-Request-ID", x.id)
		w.Header().Set("Cache-Control", "no-store")
		err := s.guard(x, func() error {
			if _, err := s.wall.Check(r); err != nil {
				return err
			}
			if err := admit(x); err != nil {
				return err
			}
			return h(x)
		})
		if err != nil && !x.begun {
			if r.ContentLength != 0 {
				w.Header().Set("Connection", "close") // the body may not have been read
			}
			e := errorOf(err)
			e.write(x, x.failure(e))
		}
		s.log(x, route, err, time.Since(began))
		if err != nil && x.status < http.StatusBadRequest && x.r.Context().Err() == nil {
			panic(http.ErrAbortHandler) // an answer had begun: cut the connection, do not pretend it is whole
		}
	}
}

// guard turns a panic into an error.
func (s *Server) guard(x *exchange, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.ErrorContext(x.r.Context(), "panic", "request_id", x.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	return f()
}

func (s *Server) log(x *exchange, route string, err error, took time.Duration) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	s.meters.requests.WithLabelValues(route, strconv.Itoa(x.status/100)+"xx").Inc()
	s.meters.duration.WithLabelValues(route).Observe(took.Seconds())
	attrs := []slog.Attr{
		slog.String("route", route), slog.Int("status", x.status), slog.Float64("duration_ms", float64(took.Microseconds())/1000), slog.String("request_id", x.id),
	}
	level := slog.LevelInfo
	if err != nil {
		e := errorOf(err)
		attrs = append(attrs, slog.String("code", e.code))
		if e.status >= http.StatusInternalServerError {
			level = slog.LevelError
			var g *gateway.Error
			if errors.As(err, &g) { // made of our own words
				attrs = append(attrs, slog.String("cause", g.Error()))
			}
		}
	}
	s.cfg.Log.LogAttrs(x.r.Context(), level, "request", attrs...)
}

// checkMedia demands JSON of everything that writes.
func checkMedia(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	types := r.Header.Values("Content-Type")
	if len(types) != 1 || !wall.JSON(types[0]) || r.Header.Get("Content-Encoding") != "" {
		return &apiError{status: http.StatusUnsupportedMediaType, kind: kindRequest, code: "unsupported_media_type", message: "a body must be sent as Content-Type: application/json, not compressed"}
	}
	if r.ContentLength > maxBody {
		return tooLarge()
	}
	return nil
}

func tooLarge() *apiError {
	return &apiError{status: http.StatusRequestEntityTooLarge, kind: kindRequest, code: "payload_too_large", message: fmt.Sprintf("the body is larger than %d bytes", maxBody)}
}

func (x *exchange) body() ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge()
	case err != nil:
		return nil, &apiError{status: http.StatusBadRequest, kind: kindRequest, code: "body_incomplete", message: "the body could not be read to its end", err: err}
	}
	return b, nil
}

func (x *exchange) json(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	x.Header().Set("Content-Type", "application/json")
	_, _ = x.Write(append(b, '\n')) // the reader may be gone
	return nil
}

func (s *Server) health(x *exchange) error { return x.json(map[string]string{"status": "ok"}) }

// ready tells what works. Without EC turns are answered all the same, so that
// its absence is said and is no failure.
func (s *Server) ready(x *exchange) error {
	out := map[string]string{"status": "ok", "ec": "there"}
	if s.packets.sync(x.r.Context()) != nil {
		out["ec"] = "away: turns are answered without overlays"
	}
	if s.cfg.Ready != nil {
		why, ok := s.cfg.Ready(x.r.Context())
		if out["model"] = why; !ok {
			out["status"] = "not ready"
			x.Header().Set("Content-Type", "application/json")
			x.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	return x.json(out)
}

// modelObject is a model in the list that clients read.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Model   string `json:"model"` // the exact one behind the name
}

func (s *Server) list() []modelObject {
	out := []modelObject{}
	for _, t := range s.cfg.Models.Targets(gateway.RoleChat) {
		out = append(out, modelObject{ID: t.Name, Object: "model", OwnedBy: t.Provider, Model: t.Model})
	}
	return out
}

func (s *Server) models(x *exchange) error {
	return x.json(map[string]any{"object": "list", "data": s.list()})
}

func (s *Server) model(x *exchange) error {
	for _, m := range s.list() {
		if m.ID == x.r.PathValue("id") {
			return x.json(m)
		}
	}
	return s.noModel(x.r.PathValue("id"))
}

// target finds the model that a client means: by the name it is configured
// under, or exactly as the provider calls it. No name means the first one.
func (s *Server) target(name string) (gateway.Target, error) {
	list := s.cfg.Models.Targets(gateway.RoleChat)
	for _, t := range list {
		if name == "" || name == t.Name {
			return t, nil
		}
	}
	for _, t := range list {
		if name == t.Model {
			return t, nil
		}
	}
	return gateway.Target{}, s.noModel(name)
}

func (s *Server) noModel(string) error {
	names := ""
	for _, m := range s.list() {
		names += " " + m.ID
	}
	if names == "" {
		names = " none; give a model the route chat in config.yaml"
	}
	return &apiError{status: http.StatusNotFound, kind: kindRequest, code: "model_not_found", param: "model", message: "the model is not configured for chat; there are:" + names}
}

// place is what a turn takes up while it is answered.
type place struct {
	s     *Server
	bytes int64
}

// admit lets one more turn in, before its body is read, or says that there are
// too many. A body of unknown length counts as a long one until it is read.
func (s *Server) admit(length int64) (*place, error) {
	if length < 0 || length > maxBody {
		length = maxBody
	}
	full := &apiError{status: http.StatusServiceUnavailable, kind: kindServer, code: "too_many_turns", retry: 1, message: "too many turns are being answered; try again in a moment"}
	if !s.turns.TryAcquire(1) {
		return nil, full
	}
	if !s.bytes.TryAcquire(length) {
		s.turns.Release(1)
		return nil, full
	}
	return &place{s, length}, nil
}

// shrink gives back what a body turned out not to need.
func (p *place) shrink(bytes int64) {
	if bytes < p.bytes {
		p.s.bytes.Release(p.bytes - bytes)
		p.bytes = bytes
	}
}

func (p *place) leave() {
	p.s.bytes.Release(p.bytes)
	p.s.turns.Release(1)
}
