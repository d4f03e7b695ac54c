// Package loopback is the one address that a job's Python process may talk to.
// It speaks enough of the OpenAI protocol for meta prompts and adds two
// questions that only Go can answer: how good is this text (measure) and is it
// allowed (check).
//
// It deliberately does not know how texts are composed, scored or linted, nor
// which model answers; it guards the door. It listens on 127.0.0.1 alone, asks
// for its own Host and a token of 256 bits of which only the SHA-256 is kept,
// and is dead when the job is. After a failure that nothing can mend it latches:
// every later call gets the same answer and no provider is asked again.
package loopback

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/elnor/promptlab/gateway"
)

// Limits of the door.
const (
	MaxBody       = 4 << 20  // bytes of a request
	MaxText       = 64 << 10 // bytes of a text to measure or check
	MaxConcurrent = 16       // calls of one job that are worked on; more wait
	DefaultModel  = "meta"   // the model's name on this side of the door
)

// Score is the result of one example; a nil Score means unscored.
type Score struct {
	ExampleID string   `json:"example_id"`
	Score     *float64 `json:"score"`
	Feedback  string   `json:"feedback"`
}

// Violation is one reason why a text may not become a candidate.
type Violation struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Doer is the gateway.
type Doer interface {
	Do(ctx context.Context, req gateway.Request, budget gateway.Budget) (gateway.Response, error)
}

// Config is what a Server needs.
type Config struct {
	JobID      string
	Gateway    Doer
	Budget     gateway.Budget
	ExampleIDs []string // the only ids that may be measured
	Model      string   // name on this side of the door; empty: DefaultModel
	Route      string   // configured model for meta calls; empty: the route's first
	// PromptKey and PromptVersion go into the rows of meta calls.
	PromptKey, PromptVersion string
	Measure                  func(ctx context.Context, text string, exampleIDs []string) ([]Score, error)
	Check                    func(ctx context.Context, text string) []Violation
	Log                      *slog.Logger // nil: silent
}

// Door is what the process needs to come in. The token exists here only.
type Door struct {
	BaseURL string // http://127.0.0.1:PORT/v1
	Token   string
	Model   string
}

// Latch is the final answer of a door that gives no more.
type Latch struct {
	Status      int
	Code        string             // budget_exhausted, provider_terminal, policy_refused, cancelled
	Class       gateway.ErrorClass // what happened at the gateway
	FailureCode string             // worker failure code; empty for budget and cancel
}

// Stats counts what went through.
type Stats struct {
	Chats     int64 // meta calls that were answered
	Truncated int64 // of these, cut at the token cap
	Measured  int64 // scores that were given
	Checked   int64
	Refused   int64 // calls that got an error
}

// Server is a job's door.
type Server struct {
	c       Config
	log     *slog.Logger
	ln      net.Listener
	host    string
	token   [sha256.Size]byte
	ids     map[string]bool
	slots   *semaphore.Weighted
	handler http.Handler

	mu        sync.Mutex
	latch     *Latch
	latched   chan struct{}
	cancelled chan struct{} // closed by Cancel; ends every call in flight
	once      sync.Once
	dead      atomic.Bool // the token is worth nothing

	chats, truncated, measured, checked, refused atomic.Int64
}

// Open listens on a free port of 127.0.0.1 and makes the token. Requests are
// answered from Run on; until then they wait in the listener's queue.
func Open(c Config) (*Server, Door, error) {
	if c.Gateway == nil || c.Budget == nil || c.Measure == nil || c.Check == nil {
		return nil, Door{}, errors.New("open loopback: gateway, budget, measure and check are needed")
	}
	if c.Model == "" {
		c.Model = DefaultModel
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, Door{}, fmt.Errorf("open loopback: %w", err)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: it ends the program instead
	token := "pl-job-" + base64.RawURLEncoding.EncodeToString(secret[:])
	s := &Server{
		c: c, log: c.Log, ln: ln, host: ln.Addr().String(), token: sha256.Sum256([]byte(token)),
		ids: map[string]bool{}, slots: semaphore.NewWeighted(MaxConcurrent), latched: make(chan struct{}), cancelled: make(chan struct{}),
	}
	for _, id := range c.ExampleIDs {
		s.ids[id] = true
	}
	s.handler = s.routes()
	return s, Door{BaseURL: "http://" + s.host + "/v1", Token: token, Model: c.Model}, nil
}

// Run answers until ctx ends; then the token is dead, calls in flight are
// cancelled and waited for, and the port is closed. It must run for the
// listener to be released.
func (s *Server) Run(ctx context.Context) error {
	job, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		<-s.cancelled // at the latest by end, below
		cancel()
	}()
	defer func() { <-watched }()
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		// No ReadTimeout: its deadline would also end the context of a handler that
		// waits long for a model. The body has its own, see guard.go.
		IdleTimeout:    60 * time.Second,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return job },
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // its lines hold bytes of the client
	}
	served := make(chan error, 1) // one result, taken below
	go func() { served <- srv.Serve(s.ln) }()
	var err error
	select {
	case err = <-served: // the listener broke
		s.end()
	case <-ctx.Done():
		s.end()
		grace, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // nothing more can be done
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve loopback: %w", err)
		}
		return nil
	}
	_ = srv.Close() // the listener's error says more
	return fmt.Errorf("serve loopback: %w", err)
}

// end makes the token worthless and cancels what is running.
func (s *Server) end() {
	s.Cancel()
	s.dead.Store(true)
}

// Cancel latches with 409 "cancelled" and cancels the calls in flight; the door
// stays open so that the process can be told.
func (s *Server) Cancel() {
	s.close(Latch{Status: http.StatusConflict, Code: "cancelled", Class: gateway.ClassCallerGone})
	s.once.Do(func() { close(s.cancelled) })
}

// Latched is closed when the door latches.
func (s *Server) Latched() <-chan struct{} { return s.latched }

// Latch gives the final answer, if there is one.
func (s *Server) Latch() (Latch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latch == nil {
		return Latch{}, false
	}
	return *s.latch, true
}

// close latches; the first reason stays.
func (s *Server) close(l Latch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latch != nil {
		return
	}
	s.latch = &l
	close(s.latched)
	s.log.Info("loopback latched", "job", s.c.JobID, "code", l.Code, "class", l.Class)
}

// Stats gives the counts so far.
func (s *Server) Stats() Stats {
	return Stats{Chats: s.chats.Load(), Truncated: s.truncated.Load(), Measured: s.measured.Load(),
		Checked: s.checked.Load(), Refused: s.refused.Load()}
}
