package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/elnor/promptlab/cmd/promptlab/internal/app"
	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/contracts"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"promptlab": func() { os.Exit(run(playServers{})) },
	})
}

// playServers stands where the real servers are composed. Up answers like an API;
// PLAY tells it to misbehave.
type playServers struct{}

func (playServers) Up(ctx context.Context, run cli.ServerRun) error {
	play, _ := run.Env("PLAY")
	if play == "fail" {
		return errors.New("the store is broken")
	}
	tokens := map[string]string{}
	for _, role := range home.Roles() {
		token, err := run.Home.Token(role)
		if err != nil {
			return err
		}
		tokens[token] = role
	}
	ln, err := net.Listen("tcp", run.Config.Listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: newFakeAPI(tokens), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }()
	defer func() { _ = srv.Close() }()
	base := "http://" + ln.Addr().String()
	if err := run.Ready(cli.Ready{Ready: home.Ready{API: base, Console: base + "/"}, ConsoleLink: base + "/login?code=abc", Simulated: run.Config.Simulated()}); err != nil {
		return err
	}
	<-ctx.Done()
	if play == "hang" {
		if err := os.WriteFile(filepath.Join(run.Home.Dir, "stopping"), nil, 0o600); err != nil {
			return err
		}
		select {} // only a second signal helps
	}
	return ctx.Err()
}

// VerifySession is the real one: it needs no server.
func (playServers) VerifySession(ctx context.Context, memory, file string) (cli.SessionReport, error) {
	return app.Servers{}.VerifySession(ctx, memory, file)
}

func (p playServers) Serve(ctx context.Context, run cli.ServerRun) error { return p.Up(ctx, run) }

func (p playServers) Chat(ctx context.Context, run cli.ServerRun) error { return p.Up(ctx, run) }

func (playServers) Verify(string) (cli.VerifyReport, error) {
	return cli.VerifyReport{AuditLines: 1}, nil
}

// Registered is the real one: it needs no server.
func (playServers) Registered(memory, name string) (contracts.RegisteredModel, bool, error) {
	return app.Servers{}.Registered(memory, name)
}

func (playServers) Worker(_ context.Context, run cli.ServerRun) error {
	if run.Token == "" || run.ECURL == "" {
		return errors.New("the worker was not told where to report")
	}
	return run.Ready(cli.Ready{})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			srv := httptest.NewServer(newFakeAPI(map[string]string{"pl-user-1": "user", "pl-operator-1": "operator"}))
			env.Defer(srv.Close)
			run := filepath.Join(env.WorkDir, "lab", "run")
			if err := os.MkdirAll(run, 0o700); err != nil {
				return err
			}
			for _, role := range []string{"user", "operator"} {
				if err := os.WriteFile(filepath.Join(run, role+".token"), []byte("pl-"+role+"-1\n"), 0o600); err != nil {
					return err
				}
			}
			h := home.Home{Dir: filepath.Join(env.WorkDir, "lab")}
			if err := h.WriteReady(home.Ready{API: srv.URL, PID: 1}); err != nil {
				return err
			}
			env.Setenv("API", srv.URL)
			env.Setenv("PROMPTLAB_HOME", h.Dir)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "user"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":    wantCode,
			"waitfor": waitFor,
			"sigterm": sigterm,
		},
	})
}

// wantCode runs a command and checks its exit code: code 2 promptlab jobs.
func wantCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("run %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("%s ended with code %d, want %d; stderr: %s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stderr"))
	}
}

// waitFor waits until a file is there.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("%s did not appear", args[0])
		}
	}
}

// sigterm sends SIGTERM to the process that wrote a home's ready.json.
func sigterm(ts *testscript.TestScript, _ bool, args []string) {
	ready, err := home.Home{Dir: ts.MkAbs(args[0])}.ReadReady()
	ts.Check(err)
	ts.Check(syscall.Kill(ready.PID, syscall.SIGTERM))
}
