package worker

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator"
	"github.com/elnor/promptlab/worker/pyrun"
)

// lab is EC with dispatcher, embedded broker and a worker.
type lab struct{ *ectest.Env }

func newLab(t *testing.T, change func(*Config)) lab {
	t.Helper()
	env := ectest.New(t)
	door := dispatch.NewDoor(dispatch.DoorConfig{EC: env})
	b := openBroker(t)
	disp, err := dispatch.New(dispatch.Config{EC: env, Door: door, Redis: b.Redis(), Tick: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	dispatched := make(chan error, 1)
	go func() { dispatched <- disp.Run(ctx) }()
	stop := start(t, newTestWorker(t, door, &provider{answer: good}, func(c *Config) {
		c.Redis = b.Redis()
		change(c)
	}))
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("worker: %v", err)
		}
		cancel()
		if err := <-dispatched; err != nil {
			t.Errorf("dispatcher: %v", err)
		}
	})
	return lab{env}
}

// wait gives the job when it has ended.
func (l lab) wait(t *testing.T, job contracts.UUID) contracts.PromptLabJob {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		changed := l.Changed()
		now, err := l.View().Job(job)
		if err != nil {
			t.Fatal(err)
		}
		if now.Status.Terminal() {
			return now
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("after 60 s the job is %s: %+v", now.Status, now.Detail)
		}
	}
}

// R-LAB-03: the installed optimizer itself, in the simulator's helpful world.
func TestTheRealOptimizerThroughTheWholeLab(t *testing.T) {
	python, err := filepath.Abs("../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("SKIPPED: the optimizer is not installed; run make setup")
	}
	l := newLab(t, func(c *Config) {
		c.Python = pyrun.Config{Python: python, Dir: t.TempDir()}
		c.Models = func(rows gateway.Rows) (Models, error) {
			return gateway.New(gateway.Config{
				Models:   []gateway.ModelConfig{{Name: "sim", Protocol: gateway.ProtocolSimulator, Model: "helpful", Routes: gateway.Roles()}},
				Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolSimulator: simulator.NewAdapter(7)}, Rows: rows,
			})
		}
	})
	l.Ready()
	l.Must(ec.CreateOverlay{Record: ectest.Overlay("note-style", `Write the note in plain words so that somebody who was not there can follow it.

- Say what changed and why it changed, in the order in which it happened.
- Never guess a date; say that it is not known.
- Keep names and numbers exactly as they were given to you.
- Close with what happens next and who has to act on it.
- Ask one question only where the request cannot be answered without it.
`)})
	data := contracts.Dataset{Name: "notes"}
	for _, e := range simulator.Examples(60, 7) {
		data.Rows = append(data.Rows, contracts.DatasetRow{ExampleID: e.ID, InputText: e.Input, ExpectedSignal: e.ExpectedSignal})
	}
	job := l.Job(l.Must(ec.CreateDataset{Dataset: data}).Subject, `{"max_steps":3}`)
	now := l.wait(t, job.JobID)
	d := now.Detail
	if now.Status != contracts.JobCompleted || d.Optimizer == nil || d.Optimizer.Name != "promptolution" || d.Optimizer.Version == "" || d.Optimizer.Steps != 3 || !d.Simulated {
		t.Fatalf("job: %s, optimizer %+v, simulated %v (%s %s)", now.Status, d.Optimizer, d.Simulated, d.FailureCode, d.FailureMessage)
	}
	found := l.View().Candidates(ec.CandidateFilter{JobID: job.JobID}).Items
	if len(found) == 0 || found[0].Evidence == nil || found[0].Evidence.LowerBound <= 0 || found[0].EvidenceLabel != contracts.LabelEstablished {
		t.Errorf("best candidate in a world where texts help: %+v", found)
	}
}
