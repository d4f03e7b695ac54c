package gateway

import (
	"context"
	"sync"
)

// Budget decides whether a call may be sent. Amounts are nanoUSD.
type Budget interface {
	// Reserve sets bound aside or refuses with an Error of class job_budget
	// (nothing left), saturated (no money lent just now) or caller_gone. It may
	// wait for other calls to settle. A bound of 0 is always granted.
	Reserve(ctx context.Context, bound int64) (Hold, error)
}

// Hold is money set aside for one attempt.
type Hold interface {
	// Settle books what the attempt cost and gives the rest back; the first
	// call counts. Unknown cost is settled with the whole bound.
	Settle(actual int64)
}

// Lender hands out slices of a durable budget. What was granted is spent as far
// as the lender is concerned, whatever happens to the borrower, so a restarted
// worker continues the old budget. granted below the wish means that there is
// no more. An error means "not now" and is not remembered.
type Lender interface {
	Borrow(ctx context.Context, nanoUSD int64) (granted int64, err error)
}

// Unlimited is the budget of calls that nobody pays for by the job, such as a
// person's rewrite. It must be asked for by name: no budget is not this.
func Unlimited() Budget { return unlimited{} }

type unlimited struct{}

func (unlimited) Reserve(context.Context, int64) (Hold, error) { return unlimited{}, nil }
func (unlimited) Settle(int64)                                 {}

// NoMoney is the budget 0: only calls that cost nothing.
func NoMoney() Budget { return NewPurse(PurseConfig{}) }

// maxAmount keeps sums of amounts far from the end of an int64.
const maxAmount int64 = 1 << 60

// PurseConfig is what a Purse needs.
type PurseConfig struct {
	Lender Lender // nil: there is no money
	Slice  int64  // least amount borrowed at once, nanoUSD; 0: eight times the call's bound
}

// Purse is a job's budget inside one process: it borrows slices before it
// spends, holds the bound of every call in flight, and never promises more than
// it was granted.
type Purse struct {
	lender Lender
	slice  int64

	mu        sync.Mutex
	granted   int64
	spent     int64 // settled
	held      int64
	open      int  // holds with money in them
	borrowing bool // one loan at a time
	dry       bool // the lender has no more
	exhausted bool // latched: no paid call any more
	closed    bool
	changed   chan struct{} // closed and replaced when anything above moves
}

// NewPurse makes an empty purse; the first paid call borrows.
func NewPurse(c PurseConfig) *Purse {
	return &Purse{lender: c.Lender, slice: c.Slice, dry: c.Lender == nil, changed: make(chan struct{})}
}

// PurseState is a snapshot, in nanoUSD.
type PurseState struct {
	Granted, Spent, Held int64
	Exhausted            bool
}

// State gives a snapshot.
func (p *Purse) State() PurseState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PurseState{Granted: p.granted, Spent: p.spent, Held: p.held, Exhausted: p.exhausted}
}

// Close ends the purse and gives the unspent rest, which the owner may report
// to the lender. Holds that are still open count as spent in full; settling
// them later changes nothing.
func (p *Purse) Close() (unspent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0
	}
	p.closed = true
	p.notify()
	return max(0, p.granted-p.spent-p.held)
}

// Reserve implements Budget.
func (p *Purse) Reserve(ctx context.Context, bound int64) (Hold, error) {
	if bound <= 0 {
		return &hold{}, nil
	}
	bound = min(bound, maxAmount)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch free := p.granted - p.spent - p.held; {
		case p.closed, p.exhausted:
			return nil, &Error{Class: ClassJobBudget, Reason: "exhausted"}
		case ctx.Err() != nil:
			return nil, &Error{Class: ClassCallerGone}
		case free >= bound:
			p.held += bound
			p.open++
			return &hold{purse: p, bound: bound}, nil
		case !p.dry && !p.borrowing:
			if err := p.borrow(ctx, bound, free); err != nil {
				return nil, err
			}
		case p.borrowing, p.open > 0:
			p.wait(ctx)
		default: // nothing to wait for: this is the end of the money
			p.exhausted = true
			p.notify()
		}
	}
}

// borrow is called with the lock held and gives it up while it asks.
func (p *Purse) borrow(ctx context.Context, bound, free int64) error {
	need := bound - free // free is negative after an overrun, which is paid back first
	wish := max(need, p.slice)
	if p.slice == 0 {
		wish = max(need, 8*min(bound, maxAmount/8))
	}
	p.borrowing = true
	p.mu.Unlock()
	granted, err := p.lender.Borrow(ctx, wish)
	p.mu.Lock()
	p.borrowing = false
	p.notify()
	if err != nil {
		if ctx.Err() != nil {
			return &Error{Class: ClassCallerGone}
		}
		return &Error{Class: ClassSaturated, Reason: "no_money_lent"}
	}
	granted = min(max(granted, 0), wish) // more than the wish is a mistake, not a present
	p.granted += granted
	p.dry = granted < wish
	return nil
}

// wait is called with the lock held and gives it up until something moves.
func (p *Purse) wait(ctx context.Context) {
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

func (p *Purse) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

type hold struct {
	purse *Purse
	bound int64
	once  sync.Once
}

func (h *hold) Settle(actual int64) {
	if h.purse == nil {
		return
	}
	h.once.Do(func() {
		p := h.purse
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			return
		}
		p.held -= h.bound
		p.open--
		// More than the bound is booked too: it was really spent.
		p.spent = min(p.spent+min(max(actual, 0), maxAmount), maxAmount)
		p.notify()
	})
}
