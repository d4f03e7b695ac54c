package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch/queue"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/prompt"
	"github.com/elnor/promptlab/worker/pyrun"
)

// Models is the gateway as a worker needs it.
type Models interface {
	Do(ctx context.Context, req gateway.Request, budget gateway.Budget) (gateway.Response, error)
}

// Config is what a Worker needs.
type Config struct {
	EC    ec.Tasks
	Redis asynq.RedisConnOpt
	// Models makes the gateway, whose rows go to the worker: it books them with
	// the task that they belong to.
	Models  func(rows gateway.Rows) (Models, error)
	Ruling  func(contracts.ActiveModels) // hears with each claim which models may answer; nil: nobody
	Python  pyrun.Config                 // Timeout is set by the task
	Log     *slog.Logger                 // nil: silent
	Metrics prometheus.Registerer        // nil: not exported

	Name        string        // unique among workers; empty: made of host, process and chance
	Concurrency int           // tasks at once; 0: 2
	Calls       int           // model calls of one task at once; 0: 6
	FinishFor   time.Duration // how long a result is offered to an EC that is away; 0: 10 min
	DrainFor    time.Duration // how long Run waits for tasks to be given back; 0: 10 s
}

// Worker takes tasks and does them.
type Worker struct {
	c       Config
	models  Models
	books   *books
	slots   chan struct{} // one element a running task
	metrics *metrics
	verdict *gateway.Schema // shape of a judge's answer

	drain     context.Context //nolint:containedctx // a signal that all tasks watch: ends when the worker has to stop
	stopDrain context.CancelCauseFunc

	mu      sync.Mutex
	running map[string]bool // message ids in hand
	tasks   sync.WaitGroup
}

// Why a task's context ends.
var (
	errCancelled = errors.New("the job does not want the result any more")
	errDraining  = errors.New("the worker is stopping")
	errTimeLimit = errors.New("the task's time is up")
)

// New makes a Worker; Run makes it work.
func New(c Config) (*Worker, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		c.Name = fmt.Sprintf("%.100s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
	}
	orInt(&c.Concurrency, 2)
	orInt(&c.Calls, 6)
	orTime(&c.FinishFor, 10*time.Minute)
	orTime(&c.DrainFor, 10*time.Second)
	w := &Worker{
		c: c, books: newBooks(), metrics: newMetrics(c.Metrics),
		slots: make(chan struct{}, c.Concurrency), running: map[string]bool{},
	}
	w.drain, w.stopDrain = context.WithCancelCause(context.Background())
	models, err := c.Models(w.books)
	if err != nil {
		return nil, fmt.Errorf("make worker: %w", err)
	}
	w.models = models
	if w.verdict, err = gateway.NewSchema(prompt.JudgeVersion, prompt.VerdictSchema); err != nil {
		return nil, fmt.Errorf("make worker: %w", err)
	}
	return w, nil
}

func orInt(v *int, otherwise int) {
	if *v <= 0 {
		*v = otherwise
	}
}

func orTime(v *time.Duration, otherwise time.Duration) {
	if *v <= 0 {
		*v = otherwise
	}
}

// Run works until ctx ends. Then no new task is taken, and those in hand are
// stopped, their Python killed, and given back to EC, which hands them out again
// without counting a failure. Run returns when all that is done, or after
// DrainFor.
func (w *Worker) Run(ctx context.Context) error {
	// what a worker that was killed here has left behind
	if err := pyrun.Sweep(w.c.Python.Dir); err != nil {
		w.c.Log.WarnContext(ctx, "old runs not swept", "error", err)
	}
	srv := asynq.NewServer(w.c.Redis, asynq.Config{
		Concurrency:              w.c.Concurrency,
		Queues:                   map[string]int{queue.Name: 1},
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: time.Second,
		ShutdownTimeout:          w.c.DrainFor + 5*time.Second, // after our own
		Logger:                   newQuietLog(w.c.Log),
		LogLevel:                 asynq.WarnLevel,
		BaseContext:              func() context.Context { return context.WithoutCancel(ctx) },
	})
	if err := srv.Start(asynq.HandlerFunc(w.process)); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	w.c.Log.InfoContext(ctx, "worker started", "worker", w.c.Name, "concurrency", w.c.Concurrency)
	<-ctx.Done()
	srv.Stop()
	w.stopDrain(errDraining)
	returned := make(chan struct{})
	go func() {
		w.tasks.Wait()
		close(returned)
	}()
	patience := time.NewTimer(w.c.DrainFor)
	defer patience.Stop()
	var err error
	select {
	case <-returned:
	case <-patience.C:
		err = errors.New("stop worker: tasks did not end in time")
	}
	srv.Shutdown()
	w.c.Log.InfoContext(context.WithoutCancel(ctx), "worker stopped", "worker", w.c.Name)
	return err
}

// process handles one message of the queue. Whatever becomes of the task is
// settled with EC; the message itself is used up in any case.
func (w *Worker) process(ctx context.Context, t *asynq.Task) error {
	msg, err := queue.Decode(t.Payload())
	if err != nil {
		w.c.Log.WarnContext(ctx, "message refused", "type", t.Type(), "error", err)
		return fmt.Errorf("read message: %w: %w", err, asynq.RevokeTask)
	}
	id := queue.MessageID(msg.TaskID, msg.Dispatch)
	if !w.take(id) {
		return fmt.Errorf("message %s came twice: %w", id, asynq.RevokeTask)
	}
	defer w.leave(id)
	// The queue may give up on a message (its own timeout, a lost lease) and free
	// its place while the task still runs: the bound is ours.
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-w.drain.Done():
		return fmt.Errorf("%w: %w", errDraining, asynq.RevokeTask)
	}
	w.handle(context.WithoutCancel(ctx), msg)
	return nil
}

func (w *Worker) take(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[id] || w.drain.Err() != nil {
		return false
	}
	w.running[id] = true
	w.tasks.Add(1)
	return true
}

func (w *Worker) leave(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, id)
	w.tasks.Done()
}

// handle claims the task of a message, does it and delivers the outcome.
func (w *Worker) handle(ctx context.Context, msg contracts.TaskMessage) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.drain, func() { cancel(errDraining) })()
	log := w.c.Log.With("task", msg.TaskID, "dispatch", msg.Dispatch)
	task, err := w.claim(ctx, msg)
	if err != nil {
		log.InfoContext(ctx, "task not claimed", "error", err)
		w.metrics.tasks.WithLabelValues("unknown", "not_claimed").Inc()
		return
	}
	s := newSession(w, msg, task, log.With("job", task.JobID, "kind", task.Kind), cancel)
	w.metrics.running.Inc()
	defer w.metrics.running.Dec()
	s.run(ctx)
}

// claim asks for the work. An EC that does not answer is waited for a while; if
// the claim arrived all the same, its lease lapses and EC hands the task out
// again.
func (w *Worker) claim(ctx context.Context, msg contracts.TaskMessage) (contracts.Task, error) {
	in := contracts.TaskClaim{Dispatch: msg.Dispatch, Token: msg.Token, Worker: w.c.Name}
	var task contracts.Task
	err := persist(ctx, time.Minute, func(ctx context.Context) (err error) {
		task, err = w.c.EC.Claim(ctx, msg.TaskID, in)
		return err
	})
	if err == nil && task.Models != nil && w.c.Ruling != nil {
		w.c.Ruling(*task.Models)
	}
	return task, err
}

// persist repeats a message to EC while EC is away, for so long at most.
func persist(ctx context.Context, most time.Duration, send func(context.Context) error) error {
	deadline := time.Now().Add(most)
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		err := send(ctx)
		if err == nil || fault.Of(err) != fault.Unavailable || time.Now().Add(pause).After(deadline) {
			return err
		}
		if !rest(ctx, pause) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// rest waits; false means that ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
