package chat

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

const (
	maxWaiting = 10_000 // receipts and reports that wait for EC; more are lost and counted
	maxRows    = 10_000 // likewise, rows of model calls
	rowsAtOnce = 200
	beat       = 10 * time.Second       // EC takes us for gone after three of these
	firstBeat  = 200 * time.Millisecond // until EC was heard once
	rowsEvery  = 2 * time.Second
	lastTry    = 5 * time.Second
)

// Rows takes the gateway's rows until EC has them.
type Rows struct {
	mu   sync.Mutex
	rows []contracts.UsageRow
	more chan struct{}
}

// NewRows makes an empty one.
func NewRows() *Rows { return &Rows{more: make(chan struct{}, 1)} }

// Offer implements gateway.Rows.
func (r *Rows) Offer(a gateway.Attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) >= maxRows {
		return false
	}
	r.rows = append(r.rows, a.UsageRow())
	if len(r.rows) >= rowsAtOnce {
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
	return true
}

// first gives the oldest rows; they stay until done.
func (r *Rows) first() []contracts.UsageRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]contracts.UsageRow(nil), r.rows[:min(len(r.rows), rowsAtOnce)]...)
}

func (r *Rows) done(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append([]contracts.UsageRow(nil), r.rows[n:]...)
}

// word is something that EC is to hear: a receipt, or what happened to a session.
type word struct {
	truth  *contracts.OverlayRuntimeTruthSummary
	report *contracts.OverlaySessionEvent
}

// outbox delivers words in their order, and rows beside them.
type outbox struct {
	ledger  Ledger
	rows    *Rows
	timeout time.Duration
	log     *slog.Logger
	meters  meters
	wake    chan struct{}
	heard   chan struct{} // closed when EC has answered once

	mu      sync.Mutex
	waiting []word // the first one stays until it is delivered
}

func newOutbox(l Ledger, rows *Rows, timeout time.Duration, log *slog.Logger, m meters) *outbox {
	return &outbox{ledger: l, rows: rows, timeout: timeout, log: log, meters: m, wake: make(chan struct{}, 1), heard: make(chan struct{})}
}

// tell delivers words now, if nothing waits before them; else, or while EC is
// away, they wait. It says whether EC has them.
func (o *outbox) tell(ctx context.Context, words ...word) bool {
	o.mu.Lock()
	direct := len(o.waiting) == 0
	o.mu.Unlock()
	if direct {
		return o.now(context.WithoutCancel(ctx), words...) // the client may be gone
	}
	o.later(words...)
	return false
}

// now delivers words past what waits: the turn that they belong to depends on
// them. What cannot be delivered waits. It says whether EC has them all.
func (o *outbox) now(ctx context.Context, words ...word) bool {
	for len(words) > 0 && o.deliver(ctx, words[0]) {
		words = words[1:]
	}
	o.later(words...)
	return len(words) == 0
}

// later lets words wait.
func (o *outbox) later(words ...word) {
	if len(words) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	room := max(0, maxWaiting-len(o.waiting))
	if lost := len(words) - room; lost > 0 {
		o.meters.lost.Add(float64(lost))
		words = words[:room]
	}
	o.waiting = append(o.waiting, words...)
	o.meters.waiting.Set(float64(len(o.waiting)))
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// deliver says whether a word needs no further try: EC has it, or will never
// take it.
func (o *outbox) deliver(ctx context.Context, w word) bool {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var err error
	if w.truth != nil {
		err = o.ledger.Truth(ctx, *w.truth)
	} else {
		err = o.ledger.Report(ctx, *w.report)
	}
	switch {
	case err == nil:
		return true
	case isAway(err):
		return false
	}
	o.meters.refused.Inc()
	o.log.WarnContext(ctx, "receipt or report refused by ec", "code", fault.Code(err), "receipt", w.truth != nil)
	return true
}

// drain delivers what waits, in order, until something cannot be, and rows.
func (o *outbox) drain(ctx context.Context) {
	o.words(ctx)
	o.bill(ctx)
}

func (o *outbox) words(ctx context.Context) {
	for ctx.Err() == nil {
		o.mu.Lock()
		if len(o.waiting) == 0 {
			o.mu.Unlock()
			break
		}
		w := o.waiting[0]
		o.mu.Unlock()
		if !o.deliver(context.WithoutCancel(ctx), w) {
			break
		}
		o.mu.Lock()
		o.waiting = o.waiting[1:]
		o.meters.waiting.Set(float64(len(o.waiting)))
		o.mu.Unlock()
	}
}

// bill delivers rows. A row that EC will never take is dropped and counted.
func (o *outbox) bill(ctx context.Context) {
	for ctx.Err() == nil {
		rows := o.rows.first()
		if len(rows) == 0 {
			return
		}
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
		err := o.ledger.Usage(one, rows)
		cancel()
		if err != nil && isAway(err) {
			return
		}
		if err != nil {
			o.meters.refused.Inc()
			o.log.ErrorContext(ctx, "rows of model calls refused by ec", "code", fault.Code(err), "rows", len(rows))
		}
		o.rows.done(len(rows))
	}
}

// run delivers until ctx ends. beatEC keeps EC knowing that we are here.
func (o *outbox) run(ctx context.Context, beatEC func(context.Context) error) error {
	beats, rows := time.NewTicker(firstBeat), time.NewTicker(rowsEvery)
	defer beats.Stop()
	defer rows.Stop()
	heard := sync.OnceFunc(func() {
		beats.Reset(beat)
		close(o.heard)
	})
	look := func() {
		if beatEC(ctx) == nil {
			heard()
			o.drain(ctx)
		}
	}
	look() // at once: a start waits for it
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
			defer cancel()
			o.drain(last)
			o.farewell()
			return nil
		case <-beats.C:
			look()
		case <-o.wake:
			o.drain(ctx)
		case <-rows.C:
			o.drain(ctx)
		case <-o.rows.more:
			o.bill(ctx)
		}
	}
}

// farewell counts what could not be delivered before the end.
func (o *outbox) farewell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.waiting); n > 0 {
		o.meters.lost.Add(float64(n))
		o.log.Error("receipts lost: ec did not come back before the end", "count", n)
	}
	if n := len(o.rows.first()); n > 0 {
		o.log.Error("rows of model calls lost: ec did not come back before the end", "at_least", n)
	}
}
