package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// together bounds how many deliveries are recorded, and how many messages sent,
// at a time. What is recorded together shares a sync of the disk.
const together = 128

// delivery is one task on its way into the broker.
type delivery struct {
	ec.OpenTask
	token string
	err   error // of its record, then of its message
	out   outgoing
}

// dispatch records new deliveries in EC, at most room of them, and then puts them
// into the broker; it gives how many were recorded. The order is the point: what
// is in the broker without a record would be refused at its claim, what is
// recorded without being there is found and repeated.
func (d *Dispatcher) dispatch(ctx context.Context, due []ec.OpenTask, room int, now time.Time) int {
	recorded := 0
	for len(due) > 0 && room > recorded && d.up && len(d.outbox) == 0 && ctx.Err() == nil {
		var batch []*delivery
		for len(due) > 0 && len(batch) < min(together, room-recorded) {
			if r, ok := d.refused[due[0].Task.ID]; !ok || !now.Before(r.until) {
				batch = append(batch, &delivery{OpenTask: due[0], token: newToken()})
			}
			due = due[1:]
		}
		side(batch, func(t *delivery) {
			_, t.err = d.c.EC.Do(ctx, command(ec.DispatchTask{JobID: t.JobID, Kind: t.Task.Kind, TokenHash: ec.TokenHash(t.token)}))
		})
		batch = d.recorded(ctx, batch, now)
		recorded += len(batch)
		d.enqueue(ctx, batch)
	}
	return recorded
}

// side does work for all of a batch side by side and waits for it.
func side(batch []*delivery, work func(*delivery)) {
	var wg sync.WaitGroup
	for _, t := range batch {
		wg.Go(func() { work(t) })
	}
	wg.Wait()
}

// recorded keeps the deliveries of a batch that EC has recorded. Whatever it
// answered, the view tells whether it happened: an error may mean that the
// outcome is unknown.
func (d *Dispatcher) recorded(ctx context.Context, batch []*delivery, now time.Time) []*delivery {
	var out []*delivery
	view := d.c.EC.View()
	for _, t := range batch {
		_, state, ok := view.TaskOf(t.Task.ID)
		if !ok || state.Stage != ec.StageSent || state.TokenHash != ec.TokenHash(t.token) {
			if t.err != nil {
				d.refusal(ctx, t.OpenTask, "hand a task out", t.err)
				d.refused[t.Task.ID] = refusedDispatch{until: now.Add(d.c.Tick)}
			}
			continue
		}
		t.out = outgoing{t.Task.Kind, contracts.TaskMessage{TaskID: t.Task.ID, Dispatch: state.Dispatch, Token: t.token}}
		d.outbox[t.Task.ID] = t.out
		d.metrics.dispatched.WithLabelValues(string(t.Task.Kind)).Inc()
		d.c.Log.InfoContext(ctx, "task handed out", "job", t.JobID, "task", t.Task.ID, "kind", t.Task.Kind, "dispatch", state.Dispatch)
		out = append(out, t)
	}
	return out
}

// enqueue puts recorded deliveries into the broker; those that fail stay in the
// outbox and are tried again when the broker answers.
func (d *Dispatcher) enqueue(ctx context.Context, batch []*delivery) {
	side(batch, func(t *delivery) { t.err = d.link.send(ctx, t.out.kind, t.out.msg, d.c.Limit) })
	for _, t := range batch {
		if t.err != nil {
			d.away(ctx, t.err)
			continue
		}
		delete(d.outbox, t.out.msg.TaskID)
	}
	if len(batch) > 0 && d.up {
		d.back(ctx)
	}
}
