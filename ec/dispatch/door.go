package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// DoorConfig is what a Door needs.
type DoorConfig struct {
	EC       Service
	Lease    time.Duration             // how long a worker may be silent; 0: 30 s
	Progress func(contracts.LiveEvent) // hears of every progress; must not block; nil: nobody
	Log      *slog.Logger              // nil: silent
}

// Door is the workers' way to EC, in the same process. Leases and progress live
// in memory only: after a start of EC every claimed task gets one lease to show
// that its worker is still there.
type Door struct {
	c DoorConfig

	mu     sync.Mutex
	leases map[contracts.UUID]lease
}

type lease struct {
	dispatch int
	until    time.Time
}

// NewDoor makes a Door.
func NewDoor(c DoorConfig) *Door {
	def(&c.Lease, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(contracts.LiveEvent) {}
	}
	return &Door{c: c, leases: map[contracts.UUID]lease{}}
}

// Claim hands out the work behind a message. A worker may repeat it; anybody
// else, and any message that is not the current one, gets a conflict.
func (d *Door) Claim(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) (contracts.Task, error) {
	_, err := d.c.EC.Do(ctx, d.command(task, in.Dispatch, "claim", in.Worker, in, ec.ClaimTask{TaskID: task, In: in}))
	if err != nil {
		return contracts.Task{}, err
	}
	view := d.c.EC.View()
	// A repeated command gets its first answer, which may be out of date.
	if _, state, ok := view.TaskOf(task); !ok || !mine(state, in.Dispatch, in.Token) || state.Worker != in.Worker {
		return contracts.Task{}, fault.New(fault.Conflict, ec.CodeTaskEnded, "this delivery is over")
	}
	out, err := view.TaskFor(task)
	if err != nil {
		return contracts.Task{}, err
	}
	d.extend(task, in.Dispatch)
	out.LeaseSeconds = max(1, int(d.c.Lease/time.Second))
	d.c.Log.InfoContext(ctx, "task claimed", "job", out.JobID, "task", task, "kind", out.Kind, "dispatch", in.Dispatch, "worker", in.Worker)
	return out, nil
}

// mine tells whether a claimed delivery is that of a message.
func mine(t ec.TaskState, dispatch int, token string) bool {
	return t.Stage == ec.StageClaimed && t.Dispatch == dispatch && t.TokenHash != "" && ec.TokenMatches(token, t.TokenHash)
}

// Heartbeat extends the lease and passes progress on. It then waits as long as
// asked, at most 10 s, and answers at once when the delivery is over. Nothing of
// it is written down.
func (d *Door) Heartbeat(ctx context.Context, task contracts.UUID, in contracts.TaskHeartbeat) (contracts.TaskHeartbeatReply, error) {
	stop := contracts.TaskHeartbeatReply{State: contracts.TaskCancel}
	goOn := contracts.TaskHeartbeatReply{State: contracts.TaskRun, LeaseSeconds: max(1, int(d.c.Lease/time.Second))}
	// a waiting worker is not heard of: with a short lease it waits less than it asked for
	wait := time.NewTimer(min(time.Duration(in.WaitSeconds)*time.Second, 10*time.Second, d.c.Lease/3))
	defer wait.Stop()
	first := true
	for {
		changed := d.c.EC.Changed() // before the view is read: no change is missed
		view := d.c.EC.View()
		job, state, ok := view.TaskOf(task)
		switch {
		case job == "":
			return contracts.TaskHeartbeatReply{}, fault.New(fault.NotFound, "not_found", "there is no task %q", task)
		case !ok || !mine(state, in.Dispatch, in.Token):
			return stop, nil
		}
		if first {
			first = false
			d.extend(task, in.Dispatch)
			if in.Progress != nil {
				d.c.Progress(contracts.LiveEvent{
					Seq: view.Seq(), Type: "progress", JobID: job, At: contracts.At(time.Now()),
					Status: string(contracts.JobRunning), Phase: in.Progress.Phase, Progress: in.Progress,
				})
			}
		}
		select {
		case <-changed:
		case <-wait.C:
			d.extend(task, in.Dispatch)
			return goOn, nil
		case <-ctx.Done():
			return contracts.TaskHeartbeatReply{}, fault.Wrap(fault.Unavailable, "ec_unavailable", ctx.Err(), "the wait was given up")
		}
	}
}

// Rows stores measured rows; those that EC has are ignored.
func (d *Door) Rows(ctx context.Context, task contracts.UUID, in contracts.TaskRows) (contracts.TaskAck, error) {
	r, err := d.c.EC.Do(ctx, d.command(task, in.Dispatch, "rows", "", in, ec.DeliverRows{TaskID: task, In: in}))
	if err != nil {
		return contracts.TaskAck{}, err
	}
	d.alive(task, in.Dispatch, in.Token)
	return d.ack(r, task), nil
}

// Usage books model calls and lends budget.
func (d *Door) Usage(ctx context.Context, task contracts.UUID, in contracts.TaskUsage) (contracts.TaskUsageReply, error) {
	r, err := d.c.EC.Do(ctx, d.command(task, in.Dispatch, "usage", "", in, ec.DeliverUsage{TaskID: task, In: in}))
	if err != nil {
		return contracts.TaskUsageReply{}, err
	}
	d.alive(task, in.Dispatch, in.Token)
	return contracts.TaskUsageReply{Granted: r.Granted, Left: r.Left}, nil
}

// Finish ends a task. A result that nobody waits for is answered with
// accepted=false and the reason; repeating it changes nothing.
func (d *Door) Finish(ctx context.Context, task contracts.UUID, in contracts.TaskFinish) (contracts.TaskAck, error) {
	r, err := d.c.EC.Do(ctx, d.command(task, in.Dispatch, "finish", "", in, ec.FinishTask{TaskID: task, In: in}))
	if err != nil {
		return contracts.TaskAck{}, err
	}
	ack := d.ack(r, task)
	d.c.Log.InfoContext(ctx, "task finished", "task", task, "dispatch", in.Dispatch, "result", in.Result.Status,
		"code", in.Result.FailureCode, "accepted", ack.Accepted, "note", ack.Note, "job", r.Subject, "job_status", ack.Status)
	return ack, nil
}

// Release gives a claimed task back without a result, so that it need not wait
// for its lease to lapse: what a worker does that has to stop. It is no failure
// of the task and costs it no retry.
func (d *Door) Release(ctx context.Context, task contracts.UUID, in contracts.TaskClaim) error {
	job, state, ok := d.c.EC.View().TaskOf(task)
	if !ok || !mine(state, in.Dispatch, in.Token) {
		return fault.New(fault.Conflict, ec.CodeTaskEnded, "this delivery is over")
	}
	_, err := d.c.EC.Do(ctx, command(ec.LoseTask{JobID: job, Dispatch: in.Dispatch, Why: "its worker is stopping"}))
	return err
}

// command makes a worker's command. Its id follows from the message, token
// included, so that a repeated message is a repeated command.
func (d *Door) command(task contracts.UUID, dispatch int, kind, worker string, in any, b ec.Body) ec.Command {
	if worker == "" {
		worker = "worker"
	}
	return ec.Command{
		ID:    fmt.Sprintf("%s/%d/%s/%s", task, dispatch, kind, contracts.HashJSON(in)),
		Actor: ec.Actor{Role: ec.RoleWorker, Name: worker},
		At:    contracts.At(time.Now()), Body: b,
	}
}

func (d *Door) ack(r ec.Receipt, task contracts.UUID) contracts.TaskAck {
	ack := contracts.TaskAck{Accepted: r.Note != ec.CodeTaskEnded && r.Note != ec.CodeTaskSuperseded, Note: r.Note}
	view := d.c.EC.View()
	if job, _, _ := view.TaskOf(task); job != "" {
		if j, err := view.Job(job); err == nil {
			ack.Status = j.Status
		}
	}
	return ack
}

// alive extends the lease of a delivery that has just delivered something.
func (d *Door) alive(task contracts.UUID, dispatch int, token string) {
	if _, state, ok := d.c.EC.View().TaskOf(task); ok && mine(state, dispatch, token) {
		d.extend(task, dispatch)
	}
}

func (d *Door) extend(task contracts.UUID, dispatch int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leases[task] = lease{dispatch, time.Now().Add(d.c.Lease)}
}

// lapse gives the end of a claimed task's lease. One that is not known, because
// EC has just started, begins now.
func (d *Door) lapse(t ec.TaskState, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.leases[t.ID]
	if !ok || l.dispatch != t.Dispatch {
		l = lease{t.Dispatch, now.Add(d.c.Lease)}
		d.leases[t.ID] = l
	}
	return l.until
}

// sweep drops the leases of tasks that are over.
func (d *Door) sweep(open map[contracts.UUID]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for task := range d.leases {
		if _, ok := open[task]; !ok {
			delete(d.leases, task)
		}
	}
}
