package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func watched(t *testing.T, first, idle time.Duration) (*watch, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newWatch(first, idle, cancel, func(time.Duration) {})
	t.Cleanup(func() { w.stop(); cancel(nil) })
	return w, ctx
}

// R-GWS-08, R-GWS-16: the end of the answer and the end of patience race, many
// times, with real clocks: exactly one of them happens, and whoever asks is told
// the same.
func TestTheEndAndTheTimerAreDecidedOnce(t *testing.T) {
	finishedFirst := 0
	for i := range 400 {
		limit := time.Duration(i%40) * 5 * time.Microsecond
		w, ctx := watched(t, limit, limit)
		var wg sync.WaitGroup
		results := make([]bool, 4)
		for j := range results {
			wg.Go(func() { results[j] = w.finish() })
		}
		wg.Wait()
		reached := w.stop()
		for _, won := range results {
			if won != (reached == finished) {
				t.Fatalf("R-GWS-08 run %d: one was told %t, the phase is %d", i, won, reached)
			}
		}
		if cause := context.Cause(ctx); (cause != nil) != (reached == cut) || reached == cut && !errors.Is(cause, errFirstToken) {
			t.Fatalf("R-GWS-08 run %d: phase %d, cause %v", i, reached, cause)
		}
		if reached == finished {
			finishedFirst++
		}
	}
	if finishedFirst == 0 || finishedFirst == 400 {
		t.Logf("the end came first in %d of 400 runs: this machine showed one side only", finishedFirst)
	}
}

// R-GWS-16: a callback that was already on its way when its turn ended changes
// nothing.
func TestALateCallbackFindsItsTurnOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := watched(t, time.Second, time.Second)
		late := w.turn
		if !w.pause() {
			t.Fatal("a piece in time was refused")
		}
		w.expire(late) // fired while the piece was being noted
		if w.resume(); ctx.Err() != nil {
			t.Fatal("R-GWS-16 the late timer cancelled a stream that goes on")
		}
		late = w.turn
		if !w.finish() {
			t.Fatal("the end was refused")
		}
		w.expire(late)
		if ctx.Err() != nil || w.stop() != finished {
			t.Error("R-GWS-16 the late timer cancelled a finished stream")
		}
		w.expire(w.turn - 1)
		<-time.After(time.Hour)
		if ctx.Err() != nil {
			t.Error("R-GWS-15 a timer ran on after the end")
		}
	})
}

// R-GWS-09: whoever ends a stream, it is ended once and for the first reason.
func TestACancelIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := watched(t, time.Second, time.Second)
		<-time.After(2 * time.Second)
		w.cancel(errConsumerGone)
		w.cancel(nil)
		if cause := context.Cause(ctx); !errors.Is(cause, errFirstToken) {
			t.Errorf("R-GWS-09 cause %v, want the first: nothing came", cause)
		}
		if w.pause() || w.finish() || w.stop() != cut {
			t.Error("R-GWS-08 a stream that was cut takes another piece or end")
		}
	})
}
