package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/elnor/promptlab/internal/fault"
)

// The bounds of one logical call.
const (
	maxAttempts   = 3
	maxFallbacks  = 1
	maxRetryAfter = 60 * time.Second // a longer wait is not waited for
	backoffBase   = 500 * time.Millisecond
	backoffCap    = 20 * time.Second
)

// Config is what a Gateway needs.
type Config struct {
	Models   []ModelConfig
	Adapters map[Protocol]Adapter
	Keys     KeyFunc
	Rows     Rows                  // nil: rows go nowhere
	Metrics  prometheus.Registerer // nil: not exported
	Log      *slog.Logger          // nil: silent
	Rand     func() float64        // in [0,1), for jitter; nil: random
	NewID    func() string         // request ids; nil: random

	// Active tells whether a version of a model, named by its fingerprint, may
	// answer; nil: each one. It may wait for the answer until ctx ends.
	Active func(ctx context.Context, name, fingerprint string) bool

	// Patience changes the limits of an attempt and of a stream's silence; nil: as
	// configured. Tests over real connections, which no test clock moves, shorten
	// them by it.
	Patience func(time.Duration) time.Duration
}

// Gateway sends calls to models. It is safe for concurrent use and owns no
// goroutine.
type Gateway struct {
	lanes   []*lane // in the order of the configuration
	keys    KeyFunc
	rows    Rows
	metrics *Metrics
	log     *slog.Logger
	rand    func() float64
	newID   func() string
	active  func(ctx context.Context, name, fingerprint string) bool
}

// lane is a target with what guards it.
type lane struct {
	Target
	adapter Adapter
	slots   *semaphore.Weighted
	limiter *rate.Limiter
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// New validates the models; the fault names every bad key.
func New(c Config) (*Gateway, error) {
	targets, err := Targets(c.Models)
	var bad []fault.Detail
	if err != nil {
		var f *fault.Error
		if !errors.As(err, &f) {
			return nil, err
		}
		bad = f.Details
	}
	g := &Gateway{
		keys: c.Keys, rows: c.Rows, log: c.Log, rand: c.Rand, newID: c.NewID, active: c.Active,
		metrics: NewMetrics(c.Metrics),
	}
	if g.rows == nil {
		g.rows = RowFunc(func(Attempt) bool { return true })
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.rand == nil {
		g.rand = mathrand.Float64
	}
	if g.newID == nil {
		g.newID = randomID
	}
	if g.active == nil {
		g.active = func(context.Context, string, string) bool { return true }
	}
	if g.keys == nil {
		g.keys = func(string) (string, error) { return "", errors.New("no keys") }
	}
	known := Protocols()
	for i, m := range c.Models {
		if c.Adapters[m.Protocol] == nil && slices.Contains(known, m.Protocol) {
			bad = append(bad, fault.Detail{Field: modelField(i, "protocol"), Rule: "unavailable",
				Message: "this program was built or started without it"})
		}
	}
	if len(bad) > 0 {
		return nil, fault.Validation(bad)
	}
	for _, t := range targets {
		if c.Patience != nil {
			t = t.hurried(c.Patience)
		}
		g.lanes = append(g.lanes, g.newLane(t, c.Adapters[t.Protocol]))
	}
	return g, nil
}

func (g *Gateway) newLane(t Target, a Adapter) *lane {
	l := &lane{
		Target: t, adapter: a,
		slots:   semaphore.NewWeighted(int64(t.Concurrency)),
		limiter: rate.NewLimiter(rate.Inf, 0),
	}
	if t.PerMinute > 0 {
		l.limiter = rate.NewLimiter(rate.Limit(float64(t.PerMinute)/60), max(1, t.PerMinute/60))
	}
	state := g.metrics.breaker.WithLabelValues(t.Name)
	l.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         t.Name,
		Interval:     30 * time.Second,
		BucketPeriod: 3 * time.Second,
		Timeout:      30 * time.Second,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			// Not n.Requests: it holds calls in flight and excluded ones as well.
			told := n.TotalSuccesses + n.TotalFailures
			return told >= 10 && 2*n.TotalFailures >= told
		},
		// Only load and transport say something about the target's health; a bad
		// request does not, and a caller who leaves says nothing at all.
		IsSuccessful: func(err error) bool { return err == nil || !ClassOf(err).Trips() },
		IsExcluded:   func(err error) bool { return silent(ClassOf(err)) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			state.Set(float64(to))
			g.log.Info("breaker changed", "target", t.Name, "state", to.String())
		},
	})
	return l
}

// silent tells whether a failure says nothing about the target's health.
func silent(c ErrorClass) bool {
	switch c {
	case ClassCallerGone, ClassJobBudget, ClassSaturated:
		return true
	default:
		return false
	}
}

// Target gives the target that a request of this role and model name would go
// to first.
func (g *Gateway) Target(role Role, model string) (Target, error) {
	lanes, err := g.route(Request{Role: role, Model: model})
	if err != nil {
		return Target{}, err
	}
	return lanes[0].Target, nil
}

// Targets gives the targets that serve a role, in the order of the configuration.
func (g *Gateway) Targets(role Role) []Target {
	var out []Target
	for _, l := range g.lanes {
		if slices.Contains(l.Routes, role) {
			out = append(out, l.Target)
		}
	}
	return out
}

// route gives the target of a request and, where a fallback is allowed, the one
// behind it. A model that the caller named is never swapped for another, and a
// judge's or an example's answer by another model would void the comparison.
func (g *Gateway) route(req Request) ([]*lane, error) {
	var lanes []*lane
	for _, l := range g.lanes {
		if slices.Contains(l.Routes, req.Role) && (req.Model == "" || req.Model == l.Name) {
			lanes = append(lanes, l)
		}
	}
	if len(lanes) == 0 {
		return nil, &Error{Class: ClassPolicy, Reason: "no_model_for_route"}
	}
	if req.Role == RoleJudge || req.Role == RoleTask {
		return lanes[:1], nil
	}
	// Only targets of the same protocol stand in for each other: wire formats do
	// not mix, and nobody is answered by the simulator who asked a model.
	first := lanes[0].Protocol
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return l.Protocol != first })
	return lanes[:min(len(lanes), 1+maxFallbacks)], nil
}

// methodTimeout is the longest that a whole call of a role may take.
func methodTimeout(r Role) time.Duration {
	switch r {
	case RoleRewrite, RoleJudge:
		return 90 * time.Second
	case RoleMeta:
		return 4 * time.Minute
	case RoleCritic:
		return 3 * time.Minute
	case RoleChat: // a person watches; silence has limits of its own
		return 10 * time.Minute
	default: // task
		return 2 * time.Minute
	}
}

// Do makes one logical call: at most three attempts, at most one fallback. The
// error is always an *Error.
func (g *Gateway) Do(ctx context.Context, req Request, budget Budget) (Response, error) {
	return g.make(ctx, req, budget, nil)
}

// Stream is Do with the answer piece by piece; the Response holds the whole.
// emit is called from the calling goroutine, one event at a time, and may block:
// the clock of silent providers stands still meanwhile. It should give up when
// ctx ends. With the first event the answer is committed: whatever happens then
// ends the call, nothing is retried. An error of emit means that the consumer is
// gone and ends the call at the provider too. When Stream returns, nothing of
// the call is left running.
func (g *Gateway) Stream(ctx context.Context, req Request, budget Budget, emit func(Event) error) (Response, error) {
	if emit == nil {
		emit = func(Event) error { return nil }
	}
	return g.make(ctx, req, budget, emit)
}

func (g *Gateway) make(ctx context.Context, req Request, budget Budget, emit func(Event) error) (Response, error) {
	began := time.Now()
	if req.RequestID == "" {
		req.RequestID = g.newID()
	}
	lanes, err := g.route(req)
	if err != nil {
		g.log.InfoContext(ctx, "model call refused", "request_id", req.RequestID, "job", req.JobID, "role", req.Role, "class", ClassPolicy)
		return Response{}, err
	}
	c := &call{g: g, gone: func() bool { return ctx.Err() != nil }, req: req, budget: budget, emit: emit, began: began, lanes: g.usable(ctx, lanes)}
	resp, err := c.run(ctx)
	g.metrics.overhead.Observe((time.Since(began) - c.waited).Seconds())
	g.log.DebugContext(ctx, "model call", "request_id", req.RequestID, "job", req.JobID, "role", req.Role,
		"target", c.lane().Name, "class", ClassOf(err), "attempts", c.attempts, "cost_nano_usd", c.cost,
		"finish", resp.Finish, "streamed", emit != nil, "duration", time.Since(began))
	return resp, err
}

// usable leaves out fallbacks that would be refused. The first target stays: who
// asked for it is told so, and is not answered by another.
func (g *Gateway) usable(ctx context.Context, lanes []*lane) []*lane {
	behind := slices.DeleteFunc(slices.Clone(lanes[1:]), func(l *lane) bool { return !g.active(ctx, l.Name, l.Fingerprint) })
	return append(lanes[:1:1], behind...)
}

func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return "req-" + hex.EncodeToString(b[:])
}
