//go:build linux

package pyrun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stubborn starts descendants that ignore SIGTERM: a child, a grandchild, and one
// that fled into a session of its own. Each tells its number as a seeds event.
const stubborn = `
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hello()
def tell():
    say("seeds", n=os.getpid(), rejected=0)
    while True: signal.pause()
if os.fork() == 0:
    if os.fork() == 0: tell()
    tell()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: tell()
    os._exit(0)
`

// watched is a process that is held by a handle, so that its end can be awaited.
type watched struct{ pid, fd int }

func watch(t *testing.T, pid int) watched {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d is not there: %v", pid, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return watched{pid, fd}
}

// gone waits for the end of the process.
func (w watched) gone(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
}

// pids collects the numbers that a script tells, and calls full at the third.
func pids(t *testing.T, full func()) (*[]watched, func(Event)) {
	var list []watched
	return &list, func(e Event) {
		var told struct{ N, PID int }
		if err := json.Unmarshal(e.Raw, &told); err != nil {
			t.Errorf("event %s: %v", e.Raw, err)
		}
		switch e.Type {
		case "hello":
			list = append(list, watch(t, told.PID))
		case "seeds":
			list = append(list, watch(t, told.N))
		}
		if len(list) == 4 {
			full()
		}
	}
}

func TestCancelEndsTheWholeTreeWithinThreeSeconds(t *testing.T) {
	why := errors.New("cancelled by the owner")
	ctx, cancel := context.WithCancelCause(t.Context())
	var asked time.Time
	cfg := script(t, stubborn+`tell()`)
	cfg.Grace = 2 * time.Second // as in real life
	tree, onEvent := pids(t, func() {
		if asked.IsZero() {
			asked = time.Now()
			cancel(why)
		}
	})
	out, err := Run(ctx, cfg, request, onEvent)
	if took := time.Since(asked); asked.IsZero() || took > 3*time.Second {
		t.Errorf("the cancel took %v, want at most 3 s", took)
	}
	if !errors.Is(err, why) || out.Result != nil {
		t.Errorf("run: %v, want the cause of the cancel", err)
	}
	for _, p := range *tree {
		if !p.gone(0) {
			t.Errorf("process %d is alive after Run", p.pid)
		}
	}
	if len(*tree) < 4 || out.Fled != 1 {
		t.Errorf("saw %d processes and %d that fled, want 4 or more and 1", len(*tree), out.Fled)
	}
	empty(t, cfg)
}

func TestNothingIsLeftAfterAGoodEnd(t *testing.T) {
	// The last line waits for the descendants: each writes a byte when it is there.
	cfg := script(t, strings.Replace(stubborn, "\ndef tell():", "\nr, w = os.pipe()\ndef tell():\n    os.write(w, b'x')", 1)+`
for _ in range(3): os.read(r, 1)
time.sleep(0)
result()`)
	tree, onEvent := pids(t, func() {})
	begun := time.Now()
	out, err := Run(t.Context(), cfg, request, onEvent)
	// A descendant may write its line after the result; both ends are clean or malformed, never alive.
	if err != nil && out.ExitCode != 0 && out.ExitCode != -1 {
		t.Errorf("run: %v, exit %d", err, out.ExitCode)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("descendants that hold the output kept Run for %v", took)
	}
	for _, p := range *tree {
		if !p.gone(0) {
			t.Errorf("process %d is alive after Run", p.pid)
		}
	}
	empty(t, cfg)
}

func TestADescendantWithoutOurMarkDiesWithItsGroup(t *testing.T) {
	cfg := script(t, `
hello()
wait = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'x'); signal.pause()"
r, w = os.pipe()
child = subprocess.Popen([sys.executable, "-I", "-c", wait], env={}, stdout=w)
os.read(r, 1)
say("seeds", n=child.pid)
result()
os._exit(0)`)
	tree, onEvent := pids(t, func() {})
	out, err := Run(t.Context(), cfg, request, onEvent)
	if err != nil || out.Fled != 0 || len(*tree) != 2 {
		t.Fatalf("run: %v, %d fled, saw %d processes; want none fled and 2; stderr %q", err, out.Fled, len(*tree), out.Stderr)
	}
	for _, p := range *tree {
		if !p.gone(time.Second) {
			t.Errorf("process %d is alive after Run", p.pid)
		}
	}
}

func TestAResultDuringTheGraceIsKept(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := script(t, `
def stop(*_):
    result(status="cancelled", ended_by="cancelled"); os._exit(0)
signal.signal(signal.SIGTERM, stop)
hello()
while True: signal.pause()`)
	cfg.Grace = 10 * time.Second // not needed
	begun := time.Now()
	out, err := Run(ctx, cfg, request, func(Event) { cancel() })
	if !errors.Is(err, context.Canceled) || out.Result == nil || out.Result.Status != "cancelled" || out.ExitCode != 0 {
		t.Errorf("run: %+v, %v, exit %d; want the cancelled result beside the error", out.Result, err, out.ExitCode)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the run took %v, want an end as soon as the process ended", took)
	}
}

func TestAProcessThatLingersAfterItsResultIsEnded(t *testing.T) {
	cfg := script(t, `
signal.signal(signal.SIGTERM, signal.SIG_IGN)
hello(); result()
while True: signal.pause()`)
	out, err := Run(t.Context(), cfg, request, ignore)
	if err != nil || out.Result == nil || out.ExitCode != -1 {
		t.Errorf("run: %+v, %v, exit %d; want the result and a killed process", out.Result, err, out.ExitCode)
	}
}

// workerDir makes the test binary play a worker that is killed.
var workerDir = flag.String("worker-dir", "", "play a worker with this folder")

func TestPlayTheWorker(t *testing.T) {
	if *workerDir == "" {
		return // its part comes in the next test
	}
	cfg := script(t, stubborn+"tell()")
	cfg.Dir = *workerDir
	_, err := Run(t.Context(), cfg, request, func(e Event) { _, _ = os.Stdout.Write(append(e.Raw, '\n')) }) // the reader notices
	t.Fatalf("the worker's run ended: %v", err)
}

func TestTheDeathOfTheWorkerEndsThePython(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run=^TestPlayTheWorker$", "-worker-dir="+dir)
	parent.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // it cannot tidy up
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill() }) // it may be dead
	var python watched
	var rest []watched
	tree, onEvent := pids(t, func() {})
	for lines := bufio.NewScanner(stdout); len(*tree) < 5 && lines.Scan(); {
		var head struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			t.Fatalf("the worker said %q", lines.Text())
		}
		onEvent(Event{Type: head.Type, Raw: lines.Bytes()})
	}
	if len(*tree) < 5 {
		t.Fatalf("saw %d processes, want 5", len(*tree))
	}
	python, rest = (*tree)[0], (*tree)[1:]

	if err := Sweep(dir); err != nil || python.gone(0) {
		t.Errorf("sweep beside a live worker: %v, python gone %v; want nothing done", err, python.gone(0))
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	if !python.gone(3 * time.Second) {
		t.Error("R-SYS-04 Python outlives a worker that was killed")
	}
	if err := Sweep(dir); err != nil {
		t.Errorf("sweep: %v", err)
	}
	for _, p := range rest {
		if !p.gone(3 * time.Second) {
			t.Errorf("process %d is alive after the sweep", p.pid)
		}
	}
	empty(t, Config{Dir: dir})
}

func TestSweepTouchesNothingElse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"other", "pyrun-1"} {
		if err := os.Mkdir(dir+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/pyrun-file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "other" || left[1].Name() != "pyrun-file" {
		t.Errorf("after the sweep: %v, %v; want other and pyrun-file", left, err)
	}
	if err := Sweep(dir + "/nowhere"); err == nil {
		t.Error("sweep of a folder that is not there: no error")
	}
}
