package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch/broker"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator"
)

const (
	workers   = 10
	producers = 16
)

// jobs: jobs that do nothing, from their creation to their end, through ledger,
// queue and the real worker, against bare queue tasks that do nothing.
func jobs(t *testing.T, b *board) {
	const rounds, many, fewer, pickups = 3, 3000, 1000, 25
	url, ok := redisServer(t)
	if !ok {
		t.Log("SKIPPED: redis-server is not installed; run: make system")
		b.add(line{"jobs", "-", "-", "-", ">= 0.3", skipped})
		b.note("jobs: SKIPPED, redis-server is not installed; run: make system")
		return
	}
	bare := openBare(t, url)
	var claims sync.Map // job -> time of its claim
	lab := openLab(t, labConfig{
		redisURL: url, concurrency: workers,
		models:   []gateway.ModelConfig{{Name: "sim", Protocol: gateway.ProtocolSimulator, Model: "helpful", Routes: gateway.Roles()}},
		adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolSimulator: simulator.NewAdapter(1)},
		spy: spy{claimed: func(task contracts.Task) contracts.Task {
			claims.Store(task.JobID, time.Now())
			task.Kind = "nothing" // the worker refuses it at once and delivers a failure that is final
			return task
		}},
	})
	lab.must(ec.CreateOverlay{Record: ectest.Overlay("note-style", "Write the note in plain words.\n\n- Say what changed.\n")})
	data := lab.must(ec.CreateDataset{Dataset: ectest.Dataset("notes", 60)}).Subject
	create := func() (contracts.UUID, error) { return lab.job(data, "{}") }
	idle := (*ec.View).Idle

	var ours, reference []float64
	for range rounds {
		reference = append(reference, bare.rate(t, many))
		began := time.Now()
		if err := spreadOut(fewer, func() error { _, err := create(); return err }); err != nil {
			t.Fatal(err)
		}
		lab.await(time.Minute, "all jobs have ended", idle)
		ours = append(ours, fewer/time.Since(began).Seconds())
	}
	var own, theirs []time.Duration
	for range pickups {
		theirs = append(theirs, bare.pickup(t))
		id, err := create()
		if err != nil {
			t.Fatal(err)
		}
		created := time.Now()
		lab.await(10*time.Second, "the job has ended", idle)
		at, ok := claims.Load(id)
		if !ok {
			t.Fatalf("job %s ended without a claim", id)
		}
		own = append(own, at.(time.Time).Sub(created))
	}
	for _, j := range lab.View().Jobs(ec.JobFilter{}).Items {
		if j.Detail.FailureCode != contracts.FailUnsupportedKind || j.Detail.Deliveries != 1 {
			t.Fatalf("job %s did not run as it should: %s %s, %d deliveries", j.JobID, j.Status, j.Detail.FailureCode, j.Detail.Deliveries)
		}
	}
	r := ratios(ours, reference)
	b.add(line{"jobs", fmt.Sprintf("%.0f/s", median(ours)), fmt.Sprintf("%.0f/s", median(reference)), fmt.Sprintf("%.2f", median(r)), ">= 0.3", verdict(median(r) >= 0.3)})
	b.add(line{"jobs pickup p50", ms(median(own)), ms(median(theirs)), "-", "<= 100 ms", verdict(median(own) <= 100*time.Millisecond)})
	b.note("jobs: a job costs four durable commands and the documents of three states, which count here as processor time and syncs; a bare task is two scripts in Redis and no disk.")
	b.note("jobs: the real worker (10 at once, door in the process) refuses the task before Python and finishes it; create, dispatch, claim and finish are each durable. "+
		"%d jobs from %d producers, first creation to last end; reference: %d bare asynq tasks from %d producers, 10 at once, same Redis, same check interval. "+
		"Ratio min/median/max of %d rounds %s, ours %s per s, reference %s per s. Pickup from the answer to the creation until the claim: p50 %s, max %s of %d.",
		fewer, producers, many, producers, rounds, spread(r, "%.2f"), spread(ours, "%.0f"), spread(reference, "%.0f"), ms(median(own)), ms(at(own, 1)), pickups)
}

// spreadOut does n things by all producers together.
func spreadOut(n int, one func() error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, producers) // one a goroutine
	for range producers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := one(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// bareQueue is asynq with a handler that does nothing.
type bareQueue struct {
	client *asynq.Client
	done   chan time.Time // room for all that is under way
}

func openBare(t *testing.T, url string) *bareQueue {
	t.Helper()
	broker, err := broker.Open(broker.Config{RedisURL: url})
	if err != nil {
		t.Fatal(err)
	}
	q := &bareQueue{client: asynq.NewClient(broker.Redis()), done: make(chan time.Time, 1<<14)}
	srv := asynq.NewServer(broker.Redis(), asynq.Config{
		Concurrency: workers, Queues: map[string]int{"bare": 1}, TaskCheckInterval: 100 * time.Millisecond, LogLevel: asynq.FatalLevel,
	})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { q.done <- time.Now(); return nil })); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Shutdown()
		for _, c := range []io.Closer{q.client, broker} {
			if err := c.Close(); err != nil {
				t.Errorf("close queue: %v", err)
			}
		}
	})
	return q
}

// send enqueues a task of the size and with the options that a lab's message has.
func (q *bareQueue) send() error {
	_, err := q.client.Enqueue(asynq.NewTask("bare", []byte(strings.Repeat("x", 150))),
		asynq.Queue("bare"), asynq.MaxRetry(0), asynq.Timeout(45*time.Minute), asynq.Retention(5*time.Minute))
	return err
}

func (q *bareQueue) rate(t *testing.T, n int) float64 {
	t.Helper()
	began := time.Now()
	if err := spreadOut(n, q.send); err != nil {
		t.Fatal(err)
	}
	for range n {
		<-q.done
	}
	return float64(n) / time.Since(began).Seconds()
}

func (q *bareQueue) pickup(t *testing.T) time.Duration {
	t.Helper()
	if err := q.send(); err != nil {
		t.Fatal(err)
	}
	sent := time.Now()
	return (<-q.done).Sub(sent)
}
