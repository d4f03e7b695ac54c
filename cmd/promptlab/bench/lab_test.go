package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/dispatch/broker"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/writer"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/worker"
	"github.com/elnor/promptlab/worker/pyrun"
)

// core is EC without a network: the real store and its writer, on real time.
type core struct {
	*writer.Writer
	t    *testing.T
	stop func() // all of it, in order; again: nothing
}

// background runs a part until its stop is called.
func background(t *testing.T, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

func openCore(t *testing.T, dir string) *core {
	t.Helper()
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	var w *writer.Writer
	st, err := store.Open(store.Config{FS: root, Log: log, Watch: ec.Watched(), OnEdit: func(e store.Edit) { w.Edit(e) }})
	if err != nil {
		t.Fatal(err)
	}
	w, err = writer.Open(writer.Config{Store: st, Policy: ec.DefaultPolicy(), Now: time.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	stopStore := background(t, "store", st.Run)
	stopWriter := background(t, "writer", w.Run)
	c := &core{Writer: w, t: t, stop: sync.OnceFunc(func() {
		stopWriter()
		stopStore()
		if err := st.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})}
	t.Cleanup(func() { c.stop() })
	return c
}

// send sends a command as the person, or as whoever it takes.
func (c *core) send(body ec.Body) (ec.Receipt, error) {
	actor := ec.Actor{Role: ec.RoleUser, Name: "person"}
	switch body.(type) {
	case ec.SetFlags:
		actor = ec.Actor{Role: ec.RoleOperator, Name: "operator"}
	case ec.EnsureKeys:
		actor = ec.Actor{Role: ec.RoleSystem, Name: "ec"}
	}
	r, err := c.Do(context.Background(), ec.Command{Actor: actor, Body: body})
	if err != nil {
		err = fmt.Errorf("%s: %w", body.Type(), err)
	}
	return r, err
}

func (c *core) must(body ec.Body) ec.Receipt {
	c.t.Helper()
	r, err := c.send(body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// job asks for a job on the overlay "note-style".
func (c *core) job(dataset, options string) (contracts.UUID, error) {
	in, err := contracts.Decode[contracts.PromptLabJob]([]byte(fmt.Sprintf(
		`{"artifact_kind":"overlay_template","artifact_id":"note-style","dataset_ref":%q,"options":%s}`, dataset, options)), contracts.Client)
	if err != nil {
		return "", err
	}
	r, err := c.send(ec.CreateJob{Job: in})
	return contracts.UUID(r.Subject), err
}

// await waits until ok holds of the view.
func (c *core) await(limit time.Duration, what string, ok func(*ec.View) bool) {
	c.t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		changed := c.Changed() // before the view is read: no change is missed
		if ok(c.View()) {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			c.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// spy stands in the worker's door. It sees when tasks are claimed and finished,
// and may change what a claim hands out.
type spy struct {
	ec.Tasks
	claimed  func(contracts.Task) contracts.Task
	finished func(contracts.UUID)
}

func (s spy) Claim(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) (contracts.Task, error) {
	out, err := s.Tasks.Claim(ctx, task, in)
	if err == nil && s.claimed != nil {
		out = s.claimed(out)
	}
	return out, err
}

func (s spy) Finish(ctx context.Context, task contracts.UUID, in contracts.TaskFinish) (contracts.TaskAck, error) {
	out, err := s.Tasks.Finish(ctx, task, in)
	if err == nil && s.finished != nil {
		s.finished(task)
	}
	return out, err
}

// labConfig is what differs between labs.
type labConfig struct {
	redisURL    string // empty: embedded
	concurrency int
	python      string
	models      []gateway.ModelConfig
	adapters    map[gateway.Protocol]gateway.Adapter
	spy         spy // without its door
}

// openLab is EC with dispatcher, queue and a real worker in one process, as `up`
// composes them, without the API.
func openLab(t *testing.T, lc labConfig) *core {
	t.Helper()
	c := openCore(t, t.TempDir())
	b, err := broker.Open(broker.Config{RedisURL: lc.redisURL})
	if err != nil {
		t.Fatal(err)
	}
	door := dispatch.NewDoor(dispatch.DoorConfig{EC: c})
	disp, err := dispatch.New(dispatch.Config{EC: c, Door: door, Redis: b.Redis()})
	if err != nil {
		t.Fatal(err)
	}
	lc.spy.Tasks = door
	w, err := worker.New(worker.Config{
		EC: lc.spy, Redis: b.Redis(), Concurrency: lc.concurrency, Python: pyrun.Config{Python: lc.python, Dir: t.TempDir()},
		Models: func(rows gateway.Rows) (worker.Models, error) {
			return gateway.New(gateway.Config{Models: lc.models, Adapters: lc.adapters, Rows: rows})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	stopDispatch := background(t, "dispatch", disp.Run)
	stopWorker := background(t, "worker", w.Run)
	t.Cleanup(func() { // before the core's own
		stopWorker()
		stopDispatch()
		if err := b.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	c.must(ec.EnsureKeys{SplitKey: strings.Repeat("0123456789abcdef", 4)})
	c.must(ec.EnsureKeys{SplitKey: "0123456789abcdef0123456789abcdef"})
	c.must(ec.SetFlags{Flags: contracts.Flags{PromptLab: true, Promptolution: true}})
	return c
}
