package chat_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// R-BND-03, G-044, R-TRU-08: while EC is away turns are answered without overlays
// and say so; the receipts wait and are delivered when it is back.
func TestECAway(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	r.say("t", "before")
	r.away.Store(true)
	for turn := range 3 {
		a := r.post(`{"messages":[{"role":"user","content":"q"}]}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t", "X-PromptLab-Turn", fmt.Sprint("away-", turn))
		c := r.read(a, 200)
		if a.header.Get("X-PromptLab-Overlays") != "unavailable" || a.header.Get("X-PromptLab-Truth") != "waiting" || c.PromptLab.Overlays != "unavailable" || len(c.PromptLab.Applied) != 0 {
			t.Fatalf("R-BND-03 turn %d: headers %v, note %+v", turn, a.header, c.PromptLab)
		}
		if c.PromptLab.Dropped["o-a"] != "packet_unavailable" {
			t.Errorf("R-TRU-08 what was asked for is not told: %+v", c.PromptLab)
		}
		if sent := r.model.last(t); roles(sent.Messages) != "user" {
			t.Fatalf("G-044 sent %s while EC is away, want the person's words alone", roles(sent.Messages))
		}
	}
	for _, ext := range []string{`{"override":{"mode":"one_time_overlay_only","overlay_ids":["o-b"]}}`, `{"plan_id":"01890a5d-ac96-774b-bcce-b302099a8057","message_ids":["m"]}`} {
		a := r.post(`{"messages":[{"role":"user","content":"q"}],"promptlab":`+ext+`}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t")
		if c := r.read(a, 503); c.Error.Code != "ec_unavailable" {
			t.Errorf("a turn that only EC can equip: %s", a.body)
		}
	}
	r.away.Store(false)
	c := r.say("t", "after", "X-PromptLab-Turn", "after")
	if !slices.Equal(c.PromptLab.Applied, []string{"o-a"}) {
		t.Fatalf("after EC is back: %+v", c.PromptLab)
	}
	for { // the receipts that waited are delivered by and by
		last := r.env.Feed.Last()
		history := r.env.View().TruthHistory(key("t"))
		var ids []string
		for _, h := range history {
			ids = append(ids, h.TurnID)
			if strings.HasPrefix(h.TurnID, "away-") && (h.DropReasonsByOverlay["o-a"] != contracts.DropUnavailable || h.PacketHash != "") {
				t.Fatalf("R-TRU-08 receipt %+v", h)
			}
		}
		if slices.Contains(ids, "away-0") && slices.Contains(ids, "away-1") && slices.Contains(ids, "away-2") {
			break
		}
		if err := r.env.Feed.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
}

// G-044: a session that EC has never seen gets its receipt all the same.
func TestReceiptOfAnUnknownSession(t *testing.T) {
	r := newRig(t)
	r.away.Store(true)
	r.say("new", "q", "X-PromptLab-Turn", "n1")
	r.away.Store(false)
	for {
		last := r.env.Feed.Last()
		if tr, err := r.env.View().Truth(key("new"), true); err == nil && tr.TurnID == "n1" {
			break
		}
		if err := r.env.Feed.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
}

// lame is an EC that answers nothing until it is told to.
type lame struct {
	bigSeam
	mu     sync.Mutex
	back   bool
	truths []string
}

func (l *lame) Truth(_ context.Context, t contracts.OverlayRuntimeTruthSummary) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.back {
		return fault.New(fault.Unavailable, "ec_unavailable", "away")
	}
	l.truths = append(l.truths, t.TurnID)
	return nil
}

func (l *lame) Report(context.Context, contracts.OverlaySessionEvent) error { return nil }

func (l *lame) Usage(_ context.Context, rows []contracts.UsageRow) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.back {
		return fault.New(fault.Unavailable, "ec_unavailable", "away")
	}
	return nil
}

// Decision 24: what waits for EC is bounded; what does not fit is counted, and the
// rest arrives in its order.
func TestWaitingReceiptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg := &lame{}, prometheus.NewRegistry()
		box := chat.NewOutbox(l, chat.NewRows(), time.Second, slog.New(slog.DiscardHandler), reg)
		for i := range chat.MaxWaiting + 5 {
			box.Tell(t.Context(), contracts.OverlayRuntimeTruthSummary{TurnID: fmt.Sprint(i)})
		}
		if got := lost(t, reg); got != 5 {
			t.Errorf("lost %v, want 5 counted", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- box.Run(ctx, func(context.Context) error { return nil }) }()
		synctest.Wait()
		l.mu.Lock()
		l.back = true
		l.mu.Unlock()
		time.Sleep(11 * time.Second) // of the bubble's clock
		synctest.Wait()
		l.mu.Lock()
		if len(l.truths) != chat.MaxWaiting || l.truths[0] != "0" || l.truths[9] != "9" {
			t.Errorf("delivered %d, first %v", len(l.truths), l.truths[:min(3, len(l.truths))])
		}
		l.back = false
		l.mu.Unlock()
		box.Tell(t.Context(), contracts.OverlayRuntimeTruthSummary{TurnID: "last"})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := lost(t, reg); got != 6 {
			t.Errorf("at the end lost %v, want 6 counted", got)
		}
	})
}

func lost(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == "promptlab_chat_receipts_lost_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}

// R-GWL-01: each attempt of a turn is one row at EC.
func TestUsageReachesEC(t *testing.T) {
	r := newRig(t)
	r.say("t", "q")
	r.say("t", "q")
	r.stop()
	total := r.env.View().Usage(ec.UsageFilter{}).Total
	if total.Calls != 2 || total.InputTokens != 22 || total.OutputTokens != 6 {
		t.Errorf("R-GWL-01 booked %+v, want two calls", total)
	}
}
