package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// rowsAtOnce is how many measured rows are delivered together.
const rowsAtOnce = 20

// cell is one measurement that is to be made.
type cell struct {
	key  contracts.MeasurementKey
	text string
	ex   contracts.ReplayExample
}

// cells lists what EC does not have yet, example by example, so that a
// measurement that is cut off has whole pairs.
func cells(p *contracts.MeasurePlan) (todo []cell, total int) {
	done := make(map[contracts.MeasurementKey]bool, len(p.Done))
	for _, k := range p.Done {
		done[k] = true
	}
	for _, ex := range p.Examples {
		for _, arm := range p.Arms {
			for run := range arm.Runs {
				total++
				k := contracts.MeasurementKey{Arm: arm.Arm, ExampleID: ex.ExampleID, Run: run}
				if !done[k] {
					todo = append(todo, cell{k, arm.Text, ex})
				}
			}
		}
	}
	return todo, total
}

// measure asks every open cell once, with no answer used twice, and delivers
// rows as they come: what EC has is not asked again after a crash.
func (s *session) measure(ctx context.Context) contracts.PromptLabJobResult {
	todo, total := cells(s.task.Measure)
	s.note(func(p *contracts.TaskProgress) { p.Done, p.Total = total-len(todo), total })
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rows := make(chan contracts.MeasurementRow, rowsAtOnce) // so many may wait for EC
	delivered := make(chan error, 1)
	go func() { delivered <- s.deliver(ctx, rows, cancel) }()
	err := s.ask(work, todo, rows)
	close(rows)
	if lost := <-delivered; lost != nil {
		return s.undelivered(ctx, lost)
	}
	if err != nil {
		return callFailure(ctx, err)
	}
	return completed("")
}

// ask measures cells, several at a time, until all are done or one call ends
// the task.
func (s *session) ask(ctx context.Context, todo []cell, rows chan<- contracts.MeasurementRow) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sc := newScorer(s, len(todo))
	next := make(chan cell)
	var workers sync.WaitGroup
	for range s.w.c.Calls {
		workers.Go(func() {
			for c := range next {
				v, err := sc.score(ctx, c.text, c.ex, c.key.Run)
				if err != nil {
					cancel(err) // the first one is the reason
					return
				}
				select {
				case rows <- row(c.key, v):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for _, c := range todo {
		select {
		case next <- c:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

func row(k contracts.MeasurementKey, v verdict) contracts.MeasurementRow {
	return contracts.MeasurementRow{
		Arm: k.Arm, ExampleID: k.ExampleID, Run: k.Run, Score: v.score, Reason: contracts.Clip(v.reason, 200),
		MustFailed: v.mustFailed, Model: v.model, Simulated: v.simulated,
	}
}

// deliver hands rows to EC in small batches until the channel is closed. While
// EC is away rows wait in the channel and, when it is full, so does the asking.
// When EC refuses them, nobody need ask any more: quit is called.
func (s *session) deliver(ctx context.Context, rows <-chan contracts.MeasurementRow, quit context.CancelCauseFunc) error {
	// A stopped task still hands over what it has paid for, if EC takes it soon.
	late, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(2*time.Second, stop) })()
	var batch []contracts.MeasurementRow
	var failure error
	flush := func() {
		if failure == nil && len(batch) > 0 {
			if failure = s.send(late, batch); failure != nil {
				quit(failure)
			}
			n := len(batch)
			s.note(func(p *contracts.TaskProgress) { p.Done += n })
		}
		batch = nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case r, open := <-rows:
			if !open {
				flush()
				return failure
			}
			if batch = append(batch, r); len(batch) >= rowsAtOnce {
				flush()
			}
		case <-tick.C:
			flush()
		}
	}
}

func (s *session) send(ctx context.Context, batch []contracts.MeasurementRow) error {
	in := contracts.TaskRows{Dispatch: s.msg.Dispatch, Token: s.msg.Token, Rows: batch}
	return persist(ctx, s.patience(), func(ctx context.Context) error {
		_, err := s.w.c.EC.Rows(ctx, s.msg.TaskID, in)
		return err
	})
}

// undelivered is the result of a measurement whose rows EC did not take.
func (s *session) undelivered(ctx context.Context, err error) contracts.PromptLabJobResult {
	switch {
	case over(err):
		s.cancel(errCancelled)
	case ctx.Err() != nil:
	case fault.Of(err) == fault.Unavailable:
		return failed(contracts.FailWorkerUnavailable, "measured rows could not be delivered")
	case !errors.Is(err, context.Canceled):
		s.log.ErrorContext(ctx, "measured rows refused", "error", err)
		return failed(contracts.FailTemporary, "EC refused the measured rows")
	}
	return stopped(ctx)
}
