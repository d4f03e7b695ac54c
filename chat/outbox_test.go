package chat_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// slow is an EC that books bills when it is told to.
type slow struct {
	lame
	booking atomic.Bool
	booked  chan struct{}
}

func (s *slow) Usage(context.Context, []contracts.UsageRow) error {
	s.booking.Store(true)
	<-s.booked
	return nil
}

// R-PKT-05: what a turn has to say goes at once while bills are on their way,
// which is no sign that EC is away.
func TestWordsDoNotWaitForBills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rows := &slow{lame: lame{back: true}, booked: make(chan struct{})}, chat.NewRows()
		box := chat.NewOutbox(l, rows, time.Minute, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- box.Run(ctx, func(context.Context) error { return nil }) }()
		rows.Offer(gateway.Attempt{})
		time.Sleep(3 * time.Second) // of the bubble's clock
		synctest.Wait()
		if !l.booking.Load() {
			t.Fatal("no bill is on its way")
		}
		if !box.Tell(t.Context(), contracts.OverlayRuntimeTruthSummary{TurnID: "now"}) || len(l.truths) != 1 {
			t.Errorf("a receipt waits for a bill; delivered %v", l.truths)
		}
		close(l.booked)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// R-PKT-05: a turn that says what happened since the last one has its overlays,
// although what it says has to wait behind earlier words.
func TestOverlaysDoNotWaitForWords(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	r.say("t", "q")
	r.stop() // nobody delivers what waits
	r.away.Store(true)
	r.say("t", "q", "X-PromptLab-Turn", "waits")
	r.away.Store(false)
	c := r.read(r.post(`{"model":"deep","messages":[{"role":"user","content":"q"}],"promptlab":{"compacted":true}}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t"), 200)
	if len(c.PromptLab.Applied) != 1 || c.PromptLab.Overlays != "available" {
		t.Errorf("EC is there, and the turn was sent with %+v", c.PromptLab)
	}
}
