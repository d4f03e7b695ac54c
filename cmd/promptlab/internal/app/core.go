package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch/broker"
	"github.com/elnor/promptlab/ec/feed"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/writer"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/anthropic"
	"github.com/elnor/promptlab/gateway/openai"
	"github.com/elnor/promptlab/gateway/responses"
	"github.com/elnor/promptlab/gateway/simulator"
	"github.com/elnor/promptlab/presets"
	"github.com/elnor/promptlab/worker"
	"github.com/elnor/promptlab/worker/pyrun"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

type liveEvent = contracts.LiveEvent

// core is EC: the store and its one writer.
type core struct {
	store  *store.Store
	writer *writer.Writer
	feed   *feed.Feed

	prepared chan struct{} // closed when the library is of this release and has its keys
}

func openCore(run cli.ServerRun, reg prometheus.Registerer) (*core, error) {
	defer sparing(run.Config.Memory)()
	root, err := fsx.OpenRoot(run.Config.Memory)
	if err != nil {
		return nil, fmt.Errorf("open the data root: %w", err)
	}
	c := &core{prepared: make(chan struct{}), feed: feed.New(uint64(time.Now().UnixMicro()))} //nolint:gosec // after 1970
	log, build := logOr(run.Log), buildID()
	c.store, err = store.Open(store.Config{
		FS: root, Log: log, Watch: ec.Watched(), Recall: build != "",
		// called by Run's goroutine only, which starts after the writer is there
		OnEdit: func(e store.Edit) { c.writer.Edit(e) },
	})
	if err != nil {
		return nil, err
	}
	if err := c.retain(run.Config.Feedback.RetentionDays, time.Now()); err != nil {
		return nil, errors.Join(err, c.store.Close())
	}
	policy := ec.DefaultPolicy()
	w := run.Config.Worker
	policy.Lease, policy.OptimizeLimit, policy.MeasureLimit = w.Lease, w.OptimizeLimit, w.MeasureLimit
	policy.Moderators = ec.LocalModerators{By: ec.Keeper(run.Config.Companions.Moderators)}
	policy.Rooms = ec.LocalRooms{Off: !run.Config.Companions.Rooms}
	c.writer, err = writer.Open(writer.Config{Store: c.store, Feed: c.feed, Policy: policy, Now: time.Now, Log: log, Metrics: reg, Build: build})
	if err != nil {
		return nil, errors.Join(err, c.store.Close())
	}
	return c, nil
}

// sparing lets garbage go earlier until the function is called: loading makes a lot
// of it, and the most memory that a start takes is what a machine must have. How
// much there will be is told by what the last run kept for this start; where that is
// missing only the share of garbage is bounded, so that no start goes round in circles.
func sparing(root string) func() {
	const percent, least, share = 50, 300 << 20, 4
	was, limit := debug.SetGCPercent(percent), debug.SetMemoryLimit(-1)
	if was < percent { // somebody set it, or switched it off
		debug.SetGCPercent(was)
	}
	if info, err := os.Stat(filepath.Join(root, filepath.FromSlash(store.RecallFile))); err == nil {
		debug.SetMemoryLimit(min(limit, max(least, share*info.Size())))
	}
	return func() {
		debug.SetGCPercent(was)
		debug.SetMemoryLimit(limit)
	}
}

// retain removes feedback that is older than so many days; 0 keeps it all.
func (c *core) retain(days uint64, now time.Time) error {
	if days == 0 {
		return nil
	}
	_, err := c.store.Shorten(ec.SignalStream(), ec.SignalsSince(now.AddDate(0, 0, -int(days)))) //nolint:gosec // at most 36500
	if err != nil {
		return fmt.Errorf("remove old feedback: %w", err)
	}
	return nil
}

// sandboxLevel is how well this build can lock the optimizer's process in.
const sandboxLevel = "L0"

// newWorker makes a worker; it is the same beside EC and elsewhere. One that
// cannot isolate as asked does not start.
func newWorker(run cli.ServerRun, tasks ec.Tasks, b *broker.Broker, reg prometheus.Registerer, r ruling) (*worker.Worker, error) {
	if want := run.Config.Sandbox.MinLevel; want != sandboxLevel {
		return nil, &config.Error{Problems: []config.Problem{{
			Key: "sandbox.min_level", Reason: fmt.Sprintf("%s is asked for and this build isolates at %s; no worker runs below what is asked for", want, sandboxLevel),
		}}}
	}
	return worker.New(worker.Config{
		EC: tasks, Redis: b.Redis(), Log: run.Log, Metrics: reg, Concurrency: run.Config.Worker.Concurrency, DrainFor: run.Config.Worker.Grace,
		Python: pyrun.Config{Python: run.Config.Python, Log: run.Log},
		Models: func(rows gateway.Rows) (worker.Models, error) { return models(run, rows, reg, "worker", r.allows) },
		Ruling: r.hear,
	})
}

// models makes the gateway of a part of the process: the configured models, or
// the simulator. Parts of one process count apart.
func models(run cli.ServerRun, rows gateway.Rows, reg prometheus.Registerer, part string, active activeFunc) (*gateway.Gateway, error) {
	if reg != nil {
		reg = prometheus.WrapRegistererWith(prometheus.Labels{"part": part}, reg)
	}
	return gateway.New(gateway.Config{
		Models: run.Config.Targets(), Rows: rows, Metrics: reg, Log: run.Log, Active: active,
		Adapters: map[gateway.Protocol]gateway.Adapter{
			gateway.ProtocolOpenAI:    openai.New(openai.Config{}),
			gateway.ProtocolAnthropic: anthropic.New(anthropic.Config{}),
			gateway.ProtocolResponses: responses.New(responses.Config{}),
			gateway.ProtocolSimulator: simulator.NewAdapter(run.Config.Simulator.Seed),
		},
		Keys: func(name string) (string, error) {
			if v, ok := run.Env(name); ok && v != "" {
				return v, nil
			}
			return "", fmt.Errorf("the environment variable %s is not set", name)
		},
	})
}

// presetPack gives the embedded pack as EC takes it.
func presetPack() (ec.Pack, error) {
	p, err := presets.Load()
	if err != nil {
		return ec.Pack{}, err
	}
	out := ec.Pack{ID: p.ID, Version: p.Version}
	for _, o := range p.Overlays {
		out.Overlays = append(out.Overlays, ec.PackOverlay{Frontmatter: o.Frontmatter, Body: o.Body})
	}
	return out, nil
}

func tokenHashes(h home.Home) (map[ec.Role][sha256.Size]byte, error) {
	out := map[ec.Role][sha256.Size]byte{}
	for _, role := range home.Roles() {
		token, err := h.Token(role)
		if err != nil {
			return nil, fmt.Errorf("read the token of %s: %w", role, err)
		}
		out[ec.Role(role)] = sha256.Sum256([]byte(token))
	}
	return out, nil
}

// prepare brings a library of an older release to this one, then sees to its keys
// and lets the registry follow the configured models.
func (c *core) prepare(ctx context.Context, key string, models []gateway.ModelConfig) error {
	for c.writer.View().UpgradeDue() {
		pack, err := presetPack()
		if err != nil {
			return err
		}
		if done, err := c.tell(ctx, ec.Migrate{Pack: pack}); err != nil || !done {
			return err
		}
	}
	if err := c.ensureKeys(ctx, key); err != nil {
		return err
	}
	if done, err := c.observeModels(ctx, models); err != nil || !done {
		return err
	}
	close(c.prepared)
	return nil
}

// tell sends a command of EC's own; done is false when it was told to stop first.
func (c *core) tell(ctx context.Context, b ec.Body) (done bool, err error) {
	_, err = c.writer.Do(ctx, ec.Command{ID: uuid.Must(uuid.NewV7()).String(), Actor: ec.Actor{Role: ec.RoleSystem, Name: "ec"}, Body: b})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// ensureKeys gives a fresh library its secrets. It has nothing more to do then.
func (c *core) ensureKeys(ctx context.Context, key string) error {
	if c.writer.View().HasKeys() {
		return nil
	}
	if key == "" {
		raw := make([]byte, 32)
		if _, err := rand.Read(raw); err != nil {
			return fmt.Errorf("make the library's keys: %w", err)
		}
		key = hex.EncodeToString(raw)
	}
	_, err := c.tell(ctx, ec.EnsureKeys{SplitKey: key})
	return err
}
