// Command promptlab keeps prompt overlays, runs searches for better texts away from
// live work, measures them, and leaves the decision to a person.
//
// This package is the one place that reads the process's arguments, environment and
// signals and ends the process. Everything else is handed what it needs.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"golang.org/x/term"
)

// version is set by the linker for releases.
var version = "dev" //nolint:gochecknoglobals // -ldflags -X needs a variable; nothing in the program changes it

func main() { os.Exit(run(servers())) }

// run runs the program on this process and gives its exit code.
func run(servers cli.Servers) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	// Without a home directory or a working directory there is less to offer, not
	// nothing: whoever needs one says so.
	userHome, _ := os.UserHomeDir()
	workDir, _ := os.Getwd()
	executable, _ := os.Executable()
	return cli.Run(ctx, cli.Process{
		Args: os.Args[1:], Env: os.LookupEnv,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdoutTTY: term.IsTerminal(int(os.Stdout.Fd())), StderrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		UserHome: userHome, WorkDir: workDir, Executable: executable, TempDir: os.TempDir(), PID: os.Getpid(),
		Version: build(), Servers: servers,
	})
}

// untilSignal gives a context that the first SIGTERM or SIGINT ends, so that work is
// handed back in order. The second ends the process at once; what was acknowledged
// is on the disk, and the next start recovers the rest.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2) // one for each that counts
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for stopping := false; ; stopping = true {
			select {
			case s := <-signals:
				if stopping {
					os.Exit(128 + int(s.(syscall.Signal))) //nolint:forcetypeassert // on systems with signals
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

func build() cli.Version {
	v := cli.Version{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
