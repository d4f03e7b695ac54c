package gateway_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/gateway"
)

func TestBreaker(t *testing.T) {
	for _, c := range []struct {
		class gateway.ErrorClass
		opens bool
	}{
		{gateway.ClassServer, true},
		{gateway.ClassTransport, true},
		{gateway.ClassBadRequest, false}, // R-GWR-17
		{gateway.ClassRateLimit, false},
	} {
		t.Run(string(c.class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &stub{do: always(c.class)}
				r := newRig(t, a, model("one", gateway.RoleTask))
				for range 12 {
					_, _ = r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
				}
				before, began := a.n, time.Now()
				_, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
				if open := class(err) == gateway.ClassBreakerOpen; open != c.opens {
					t.Fatalf("R-GWR-16 class %s, breaker open wanted: %t", class(err), c.opens)
				}
				if !c.opens {
					return
				}
				if a.n != before || time.Since(began) != 0 {
					t.Errorf("R-GWR-14 an open breaker let %d calls through or took %s", a.n-before, time.Since(began))
				}
				<-time.After(31 * time.Second) // the breaker's own pause, by the bubble's clock
				a.do = func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("back"), nil }
				if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); err != nil {
					t.Errorf("after the pause: %v", err)
				}
			})
		})
	}
}

func TestACallerWhoLeavesIsNotRetriedAndOpensNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &stub{do: func(ctx context.Context, _ int, _ gateway.Call) (gateway.Reply, error) {
			<-ctx.Done()
			return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport}
		}}
		r := newRig(t, a, model("one", gateway.RoleTask))
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := r.Do(ctx, ask(gateway.RoleTask), gateway.Unlimited())
			cancel()
			if class(err) != gateway.ClassCallerGone { // R-GWR-09, R-GWS-17
				t.Fatalf("class %s, want caller_gone", class(err))
			}
		}
		if a.n != 20 {
			t.Errorf("%d provider calls for 20 callers", a.n)
		}
	})
}

// R-GWB-21: a saturated model queues as long as the call may take, and refuses then.
func TestConcurrencyAndRateAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		a := &stub{do: func(ctx context.Context, _ int, _ gateway.Call) (gateway.Reply, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(time.Second):
				return ok("hi"), nil
			case <-ctx.Done():
				return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport}
			}
		}}
		m := model("one", gateway.RoleTask)
		m.Limits = gateway.Limits{Concurrency: 3, TotalTimeoutSeconds: 4, AttemptTimeoutSeconds: 4}
		r := newRig(t, a, m)
		var wg sync.WaitGroup
		var saturated atomic.Int64
		for range 20 {
			wg.Go(func() {
				if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); class(err) == gateway.ClassSaturated {
					saturated.Add(1)
				}
			})
		}
		wg.Wait()
		if most.Load() != 3 || saturated.Load() == 0 {
			t.Errorf("%d at once, %d told saturated; want 3 at once and some saturated", most.Load(), saturated.Load())
		}
		m.Limits = gateway.Limits{RequestsPerMinute: 30}
		r = newRig(t, a, m)
		began := time.Now()
		for range 3 {
			if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 4*time.Second {
			t.Errorf("three calls at 30 a minute took %s, want at least 4s", took)
		}
	})
}

// R-GWL-05.
func TestAFullSinkNeverBlocksTheAnswer(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
	r := newRig(t, a, model("one", gateway.RoleTask))
	for range 105 {
		if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.rows) != 100 {
		t.Errorf("%d rows taken, want 100 and five lost", len(r.rows))
	}
}

func TestCallersWhoLeaveDoNotHideASickTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &stub{do: func(ctx context.Context, n int, c gateway.Call) (gateway.Reply, error) {
			if c.Request.RequestID == "patient" {
				return gateway.Reply{}, &gateway.Error{Class: gateway.ClassServer, NotBilled: true, Status: 500}
			}
			<-ctx.Done()
			return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport}
		}}
		r := newRig(t, a, model("one", gateway.RoleTask))
		for range 12 {
			for range 9 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				_, _ = r.Do(ctx, ask(gateway.RoleTask), gateway.Unlimited())
				cancel()
			}
			req := ask(gateway.RoleTask)
			req.RequestID = "patient"
			_, _ = r.Do(t.Context(), req, gateway.Unlimited())
		}
		if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); class(err) != gateway.ClassBreakerOpen {
			t.Errorf("class %s, want breaker_open", class(err))
		}
	})
}

func TestACallerWhoLeavesTheQueueIsNotToldSaturated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
			<-release
			return ok("hi"), nil
		}}
		m := model("one", gateway.RoleTask)
		m.Limits.Concurrency = 1
		r := newRig(t, a, m)
		first := make(chan error, 1)
		go func() {
			_, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Do(ctx, ask(gateway.RoleTask), gateway.Unlimited()); class(err) != gateway.ClassCallerGone || a.n != 1 {
			t.Errorf("class %s after %d calls, want caller_gone after 1", class(err), a.n)
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestACallRefusedForMoneyLeavesARecoveringTargetFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &stub{do: always(gateway.ClassServer)}
		r := newRig(t, a, model("one", gateway.RoleTask))
		for range 4 {
			_, _ = r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
		}
		<-time.After(31 * time.Second)
		a.do = func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }
		if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.NoMoney()); class(err) != gateway.ClassJobBudget {
			t.Fatalf("class %s, want job_budget", class(err))
		}
		if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}
