package worker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch/broker"
	"github.com/elnor/promptlab/ec/dispatch/queue"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

// R-SYS-03: whoever can write to Redis can write anything.
func TestHostileMessagesAreDropped(t *testing.T) {
	d := newFakeDoor(optimizeTask("search"))
	w := newTestWorker(t, d, &provider{answer: good}, nil)
	for _, payload := range []string{"", "null", `{"task_id":"x"}`, strings.Repeat("[", 10000)} {
		if err := w.process(t.Context(), asynq.NewTask("lab:optimize", []byte(payload))); !errors.Is(err, asynq.RevokeTask) {
			t.Errorf("payload %.20q: got %v, want it revoked", payload, err)
		}
	}
	if d.claims != 0 {
		t.Errorf("a hostile message led to %d claims", d.claims)
	}
}

func TestARefusedClaimIsTheEndOfTheMessage(t *testing.T) {
	d := newFakeDoor(optimizeTask("search"))
	d.refuse = fault.New(fault.Conflict, ec.CodeTaskSuperseded, "not the current one")
	p := &provider{answer: good}
	newTestWorker(t, d, p, nil).handle(t.Context(), message(d.task))
	if len(d.finishes) != 0 || p.count() != 0 {
		t.Errorf("a refused delivery made %d calls and %d results", p.count(), len(d.finishes))
	}
}

func TestAMessageTwiceInOneWorkerRunsOnce(t *testing.T) {
	w := newTestWorker(t, newFakeDoor(optimizeTask("")), &provider{answer: good}, nil)
	if !w.take("a.1") || w.take("a.1") || !w.take("a.2") {
		t.Error("a message in hand can be taken again, or another cannot")
	}
	w.leave("a.1")
	if !w.take("a.1") {
		t.Error("a message that is done cannot be taken")
	}
}

// R-LAB-10: EC may answer that nobody waits for the result; that is the end.
func TestALateResultIsOfferedOnce(t *testing.T) {
	d := newFakeDoor(optimizeTask("search"))
	d.late = true
	newTestWorker(t, d, &provider{answer: good}, nil).handle(t.Context(), message(d.task))
	if len(d.finishes) != 1 {
		t.Errorf("the late result was offered %d times", len(d.finishes))
	}
}

// R-SYS-04: while EC is away the work goes on; rows, usage and result are
// delivered when it is back.
func TestECAwayWhileMeasuring(t *testing.T) {
	task := measureTask()
	task.Budget = contracts.TaskBudget{PaidCalls: true, Left: contracts.FromUSD(1)}
	d := newFakeDoor(task)
	var w *Worker
	p := &provider{}
	p.answer = func(n int, c gateway.Call) (gateway.Reply, error) {
		if n == 4 { // money is lent, now EC goes
			d.setDown(true)
		}
		return good(n, c)
	}
	w = newTestWorker(t, d, p, nil)
	ended := make(chan struct{})
	go func() { defer close(ended); w.handle(t.Context(), message(task)) }()
	until(t, "the work is done although EC is away", func() bool { return p.count() == 18 })
	select {
	case <-ended:
		t.Fatal("the task ended without an EC")
	default:
	}
	d.setDown(false)
	<-ended
	if len(keys(d.rows)) != 18 || len(d.usage) != 18 || d.result(t).Status != contracts.JobCompleted {
		t.Errorf("after EC's return: %d rows, %d usage rows, result %+v", len(d.rows), len(d.usage), d.result(t))
	}
}

func TestECNeverComesBack(t *testing.T) {
	d := newFakeDoor(optimizeTask("search"))
	p := &provider{}
	p.answer = func(n int, c gateway.Call) (gateway.Reply, error) {
		d.setDown(true)
		return good(n, c)
	}
	began := time.Now()
	newTestWorker(t, d, p, func(c *Config) { c.FinishFor = time.Second }).handle(t.Context(), message(d.task))
	if len(d.finishes) != 0 || time.Since(began) > 15*time.Second {
		t.Errorf("%d results after %s", len(d.finishes), time.Since(began))
	}
}

func openBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Open(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func enqueue(t *testing.T, b *broker.Broker, m contracts.TaskMessage) {
	t.Helper()
	c := asynq.NewClient(b.Redis())
	defer func() { _ = c.Close() }()
	payload, err := queue.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(asynq.NewTask("lab:optimize", payload), asynq.Queue(queue.Name), asynq.MaxRetry(0), asynq.TaskID(queue.MessageID(m.TaskID, m.Dispatch)), asynq.Timeout(time.Hour)); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, w *Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// A stopping worker gives its task back at once: no result, no failure, and no
// Python left.
func TestAStoppingWorkerGivesItsTaskBack(t *testing.T) {
	b := openBroker(t)
	file := filepath.Join(t.TempDir(), "pids")
	d := newFakeDoor(optimizeTask("tree " + file))
	stop := start(t, newTestWorker(t, d, &provider{answer: good}, func(c *Config) { c.Redis = b.Redis() }))
	enqueue(t, b, message(d.task))
	tree := pids(t, file, 3)
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if d.releases != 1 || len(d.finishes) != 0 {
		t.Errorf("%d releases and %d results, want 1 and 0", d.releases, len(d.finishes))
	}
	for _, pid := range tree {
		if alive(pid) {
			t.Errorf("process %d is alive after the worker's end", pid)
		}
	}
	inspector := asynq.NewInspector(b.Redis())
	defer func() { _ = inspector.Close() }()
	if info, err := inspector.GetQueueInfo(queue.Name); err != nil || info.Size != 0 {
		t.Errorf("the queue holds %+v, %v, want nothing: EC hands the task out again", info, err)
	}
}

// beAWorker is the child process of the test below.
func beAWorker(dir string) {
	task := optimizeTask("tree " + filepath.Join(dir, "pids"))
	p := &provider{answer: good}
	c := Config{EC: newFakeDoor(task), Models: p.models, Log: slog.New(slog.DiscardHandler)}
	c.Python.Python, c.Python.Dir = interpreter(), dir
	c.Python.Args = []string{"-I", "-B", os.Getenv("PROMPTLAB_TEST_ENGINE")}
	w, err := New(c)
	if err != nil {
		panic(err)
	}
	w.handle(context.Background(), message(task))
}

// R-SYS-04: kill -9 ends the Python at once; what had fled from it is found by
// the next worker's start.
func TestKilledWorkerLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	script, err := filepath.Abs(filepath.Join("testdata", "engine.py"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this test's own binary
	cmd.Env = append(os.Environ(), "PROMPTLAB_TEST_WORKER="+dir, "PROMPTLAB_TEST_ENGINE="+script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tree := pids(t, filepath.Join(dir, "pids"), 3)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	until(t, "the Python process is gone", func() bool { return !alive(tree[0]) })
	b := openBroker(t)
	stop := start(t, newTestWorker(t, newFakeDoor(optimizeTask("")), &provider{answer: good}, func(c *Config) { c.Redis, c.Python.Dir = b.Redis(), dir }))
	until(t, "its children are gone", func() bool { return !alive(tree[1]) && !alive(tree[2]) })
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
}

// The whole way: EC, dispatcher, broker, worker, stub engine, and back. The
// better text is found, measured on the sealed rows and waits for a person.
func TestAJobTravelsToAReviewableCandidate(t *testing.T) {
	p := &provider{answer: good}
	l := newLab(t, func(c *Config) { c.Models = p.models })
	job := l.Job(l.Lab(60), `{"per_job_budget_usd":1,"optimization_goal":"search"}`)
	now := l.wait(t, job.JobID)
	d := now.Detail
	if now.Status != contracts.JobCompleted || d.Attempts != 1 || d.Deliveries != 2 {
		t.Fatalf("job: %s after %d attempts and %d deliveries (%s %s), want completed after 1 and 2", now.Status, d.Attempts, d.Deliveries, d.FailureCode, d.FailureMessage)
	}
	if d.Optimizer == nil || d.Optimizer.Version != "2.3.0" || d.Optimizer.Tried != 2 {
		t.Errorf("optimizer: %+v", d.Optimizer)
	}
	c := l.View().Candidates(ec.CandidateFilter{JobID: job.JobID})
	if len(c.Items) != 1 || !c.Items[0].Reviewable || c.Items[0].Evidence == nil || c.Items[0].Evidence.Difference != 1 || c.Items[0].EvidenceLabel == contracts.LabelNone {
		t.Errorf("candidates: %+v", c.Items)
	}
	if u := l.View().Usage(ec.UsageFilter{Job: job.JobID}); u.Total.Calls != p.count() {
		t.Errorf("%d calls are booked, %d were made", u.Total.Calls, p.count())
	}
}

// R-WRK-06, R-GWR-13: with a provider that never answers a job is tried four times in all,
// and one logical call means at most 4 x 3 provider calls.
func TestRetriesAreECsAndBounded(t *testing.T) {
	p := &provider{answer: fails(gateway.ClassRateLimit, 429)}
	l := newLab(t, func(c *Config) { c.Models = p.models })
	job := l.Job(l.Lab(40), `{"per_job_budget_usd":1,"optimization_goal":"meta"}`)
	for try := 1; try <= 4; try++ {
		for {
			changed := l.Changed()
			j, err := l.View().Job(job.JobID)
			if err != nil {
				t.Fatal(err)
			}
			if j.Status.Terminal() || l.Open(job.JobID).Failures == try {
				break
			}
			select {
			case <-changed:
			case <-time.After(20 * time.Second):
				t.Fatalf("try %d: no news of the job for 20 s: %+v", try, j.Detail)
			}
		}
		l.Clock.Add(3 * time.Minute) // past the pause before the next try
	}
	now := l.wait(t, job.JobID)
	if now.Status != contracts.JobFailed || now.Detail.FailureCode != contracts.FailRateLimited || now.Detail.Attempts != 4 {
		t.Errorf("job: %s with %q after %d attempts, want failed with provider_rate_limited after 4", now.Status, now.Detail.FailureCode, now.Detail.Attempts)
	}
	if n := p.count(); n != 12 {
		t.Errorf("one logical call: %d provider calls, want 3 in each of 4 tries", n)
	}
}
