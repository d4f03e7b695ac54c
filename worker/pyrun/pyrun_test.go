package pyrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
)

const testToken = "pl-job-3f9c0a"

// say is the beginning of every script: a way to speak the protocol.
const say = `
import hashlib, json, os, signal, subprocess, sys, time
def say(kind, **more):
    os.write(1, (json.dumps({"type": kind, **more}) + "\n").encode())
def hello():
    say("hello", protocol=1, pid=os.getpid(), python="3.11.7", promptolution="2.3.0")
def candidate(text):
    return {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest(), "score": 0.75, "n": 8, "delta_summary": ["lines: 1 added"]}
def result(**more):
    say("result", **{"status": "completed", "ended_by": "steps", "source_score": 0.5, "candidates": [candidate("Be kind.")], "steps": 2,
        "seed": 7, "engine": "capo", "promptolution": "2.3.0", "python": "3.11.7", "warnings": [{"code": "meta_truncated", "count": 2}], **more})
`

// interpreter is the real one: python3 on the path may be a script that finds it.
var interpreter = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-I", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// script gives a configuration that runs a script with the real interpreter.
func script(t *testing.T, code string) Config {
	t.Helper()
	python, err := interpreter()
	if err != nil {
		t.Fatalf("these tests need python3: %v", err)
	}
	return Config{Python: python, Args: []string{"-I", "-B", "-c", say + code}, Dir: t.TempDir(), Grace: 300 * time.Millisecond}
}

var request = []byte(`{"protocol": 1,
	"token": "` + testToken + `"}`)

func ignore(Event) {}

// empty fails when a run left a file behind.
func empty(t *testing.T, cfg Config) {
	t.Helper()
	left, err := os.ReadDir(cfg.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("R-LAB-16 after the run %s holds %v (%v), want nothing", cfg.Dir, left, err)
	}
}

func TestARunGivesEventsInOrderAndOneResult(t *testing.T) {
	cfg := script(t, `
hello(); say("ready", promptolution="2.3.0", engine="capo"); say("seeds", n=4, rejected=1); say("later_kind", x=[1])
say("calls", meta=1, measure=2, check=3); say("step", i=1, n=5, best=0.5, mean=0.25); say("warning", code="meta_truncated")
say("candidate", sha256="a"*64, score=0.75); result()
open("left", "w"); os.mkdir("shut"); open("shut/file", "w"); os.chmod("shut", 0)`)
	var kinds []string
	out, err := Run(t.Context(), cfg, request, func(e Event) { kinds = append(kinds, e.Type) })
	if err != nil {
		t.Fatalf("run: %v, want no error; stderr %q", err, out.Stderr)
	}
	if diff := cmp.Diff([]string{"hello", "ready", "seeds", "calls", "step", "warning", "candidate"}, kinds); diff != "" {
		t.Errorf("events, unknown ones left out (-want +got):\n%s", diff)
	}
	half := 0.5
	want := &Result{
		Status: "completed", EndedBy: "steps", SourceScore: &half, Steps: 2, Seed: 7, Engine: "capo", Promptolution: "2.3.0", Python: "3.11.7",
		Candidates: []Candidate{{
			Text: "Be kind.", SHA256: contracts.Hash("Be kind."), Score: 0.75, N: 8, DeltaSummary: []string{"lines: 1 added"},
		}},
		Warnings: []Warning{{Code: "meta_truncated", Count: 2}},
	}

	if diff := cmp.Diff(want, out.Result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if out.ExitCode != 0 || out.Fled != 0 || out.Took <= 0 {
		t.Errorf("outcome: exit %d, fled %d, took %v; want 0, 0 and a time", out.ExitCode, out.Fled, out.Took)
	}
	empty(t, cfg)
}

func TestEveryWayToFailHasItsCode(t *testing.T) {
	tests := []struct {
		name string
		code string
		tune func(*Config)
		want string // failure code
		note string // part of the error's text
	}{
		{"R-WRK-09 missing binary", ``, func(c *Config) { c.Python = filepath.Join(c.Dir, "no", "python") }, "worker_unavailable", "not there"},
		{"R-WRK-09 no binary configured", ``, func(c *Config) { c.Python = "" }, "worker_unavailable", "make setup"},
		{"R-WRK-09 a folder for a binary", ``, func(c *Config) { c.Python = c.Dir }, "worker_unavailable", "not there"},
		{"R-WRK-09 not executable", ``, func(c *Config) { c.Python = "/etc/hostname" }, "worker_unavailable", "cannot be started"},
		{"R-WRK-09 adapter not installed", ``, func(c *Config) { c.Args = []string{"-I", "-m", "no_such_module_here"} }, "worker_unavailable", "not installed"},
		{"no place for temporary files", ``, func(c *Config) { c.Dir = filepath.Join(c.Dir, "no", "where") }, "worker_unavailable", "temporary folder"},
		{"R-WRK-09 crash before hello", `sys.exit(1)`, nil, "temporary_backend_error", "exit status 1"},
		{"R-WRK-09 crash by exception", `hello(); raise SystemError`, nil, "temporary_backend_error", "exit status 1"},
		{"R-WRK-09 crash by signal", `hello(); os.kill(os.getpid(), signal.SIGSEGV)`, nil, "temporary_backend_error", "segmentation fault"},
		{"R-WRK-09 no result", `hello(); say("step", i=1, n=1)`, nil, "temporary_backend_error", "without a result"},
		{"R-WRK-09 hangs before hello", `time.sleep(600)`, func(c *Config) { c.StartTimeout = 100 * time.Millisecond }, "temporary_backend_error", "did not speak"},
		{"R-WRK-09 timeout", `hello(); time.sleep(600)`, func(c *Config) { c.Timeout = 500 * time.Millisecond }, "temporary_backend_error", "longer than"},
		{"R-WRK-09 timeout, SIGTERM ignored", `signal.signal(signal.SIGTERM, signal.SIG_IGN); hello(); time.sleep(600)`, func(c *Config) { c.Timeout = 500 * time.Millisecond }, "temporary_backend_error", "longer than"},
		{"R-WRK-09 closes stdout and hangs", `hello(); os.close(1); time.sleep(600)`, nil, "temporary_backend_error", "without a result"},
		{"R-WRK-09 closes stdout, ignores SIGTERM", `signal.signal(signal.SIGTERM, signal.SIG_IGN); hello(); os.close(1); time.sleep(600)`, nil, "temporary_backend_error", "without a result"},
		{"R-WRK-09 two results", `hello(); result(); result(); time.sleep(600)`, nil, "temporary_backend_error", "after the last one"},
		{"R-WRK-09 result and error", `hello(); result(); say("error", code="weird", message="")`, nil, "temporary_backend_error", "after the last one"},
		{"error after an error", `hello(); say("error", code="weird", message=""); say("error", code="provider_terminal", message="")`, nil, "temporary_backend_error", "after the last one"},
		{"result, then a crash", `hello(); result(); sys.exit(3)`, nil, "temporary_backend_error", "exit status 3"},
		{"no hello", `result()`, nil, "temporary_backend_error", "must be hello"},
		{"two hellos", `hello(); hello()`, nil, "temporary_backend_error", "must be hello"},
		{"another protocol", `say("hello", protocol=2, pid=1, python="3")`, nil, "worker_unavailable", "protocol 2"},
		{"R-WRK-09 no JSON", `hello(); print("Traceback", flush=True); time.sleep(600)`, nil, "temporary_backend_error", "not an event"},
		{"R-WRK-09 no object", `hello(); print("[1]")`, nil, "temporary_backend_error", "not an event"},
		{"empty line", `hello(); print("")`, nil, "temporary_backend_error", "not an event"},
		{"no type", `hello(); print('{"kind": "result"}')`, nil, "temporary_backend_error", "not an event"},
		{"deep nesting", `hello(); print('{"type": "x", "y": ' + "[" * 100000 + "]" * 100000 + "}")`, nil, "temporary_backend_error", "not an event"},
		{"not UTF-8", `hello(); os.write(1, b'{"type": "x\xff"}\n')`, nil, "temporary_backend_error", "UTF-8"},
		{"cut off", `hello(); os.write(1, b'{"type": "step"')`, nil, "temporary_backend_error", "cut off"},
		{"R-WRK-09 flood in one line", `
hello()
while True: os.write(1, b"x" * 65536)`, func(c *Config) { c.MaxLine = 1 << 20 }, "temporary_backend_error", "longer than is allowed"},
		{"R-WRK-09 flood of events", `
hello()
while True: say("other", x="y" * 1000)`, func(c *Config) { c.MaxOutput = 1 << 20 }, "temporary_backend_error", "more events"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := script(t, tt.code)
			dir := cfg
			if tt.tune != nil {
				tt.tune(&cfg)
			}
			begun := time.Now()
			out, err := Run(t.Context(), cfg, request, ignore)
			var failure *Failure
			if !errors.As(err, &failure) {
				t.Fatalf("run: error %v, want a failure", err)
			}
			if failure.Code != tt.want || !failure.Retryable || !strings.Contains(err.Error(), tt.note) {
				t.Errorf("run: %v (retryable %v), want a retryable %s that says %q", err, failure.Retryable, tt.want, tt.note)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("run took %v, want an end long before the script's", took)
			}
			if out.Result != nil && !strings.Contains(tt.name, "then a crash") {
				t.Errorf("run gave a result: %+v", out.Result)
			}
			empty(t, dir)
		})
	}
}

func TestErrorEventsPassTheirCodeOn(t *testing.T) {
	tests := []struct {
		name, event string
		want        Failure
	}{
		{"R-WRK-06 retryable, whatever Python says", `code="provider_rate_limited", message="status 429", retryable=False`, Failure{Code: "provider_rate_limited", Message: "status 429", Retryable: true}},
		{"R-WRK-06 worker_unavailable", `code="worker_unavailable", message="", retryable=True`, Failure{Code: "worker_unavailable", Retryable: true}},
		{"R-WRK-07 final, whatever Python says", `code="provider_terminal", message="no", retryable=True`, Failure{Code: "provider_terminal", Message: "no"}},
		{"R-WRK-08 unknown codes are final and kept", `code="weird", message="a\x1b[31mb\nc", retryable=True`, Failure{Code: "weird", Message: "a [31mb c"}},
		{"a long message is cut", `code="weird", message="é" * 5000`, Failure{Code: "weird", Message: strings.Repeat("é", 250) + "…"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := script(t, `hello(); say("error", `+tt.event+`); sys.exit(1)`)
			_, err := Run(t.Context(), cfg, request, ignore)
			var got *Failure
			if !errors.As(err, &got) {
				t.Fatalf("run: error %v, want a failure", err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
}

// R-SYS-04, R-GWB-04: the process gets the request and nothing else of ours.
func TestTheProcessGetsNothingOfOurs(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "ELNOR_MEMORY", "PROMPTLAB_HOME", "HTTP_PROXY", "https_proxy", "PYTHONPATH"} {
		t.Setenv(name, "sk-secret-of-ours")
	}
	// A descriptor as we may have inherited one: Go would have marked its own.
	inherited, err := syscall.Open(os.Args[0], syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }() // only read
	cfg := script(t, `
hello()
text = json.dumps({"env": dict(os.environ), "stdin": sys.stdin.readline(), "argv": sys.orig_argv[1:4], "cwd": os.getcwd(),
    "fds": [f for f in sorted(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd/" + f)], "group": os.getpgid(0) == os.getpid()})
result(candidates=[candidate(text)])`)
	out, err := Run(t.Context(), cfg, request, ignore)
	if err != nil {
		t.Fatalf("run: %v; stderr %q", err, out.Stderr)
	}
	text := out.Result.Candidates[0].Text
	if strings.Contains(text, "secret") {
		t.Errorf("R-SYS-04 R-GWB-04 the process sees a secret: %s", text)
	}
	var got struct {
		Env        map[string]string
		Stdin, Cwd string
		Argv, Fds  []string
		Group      bool
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	home := got.Env["HOME"]
	if filepath.Dir(home) != cfg.Dir || got.Cwd != home {
		t.Errorf("HOME %q and folder %q, want one private folder in %q", home, got.Cwd, cfg.Dir)
	}
	want := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8",
		"PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1",
		"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1", "NO_PROXY": "127.0.0.1",
	}
	delete(got.Env, "LC_CTYPE") // the interpreter's own
	if diff := cmp.Diff(want, got.Env); diff != "" {
		t.Errorf("R-SYS-04 environment (-want +got):\n%s", diff)
	}
	if want := `{"protocol":1,"token":"` + testToken + "\"}\n"; got.Stdin != want {
		t.Errorf("stdin: got %q, want the request alone on one line %q", got.Stdin, want)
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, got.Fds); diff != "" {
		t.Errorf("open descriptors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"-I", "-B", "-c"}, got.Argv); diff != "" || !got.Group {
		t.Errorf("arguments (-want +got):\n%s\nown group: %v, want true", diff, got.Group)
	}
	if diff := cmp.Diff([]string{"-I", "-B", "-m", "promptlab_adapter"}, AdapterArgs()); diff != "" {
		t.Errorf("the adapter's arguments (-want +got):\n%s", diff)
	}
}

func TestStderrKeepsTheEndWithoutTheToken(t *testing.T) {
	cfg := script(t, `
hello()
token = json.loads(sys.stdin.readline())["token"]
os.write(2, (("x" * 61 + token) * 3000 + "\nlast \xff words " + token).encode("latin-1"))
result()`)
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	out, err := Run(t.Context(), cfg, request, ignore)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if strings.Contains(out.Stderr, testToken) || !strings.HasSuffix(out.Stderr, "last � words [token]") {
		t.Errorf("stderr ends with %q, want the last words and no token", out.Stderr[max(0, len(out.Stderr)-60):])
	}
	if len(out.Stderr) > maxStderr || len(out.Stderr) < maxStderr/2 {
		t.Errorf("stderr has %d bytes, want the last %d or a little less", len(out.Stderr), maxStderr)
	}
	for _, text := range []string{testToken, "Be kind", "words"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log holds %q: %s", text, log.String())
		}
	}
	if strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log: %s, want one line a run", log.String())
	}
}

func TestRingNeverShowsPartOfTheSecret(t *testing.T) {
	const secret = "0123456789"
	for cut := range 30 {
		r := &ring{max: 20}
		for _, b := range []byte("...." + secret + strings.Repeat("z", cut)) {
			_, _ = r.Write([]byte{b}) // never fails
		}
		if got := r.redacted(secret); strings.ContainsAny(got, secret) {
			t.Errorf("after %d more bytes the ring shows %q", cut, got)
		}
	}
}

type jailFunc func(*exec.Cmd, string) error

func (f jailFunc) Wrap(cmd *exec.Cmd, dir string) error { return f(cmd, dir) }

func TestAJailMayWrapTheCommandOrRefuse(t *testing.T) {
	cfg := script(t, `hello(); result(candidates=[candidate(os.environ["JAILED"])])`)
	cfg.Jail = jailFunc(func(cmd *exec.Cmd, dir string) error {
		cmd.Env = append(cmd.Env, "JAILED="+dir)
		return nil
	})
	out, err := Run(t.Context(), cfg, request, ignore)
	if err != nil || filepath.Dir(out.Result.Candidates[0].Text) != cfg.Dir {
		t.Errorf("jailed run: %+v, %v; want the jail's environment and the private folder", out.Result, err)
	}
	cfg.Jail = jailFunc(func(*exec.Cmd, string) error { return errors.New("too old a kernel") })
	_, err = Run(t.Context(), cfg, request, ignore)
	var failure *Failure
	if !errors.As(err, &failure) || failure.Code != "sandbox_unavailable" || failure.Retryable {
		t.Errorf("refused jail: %v, want a final sandbox_unavailable", err)
	}
	empty(t, cfg)
}

func TestABigRequestIsDeliveredWholeOrNotAtAll(t *testing.T) {
	big := []byte(`{"token": "", "x": "` + strings.Repeat("é", 1<<20) + `"}`)
	cfg := script(t, `hello(); result(candidates=[candidate(str(len(sys.stdin.readline())))])`)
	out, err := Run(t.Context(), cfg, big, ignore)
	if want := fmt.Sprint(len(`{"token":"","x":"`) + 1<<20 + len("\"}\n")); err != nil || out.Result.Candidates[0].Text != want {
		t.Errorf("big request: %+v, %v; want %s characters to arrive", out.Result, err, want)
	}
	out, err = Run(t.Context(), script(t, `hello(); result()`), big, ignore)
	if err != nil || out.Result == nil {
		t.Errorf("a process that does not read: %v, want its result", err)
	}
	if _, err := Run(t.Context(), cfg, []byte(`{"token": `), ignore); err == nil {
		t.Error("a request that is no JSON: no error")
	}
}

func TestARunThatIsCancelledBeforehandStartsNothing(t *testing.T) {
	why := errors.New("cancelled by the owner")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	cfg := script(t, `hello(); result()`)
	called := false
	out, err := Run(ctx, cfg, request, func(Event) { called = true })
	if !errors.Is(err, why) || called || out.Result != nil {
		t.Errorf("run: %v, event %v, result %v; want the cause and nothing done", err, called, out.Result)
	}
	empty(t, cfg)
}
