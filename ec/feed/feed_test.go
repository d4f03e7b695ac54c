package feed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/elnor/promptlab/contracts"
)

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(100)
		if got := f.After(0); len(got) != 0 || f.Last() != 99 {
			t.Fatalf("a new feed holds %v, last %d", got, f.Last())
		}
		waited := make(chan error, 1)
		go func() { waited <- f.Wait(t.Context(), 0) }()
		synctest.Wait()
		f.Publish(contracts.LiveEvent{Type: "a"}, contracts.LiveEvent{Type: "b"})
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		if got := f.After(100); len(got) != 1 || got[0].Type != "b" || got[0].Seq != 101 {
			t.Errorf("after 100: got %+v, want b with number 101", got)
		}
		if f.Last() != 101 {
			t.Errorf("last: got %d, want 101", f.Last())
		}
		if err := f.Wait(t.Context(), 100); err != nil {
			t.Errorf("wait for what is there: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { waited <- f.Wait(ctx, 101) }()
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: got %v", err)
		}
	})
}

func TestFeedIsBounded(t *testing.T) {
	f := New(1)
	for range size + 10 {
		f.Publish(contracts.LiveEvent{Type: "x"})
	}
	got := f.After(0)
	if again := f.After(1 << 60); len(again) != size {
		t.Errorf("after a number that was never given: %d events, want all that are kept", len(again))
	}
	if len(got) != size || got[0].Seq != 11 {
		t.Errorf("kept %d events from number %d, want %d from 11", len(got), got[0].Seq, size)
	}
}
