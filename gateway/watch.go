package gateway

import (
	"context"
	"sync"
	"time"
)

// trailing is how long the rest of a stream (usage, the closing mark) is waited
// for after the answer has ended.
const trailing = 5 * time.Second

// phase is where a streamed attempt is. It only goes forward, and every step is
// made under the watch's lock: the end of the answer and the end of patience are
// told apart by who comes first.
type phase int

const (
	waiting phase = iota // for the first piece
	flowing
	finished // the provider's own end was read: nothing can undo it
	cut      // our patience ended first
)

// watch is the clock of one streamed attempt. One timer runs at a time, and none
// while a piece is with the consumer.
type watch struct {
	first, idle time.Duration
	cancel      context.CancelCauseFunc
	gap         func(time.Duration) // gets the time from one piece to the next
	began       time.Time

	mu     sync.Mutex
	phase  phase
	timer  *time.Timer
	turn   int // of the timer; one that fires late finds another
	pieces int
	lead   time.Duration // to the first piece
	last   time.Time     // of the last piece: when the consumer gave it back
}

// newWatch starts the clock. cancel must be idempotent, and stop must follow.
func newWatch(first, idle time.Duration, cancel context.CancelCauseFunc, gap func(time.Duration)) *watch {
	now := time.Now()
	w := &watch{first: first, idle: idle, cancel: cancel, gap: gap, began: now, last: now}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start(first)
	return w
}

// start is called with the lock held.
func (w *watch) start(d time.Duration) {
	w.turn++
	turn := w.turn
	w.timer = time.AfterFunc(d, func() { w.expire(turn) })
}

// halt is called with the lock held. A callback that is already on its way finds
// that its turn is over.
func (w *watch) halt() {
	w.turn++
	w.timer.Stop()
}

// expire is the timer's.
func (w *watch) expire(turn int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if turn != w.turn {
		return
	}
	switch w.phase {
	case waiting:
		w.phase = cut
		w.cancel(errFirstToken)
	case flowing:
		w.phase = cut
		w.cancel(errIdle)
	case finished:
		w.cancel(errTrailing) // the answer stands; it is not waited for what belongs to it
	case cut:
	}
}

// pause notes a piece and stops the clock until resume. It tells whether the
// piece is in time.
func (w *watch) pause() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == cut {
		return false
	}
	w.halt()
	now := time.Now()
	if w.pieces++; w.pieces == 1 {
		w.lead = now.Sub(w.began)
	} else {
		w.gap(now.Sub(w.last))
	}
	if w.phase == waiting {
		w.phase = flowing
	}
	return true
}

// resume starts the clock again: the provider's silence begins now.
func (w *watch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	switch w.phase {
	case flowing:
		w.start(w.idle)
	case finished:
		w.start(trailing)
	case waiting, cut:
	}
}

// finish makes the end of the answer final, if patience did not end before. It
// may be called again.
func (w *watch) finish() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.phase {
	case cut:
		return false
	case finished:
		return true
	case waiting, flowing:
	}
	w.halt()
	w.phase = finished
	w.start(trailing)
	return true
}

// over tells whether the end was read: what an adapter says after it is not the
// answer's.
func (w *watch) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase == finished
}

// stop ends the clock for good and gives the phase that was reached.
func (w *watch) stop() phase {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
	return w.phase
}
