package chat

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/contracts"
)

// MaxWaiting is for the tests.
const MaxWaiting = maxWaiting

// Outbox is for the tests.
type Outbox struct{ *outbox }

// NewOutbox is for the tests.
func NewOutbox(l Ledger, rows *Rows, timeout time.Duration, log *slog.Logger, reg prometheus.Registerer) Outbox {
	m, err := newMeters(reg)
	if err != nil {
		panic(err)
	}
	return Outbox{newOutbox(l, rows, timeout, log, m)}
}

// Tell is for the tests.
func (o Outbox) Tell(ctx context.Context, t contracts.OverlayRuntimeTruthSummary) bool {
	return o.tell(ctx, word{truth: &t})
}

// Run is for the tests.
func (o Outbox) Run(ctx context.Context, beat func(context.Context) error) error {
	return o.run(ctx, beat)
}
