package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/elnor/promptlab/chat/seam"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/gateway"
)

// activeFunc tells whether a version of a model may answer.
type activeFunc func(ctx context.Context, name, fingerprint string) bool

// ruling is how a worker knows which models may answer.
type ruling struct {
	allows activeFunc
	hear   func(contracts.ActiveModels) // nil: it asks the registry itself
}

// active asks the registry of this process, once it has seen the configuration.
func (c *core) active(ctx context.Context, name, fingerprint string) bool {
	select {
	case <-c.prepared:
		return c.writer.View().ModelActive(name, fingerprint)
	case <-ctx.Done():
		return false
	}
}

// observeModels lets the registry follow the configuration. Nothing is written
// where it does already.
func (c *core) observeModels(ctx context.Context, models []gateway.ModelConfig) (done bool, err error) {
	seen := make([]contracts.ObservedModel, 0, len(models))
	for _, m := range models {
		seen = append(seen, m.Observed())
	}
	if !c.writer.View().ModelsFollow(seen) {
		return true, nil
	}
	return c.tell(ctx, ec.ObserveModels{Models: seen})
}

func heardBy(a *gateway.Active) activeFunc {
	return func(_ context.Context, name, fingerprint string) bool { return a.Allows(name, fingerprint) }
}

// hearing keeps a chat endpoint apart from EC at what EC last said about models,
// over a restart too. Where no EC was ever heard there is no registry that could
// say otherwise, and the configuration is taken as it is.
type hearing struct {
	gateway.Active
	run  cli.ServerRun
	from *seam.Client
	log  *slog.Logger
}

// hear starts with what was heard before, and asks once before the first turn.
func hear(ctx context.Context, run cli.ServerRun, from *seam.Client) (*hearing, error) {
	h := &hearing{run: run, from: from, log: logOr(run.Log)}
	kept, err := run.Home.HeardModels()
	if err != nil {
		return nil, fmt.Errorf("%w; if EC is there, remove the file", err)
	}
	h.Set(kept)
	ctx, cancel := context.WithTimeout(ctx, run.Config.Chat.ECTimeout)
	defer cancel()
	if err := h.refresh(ctx); err != nil {
		h.log.WarnContext(ctx, "ec not heard about models", "known_from_before", len(kept.Items), "error", err)
	}
	return h, nil
}

// refresh asks EC. What it says is kept for a start without it.
func (h *hearing) refresh(ctx context.Context) error {
	list, err := h.from.ActiveModels(ctx)
	if err != nil {
		return err
	}
	h.Set(list)
	return h.run.Home.HearModels(list)
}

// Registered reads what a data root keeps of a model. It needs no server, and
// beside one it may be a second behind.
func (s Servers) Registered(memory, name string) (contracts.RegisteredModel, bool, error) {
	b, err := os.ReadFile(filepath.Join(memory, filepath.FromSlash(ec.ModelPath(name))))
	if errors.Is(err, fs.ErrNotExist) {
		return contracts.RegisteredModel{}, false, nil
	}
	if err != nil {
		return contracts.RegisteredModel{}, false, fmt.Errorf("read the registry: %w", err)
	}
	m, err := contracts.Decode[contracts.RegisteredModel](b, contracts.Stored)
	if err != nil {
		return m, false, fmt.Errorf("read the registry: %w", err)
	}
	return m, true, nil
}
