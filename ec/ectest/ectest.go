// Package ectest gives other packages' tests a real EC: the real writer over the
// real store in a temporary folder, with a clock that the test moves.
package ectest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/feed"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/writer"
	"github.com/google/uuid"
)

// Env is a running EC. It implements ec.Service.
type Env struct {
	*writer.Writer
	Store  *store.Store
	Feed   *feed.Feed
	Clock  *Clock
	Dir    string
	Policy ec.Policy

	tb   testing.TB
	stop func()
}

// Clock is a clock that the test moves. It never stands still by itself: each
// reading is a millisecond later than the one before.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now reads the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

// Add moves the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// New starts an EC that ends with the test.
func New(tb testing.TB) *Env {
	tb.Helper()
	return At(tb, tb.TempDir(), ec.DefaultPolicy())
}

// At starts an EC over a folder.
func At(tb testing.TB, dir string, policy ec.Policy) *Env {
	tb.Helper()
	e := &Env{Dir: dir, Policy: policy, Clock: &Clock{now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}, tb: tb}
	e.start()
	tb.Cleanup(func() { e.stop() })
	return e
}

func (e *Env) start() {
	e.tb.Helper()
	fs, err := fsx.OpenRoot(e.Dir)
	if err != nil {
		e.tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	e.Feed = feed.New(1)
	var w *writer.Writer
	e.Store, err = store.Open(store.Config{FS: fs, Log: log, Watch: ec.Watched(), Recall: true, OnEdit: func(x store.Edit) { w.Edit(x) }})
	if err != nil {
		e.tb.Fatal(err)
	}
	w, err = writer.Open(writer.Config{Store: e.Store, Feed: e.Feed, Policy: e.Policy, Now: e.Clock.Now, Log: log})
	if err != nil {
		e.tb.Fatal(err)
	}
	e.Writer = w
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2) // writer and store
	go func() { ended <- w.Run(ctx) }()
	storeCtx, storeCancel := context.WithCancel(context.Background())
	storeEnded := make(chan error, 1)
	go func() { storeEnded <- e.Store.Run(storeCtx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			e.tb.Errorf("writer: %v", err)
		}
		storeCancel()
		if err := <-storeEnded; err != nil {
			e.tb.Errorf("store: %v", err)
		}
		if err := e.Store.Close(); err != nil {
			e.tb.Errorf("close store: %v", err)
		}
	})
}

// Restart stops EC and starts it again over the same folder.
func (e *Env) Restart() {
	e.tb.Helper()
	e.stop()
	e.start()
}

// Stop stops EC for good.
func (e *Env) Stop() { e.stop() }

// While stops EC, lets the test do something to its folder, and starts it again.
func (e *Env) While(stopped func()) {
	e.tb.Helper()
	e.stop()
	stopped()
	e.start()
}

// User is the person of most tests.
var User = ec.Actor{Role: ec.RoleUser, Name: "person"} //nolint:gochecknoglobals // a constant in all but name

// Send sends a command as the role it needs and gives the outcome.
func (e *Env) Send(body ec.Body) (ec.Receipt, error) {
	actor := User
	switch body.(type) {
	case ec.SetFlags, ec.ActivateModel, ec.RollbackModel, ec.DeprecateModel:
		actor = ec.Actor{Role: ec.RoleOperator, Name: "operator"}
	case ec.ClaimTask, ec.DeliverRows, ec.DeliverUsage, ec.FinishTask:
		actor = ec.Actor{Role: ec.RoleWorker, Name: "worker"}
	case ec.BuildPacket, ec.RecordTruth, ec.ReportSessionEvent, ec.ReportTask:
		actor = ec.Actor{Role: ec.RoleSeam, Name: "seam"}
	case ec.DispatchTask, ec.LoseTask, ec.ExternalEdit, ec.EnsureKeys, ec.PruneSessions, ec.Migrate, ec.ObserveModels:
		actor = ec.Actor{Role: ec.RoleSystem, Name: "ec"}
	}
	return e.Do(context.Background(), ec.Command{ID: uuid.NewString(), Actor: actor, Body: body})
}

// Must sends a command that has to be accepted.
func (e *Env) Must(body ec.Body) ec.Receipt {
	e.tb.Helper()
	r, err := e.Send(body)
	if err != nil {
		e.tb.Fatalf("%s: %v", body.Type(), err)
	}
	return r
}

// Overlay is a valid overlay of a person's.
func Overlay(id, body string) contracts.OverlayTemplateRecord {
	fm, err := contracts.Decode[contracts.OverlayTemplateFrontmatter]([]byte(fmt.Sprintf(
		`{"id":%q,"title":"Title of %s","artifact_class":"live_overlay","category":"quality","description":"What it is for","supported_surfaces":["chat"],"live_token_target":200}`, id, id)), contracts.Client)
	if err != nil {
		panic(err)
	}
	return contracts.OverlayTemplateRecord{Frontmatter: fm, Body: body}
}

// Dataset is a dataset of n distinct rows that a check can score.
func Dataset(name string, n int) contracts.Dataset {
	d := contracts.Dataset{Name: name}
	for i := range n {
		d.Rows = append(d.Rows, contracts.DatasetRow{
			ExampleID: fmt.Sprintf("ex-%03d", i), InputText: fmt.Sprintf("Please write note number %d about topic %d.", i, i*7), ExpectedSignal: "contains: Owner:",
		})
	}
	return d
}

// Lab readies a library for jobs: flags on, the overlay "note-style" and a
// dataset of n rows. It gives the dataset's ref.
func (e *Env) Lab(n int) string {
	e.tb.Helper()
	e.Ready()
	e.Must(ec.CreateOverlay{Record: Overlay("note-style", "Write the note in plain words.\n\n- Say what changed.\n- Never guess a date.\n")})
	return e.Must(ec.CreateDataset{Dataset: Dataset("notes", n)}).Subject
}

// Ready gives the library its keys and turns the lab on.
func (e *Env) Ready() {
	e.tb.Helper()
	e.Must(ec.EnsureKeys{SplitKey: "0123456789abcdef0123456789abcdef"})
	e.Must(ec.SetFlags{Flags: contracts.Flags{PromptLab: true, Promptolution: true}})
}

// Job creates a job on "note-style".
func (e *Env) Job(dataset, options string) contracts.PromptLabJob {
	e.tb.Helper()
	doc := fmt.Sprintf(`{"artifact_kind":"overlay_template","artifact_id":"note-style","dataset_ref":%q,"options":%s}`, dataset, options)
	in, err := contracts.Decode[contracts.PromptLabJob]([]byte(doc), contracts.Client)
	if err != nil {
		e.tb.Fatal(err)
	}
	r := e.Must(ec.CreateJob{Job: in})
	j, err := e.View().Job(contracts.UUID(r.Subject))
	if err != nil {
		e.tb.Fatal(err)
	}
	return j
}

// Token is the token of a job's deliveries in tests.
const Token = "0123456789abcdef0123456789abcdef"

// Claim dispatches and claims a job's open task, as dispatcher and worker do.
func (e *Env) Claim(job contracts.UUID) contracts.Task {
	e.tb.Helper()
	t := e.Open(job)
	e.Must(ec.DispatchTask{JobID: job, Kind: t.Kind, TokenHash: ec.TokenHash(Token)})
	t = e.Open(job)
	e.Must(ec.ClaimTask{TaskID: t.ID, In: contracts.TaskClaim{Dispatch: t.Dispatch, Token: Token, Worker: "w1"}})
	task, err := e.View().TaskFor(t.ID)
	if err != nil {
		e.tb.Fatal(err)
	}
	return task
}

// Open gives a job's open task.
func (e *Env) Open(job contracts.UUID) ec.TaskState {
	e.tb.Helper()
	for _, o := range e.View().OpenTasks() {
		if o.JobID == job {
			return o.Task
		}
	}
	e.tb.Fatalf("job %s has no open task", job)
	return ec.TaskState{}
}
