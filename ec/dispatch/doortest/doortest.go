// Package doortest is the one suite that every worker door has to pass: the one
// in EC's own process and the one over HTTP.
package doortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
)

// Token is the token of the deliveries that the suite makes.
const Token = ectest.Token

// Bench is a running EC with a door in it.
type Bench struct {
	*ectest.Env
	Door    *dispatch.Door
	Tasks   ec.Tasks // the door under test: Door or something in front of it
	Dataset string

	mu     sync.Mutex
	events []contracts.LiveEvent
}

// NewBench starts an EC with a door whose leases last so long.
func NewBench(t testing.TB, lease time.Duration) *Bench {
	b := &Bench{Env: ectest.New(t)}
	b.Door = dispatch.NewDoor(dispatch.DoorConfig{EC: b.Env, Lease: lease, Progress: b.hear})
	b.Tasks = b.Door
	b.Dataset = b.Lab(40)
	return b
}

func (b *Bench) hear(e contracts.LiveEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// Events gives the progress that was heard so far.
func (b *Bench) Events() []contracts.LiveEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]contracts.LiveEvent(nil), b.events...)
}

// Sent makes a job whose task has been handed out once, under Token.
func (b *Bench) Sent(options string) (contracts.PromptLabJob, ec.TaskState) {
	j := b.Job(b.Dataset, options)
	b.Must(ec.DispatchTask{JobID: j.JobID, Kind: b.Open(j.JobID).Kind, TokenHash: ec.TokenHash(Token)})
	return j, b.Open(j.JobID)
}

// claim claims through the door under test.
func (b *Bench) claim(t *testing.T, options string) (contracts.PromptLabJob, contracts.Task) {
	t.Helper()
	j, state := b.Sent(options)
	task, err := b.Tasks.Claim(t.Context(), state.ID, claimOf(state.Dispatch, Token))
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return j, task
}

func claimOf(dispatch int, token string) contracts.TaskClaim {
	return contracts.TaskClaim{Dispatch: dispatch, Token: token, Worker: "w1"}
}

func (b *Bench) status(t *testing.T, job contracts.UUID) contracts.PromptLabJob {
	t.Helper()
	j, err := b.View().Job(job)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Run runs the suite. wrap gives the door under test over the real one; it may
// register clean-up with t.
func Run(t *testing.T, wrap func(t *testing.T, door *dispatch.Door) ec.Tasks) {
	bench := func(t *testing.T) *Bench {
		b := NewBench(t, 30*time.Second)
		b.Tasks = wrap(t, b.Door)
		return b
	}
	t.Run("claim", func(t *testing.T) { claims(t, bench(t)) })
	t.Run("R-SYS-03 only the current delivery counts", func(t *testing.T) { fencing(t, bench(t)) })
	t.Run("heartbeat", func(t *testing.T) { heartbeats(t, bench(t)) })
	t.Run("R-CMD-05 usage and borrowing repeat without harm", func(t *testing.T) { usage(t, bench(t)) })
	t.Run("R-WRK-10 finish repeats without harm", func(t *testing.T) { finishing(t, bench(t)) })
	t.Run("R-LAB-10 a result after the cancel is a note", func(t *testing.T) { late(t, bench(t)) })
	t.Run("rows", func(t *testing.T) { rows(t, bench(t)) })
	t.Run("release", func(t *testing.T) { releases(t, bench(t)) })
	t.Run("faults arrive as they left", func(t *testing.T) { faults(t, bench(t)) })
}

func claims(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{"max_candidates":2}`)
	want, err := b.View().TaskFor(task.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	want.LeaseSeconds = 30
	// An empty list and no list are the same document.
	if d := cmp.Diff(contracts.HashJSON(want), contracts.HashJSON(task)); d != "" {
		t.Errorf("claim gave another task than EC has:\n%s", cmp.Diff(want, task))
	}
	if got := b.status(t, j.JobID).Status; got != contracts.JobRunning {
		t.Errorf("job after claim: got %s, want running", got)
	}
	again, err := b.Tasks.Claim(t.Context(), task.TaskID, claimOf(task.Dispatch, Token))
	if err != nil || contracts.HashJSON(again) != contracts.HashJSON(task) {
		t.Errorf("R-CMD-05 the same worker's second claim: got %v, want the same task", err)
	}
	other := claimOf(task.Dispatch, Token)
	other.Worker = "w2"
	if _, err := b.Tasks.Claim(t.Context(), task.TaskID, other); fault.Of(err) != fault.Conflict {
		t.Errorf("another worker's claim of a claimed delivery: got %v, want a conflict", err)
	}
}

func fencing(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{}`)
	old := task.Dispatch
	b.Must(ec.LoseTask{JobID: j.JobID, Dispatch: old, Why: "test"})
	if _, err := b.Tasks.Claim(t.Context(), task.TaskID, claimOf(old, Token)); fault.Of(err) != fault.Conflict {
		t.Errorf("repeat of a claim whose delivery was lost: got %v, want a conflict", err)
	}
	second := strings.Repeat("f", 64)
	b.Must(ec.DispatchTask{JobID: j.JobID, Kind: task.Kind, TokenHash: ec.TokenHash(second)})
	now := b.Open(j.JobID)
	for name, in := range map[string]contracts.TaskClaim{
		"old delivery, old token": claimOf(old, Token),
		"new delivery, old token": claimOf(now.Dispatch, Token),
		"old delivery, new token": claimOf(old, second),
	} {
		if _, err := b.Tasks.Claim(t.Context(), task.TaskID, in); err == nil {
			t.Errorf("claim with %s: accepted", name)
		}
	}
	reply, err := b.Tasks.Heartbeat(t.Context(), task.TaskID, contracts.TaskHeartbeat{Dispatch: old, Token: Token})
	if err != nil || reply.State != contracts.TaskCancel {
		t.Errorf("heartbeat of a superseded delivery: got %+v, %v, want cancel", reply, err)
	}
	ack, err := b.Tasks.Finish(t.Context(), task.TaskID, finish(task, Token))
	if err != nil || ack.Accepted || ack.Note != ec.CodeTaskSuperseded {
		t.Errorf("R-RES-01 finish of a superseded delivery: got %+v, %v, want accepted=false and the reason", ack, err)
	}
	if _, err := b.Tasks.Claim(t.Context(), task.TaskID, claimOf(now.Dispatch, second)); err != nil {
		t.Errorf("claim of the current delivery: %v", err)
	}
}

func finish(task contracts.Task, token string) contracts.TaskFinish {
	return contracts.TaskFinish{Dispatch: task.Dispatch, Token: token, Result: contracts.PromptLabJobResult{
		JobID: task.JobID, SourceHash: task.Request.SourceHash, Status: contracts.JobFailed, FailureCode: "weird", FailureMessage: "as it came",
	}}
}

func heartbeats(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{}`)
	beat := contracts.TaskHeartbeat{Dispatch: task.Dispatch, Token: Token}
	best := 0.75
	beat.Progress = &contracts.TaskProgress{Phase: contracts.PhaseOptimizing, Step: 2, Steps: 4, Best: &best, Calls: 17}
	before := b.View().Seq()
	reply, err := b.Tasks.Heartbeat(t.Context(), task.TaskID, beat)
	if err != nil || reply.State != contracts.TaskRun || reply.LeaseSeconds != 30 {
		t.Fatalf("heartbeat: got %+v, %v, want run", reply, err)
	}
	if got := b.View().Seq(); got != before {
		t.Errorf("heartbeat wrote to the journal: revision %d became %d", before, got)
	}
	events := b.Events()
	if len(events) != 1 || events[0].JobID != j.JobID || cmp.Diff(beat.Progress, events[0].Progress) != "" {
		t.Errorf("progress: heard %+v, want the one that was sent", events)
	}
	// R-LAB-10: the long poll ends with the cancel, not with its time.
	beat.Progress, beat.WaitSeconds = nil, 10
	type answer struct {
		reply contracts.TaskHeartbeatReply
		err   error
	}
	answers := make(chan answer, 1)
	began := time.Now()
	go func() {
		reply, err := b.Tasks.Heartbeat(context.Background(), task.TaskID, beat)
		answers <- answer{reply, err}
	}()
	b.Must(ec.CancelJob{JobID: j.JobID})
	a := <-answers
	if a.err != nil || a.reply.State != contracts.TaskCancel {
		t.Errorf("heartbeat of a cancelled job: got %+v, %v, want cancel", a.reply, a.err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the cancel took %s to arrive, want well below the wait of 10 s", took)
	}
}

func usageRow(n int) contracts.UsageRow {
	return contracts.UsageRow{
		AttemptID: contracts.DeriveID("suite", "attempt", n), RequestID: fmt.Sprint("r", n), Feature: contracts.RoleTask, Target: "t",
		Provider: "p", Model: "m", Attempt: 1, Success: true, UsageKnown: true, InputTokens: 10, OutputTokens: 5, CostKnown: true,
		Cost: 1000, At: contracts.At(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)),
	}
}

func usage(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{"per_job_budget_usd":1}`)
	in := contracts.TaskUsage{
		Dispatch: task.Dispatch, Token: Token, Rows: contracts.List[contracts.UsageRow]{usageRow(1), usageRow(2)},
		Borrow: contracts.FromUSD(0.5), BorrowID: contracts.DeriveID("suite", "borrow", 1),
	}
	for range 2 {
		got, err := b.Tasks.Usage(t.Context(), task.TaskID, in)
		if err != nil || got.Granted != contracts.FromUSD(0.5) || got.Left != contracts.FromUSD(0.25) {
			t.Fatalf("usage: got %+v, %v, want 0.5 granted and 0.25 left (a quarter is kept for measuring)", got, err)
		}
	}
	if u := b.View().Usage(ec.UsageFilter{Job: j.JobID}); u.Total.Calls != 2 {
		t.Errorf("usage sent twice: %d calls booked, want 2", u.Total.Calls)
	}
	in.BorrowID, in.Rows = contracts.DeriveID("suite", "borrow", 2), nil
	got, err := b.Tasks.Usage(t.Context(), task.TaskID, in)
	if err != nil || got.Granted != contracts.FromUSD(0.25) || got.Left != 0 {
		t.Errorf("borrow beyond the budget: got %+v, %v, want the rest of 0.25", got, err)
	}
}

func finishing(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{}`)
	in := finish(task, Token)
	first, err := b.Tasks.Finish(t.Context(), task.TaskID, in)
	if err != nil || !first.Accepted || first.Status != contracts.JobFailed {
		t.Fatalf("finish: got %+v, %v, want accepted and failed", first, err)
	}
	seq := b.View().Seq()
	again, err := b.Tasks.Finish(t.Context(), task.TaskID, in)
	if err != nil || cmp.Diff(first, again) != "" {
		t.Errorf("the same finish again: got %+v, %v, want the first answer %+v", again, err, first)
	}
	if got := b.View().Seq(); got != seq {
		t.Errorf("the same finish again changed something: revision %d became %d", seq, got)
	}
	if d := b.status(t, j.JobID).Detail; d.FailureCode != "weird" || d.Attempts != 1 {
		t.Errorf("R-WRK-08 an unknown code: recorded as %q after %d attempts, want weird after 1", d.FailureCode, d.Attempts)
	}
}

func late(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{}`)
	b.Must(ec.CancelJob{JobID: j.JobID})
	ack, err := b.Tasks.Finish(t.Context(), task.TaskID, finish(task, Token))
	if err != nil || ack.Accepted || ack.Status != contracts.JobCancelled {
		t.Errorf("finish after a cancel: got %+v, %v, want accepted=false, cancelled", ack, err)
	}
	if n := len(b.status(t, j.JobID).Detail.Notes); n == 0 {
		t.Error("finish after a cancel left no note")
	}
}

func rows(t *testing.T, b *Bench) {
	_, task := b.claim(t, `{}`)
	row := contracts.MeasurementRow{Arm: "source", ExampleID: "ex-000"}
	_, err := b.Tasks.Rows(t.Context(), task.TaskID, contracts.TaskRows{Dispatch: task.Dispatch, Token: Token, Rows: contracts.List[contracts.MeasurementRow]{row}})
	if fault.Of(err) != fault.Conflict {
		t.Errorf("rows of a task that measures nothing: got %v, want a conflict", err)
	}
}

func releases(t *testing.T, b *Bench) {
	j, task := b.claim(t, `{}`)
	r, ok := b.Tasks.(interface {
		Release(context.Context, contracts.UUID, contracts.TaskClaim) error
	})
	if !ok {
		t.Fatal("the door cannot take a task back")
	}
	if err := r.Release(t.Context(), task.TaskID, claimOf(task.Dispatch, strings.Repeat("0", 64))); fault.Of(err) != fault.Conflict {
		t.Errorf("release with a wrong token: got %v, want a conflict", err)
	}
	if err := r.Release(t.Context(), task.TaskID, claimOf(task.Dispatch, Token)); err != nil {
		t.Fatalf("release: %v", err)
	}
	if s := b.Open(j.JobID); s.Stage != ec.StageWaiting || s.Failures != 0 {
		t.Errorf("released task: stage %s with %d failures, want waiting with none", s.Stage, s.Failures)
	}
}

func faults(t *testing.T, b *Bench) {
	_, task := b.claim(t, `{}`)
	missing := contracts.DeriveID("suite", "no such task", 0)
	if _, err := b.Tasks.Claim(t.Context(), missing, claimOf(1, Token)); fault.Of(err) != fault.NotFound {
		t.Errorf("claim of a task that never was: got %v, want not found", err)
	}
	if _, err := b.Tasks.Heartbeat(t.Context(), missing, contracts.TaskHeartbeat{Dispatch: 1, Token: Token}); fault.Of(err) != fault.NotFound {
		t.Errorf("heartbeat of a task that never was: got %v, want not found", err)
	}
	in := finish(task, Token)
	in.Result.JobID = missing
	_, err := b.Tasks.Finish(t.Context(), task.TaskID, in)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Invalid || len(f.Details) != 1 || f.Details[0].Field != "result.job_id" {
		t.Errorf("result of another job: got %v, want one that names result.job_id", err)
	}
	wrong := finish(task, strings.Repeat("0", 64))
	if _, err := b.Tasks.Finish(t.Context(), task.TaskID, wrong); fault.Of(err) != fault.Forbidden {
		t.Errorf("finish with a wrong token: got %v, want forbidden", err)
	}
}
