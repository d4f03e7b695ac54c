package gateway_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/elnor/promptlab/gateway"
)

// bank is a durable budget: what it lends is gone, whoever asks.
type bank struct {
	mu    sync.Mutex
	left  int64
	lent  int64
	loans int
	down  bool
}

func (b *bank) Borrow(_ context.Context, n int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return 0, errors.New("no connection to " + canary)
	}
	n = min(n, b.left)
	b.left -= n
	b.lent += n
	b.loans++
	return n, nil
}

func class(err error) gateway.ErrorClass { return gateway.ClassOf(err) }

func TestBudgetOf100ServesExactly100Of200ParallelCalls(t *testing.T) {
	// R-GWL-12: settled + reserved <= budget under any concurrency.
	b := &bank{left: 100 * 1000}
	p := gateway.NewPurse(gateway.PurseConfig{Lender: b, Slice: 7000})
	var served, refused atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			h, err := p.Reserve(t.Context(), 1000)
			if err != nil {
				if class(err) != gateway.ClassJobBudget {
					t.Errorf("refusal of class %s, want job_budget", class(err))
				}
				refused.Add(1)
				return
			}
			if s := p.State(); s.Spent+s.Held > s.Granted {
				t.Errorf("spent %d and held %d of %d granted", s.Spent, s.Held, s.Granted)
			}
			served.Add(1)
			h.Settle(1000)
		})
	}
	wg.Wait()
	if served.Load() != 100 || refused.Load() != 100 {
		t.Errorf("served %d, refused %d; want 100 and 100", served.Load(), refused.Load())
	}
	if s := p.State(); s.Spent != 100_000 || s.Held != 0 || !s.Exhausted {
		t.Errorf("in the end %+v, want all 100000 spent and the latch", s)
	}
}

func TestCheapSettlementsMakeRoom(t *testing.T) {
	b := &bank{left: 10_000}
	p := gateway.NewPurse(gateway.PurseConfig{Lender: b})
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if h, err := p.Reserve(t.Context(), 1000); err == nil {
				served.Add(1)
				h.Settle(100)
			}
		})
	}
	wg.Wait()
	// 50 calls cost 5000; every one had to wait for room and none was refused.
	if served.Load() != 50 || p.State().Spent != 5000 {
		t.Errorf("served %d, spent %d; want 50 and 5000", served.Load(), p.State().Spent)
	}
}

func TestACallThatDoesNotFitWaitsForOpenOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1000}})
		first, err := p.Reserve(t.Context(), 800)
		if err != nil {
			t.Fatalf("first call: %v", err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := p.Reserve(t.Context(), 500)
			got <- err
		}()
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("the second call did not wait: %v", err)
		default:
		}
		first.Settle(100)
		if err := <-got; err != nil {
			t.Errorf("after the settlement: %v, want a hold", err)
		}
		first.Settle(900) // the second settlement of a hold changes nothing
		if s := p.State(); s.Spent != 100 || s.Held != 500 {
			t.Errorf("state %+v, want spent 100 and held 500", s)
		}
	})
}

func TestAWaitingCallEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1000}})
		if _, err := p.Reserve(t.Context(), 1000); err != nil {
			t.Fatalf("first call: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := p.Reserve(ctx, 1)
			got <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-got; class(err) != gateway.ClassCallerGone {
			t.Errorf("class %s, want caller_gone", class(err))
		}
		if p.State().Exhausted {
			t.Error("a caller who left exhausted the budget")
		}
	})
}

func TestR_GWL_13_ARestartDoesNotRefillTheBudget(t *testing.T) {
	// A worker that is killed reports nothing; its successor borrows from the same
	// durable budget. However often that happens, the calls that were let through
	// never cost more than the budget.
	const budget = 10_000_000
	b := &bank{left: budget}
	r := rand.New(rand.NewPCG(1, 2))
	var spent int64
	for restarts := 0; ; restarts++ {
		p := gateway.NewPurse(gateway.PurseConfig{Lender: b, Slice: 300_000})
		calls := 1 + r.IntN(5)
		var err error
		for range calls {
			bound := int64(20_000 + r.IntN(100_000))
			var h gateway.Hold
			if h, err = p.Reserve(t.Context(), bound); err != nil {
				break
			}
			spent += bound
			h.Settle(bound)
		}
		if err != nil {
			if class(err) != gateway.ClassJobBudget {
				t.Fatalf("after %d restarts: %v, want job_budget", restarts, err)
			}
			break
		}
		if restarts > 1000 {
			t.Fatal("the budget never ends")
		}
	}
	if spent > budget || b.lent > budget {
		t.Errorf("spent %d and lent %d of %d", spent, b.lent, budget)
	}
	if spent < budget/4 {
		t.Errorf("spent only %d of %d: the slices are lost too fast to prove anything", spent, budget)
	}
}

func TestR_WRK_04_BudgetZeroAllowsOnlyFreeCalls(t *testing.T) {
	p := gateway.NoMoney()
	if _, err := p.Reserve(t.Context(), 1); class(err) != gateway.ClassJobBudget {
		t.Errorf("a paid call: class %s, want job_budget", class(err))
	}
	if h, err := p.Reserve(t.Context(), 0); err != nil {
		t.Errorf("a free call after that: %v", err)
	} else {
		h.Settle(0)
	}
}

func TestALenderThatIsAwayIsNotTheEndOfTheMoney(t *testing.T) {
	b := &bank{left: 1000, down: true}
	p := gateway.NewPurse(gateway.PurseConfig{Lender: b})
	_, err := p.Reserve(t.Context(), 100)
	if class(err) != gateway.ClassSaturated {
		t.Fatalf("no slice: class %s, want saturated", class(err))
	}
	b.down = false
	if _, err := p.Reserve(t.Context(), 100); err != nil {
		t.Errorf("when the lender is back: %v", err)
	}
}

func TestOverrunIsBookedAndPaidBackFirst(t *testing.T) {
	b := &bank{left: 2000}
	p := gateway.NewPurse(gateway.PurseConfig{Lender: b, Slice: 1000})
	h, err := p.Reserve(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	h.Settle(1500)
	if _, err := p.Reserve(t.Context(), 600); class(err) != gateway.ClassJobBudget {
		t.Errorf("500 are left: a call of 600 gives class %q, want job_budget", class(err))
	}
	if s := p.State(); s.Spent != 1500 || s.Granted > 2000 {
		t.Errorf("state %+v", s)
	}
}

func TestCloseCountsOpenHoldsAsSpent(t *testing.T) {
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1000}, Slice: 1000})
	a, _ := p.Reserve(t.Context(), 300)
	b, err := p.Reserve(t.Context(), 200)
	if err != nil {
		t.Fatal(err)
	}
	a.Settle(100)
	if got := p.Close(); got != 700 {
		t.Errorf("unspent %d, want 700: 100 settled, 200 open", got)
	}
	b.Settle(0)
	if s := p.State(); s.Held != 200 {
		t.Errorf("a settlement after the end changed the held sum to %d", s.Held)
	}
	if _, err := p.Reserve(t.Context(), 1); err == nil {
		t.Error("a closed purse pays")
	}
}

func TestAbsurdAmountsDoNotWrapAround(t *testing.T) {
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1000}})
	if _, err := p.Reserve(t.Context(), math.MaxInt64); class(err) != gateway.ClassJobBudget {
		t.Fatalf("class %s, want job_budget", class(err))
	}
	p = gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 10_000}, Slice: 10})
	for range 3 {
		h, err := p.Reserve(t.Context(), 10)
		if err != nil {
			break
		}
		h.Settle(math.MaxInt64)
	}
	if _, err := p.Reserve(t.Context(), 10); class(err) != gateway.ClassJobBudget {
		t.Errorf("after an absurd bill: class %s, want job_budget", class(err))
	}
}
