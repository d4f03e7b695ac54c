package gateway_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// R-GWS-17, R-GWR-09: a caller who leaves, or whose time is over, ends the call
// for good, before the first piece and after it; it says nothing about the
// target's health.
func TestACallerWhoLeavesEndsTheStream(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		start func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"cancel before the first piece", []step{stall}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}},
		{"cancel in the middle", []step{{say: "h"}, stall}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}},
		{"an adapter that does not hear it", []step{{say: "h"}, {stall: true, ignores: true}, {say: "i", ignores: true}, {say: "j"}}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}},
		{"deadline before the first piece", []step{stall}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}},
		{"deadline in the middle", []step{{say: "h"}, stall}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}},
	} {
		t.Run("R-GWS-17 "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{attempts: [][]step{c.steps}}
				m := impatient("one", gateway.RoleChat)
				rows := make(gateway.RowChan, 100)
				g, metric := counted(t, p, rows, m, impatient("second", gateway.RoleChat))
				purse := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e12}})
				for range 12 { // more than opens a breaker
					ctx, cancel := c.start(t.Context())
					began := time.Now()
					pieces := 0
					_, err := g.Stream(ctx, ask(gateway.RoleChat), purse, func(gateway.Event) error { pieces++; return nil })
					if pieces > 1 {
						t.Errorf("R-GWS-17 %d pieces, want none after the cancel", pieces)
					}
					if took := time.Since(began); class(err) != gateway.ClassCallerGone || took != 2*time.Second {
						t.Fatalf("error %v after %s, want caller_gone after 2s", err, took)
					}
					cancel()
				}
				if p.n != 12 || metric("caller_gone_total") != 12 || metric("breaker_state", "one") != 0 {
					t.Errorf("%d provider calls, %g callers gone, breaker %g; want 12, 12, closed", p.n, metric("caller_gone_total"), metric("breaker_state", "one"))
				}
				var booked int64
				for len(rows) > 0 {
					row := <-rows
					booked += row.CostNanoUSD
					if row.CostKnown || row.CostNanoUSD != row.HoldNanoUSD || row.Class != gateway.ClassCallerGone {
						t.Errorf("R-GWL-08 row %+v, want the whole bound, flagged", row)
					}
				}
				if s := purse.State(); s.Spent != booked || s.Held != 0 {
					t.Errorf("R-GWL-08 purse %+v, rows say %d", s, booked)
				}
			})
		})
	}
}

// A consumer that fails is a caller who has left: the provider hears of it, and
// nobody else is asked.
func TestAConsumerThatFailsEndsTheCall(t *testing.T) {
	p := &play{attempts: [][]step{{{say: "h"}, {say: "i"}, finish, answer}}}
	rows := make(gateway.RowChan, 10)
	g, metric := counted(t, p, rows, model("one", gateway.RoleChat))
	n := 0
	_, err := g.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), func(gateway.Event) error {
		n++
		return io.ErrClosedPipe
	})
	var e *gateway.Error
	if !errors.As(err, &e) || e.Class != gateway.ClassCallerGone || e.Reason != "consumer_gone" || n != 1 || p.n != 1 {
		t.Errorf("R-GWS-14 error %v after %d pieces and %d calls, want consumer_gone after one each", err, n, p.n)
	}
	if row := <-rows; !row.Committed || row.Class != gateway.ClassCallerGone || row.CostKnown || metric("caller_gone_total") != 1 {
		t.Errorf("R-GWL-08 row %+v, %g callers gone", row, metric("caller_gone_total"))
	}
	if p.ended[0] == nil {
		t.Error("R-GWS-19 the stream's context was not cancelled")
	}
}

// R-GWS-14, R-GWR-20: another target stands in before the first piece, and not
// after it.
func TestFallbackOfStreams(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		works bool
		calls int
	}{
		"R-GWR-20 an account that is empty at the opening": {[]step{fails(gateway.ClassProviderQuota, 402)}, true, 2},
		"R-GWS-14 an account that is empty in the middle":  {[]step{{say: "h"}, fails(gateway.ClassProviderQuota, 200)}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &play{attempts: [][]step{c.steps, {{say: "hi"}, finish, answer}}}
			r := newRig(t, p, model("first", gateway.RoleChat), model("second", gateway.RoleChat))
			l := &listener{}
			resp, err := r.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), l.emit)
			if (err == nil) != c.works || p.n != c.calls || c.works && (resp.Target != "second" || l.text() != "hi") {
				t.Errorf("response %+v, error %v after %d calls, heard %q", resp, err, p.n, l.text())
			}
			if rows := r.taken(); c.works && (rows[1].FallbackFrom != "first" || rows[1].FallbackClass != gateway.ClassProviderQuota) {
				t.Errorf("R-GWR-19 rows %+v", rows)
			}
		})
	}
}

// R-GWS-12: silence counts like any other trouble: against the attempts, with
// the told waits, and for the breaker.
func TestSilenceDrawsOnTheSameBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{attempts: [][]step{{{say: "h"}, stall}}}
		m := impatient("one", gateway.RoleChat)
		m.Limits.IdleTimeoutSeconds = 1 // ten of them within the breaker's window
		g, metric := counted(t, p, nil, m)
		for n := 1; ; n++ {
			if _, err := g.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), nil); class(err) == gateway.ClassBreakerOpen {
				break
			}
			if n > 10 {
				t.Fatal("R-GWS-12 ten silent streams leave the breaker closed")
			}
		}
		if idle := metric("stream_idle_total", "one", "idle"); idle != 10 || p.n != 10 {
			t.Errorf("R-GWV-07 %g idle streams are counted, %d were made; want 10", idle, p.n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		wait := step{fail: &gateway.Error{Class: gateway.ClassRateLimit, Status: 429, RetryAfter: 20 * time.Second, NotBilled: true}}
		p := &play{attempts: [][]step{{stall}, {wait}, {{say: "hi"}, finish, answer}}}
		g, metric := counted(t, p, nil, impatient("one", gateway.RoleMeta))
		began := time.Now()
		resp, err := g.Stream(t.Context(), ask(gateway.RoleMeta), gateway.Unlimited(), nil)
		if took := time.Since(began); err != nil || resp.Attempts != 3 || took != 30*time.Second {
			t.Errorf("R-GWS-12 response %+v, error %v after %s; want the third attempt after 10 s of silence and a told wait of 20", resp, err, took)
		}
		if n := metric("stream_idle_total", "one", "first_token"); n != 1 {
			t.Errorf("R-GWV-07 %g first pieces that did not come are counted, want 1", n)
		}
	})
}

// R-GWS-21: an attempt that nobody saw was computed all the same.
func TestUnseenAttemptsAreBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := step{fail: &gateway.Error{Class: gateway.ClassServer, Status: 500, NotBilled: true}}
		p := &play{attempts: [][]step{{fails(gateway.ClassStreamTruncated, 200)}, {told}, {{say: "hi"}, finish, answer}}}
		r := newRig(t, p, model("one", gateway.RoleChat))
		purse := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e12}})
		resp, err := r.Stream(t.Context(), ask(gateway.RoleChat), purse, nil)
		rows := r.taken()
		if err != nil || len(rows) != 3 {
			t.Fatalf("%d rows, error %v", len(rows), err)
		}
		costs := []int64{rows[0].CostNanoUSD, rows[1].CostNanoUSD, rows[2].CostNanoUSD}
		if want := []int64{rows[0].HoldNanoUSD, 0, 20_000}; !slices.Equal(costs, want) || rows[0].CostKnown || resp.CostKnown {
			t.Errorf("R-GWS-21 costs %v, want %v: the bound of what was cut, nothing for what was refused", costs, want)
		}
		if resp.Cost != costs[0]+costs[2] || purse.State().Spent != resp.Cost {
			t.Errorf("R-GWS-21 response says %d, purse %+v", resp.Cost, purse.State())
		}
	})
}

// R-GWS-15: however a stream ends, nothing of it runs on: neither goroutines nor
// a timer that would still find something to cancel.
func TestNothingOfAStreamIsLeft(t *testing.T) {
	for name, steps := range map[string][]step{
		"answer": {{say: "hi"}, finish, answer}, "error": {{say: "h"}, fails(gateway.ClassServer, 200)}, "stall": {{say: "h"}, stall},
		"refused": {fails(gateway.ClassBadRequest, 400)}, "late": {{say: "hi"}, finish, {stall: true, answer: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			before := runtime.NumGoroutine()
			p := &play{attempts: [][]step{steps}}
			r := newRig(t, p, impatient("one", gateway.RoleChat))
			t.Cleanup(func() {
				for _, ctx := range p.contexts {
					if ctx.Err() == nil {
						t.Errorf("R-GWS-15 %s: an attempt's context is still open", name)
					}
				}
			})
			_, _ = r.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), nil)
			logged := r.log.Len()
			<-time.After(time.Hour)
			synctest.Wait()
			if after := runtime.NumGoroutine(); after > before || r.log.Len() != logged {
				t.Errorf("R-GWS-15 %s: %d goroutines before, %d an hour after", name, before, after)
			}
		})
	}
}

// R-GWV-07: pieces, first pieces, streams without an end and what was passed
// over have their metrics.
func TestStreamMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{attempts: [][]step{{{wait: 2 * time.Second}, {say: "h"}, {wait: time.Second}, {say: "i"}, finish, answer}, {{say: "h"}, fails(gateway.ClassStreamTruncated, 200)}}}
		rows := make(gateway.RowChan, 10)
		g, metric := counted(t, p, rows, model("one", gateway.RoleChat))
		_, _ = g.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), nil)
		_, _ = g.Stream(t.Context(), ask(gateway.RoleChat), gateway.Unlimited(), nil)
		row := <-rows
		if row.FirstChunk != 2*time.Second || row.Chunks != 2 || row.Silence != 0 || row.WireSilence != 3*time.Second {
			t.Errorf("R-GWS-06 row says first piece after %s, %d pieces, %s since the last and %s since the last byte; want 2s, 2, 0, 3s",
				row.FirstChunk, row.Chunks, row.Silence, row.WireSilence)
		}
		if n := metric("stream_truncated_total", "one"); n != 1 {
			t.Errorf("R-GWV-07 %g streams without an end, want 1", n)
		}
	})
}
