package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

// releaser is the part of a door that takes a task back without a result.
type releaser interface {
	Release(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) error
}

// session is one claimed delivery on its way through the worker.
type session struct {
	w      *Worker
	msg    contracts.TaskMessage
	task   contracts.Task
	log    *slog.Logger
	cancel context.CancelCauseFunc // of the work
	book   *book
	purse  *gateway.Purse // nil: no paid call
	began  time.Time

	mu       sync.Mutex
	progress contracts.TaskProgress
	news     chan struct{} // buffer 1: there is progress to tell
}

func newSession(w *Worker, msg contracts.TaskMessage, task contracts.Task, log *slog.Logger, cancel context.CancelCauseFunc) *session {
	s := &session{
		w: w, msg: msg, task: task, log: log, cancel: cancel, began: time.Now(),
		book: newBook(w.c.EC, msg, task.JobID), news: make(chan struct{}, 1),
	}
	s.progress.Phase = contracts.PhaseOptimizing
	if task.Kind == contracts.TaskMeasure {
		s.progress.Phase = contracts.PhaseMeasuring
	}
	if task.Budget.PaidCalls {
		s.purse = gateway.NewPurse(gateway.PurseConfig{Lender: s.book})
	}
	return s
}

// budget is what the task's calls are paid from.
func (s *session) budget() gateway.Budget {
	if s.purse == nil {
		return gateway.NoMoney()
	}
	return s.purse
}

// run does the task and delivers its outcome. The heartbeat beats until the
// result is delivered: the lease must outlive the work.
func (s *session) run(ctx context.Context) {
	s.w.books.open(s.book)
	defer s.w.books.close(s.book)
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	helpers.Go(func() { s.listen(beat) })
	helpers.Go(func() { s.tell(beat) })
	helpers.Go(func() { s.book.run(beat) })
	defer helpers.Wait()
	defer stop()

	limit := time.Duration(max(1, s.task.LimitSeconds)) * time.Second
	work, done := context.WithTimeoutCause(ctx, limit, errTimeLimit)
	result := s.do(work)
	cause := context.Cause(work)
	done()

	switch {
	case errors.Is(cause, errCancelled):
		s.deliverUsage(ctx, 5*time.Second)
		s.end(ctx, "cancelled", nil)
	case errors.Is(cause, errDraining):
		s.deliverUsage(ctx, time.Second)
		s.release(ctx)
	default:
		last, quit := context.WithTimeout(ctx, time.Second)
		s.tellNow(last) // where it stood at its end
		quit()
		s.finish(ctx, result)
	}
}

// do runs the task's kind. A kind or an order that this worker does not know is
// a failure of the task, not of the worker.
func (s *session) do(ctx context.Context) (result contracts.PromptLabJobResult) {
	started := contracts.At(time.Now())
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "task panicked", "panic", fmt.Sprint(p))
			result = failed(contracts.FailTemporary, "the worker made a mistake")
		}
		now := contracts.At(time.Now())
		result.JobID, result.SourceHash = s.task.JobID, s.task.Request.SourceHash
		result.StartedAt, result.CompletedAt = &started, &now
		result.Simulated = s.book.simulated()
	}()
	if bad := preflight(s.task); bad != nil {
		return *bad
	}
	if s.task.Kind == contracts.TaskMeasure {
		return s.measure(ctx)
	}
	return s.optimize(ctx)
}

// listen keeps the lease and hears of cancels. While EC is away the work goes
// on: EC's answer at the end decides.
func (s *session) listen(ctx context.Context) {
	in := contracts.TaskHeartbeat{Dispatch: s.msg.Dispatch, Token: s.msg.Token, WaitSeconds: 10}
	for ctx.Err() == nil {
		if !s.beat(ctx, in) && !rest(ctx, time.Second) {
			return
		}
	}
}

// beat sends one heartbeat and acts on the answer; false: EC did not answer.
func (s *session) beat(ctx context.Context, in contracts.TaskHeartbeat) bool {
	reply, err := s.w.c.EC.Heartbeat(ctx, s.msg.TaskID, in)
	switch {
	case ctx.Err() != nil:
		return true
	case err == nil && reply.State == contracts.TaskCancel:
		s.cancel(errCancelled)
		return false // nothing more will come; do not ask in a hurry
	case err == nil:
		return true
	case over(err):
		s.cancel(errCancelled)
	}
	return false
}

// over tells whether EC's refusal means that the delivery is not ours any more.
func over(err error) bool {
	switch fault.Of(err) {
	case fault.Conflict, fault.NotFound, fault.Forbidden, fault.Gone:
		return true
	default:
		return false
	}
}

// tell sends progress as it comes, twice a second at most.
func (s *session) tell(ctx context.Context) {
	for {
		select {
		case <-s.news:
		case <-ctx.Done():
			return
		}
		s.tellNow(ctx)
		if !rest(ctx, 500*time.Millisecond) {
			return
		}
	}
}

func (s *session) tellNow(ctx context.Context) {
	s.mu.Lock()
	p := s.progress
	s.mu.Unlock()
	p.Calls, p.USD = s.book.spent()
	s.beat(ctx, contracts.TaskHeartbeat{Dispatch: s.msg.Dispatch, Token: s.msg.Token, Progress: &p})
}

// note changes the progress that is told next.
func (s *session) note(change func(*contracts.TaskProgress)) {
	s.mu.Lock()
	change(&s.progress)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default: // the teller has been woken already
	}
}

// deliverUsage sends what is left in the book.
func (s *session) deliverUsage(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	if err := persist(ctx, most, s.book.flush); err != nil {
		s.log.WarnContext(ctx, "usage not delivered", "error", err)
	}
}

// release gives the task back because the worker stops. It is not a result: EC
// hands the task out again and counts no failure. Where EC does not answer, the
// lease lapses, which comes to the same, later.
func (s *session) release(ctx context.Context) {
	r, ok := s.w.c.EC.(releaser)
	if ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := r.Release(ctx, s.msg.TaskID, contracts.TaskClaim{Dispatch: s.msg.Dispatch, Token: s.msg.Token, Worker: s.w.c.Name}); err != nil {
			s.log.WarnContext(ctx, "task not given back", "error", err)
		}
	}
	s.end(ctx, "released", nil)
}

// finish delivers the result before the message is used up. An EC that is away
// is waited for; a stopping worker does not wait.
func (s *session) finish(ctx context.Context, result contracts.PromptLabJobResult) {
	s.deliverUsage(ctx, s.patience())
	in := contracts.TaskFinish{Dispatch: s.msg.Dispatch, Token: s.msg.Token, Result: presentable(result)}
	if s.purse != nil {
		in.Unspent = contracts.NanoUSD(s.purse.Close())
	}
	ack, err := s.offer(ctx, in)
	if fault.Of(err) == fault.Invalid { // nothing of it was taken: say at least that it failed
		s.log.ErrorContext(ctx, "result refused", "error", err)
		in.Result = blank(in.Result, contracts.FailTemporary, "EC refused the form of the result")
		ack, err = s.offer(ctx, in)
	}
	switch {
	case err != nil:
		s.log.WarnContext(ctx, "result not delivered", "error", err)
		s.end(ctx, "lost", nil)
	case !ack.Accepted:
		s.log.InfoContext(ctx, "result came too late", "note", ack.Note)
		s.end(ctx, "cancelled", nil)
	case in.Result.Status == contracts.JobFailed:
		s.end(ctx, in.Result.FailureCode, &in.Result)
	default:
		s.end(ctx, "completed", &in.Result)
	}
}

// patience is how long EC is waited for: not long when the worker is stopping.
func (s *session) patience() time.Duration {
	if s.w.drain.Err() != nil {
		return 2 * time.Second
	}
	return s.w.c.FinishFor
}

func (s *session) offer(ctx context.Context, in contracts.TaskFinish) (ack contracts.TaskAck, err error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(s.w.drain, func() { // once more, then no longer
		time.AfterFunc(2*time.Second, func() { cancel(errDraining) })
	})()
	err = persist(ctx, s.patience(), func(ctx context.Context) (err error) {
		ack, err = s.w.c.EC.Finish(ctx, s.msg.TaskID, in)
		return err
	})
	return ack, err
}

// end writes the task's one line and counts it.
func (s *session) end(ctx context.Context, outcome string, r *contracts.PromptLabJobResult) {
	took := time.Since(s.began)
	s.w.metrics.tasks.WithLabelValues(string(s.task.Kind), outcome).Inc()
	s.w.metrics.seconds.WithLabelValues(string(s.task.Kind)).Observe(took.Seconds())
	args := []any{"outcome", outcome, "duration", took}
	if r != nil {
		args = append(args, "ended_by", r.EndedBy, "candidates", len(r.Candidates), "message", r.FailureMessage)
	}
	s.log.InfoContext(ctx, "task ended", args...)
}
