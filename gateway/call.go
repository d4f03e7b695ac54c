package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// call is one logical call on its way through the chain.
type call struct {
	g      *Gateway
	gone   func() bool // whether the caller has left; its end is never retried
	req    Request
	budget Budget
	emit   func(Event) error // nil: the answer is wanted whole
	began  time.Time

	lanes    []*lane
	at       int // index of the lane in use
	tries    int // on that lane
	attempts int // made at a provider
	cost     int64
	unknown  bool          // some attempt's cost is a bound or a guess
	shown    bool          // a piece went to the consumer: nothing is tried again
	waited   time.Duration // at providers, in queues and in backoff

	fallbackFrom  string
	fallbackClass ErrorClass
}

func (c *call) lane() *lane { return c.lanes[c.at] }

// run repeats attempts until one answers or nothing more may be tried.
func (c *call) run(ctx context.Context) (Response, error) {
	total := methodTimeout(c.req.Role)
	if t := c.lane().TotalTimeout; t > 0 {
		total = min(total, t)
	}
	if r := c.lane().Reasoning; r.Latency > 0 && c.req.Reasoning != ReasoningOff {
		total = min(total, r.Latency)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, total, errTotalTimeout)
	defer cancel()
	for try := 1; ; try++ {
		resp, err := c.attempt(ctx)
		if err == nil {
			return resp, nil
		}
		err = c.finish(err)
		if try >= maxAttempts || c.shown || !c.again(ctx, err) {
			return Response{}, err
		}
	}
}

// finish completes an error with what only the chain knows.
func (c *call) finish(err *Error) *Error {
	e := *err
	e.Target, e.Attempts, e.Committed = c.lane().Name, c.attempts, c.shown
	if c.gone() {
		e.Class = ClassCallerGone
	}
	return &e
}

func (c *call) hasFallback() bool { return c.at+1 < len(c.lanes) }

// again decides whether there is a next attempt, moves to its target and waits
// for it.
func (c *call) again(ctx context.Context, err *Error) bool {
	var wait time.Duration
	switch {
	case ctx.Err() != nil:
		return false
	case err.Class.Retryable() && !err.Final && err.RetryAfter <= maxRetryAfter && (c.tries < 2 || !c.hasFallback()):
		ceiling := min(backoffCap, backoffBase<<max(0, c.attempts-1))
		wait = max(time.Duration(c.g.rand()*float64(ceiling)), err.RetryAfter)
		c.g.metrics.retries.WithLabelValues(c.lane().Provider, c.lane().Name, string(err.Class)).Inc()
	case err.Class.FallsBack() && c.hasFallback():
		from := c.lane().Name
		c.at, c.tries = c.at+1, 0
		c.fallbackFrom, c.fallbackClass = from, err.Class
		c.g.metrics.fallbacks.WithLabelValues(from, c.lane().Name, string(err.Class)).Inc()
	default:
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false // the wait alone would use up what is left
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	c.waited += wait
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one attempt: policy, turn, breaker, money, provider, bill, row.
func (c *call) attempt(ctx context.Context) (Response, *Error) {
	l := c.lane()
	req, adjusted, refusal := c.policy(ctx, l)
	if refusal != nil {
		c.g.metrics.refused(l.Target, req.Role, refusal.Class)
		return Response{}, refusal
	}
	queued := time.Now()
	release, refusal := c.turn(ctx, l)
	if refusal != nil {
		c.g.metrics.refused(l.Target, req.Role, refusal.Class)
		return Response{}, refusal
	}
	defer release()
	queueWait := time.Since(queued)
	c.waited += queueWait
	c.g.metrics.waited(l.Target, queueWait)

	key, refusal := c.key(l)
	if refusal != nil {
		c.g.metrics.refused(l.Target, req.Role, refusal.Class)
		return Response{}, refusal
	}
	report, err := l.breaker.Allow()
	if err != nil {
		c.g.metrics.refused(l.Target, req.Role, ClassBreakerOpen)
		return Response{}, &Error{Class: ClassBreakerOpen}
	}
	bound := l.bound(req)
	asked := time.Now()
	hold, err := c.budget.Reserve(ctx, bound)
	c.waited += time.Since(asked)
	if err != nil {
		refusal := c.refusal(err)
		report(refusal)
		c.g.metrics.refused(l.Target, req.Role, refusal.Class)
		return Response{}, refusal
	}
	row := c.row(l, req, adjusted)
	row.QueueWait, row.HoldNanoUSD = queueWait, bound
	reply, failure := c.send(ctx, l, Call{Target: l.Target, Key: key, Request: req}, &row)
	report(asError(failure))
	c.bill(l, hold, bound, reply, failure, &row)
	if failure != nil {
		return Response{}, failure
	}
	return c.response(l, reply, row.Malformed), nil
}

// refusal makes a budget's error ours. Its wait may have been ended by our own
// total timeout, which is not the caller's doing.
func (c *call) refusal(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Class: ClassSaturated, Reason: "budget_unavailable"}
	}
	if e.Class == ClassCallerGone && !c.gone() {
		return &Error{Class: ClassSaturated, Reason: "no_money_in_time"}
	}
	return e
}

// turn waits for a slot and for the rate, as long as the call may take.
func (c *call) turn(ctx context.Context, l *lane) (release func(), refusal *Error) {
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return nil, &Error{Class: ClassSaturated, Reason: "concurrency"}
	}
	// Wait refuses at once when the turn would come after the deadline.
	if err := l.limiter.Wait(ctx); err != nil {
		l.slots.Release(1)
		return nil, &Error{Class: ClassSaturated, Reason: "rate"}
	}
	return func() { l.slots.Release(1) }, nil
}

func (c *call) key(l *lane) (Secret, *Error) {
	if l.KeyName == "" {
		return "", nil
	}
	key, err := c.g.keys(l.KeyName)
	if err != nil || key == "" {
		return "", &Error{Class: ClassAuth, Reason: "key_missing"}
	}
	return Secret(key), nil
}

// bill settles the hold and writes the row. Told usage is booked as told; a
// refusal costs nothing; everything else costs the bound, because it may have.
func (c *call) bill(l *lane, hold Hold, bound int64, reply Reply, failure *Error, row *Attempt) {
	u := reply.Usage
	switch {
	case u.Known && l.Price.Known:
		row.CostNanoUSD, row.CostKnown = l.Price.Cost(u), true
	case failure != nil && failure.NotBilled:
		row.CostKnown = true
	default:
		row.CostNanoUSD, row.CostKnown = bound, l.Price.Free()
	}
	row.OverrunNanoUSD = max(0, row.CostNanoUSD-bound)
	hold.Settle(row.CostNanoUSD)
	c.cost = add(c.cost, row.CostNanoUSD)
	c.unknown = c.unknown || !row.CostKnown

	row.Usage, row.Finish = u, reply.Finish
	row.Malformed = failure == nil && malformed(c.req, reply)
	row.ToolCalls = len(reply.ToolCalls)
	row.ServedModel = CleanServed(reply.ServedModel)
	row.ProviderRequestID = CleanRequestID(reply.ProviderRequestID)
	if failure != nil {
		row.Class, row.Reason, row.Status, row.ProviderCode = failure.Class, failure.Reason, failure.Status, failure.ProviderCode
		if row.ProviderRequestID == "" {
			row.ProviderRequestID = failure.RequestID
		}
	}
	c.g.metrics.row(*row)
	if !c.g.rows.Offer(*row) {
		c.g.metrics.rowsLost.Inc()
	}
}

func (c *call) row(l *lane, req Request, adjusted []string) Attempt {
	return Attempt{
		RequestID: req.RequestID, JobID: req.JobID, Workspace: req.Workspace, Role: req.Role, Feature: req.Feature,
		PromptKey: req.PromptKey, PromptVersion: req.PromptVersion, SchemaID: c.req.Schema.name(), RequestDigest: digest(l.Target, req, c.req.Schema),
		Target: l.Name, Provider: l.Provider, Protocol: l.Protocol, Model: l.Model, Fingerprint: l.Fingerprint,
		Simulated: l.Protocol == ProtocolSimulator, Adjusted: adjusted, Streamed: c.emit != nil, Reasoning: req.Reasoning,
		FallbackFrom: c.fallbackFrom, FallbackClass: c.fallbackClass,
	}
}

func (c *call) response(l *lane, r Reply, malformed bool) Response {
	return Response{
		Text: r.Text, Reasoning: r.Reasoning, Refusal: r.Refusal, ToolCalls: r.ToolCalls, State: r.State, Finish: r.Finish, Malformed: malformed, Usage: r.Usage,
		RequestID: c.req.RequestID, Target: l.Name, Provider: l.Provider, Model: l.Model, ServedModel: CleanServed(r.ServedModel),
		ProviderRequestID: CleanRequestID(r.ProviderRequestID), Simulated: l.Protocol == ProtocolSimulator,
		Attempts: c.attempts, Cost: c.cost, CostKnown: !c.unknown,
	}
}

// asError keeps a nil *Error a nil error.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

func modelField(i int, name string) string { return fmt.Sprintf("models[%d].%s", i, name) }
