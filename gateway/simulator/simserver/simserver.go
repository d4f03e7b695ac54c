// Package simserver is an OpenAI-compatible server in front of a simulated
// world, for tests only: its answers carry no mark of simulation, so that what
// comes after a real model can be tested end to end. With prices in the model's
// configuration it is a priced provider that costs nothing.
//
// It deliberately does not know prices, budgets or jobs. Faults are scripted by
// call number, and every request is recorded.
package simserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator"
)

// Fault is something that goes wrong in one call. The zero value is none.
type Fault struct {
	Status     int           // answer with this status and an OpenAI error object
	Code       string        // its code; empty: the usual one of the status
	RetryAfter string        // header of that answer
	Body       string        // with Status: this body instead of the error object
	Delay      time.Duration // before anything else
	Hang       bool          // never answer; ends when the client leaves
	Truncate   bool          // half of the text, finish_reason "length"
	BadJSON    bool          // status 200 and a body that is cut; of a stream, in the middle of an event
	ErrorIn200 bool          // status 200 and an error object; in a stream, after the first words
	NoUsage    bool          // an answer without usage
	Stall      bool          // a stream that says nothing more after its first words; ends when the client leaves
}

// Config is what a Server needs.
type Config struct {
	World  *simulator.World
	Model  string  // the served model's name; empty: "local-model"
	Key    string  // required bearer token; empty: none is asked for
	Faults []Fault // of the first calls, in order
	Always Fault   // of every later call
}

// Request is one recorded request.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server is the handler. It is safe for concurrent use.
type Server struct {
	c Config

	mu       sync.Mutex
	requests []Request
	gone     int
	changed  chan struct{}
}

// New makes a server.
func New(c Config) *Server {
	if c.Model == "" {
		c.Model = "local-model"
	}
	return &Server{c: c, changed: make(chan struct{})}
}

// Calls gives the number of completion requests so far, refused ones included.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// Requests gives what was received so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Gone gives how many clients left while a call hung.
func (s *Server) Gone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// Await returns when n completion requests have arrived and m of them were
// given up by their client, or with the context's error.
func (s *Server) Await(ctx context.Context, n, m int) error {
	for {
		s.mu.Lock()
		ok, changed := len(s.requests) >= n && s.gone >= m, s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP answers POST .../chat/completions and GET .../models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.complete(w, r)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		send(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": s.c.Model, "object": "model"}}})
	default:
		fail(w, http.StatusNotFound, "not_found")
	}
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		fail(w, http.StatusBadRequest, "unreadable")
		return
	}
	var n int
	s.change(func() {
		n = len(s.requests)
		s.requests = append(s.requests, Request{Path: r.URL.Path, Header: r.Header.Clone(), Body: body})
	})
	f := s.c.Always
	if n < len(s.c.Faults) {
		f = s.c.Faults[n]
	}
	if s.c.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.c.Key {
		fail(w, http.StatusUnauthorized, "invalid_api_key")
		return
	}
	if f.Hang {
		<-r.Context().Done()
		s.change(func() { s.gone++ })
		return
	}
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			s.change(func() { s.gone++ })
			return
		}
	}
	if f.Status != 0 {
		failAs(w, f)
		return
	}
	s.answer(w, r, body, f)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte, f Fault) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil || len(req.Messages) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request")
		return
	}
	a := s.c.World.Answer(req.messages(), simulator.Params{MaxTokens: max(req.MaxTokens, req.MaxCompletionTokens), Seed: req.Seed})
	if f.Truncate {
		a.Text, a.Finish = strings.ToValidUTF8(a.Text[:len(a.Text)/2], ""), gateway.FinishLength
		a.Usage.Output = int64(len(a.Text)+3) / 4
	}
	if req.Stream {
		s.stream(w, r, a, f, req.StreamOptions.IncludeUsage)
		return
	}
	out := map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(s.Calls()), "object": "chat.completion", "created": 0, "model": s.c.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": string(a.Finish),
			"message": map[string]any{"role": "assistant", "content": a.Text}}},
		"usage": usage(a),
	}
	switch {
	case f.ErrorIn200:
		send(w, http.StatusOK, errorBody("server_error"))
		return
	case f.BadJSON:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","choices":[{"message":{"con`) // the client is gone at worst
		return
	case f.NoUsage:
		delete(out, "usage")
	}
	send(w, http.StatusOK, out)
}

func usage(a simulator.Answer) map[string]any {
	return map[string]any{"prompt_tokens": a.Usage.Input, "completion_tokens": a.Usage.Output,
		"total_tokens": a.Usage.Input + a.Usage.Output}
}

func failAs(w http.ResponseWriter, f Fault) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if f.Body != "" {
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body) // the client is gone at worst
		return
	}
	code := f.Code
	if code == "" {
		code = map[int]string{401: "invalid_api_key", 402: "insufficient_quota", 403: "permission_denied",
			404: "model_not_found", 429: "rate_limit_exceeded", 500: "server_error", 503: "overloaded"}[f.Status]
	}
	fail(w, f.Status, code)
}

func fail(w http.ResponseWriter, status int, code string) { send(w, status, errorBody(code)) }

func errorBody(code string) map[string]any {
	return map[string]any{"error": map[string]any{"message": fmt.Sprintf("The request failed (%s).", code), "type": code, "code": code}}
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone at worst
}
