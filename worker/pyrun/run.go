package pyrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// Outcome is what is known after a run, also after a failed one.
type Outcome struct {
	Result   *Result       // nil without a result that could be read
	Stderr   string        // the end of standard error, without the request's token; for logs
	ExitCode int           // -1: ended by a signal or never started
	Took     time.Duration // from start to the end of the last descendant
	Fled     int           // descendants that had left the group; they were killed too
}

// Run starts the process, hands it the request (one JSON object) and waits for
// its end. onEvent is called for every event but the last, in order, from one
// goroutine; it must not wait for Run.
//
// The error is nil for a run that ended by itself with a result, and a *Failure
// when it did not. When ctx ends, the process gets SIGTERM and, Grace later,
// SIGKILL, and the error is the cause of ctx; a result that came in the meantime
// is in the Outcome. However it ends, no process and no file is left.
func Run(ctx context.Context, cfg Config, request []byte, onEvent func(Event)) (Outcome, error) {
	cfg = cfg.withDefaults()
	out := Outcome{ExitCode: -1}
	line, token, err := oneLine(request)
	if err != nil {
		return out, err
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	dir, err := newPrivate(cfg.Dir)
	if err != nil {
		return out, unavailable(err, "the process's temporary folder cannot be made")
	}
	out, err = runIn(ctx, cfg, dir.path, line, token, onEvent)
	if gone := dir.remove(); gone != nil {
		cfg.Log.ErrorContext(ctx, "temporary folder not removed", "error", gone)
	}
	cfg.Log.InfoContext(ctx, "python ended", "exit", out.ExitCode, "took", out.Took, "fled", out.Fled, "result", out.Result != nil, "error", err)
	return out, err
}

func runIn(ctx context.Context, cfg Config, dir string, line []byte, token string, onEvent func(Event)) (Outcome, error) {
	out := Outcome{ExitCode: -1}
	cmd, err := command(cfg, dir)
	if err != nil {
		return out, err
	}
	begun := time.Now()
	p, err := start(cmd)
	if err != nil {
		return out, unavailable(err, "the optimizer's Python cannot be started; run make setup")
	}
	stderr := &ring{max: maxStderr}
	told := copyAll(stderr, p.stderr)
	rd := newReader(cfg, onEvent)
	go rd.run(p.stdout)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = p.stdin.Write(line) // a process that does not read fails by its events
	}()

	why := supervise(ctx, cfg, p, rd)
	out.Fled = reap(dir, cmd.Process.Pid)
	p.drain(cfg.Grace, rd.ended, told)
	p.close()
	<-wrote

	out.Took = time.Since(begun)
	out.ExitCode = cmd.ProcessState.ExitCode()
	out.Stderr = stderr.redacted(token)
	if rd.broken == nil {
		out.Result = rd.result
	}
	return out, verdict(why, rd, out, cmd.ProcessState)
}

func command(cfg Config, dir string) (*exec.Cmd, error) {
	if cfg.Python == "" {
		return nil, unavailable(nil, "no Python is configured for the optimizer; run make setup")
	}
	// The child has another folder: a relative path must not change its meaning.
	python, err := filepath.Abs(cfg.Python)
	if err != nil {
		return nil, unavailable(err, "the optimizer's Python cannot be found")
	}
	if info, err := os.Stat(python); err != nil || info.IsDir() {
		return nil, unavailable(err, "the optimizer's Python is not there; run make setup")
	}
	cmd := exec.Command(python, cfg.Args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment(dir), attributes()
	if cfg.Jail != nil {
		if err := cfg.Jail.Wrap(cmd, dir); err != nil {
			return nil, &Failure{Code: contracts.FailSandboxUnavailable, Message: "the process cannot be confined", Err: err}
		}
	}
	return cmd, nil
}

// errStopped are the reasons for which supervise ends a process.
var (
	errSlowStart = errors.New("the process did not speak in time")
	errTimeout   = errors.New("the process took longer than is allowed")
)

// supervise waits for the end of the process and brings it about when it has to:
// SIGTERM, and SIGKILL a grace later. It gives why it did, nil if the process
// ended by itself or after its last event.
func supervise(ctx context.Context, cfg Config, p *process, rd *reader) (why error) {
	slow, total := time.NewTimer(cfg.StartTimeout), time.NewTimer(cfg.Timeout)
	defer slow.Stop()
	defer total.Stop()
	var kill <-chan time.Time // runs from the first reason to end
	end := func(reason error) {
		if why == nil {
			why = reason
		}
		p.signal(syscall.SIGTERM)
		if kill == nil {
			kill = time.After(cfg.Grace)
		}
	}
	done, hello, final, ended := ctx.Done(), rd.hello, rd.final, rd.ended
	for {
		select {
		case <-p.exited:
			return why
		case <-done:
			done = nil
			end(context.Cause(ctx))
		case <-slow.C:
			end(errSlowStart)
		case <-total.C:
			end(errTimeout)
		case <-hello:
			hello = nil
			slow.Stop()
		case <-final:
			final = nil
			total.Stop()
			if kill == nil {
				kill = time.After(cfg.Grace)
			}
		case <-ended:
			ended = nil
			switch {
			case rd.broken != nil: // it is not to be trusted with a farewell
				p.signal(syscall.SIGKILL)
			case rd.result == nil && rd.failure == nil:
				end(nil) // it closed its output: nothing can come any more
			}
		case <-kill:
			kill = nil
			p.signal(syscall.SIGKILL)
		}
	}
}

// verdict decides what a run was, from the strongest reason to the weakest.
func verdict(why error, rd *reader, out Outcome, state *os.ProcessState) error {
	var failure *Failure
	switch {
	case errors.Is(why, errSlowStart) || errors.Is(why, errTimeout):
		return temporary(why, "the optimizer took too long")
	case why != nil:
		return why // the end of ctx
	case errors.As(rd.broken, &failure):
		return failure
	case rd.broken != nil:
		return temporary(rd.broken, "the optimizer's output is malformed")
	case rd.failure != nil:
		return rd.failure
	case rd.result == nil && !rd.greeted && strings.Contains(out.Stderr, "No module named"):
		return unavailable(nil, "the optimizer is not installed; run make setup")
	case rd.result == nil:
		return temporary(fmt.Errorf("ended without a result: %s", state), "the optimizer crashed")
	case state.Exited() && state.ExitCode() != 0:
		return temporary(fmt.Errorf("ended after its result: %s", state), "the optimizer crashed")
	}
	return nil
}

// oneLine makes the line that goes to the process and finds the token in it, to
// keep it out of logs.
func oneLine(request []byte) (line []byte, token string, err error) {
	var head struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(request, &head); err != nil {
		return nil, "", fmt.Errorf("request of a python process: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, request); err != nil {
		return nil, "", fmt.Errorf("request of a python process: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), head.Token, nil
}
