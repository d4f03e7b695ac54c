package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/dispatch"
	"github.com/elnor/promptlab/ec/dispatch/doortest"
	"github.com/elnor/promptlab/ec/dispatch/queue"
	"github.com/elnor/promptlab/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an EC with a door and a running dispatcher.
type rig struct {
	*doortest.Bench
	inspector *asynq.Inspector
	log       *lines
	stop      func()
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func newRig(t *testing.T, r redisServer, change func(*dispatch.Config)) *rig {
	t.Helper()
	b := doortest.NewBench(t, time.Minute)
	x := &rig{Bench: b, log: &lines{}}
	x.start(t, r, change)
	return x
}

func (x *rig) start(t *testing.T, r redisServer, change func(*dispatch.Config)) {
	t.Helper()
	c := dispatch.Config{
		EC: x.Env, Door: x.Door, Redis: r.Opt(), Log: slog.New(slog.NewTextHandler(io.MultiWriter(x.log), nil)),
		Tick: 50 * time.Millisecond, Grace: 300 * time.Millisecond, Active: 300 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	d, err := dispatch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	x.inspector = asynq.NewInspector(r.Opt())
	x.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		_ = x.inspector.Close()
	})
	t.Cleanup(x.stop)
}

// when waits for a change of EC's view after which ok holds.
func (x *rig) when(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		changed := x.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited 15 s in vain: %s", what)
		}
	}
}

func (x *rig) sent(t *testing.T, job contracts.UUID, atLeast int) ec.TaskState {
	t.Helper()
	var s ec.TaskState
	x.when(t, fmt.Sprintf("delivery %d or later of %s is handed out", atLeast, job), func() bool {
		s = x.Open(job)
		return s.Stage == ec.StageSent && s.Dispatch >= atLeast
	})
	return s
}

// message waits for a delivery's message in the broker.
func (x *rig) message(t *testing.T, s ec.TaskState) contracts.TaskMessage {
	t.Helper()
	var info *asynq.TaskInfo
	until(t, "the message is in the broker", func() (ok bool) {
		var err error
		info, err = x.inspector.GetTaskInfo(queue.Name, queue.MessageID(s.ID, s.Dispatch))
		return err == nil
	})
	m, err := queue.Decode(info.Payload)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(info.Payload, &fields); err != nil || len(fields) != 3 {
		t.Errorf("R-SYS-03 the message has the fields %v, want task_id, dispatch and token alone", fields)
	}
	if info.MaxRetry != 0 {
		t.Errorf("R-WRK-06 the queue would retry %d times, want 0: EC owns retries", info.MaxRetry)
	}
	return m
}

func TestATaskReachesTheBrokerAndItsTokenOpensTheDoor(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, nil)
		j := x.Job(x.Dataset, `{}`)
		s := x.sent(t, j.JobID, 1)
		m := x.message(t, s)
		if ec.TokenHash(m.Token) != s.TokenHash || m.Token == s.TokenHash {
			t.Error("EC keeps the token itself or the hash of another")
		}
		task, err := x.Tasks.Claim(t.Context(), m.TaskID, contracts.TaskClaim{Dispatch: m.Dispatch, Token: m.Token, Worker: "w"})
		if err != nil || task.JobID != j.JobID {
			t.Errorf("claim with the message: got job %s, %v", task.JobID, err)
		}
	})
}

func TestAMessageThatTheBrokerLosesIsSentAgain(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, nil)
		s := x.sent(t, x.Job(x.Dataset, `{}`).JobID, 1)
		old := x.message(t, s)
		if err := x.inspector.DeleteTask(queue.Name, queue.MessageID(s.ID, 1)); err != nil {
			t.Fatal(err)
		}
		next := x.message(t, x.sent(t, jobOf(x, s), 2))
		if next.Token == old.Token || next.TaskID != old.TaskID {
			t.Errorf("second delivery: %+v after %+v, want the same task under a new token", next, old)
		}
		_, err := x.Tasks.Claim(t.Context(), old.TaskID, contracts.TaskClaim{Dispatch: old.Dispatch, Token: old.Token, Worker: "w"})
		if fault.Of(err) != fault.Conflict {
			t.Errorf("claim with the lost message: got %v, want a conflict", err)
		}
	})
}

func jobOf(x *rig, s ec.TaskState) contracts.UUID {
	job, _, _ := x.View().TaskOf(s.ID)
	return job
}

func TestAMessageThatEndsWithoutAClaimIsSentAgain(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, nil)
		s := x.sent(t, x.Job(x.Dataset, `{}`).JobID, 1)
		x.message(t, s)
		if err := x.inspector.ArchiveTask(queue.Name, queue.MessageID(s.ID, 1)); err != nil {
			t.Fatal(err)
		}
		x.message(t, x.sent(t, jobOf(x, s), 2))
	})
}

// R-SYS-03: Redis restarts empty with jobs pending and running; nothing is lost
// and nothing runs twice under one token.
func TestRedisRestartsEmpty(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, nil)
		pending := x.sent(t, x.Job(x.Dataset, `{"seed":1}`).JobID, 1)
		running := x.sent(t, x.Job(x.Dataset, `{"seed":2}`).JobID, 1)
		x.message(t, pending)
		m := x.message(t, running)
		if _, err := x.Tasks.Claim(t.Context(), m.TaskID, contracts.TaskClaim{Dispatch: m.Dispatch, Token: m.Token, Worker: "w"}); err != nil {
			t.Fatal(err)
		}
		r.Down(t, true)
		until(t, "the outage is noticed", func() bool { return x.log.count("broker is away") > 0 })
		r.Up(t)
		x.message(t, x.sent(t, jobOf(x, pending), 2))
		if s := x.Open(jobOf(x, running)); s.Stage != ec.StageClaimed || s.Dispatch != 1 {
			t.Errorf("the running task: stage %s, delivery %d, want it left alone", s.Stage, s.Dispatch)
		}
		queues, err := x.inspector.Queues()
		if err != nil || !slices.Contains(queues, queue.Name) {
			t.Errorf("the queue's name is unknown after the wipe: %v, %v", queues, err)
		}
	})
}

func TestFlushedUnderALiveConnection(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, nil)
		s := x.sent(t, x.Job(x.Dataset, `{}`).JobID, 1)
		x.message(t, s)
		flush(t, r)
		x.message(t, x.sent(t, jobOf(x, s), 2))
		if queues, err := x.inspector.Queues(); err != nil || !slices.Contains(queues, queue.Name) {
			t.Errorf("the queue's name is unknown after the flush: %v, %v", queues, err)
		}
	})
}

func TestRedisIsDownAndComesBack(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, nil)
		kept := x.sent(t, x.Job(x.Dataset, `{"seed":1}`).JobID, 1)
		x.message(t, kept)
		r.Down(t, false)
		until(t, "the outage is noticed", func() bool { return x.log.count("broker is away") > 0 })
		late := x.Job(x.Dataset, `{"seed":2}`)
		x.when(t, "the job is there", func() bool { _, err := x.View().Job(late.JobID); return err == nil })
		if s := x.Open(late.JobID); s.Stage != ec.StageWaiting {
			t.Errorf("with no broker a task is in stage %s, want waiting: deliveries are counted", s.Stage)
		}
		r.Up(t)
		x.message(t, x.sent(t, late.JobID, 1))
		if s := x.Open(jobOf(x, kept)); s.Dispatch != 1 {
			t.Errorf("a message that survived was sent again as delivery %d", s.Dispatch)
		}
		x.message(t, kept)
		if n := x.log.count("broker is away"); n != 1 {
			t.Errorf("one outage was logged %d times", n)
		}
	})
}

func TestTheBacklogInTheBrokerIsBounded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, r redisServer) {
		x := newRig(t, r, func(c *dispatch.Config) { c.Cap = 2 })
		var jobs []contracts.UUID
		for i := range 4 {
			jobs = append(jobs, x.Job(x.Dataset, fmt.Sprintf(`{"seed":%d}`, i)).JobID)
		}
		x.sent(t, jobs[0], 1)
		x.sent(t, jobs[1], 1)
		until(t, "a few looks at the broker", func() bool {
			info, err := x.inspector.GetQueueInfo(queue.Name)
			return err == nil && info.Pending == 2
		})
		for _, j := range jobs[2:] {
			if s := x.Open(j); s.Stage != ec.StageWaiting {
				t.Errorf("with 2 under way and a cap of 2 another task is %s", s.Stage)
			}
		}
		x.Must(ec.CancelJob{JobID: jobs[0]})
		x.sent(t, jobs[2], 1)
	})
}

func TestASilentWorkerLosesItsTask(t *testing.T) {
	r := newEmbedded(t)
	x := newRig(t, r, nil)
	x.Door = dispatch.NewDoor(dispatch.DoorConfig{EC: x.Env, Lease: 400 * time.Millisecond})
	x.stop()
	x.start(t, r, nil)
	j := x.Job(x.Dataset, `{}`)
	m := x.message(t, x.sent(t, j.JobID, 1))
	if _, err := x.Door.Claim(t.Context(), m.TaskID, contracts.TaskClaim{Dispatch: 1, Token: m.Token, Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	beats := 0
	until(t, "a second of heartbeats", func() bool {
		reply, err := x.Door.Heartbeat(t.Context(), m.TaskID, contracts.TaskHeartbeat{Dispatch: 1, Token: m.Token})
		if err != nil || reply.State != contracts.TaskRun {
			t.Fatalf("heartbeat %d: got %+v, %v, want run: a beating worker keeps its task", beats, reply, err)
		}
		beats++
		return beats == 90
	})
	x.message(t, x.sent(t, j.JobID, 2))
	if s := x.Open(j.JobID); s.Failures != 0 {
		t.Errorf("a silent worker counted as %d failures of the task", s.Failures)
	}
}

// R-SYS-04: after a start of EC the workers of before have one lease to report.
func TestEveryClaimedTaskGetsOneLeaseWhenECStarts(t *testing.T) {
	r := newEmbedded(t)
	x := newRig(t, r, nil)
	j := x.Job(x.Dataset, `{}`)
	m := x.message(t, x.sent(t, j.JobID, 1))
	if _, err := x.Door.Claim(t.Context(), m.TaskID, contracts.TaskClaim{Dispatch: 1, Token: m.Token, Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	x.stop()
	x.Restart()
	x.Door = dispatch.NewDoor(dispatch.DoorConfig{EC: x.Env, Lease: 500 * time.Millisecond})
	began := time.Now()
	x.start(t, r, nil)
	x.sent(t, j.JobID, 2)
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("the task was taken back %s after the start, want a lease of 500 ms first", took)
	}
}

// R-WRK-06: a retry waits for its time; nothing is handed out before it.
func TestARetryIsNotHandedOutEarly(t *testing.T) {
	r := newEmbedded(t)
	x := newRig(t, r, nil)
	j := x.Job(x.Dataset, `{}`)
	m := x.message(t, x.sent(t, j.JobID, 1))
	if _, err := x.Door.Claim(t.Context(), m.TaskID, contracts.TaskClaim{Dispatch: 1, Token: m.Token, Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	ack, err := x.Door.Finish(t.Context(), m.TaskID, contracts.TaskFinish{Dispatch: 1, Token: m.Token, Result: contracts.PromptLabJobResult{
		JobID: j.JobID, Status: contracts.JobFailed, FailureCode: contracts.FailRateLimited,
	}})
	if err != nil || ack.Status != contracts.JobQueued {
		t.Fatalf("finish: got %+v, %v, want the job queued again", ack, err)
	}
	settled := time.After(300 * time.Millisecond)
	for done := false; !done; {
		select {
		case <-settled:
			done = true
		case <-x.Changed():
		}
		if s := x.Open(j.JobID); s.Stage != ec.StageWaiting {
			t.Fatalf("before its time the retry is %s", s.Stage)
		}
	}
	x.Clock.Add(6 * time.Second)
	x.message(t, x.sent(t, j.JobID, 2))
}

func TestNoBrokerAtTheStart(t *testing.T) {
	r := newEmbedded(t)
	r.Down(t, false)
	x := newRig(t, r, nil)
	j := x.Job(x.Dataset, `{}`)
	until(t, "the outage is noticed", func() bool { return x.log.count("broker is away") > 0 })
	r.Up(t)
	x.message(t, x.sent(t, j.JobID, 1))
}

// A delivery that is recorded and could not be sent is sent later as the same
// delivery: an outage does not use up deliveries.
func TestAnOutageBetweenRecordAndSend(t *testing.T) {
	r := newEmbedded(t)
	x := newRig(t, r, func(c *dispatch.Config) { c.Tick = time.Hour }) // it finds out by sending
	x.message(t, x.sent(t, x.Job(x.Dataset, `{"seed":1}`).JobID, 1))
	r.Down(t, false)
	first := x.sent(t, x.Job(x.Dataset, `{"seed":2}`).JobID, 1)
	second := x.Job(x.Dataset, `{"seed":3}`)
	until(t, "the outage is noticed", func() bool { return x.log.count("broker is away") > 0 })
	if s := x.Open(second.JobID); s.Stage != ec.StageWaiting {
		t.Errorf("after a failed send another task is %s, want waiting", s.Stage)
	}
	r.Up(t)
	x.message(t, first)
	x.message(t, x.sent(t, second.JobID, 1))
	if s := x.Open(jobOf(x, first)); s.Dispatch != 1 || x.log.count("delivery lost") != 0 {
		t.Errorf("the outage used up deliveries: now at %d", s.Dispatch)
	}
}

func flush(t *testing.T, r redisServer) {
	t.Helper()
	client := clientOf(t, r.Opt())
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(errors.Join(errors.New("flush"), err))
	}
	_ = client.Close()
}
