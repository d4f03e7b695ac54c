package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/worker/pyrun"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("PROMPTLAB_TEST_WORKER"); dir != "" {
		beAWorker(dir) // of TestKilledWorkerLeavesNothingBehind
		return
	}
	goleak.VerifyTestMain(m)
}

const testToken = "0123456789abcdef0123456789abcdef"

// source is the text under work in most tests.
const source = "Write the note in plain words.\n\n- Say what changed.\n- Never guess a date.\n"

// fakeDoor is an EC that takes everything and remembers it.
type fakeDoor struct {
	mu        sync.Mutex
	task      contracts.Task
	down      bool // answers nobody
	refuse    error
	claims    int
	rows      []contracts.MeasurementRow
	usage     map[contracts.UUID]contracts.UsageRow
	finishes  []contracts.TaskFinish
	releases  int
	progress  []contracts.TaskProgress
	lent      contracts.NanoUSD
	left      contracts.NanoUSD
	late      bool
	cancelled chan struct{}
	finished  chan struct{} // closed at the first finish
	claimed   chan struct{} // closed at the first claim
}

func newFakeDoor(task contracts.Task) *fakeDoor {
	return &fakeDoor{
		task: task, left: task.Budget.Left, usage: map[contracts.UUID]contracts.UsageRow{},
		cancelled: make(chan struct{}), finished: make(chan struct{}), claimed: make(chan struct{}),
	}
}

var _ ec.Tasks = (*fakeDoor)(nil)

func (d *fakeDoor) away() error {
	if d.down {
		return fault.New(fault.Unavailable, "ec_unavailable", "away")
	}
	return nil
}

func (d *fakeDoor) Claim(context.Context, contracts.UUID, contracts.TaskClaim) (contracts.Task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.away(); err != nil {
		return contracts.Task{}, err
	}
	if d.refuse != nil {
		return contracts.Task{}, d.refuse
	}
	if d.claims++; d.claims == 1 {
		close(d.claimed)
	}
	return d.task, nil
}

func (d *fakeDoor) Heartbeat(ctx context.Context, _ contracts.UUID, in contracts.TaskHeartbeat) (contracts.TaskHeartbeatReply, error) {
	d.mu.Lock()
	err := d.away()
	if in.Progress != nil && err == nil {
		d.progress = append(d.progress, *in.Progress)
	}
	d.mu.Unlock()
	if err != nil {
		return contracts.TaskHeartbeatReply{}, err
	}
	wait := time.NewTimer(time.Duration(in.WaitSeconds) * time.Second)
	defer wait.Stop()
	select {
	case <-d.cancelled:
		return contracts.TaskHeartbeatReply{State: contracts.TaskCancel}, nil
	default:
	}
	select {
	case <-d.cancelled:
		return contracts.TaskHeartbeatReply{State: contracts.TaskCancel}, nil
	case <-wait.C:
		return contracts.TaskHeartbeatReply{State: contracts.TaskRun, LeaseSeconds: 30}, nil
	case <-ctx.Done():
		return contracts.TaskHeartbeatReply{}, fault.Wrap(fault.Unavailable, "ec_unavailable", ctx.Err(), "given up")
	}
}

func (d *fakeDoor) Rows(_ context.Context, _ contracts.UUID, in contracts.TaskRows) (contracts.TaskAck, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.away(); err != nil {
		return contracts.TaskAck{}, err
	}
	d.rows = append(d.rows, in.Rows...)
	return contracts.TaskAck{Accepted: true}, nil
}

func (d *fakeDoor) Usage(_ context.Context, _ contracts.UUID, in contracts.TaskUsage) (contracts.TaskUsageReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.away(); err != nil {
		return contracts.TaskUsageReply{}, err
	}
	for _, r := range in.Rows {
		d.usage[r.AttemptID] = r
	}
	granted := min(in.Borrow, d.left)
	d.left -= granted
	d.lent += granted
	return contracts.TaskUsageReply{Granted: granted, Left: d.left}, nil
}

func (d *fakeDoor) Finish(_ context.Context, _ contracts.UUID, in contracts.TaskFinish) (contracts.TaskAck, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.away(); err != nil {
		return contracts.TaskAck{}, err
	}
	if d.finishes = append(d.finishes, in); len(d.finishes) == 1 {
		close(d.finished)
	}
	return contracts.TaskAck{Accepted: !d.late, Note: map[bool]string{true: ec.CodeTaskEnded}[d.late]}, nil
}

func (d *fakeDoor) Release(context.Context, contracts.UUID, contracts.TaskClaim) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releases++
	return d.away()
}

func (d *fakeDoor) setDown(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// the one result that was delivered.
func (d *fakeDoor) result(t *testing.T) contracts.PromptLabJobResult {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.finishes) != 1 {
		t.Fatalf("%d results were delivered, want 1", len(d.finishes))
	}
	return d.finishes[0].Result
}

// optimizeTask is a search whose stub engine behaves as mode says.
func optimizeTask(mode string) contracts.Task {
	t := contracts.Task{
		TaskID: contracts.DeriveID("task", "test", 1), JobID: contracts.DeriveID("job", "test", 1), Kind: contracts.TaskOptimize,
		Dispatch: 1, LeaseSeconds: 30, LimitSeconds: 60, Budget: contracts.TaskBudget{PaidCalls: true, Left: contracts.FromUSD(1)},
	}
	t.Request = contracts.PromptLabJobRequest{
		JobID: t.JobID, Backend: contracts.BackendPromptolution, ArtifactKind: contracts.KindOverlay, ArtifactID: "note-style",
		SourceText: source, SourceHash: contracts.Hash(source), WorkspaceID: "default", OptimizationGoal: mode,
		Constraints: contracts.JobConstraints{MaxCandidates: 3}, Engine: "auto", Seed: 42, MaxSteps: 2,
	}
	for i := range 6 {
		t.Request.ReplayExamples = append(t.Request.ReplayExamples, contracts.ReplayExample{
			ExampleID: fmt.Sprint("dev-", i), InputText: fmt.Sprint("secret input ", i), ExpectedSignal: "contains: Owner",
		})
	}
	return t
}

// measureTask has two arms on six sealed examples: 18 cells.
func measureTask() contracts.Task {
	t := optimizeTask("")
	t.Kind = contracts.TaskMeasure
	better := source + "- Name the Owner.\n"
	t.Measure = &contracts.MeasurePlan{Arms: contracts.List[contracts.MeasureArm]{
		{Arm: "source", Text: source, Runs: 2}, {Arm: contracts.Hash(better), Text: better, Runs: 1},
	}}
	for i := range 6 {
		t.Measure.Examples = append(t.Measure.Examples, contracts.ReplayExample{
			ExampleID: fmt.Sprint("held-", i), InputText: fmt.Sprint("sealed input ", i), ExpectedSignal: "contains: Owner",
		})
	}
	t.Request.ReplayExamples = nil
	return t
}

func message(t contracts.Task) contracts.TaskMessage {
	return contracts.TaskMessage{TaskID: t.TaskID, Dispatch: t.Dispatch, Token: testToken}
}

// provider is a model behind the real gateway: answer decides what one HTTP call
// would have given.
type provider struct {
	mu     sync.Mutex
	calls  []gateway.Call
	answer func(n int, c gateway.Call) (gateway.Reply, error)
}

// good answers with the owner's name where the text asks for it.
func good(_ int, c gateway.Call) (gateway.Reply, error) {
	text := "A note."
	if c.Request.Role == gateway.RoleMeta {
		text = "<prompt>" + source + "</prompt>"
	} else if strings.Contains(c.Request.Messages[0].Content, "Owner") {
		text = "A note. Owner: Kim"
	}
	return gateway.Reply{Text: text, Finish: gateway.FinishStop, Usage: gateway.Usage{Known: true, Input: 100, Output: 10}}, nil
}

func fails(class gateway.ErrorClass, status int) func(int, gateway.Call) (gateway.Reply, error) {
	return func(int, gateway.Call) (gateway.Reply, error) {
		return gateway.Reply{}, &gateway.Error{Class: class, Status: status, NotBilled: true}
	}
}

func (p *provider) Complete(_ context.Context, c gateway.Call) (gateway.Reply, error) {
	p.mu.Lock()
	p.calls = append(p.calls, c)
	n := len(p.calls)
	p.mu.Unlock()
	return p.answer(n, c)
}

func (p *provider) Stream(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	reply, err := p.Complete(ctx, c)
	if err != nil {
		return reply, err
	}
	return reply, gateway.EmitReply(reply, emit)
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// models is the real gateway with a priced model; a call costs about 0.00012 USD.
func (p *provider) models(rows gateway.Rows) (Models, error) {
	in, out := 1.0, 2.0
	return gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{
			Name: "m", Protocol: gateway.ProtocolOpenAI, BaseURL: "http://127.0.0.1:1", Model: "model-1",
			Routes: gateway.Roles(), Prices: &gateway.Prices{Input: &in, Output: &out},
		}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: p},
		Rows:     rows, Rand: func() float64 { return 0 }, // no pause between attempts
	})
}

// interpreter is the real python3, not a wrapper script around it.
var interpreter = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
})

func stub(t testing.TB) pyrun.Config {
	t.Helper()
	if interpreter() == "" {
		t.Fatal("python3 is needed")
	}
	script, err := filepath.Abs(filepath.Join("testdata", "engine.py"))
	if err != nil {
		t.Fatal(err)
	}
	return pyrun.Config{Python: interpreter(), Args: []string{"-I", "-B", script}, Dir: t.TempDir(), Grace: 500 * time.Millisecond, MaxOutput: 1 << 20, StartTimeout: 20 * time.Second}
}

func newTestWorker(t testing.TB, door ec.Tasks, p *provider, change func(*Config)) *Worker {
	t.Helper()
	c := Config{EC: door, Models: p.models, Python: stub(t), Calls: 4, FinishFor: 5 * time.Second, DrainFor: 5 * time.Second, Log: slog.New(slog.DiscardHandler)}
	if os.Getenv("WORKER_LOG") != "" {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&c)
	}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// do hands a task to a worker as the queue would and waits for its end.
func do(t *testing.T, task contracts.Task, p *provider, change func(*Config)) *fakeDoor {
	t.Helper()
	d := newFakeDoor(task)
	newTestWorker(t, d, p, change).handle(t.Context(), message(task))
	return d
}

// pids reads the process ids that the stub engine wrote, once there are so many.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	var out []int
	until(t, "the engine's processes are there", func() bool {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		out = nil
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return false
			}
			out = append(out, pid)
		}
		return len(out) == n
	})
	return out
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 20 s in vain: %s", what)
		}
	}
}
