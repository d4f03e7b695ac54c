// Package dispatch brings waiting tasks to workers and notices when they do not
// come back. The truth about a task is in EC; Redis is transport that may be
// slow, empty or gone at any moment. The Dispatcher fills it from EC's view and
// takes deliveries back that the broker has lost or whose worker has fallen
// silent; the Door is the workers' way to EC. A delivery is fenced by its number
// and token in EC, so every duplicate is harmless.
//
// The package deliberately does not know what a task is about: it never looks
// into a request or a result.
package dispatch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch/queue"
	"github.com/elnor/promptlab/internal/fault"
)

// Service is the domain with news of its changes.
type Service interface {
	ec.Service
	// Changed gives a channel that is closed when the view that was current at
	// the call has been replaced.
	Changed() <-chan struct{}
}

// Config is what a Dispatcher needs.
type Config struct {
	EC      Service
	Door    *Door // knows the leases
	Redis   asynq.RedisConnOpt
	Log     *slog.Logger          // nil: silent
	Metrics prometheus.Registerer // nil: not exported

	Tick   time.Duration // how often the broker is compared with EC; 0: 5 s
	Cap    int           // most deliveries under way at once; 0: 1,000
	Grace  time.Duration // how long a sent message may be unknown to the broker; 0: 15 s
	Active time.Duration // how long a picked-up message may stay unclaimed; 0: 60 s
	Limit  time.Duration // longest that a worker may keep a message; 0: 45 min
}

// Dispatcher is the outbox and the reconciler.
type Dispatcher struct {
	c       Config
	link    *link
	metrics *metrics

	// of Run's goroutine alone
	up      bool                               // the broker answered last time
	looked  time.Time                          // when it was asked last
	told    bool                               // an outage has been reported
	outbox  map[contracts.UUID]outgoing        // recorded as sent, not yet in the broker
	missing map[string]time.Time               // message id -> since when it is out of place
	refused map[contracts.UUID]refusedDispatch // EC did not want it handed out; not asked again at once
}

type outgoing struct {
	kind contracts.TaskKind
	msg  contracts.TaskMessage
}

type refusedDispatch struct{ until time.Time }

// New makes a Dispatcher; Run makes it work.
func New(c Config) (*Dispatcher, error) {
	def(&c.Tick, 5*time.Second)
	def(&c.Grace, 15*time.Second)
	def(&c.Active, time.Minute)
	def(&c.Limit, 45*time.Minute)
	if c.Cap <= 0 {
		c.Cap = 1000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	l, err := newLink(c.Redis)
	if err != nil {
		return nil, err
	}
	return &Dispatcher{
		c: c, link: l, metrics: newMetrics(c.Metrics),
		outbox: map[contracts.UUID]outgoing{}, missing: map[string]time.Time{}, refused: map[contracts.UUID]refusedDispatch{},
	}, nil
}

func def(d *time.Duration, otherwise time.Duration) {
	if *d <= 0 {
		*d = otherwise
	}
}

// pause is the least time between two looks at the view: a busy EC changes it
// thousands of times a second.
const pause = 20 * time.Millisecond

// again is how often a broker that is away is asked.
func (d *Dispatcher) again() time.Duration { return min(d.c.Tick, time.Second) }

// Run works until ctx ends. An unreachable broker is waited for and never ends
// it.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer func() { _ = d.link.close() }()
	tick := time.NewTicker(d.c.Tick)
	defer tick.Stop()
	compare := true // the first look compares with the broker too
	for {
		changed := d.c.EC.Changed() // before the view is read: no change is missed
		next := d.pass(ctx, compare)
		compare = false
		if !rest(ctx, pause) {
			return nil
		}
		wake := time.NewTimer(max(0, min(time.Until(next), d.c.Tick)))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-wake.C:
		case <-tick.C:
			compare = true
		}
		wake.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// rest waits; false means that ctx ended.
func rest(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pass looks at every open task once and gives the time of the next one that is
// due by the clock.
func (d *Dispatcher) pass(ctx context.Context, compare bool) (next time.Time) {
	now := time.Now()
	next = now.Add(d.c.Tick)
	fresh := false
	if compare || !d.up && now.Sub(d.looked) >= d.again() {
		fresh = d.look(ctx)
		d.looked = time.Now()
	}
	if !d.up {
		next = earlier(next, d.looked.Add(d.again()))
	}
	known, compare := d.known(ctx, compare || fresh)
	var due []ec.OpenTask
	underWay := 0
	open := map[contracts.UUID]int{}
	for _, t := range d.c.EC.View().OpenTasks() {
		open[t.Task.ID] = t.Task.Dispatch
		switch t.Task.Stage {
		case ec.StageWaiting:
			if at := t.Task.NotBefore.Time; at.After(now) {
				next = earlier(next, at)
			} else {
				due = append(due, t)
			}
		case ec.StageSent:
			underWay++
			if d.up {
				d.sent(ctx, t, now, known, compare, fresh)
			}
		case ec.StageClaimed:
			underWay++
			lapse := d.c.Door.lapse(t.Task, now)
			if now.Before(lapse) {
				next = earlier(next, lapse)
			} else {
				d.lose(ctx, t, "its worker fell silent")
			}
		}
	}
	d.forget(open)
	d.c.Door.sweep(open)
	if d.up && len(d.outbox) == 0 && ctx.Err() == nil { // what is recorded already goes first
		underWay += d.dispatch(ctx, due, d.c.Cap-underWay, now)
	}
	d.metrics.underWay.Set(float64(underWay))
	d.metrics.waiting.Set(float64(len(due)))
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// look asks the broker whether it is there.
func (d *Dispatcher) look(ctx context.Context) (fresh bool) {
	fresh, err := d.link.check(ctx)
	if err != nil {
		d.away(ctx, err)
		return false
	}
	d.up = true
	d.metrics.up.Set(1)
	d.back(ctx)
	if fresh {
		d.c.Log.InfoContext(ctx, "broker is new or empty; comparing all deliveries")
	}
	return fresh
}

// back notes the end of an outage. A broker that answers and takes no messages,
// because it is full, is not back.
func (d *Dispatcher) back(ctx context.Context) {
	if d.told && len(d.outbox) == 0 {
		d.told = false
		d.c.Log.InfoContext(ctx, "broker is back")
	}
}

// known gives the messages that wait in the broker, when they are to be
// compared; compare is false when they are not or the broker does not answer.
func (d *Dispatcher) known(ctx context.Context, wanted bool) (ids map[string]bool, compare bool) {
	if !wanted || !d.up {
		return nil, false
	}
	ids, err := d.link.pending(ctx)
	if err != nil {
		d.away(ctx, err)
		return nil, false
	}
	return ids, true
}

// away notes that the broker did not answer; an outage is told once.
func (d *Dispatcher) away(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	d.up = false
	d.metrics.up.Set(0)
	if !d.told {
		d.told = true
		d.c.Log.WarnContext(ctx, "broker is away", "error", err)
	}
}

// sent handles a delivery that nobody has claimed yet: it is put into the
// broker if that failed before, and taken back if the broker has lost it.
func (d *Dispatcher) sent(ctx context.Context, t ec.OpenTask, now time.Time, known map[string]bool, compare, fresh bool) {
	if out, ok := d.outbox[t.Task.ID]; ok && out.msg.Dispatch == t.Task.Dispatch {
		d.enqueue(ctx, []*delivery{{OpenTask: t, out: out}})
		return
	}
	if !compare {
		return
	}
	id := queue.MessageID(t.Task.ID, t.Task.Dispatch)
	where := waiting
	if !known[id] {
		found, err := d.link.find(ctx, id)
		if err != nil {
			d.away(ctx, err) // the rest of this pass does not wait for it
			return
		}
		where = found
	}
	if where == waiting {
		delete(d.missing, id)
		return
	}
	since, seen := d.missing[id]
	if !seen {
		since = now
		d.missing[id] = now
	}
	switch out := now.Sub(since); {
	case where == nowhere && (fresh || out >= d.c.Grace):
		d.lose(ctx, t, "the broker has lost it")
	case where == over && out >= d.c.Grace:
		d.lose(ctx, t, "its message ended without a claim")
	case where == active && out >= d.c.Active:
		d.lose(ctx, t, "it was picked up and never claimed")
	}
}

// lose takes a delivery back.
func (d *Dispatcher) lose(ctx context.Context, t ec.OpenTask, why string) {
	_, err := d.c.EC.Do(ctx, command(ec.LoseTask{JobID: t.JobID, Dispatch: t.Task.Dispatch, Why: why}))
	if err != nil {
		d.refusal(ctx, t, "take a delivery back", err)
		return
	}
	d.metrics.lost.WithLabelValues(why).Inc()
	d.c.Log.WarnContext(ctx, "delivery lost", "job", t.JobID, "task", t.Task.ID, "dispatch", t.Task.Dispatch, "why", why)
}

func (d *Dispatcher) refusal(ctx context.Context, t ec.OpenTask, what string, err error) {
	if ctx.Err() == nil && fault.Of(err) != fault.Conflict { // a conflict: the task moved on meanwhile
		d.c.Log.ErrorContext(ctx, "command refused", "wanted", what, "job", t.JobID, "task", t.Task.ID, "error", err)
	}
}

// forget drops what is remembered about deliveries that are over.
func (d *Dispatcher) forget(open map[contracts.UUID]int) {
	for task, out := range d.outbox {
		if n, ok := open[task]; !ok || n != out.msg.Dispatch {
			delete(d.outbox, task)
		}
	}
	for task := range d.refused {
		if _, ok := open[task]; !ok {
			delete(d.refused, task)
		}
	}
	if len(d.missing) == 0 {
		return
	}
	current := make(map[string]bool, len(open))
	for task, n := range open {
		current[queue.MessageID(task, n)] = true
	}
	for id := range d.missing {
		if !current[id] {
			delete(d.missing, id)
		}
	}
}

// command makes a command of the system itself.
func command(b ec.Body) ec.Command {
	return ec.Command{
		ID: uuid.NewString(), Actor: ec.Actor{Role: ec.RoleSystem, Name: "dispatch"},
		At: contracts.At(time.Now()), Body: b,
	}
}

// newToken gives 256 bits in hex.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}
