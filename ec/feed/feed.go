// Package feed keeps the last events of the system for those who watch: durable
// changes as the writer publishes them, and progress of running tasks. It is a
// window, not a record: a watcher that was away too long reads the views again.
package feed

import (
	"context"
	"sync"

	"github.com/elnor/promptlab/contracts"
)

// size is how many events are kept.
const size = 4096

// Feed is a bounded, ordered window of events. It is safe for many goroutines.
type Feed struct {
	mu     sync.Mutex
	next   uint64
	events []contracts.LiveEvent // oldest first
	more   chan struct{}         // closed and replaced at each publication
}

// New makes a feed whose first event gets the number first. Give it something
// that grows across restarts, such as microseconds since 1970.
func New(first uint64) *Feed {
	return &Feed{next: first, more: make(chan struct{})}
}

// Publish numbers events and shows them to watchers.
func (f *Feed) Publish(events ...contracts.LiveEvent) {
	if len(events) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		e.Seq = f.next
		f.next++
		f.events = append(f.events, e)
	}
	if extra := len(f.events) - size; extra > size { // now and then, not at each event
		f.events = append([]contracts.LiveEvent(nil), f.events[extra:]...)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// After gives the events that are kept and come after seq, oldest first.
func (f *Feed) After(seq uint64) []contracts.LiveEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq >= f.next { // a number of another life: the clock went back over a restart
		seq = 0
	}
	i := len(f.events)
	for i > 0 && f.events[i-1].Seq > seq && len(f.events)-i < size {
		i--
	}
	return append([]contracts.LiveEvent(nil), f.events[i:]...)
}

// Last gives the number of the newest event; of a feed that had none yet, the
// number before its first.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next - 1
}

// Wait returns when there is an event after seq, or with the context's error.
func (f *Feed) Wait(ctx context.Context, seq uint64) error {
	for {
		f.mu.Lock()
		more := f.more
		ready := len(f.events) > 0 && (f.events[len(f.events)-1].Seq > seq || seq >= f.next)
		f.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}
