package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// childFlag marks the process that writes until it is killed, bugFlag names the
// mistake that its store makes.
const childFlag, bugFlag = "-store-child=", "-store-bug="

func TestMain(m *testing.M) {
	dir, bug := "", ""
	for _, a := range os.Args {
		if v, ok := strings.CutPrefix(a, childFlag); ok {
			dir = v
		}
		if v, ok := strings.CutPrefix(a, bugFlag); ok {
			bug = v
		}
	}
	if dir != "" {
		fmt.Fprintln(os.Stderr, child(dir, bug))
		os.Exit(1)
	}
	debug.SetGCPercent(800) // many small, short-lived disks: half the time went into collecting them
	code := m.Run()
	told.print(os.Stdout)
	os.Exit(code)
}

// child commits change after change, the store's own goroutine working beside
// it, and writes the number of each to its output when it is acknowledged.
func child(dir, bug string) error {
	var h hook.Hooks
	if bug != "" {
		reflect.ValueOf(&h.Bugs).Elem().FieldByName(bug).SetBool(true)
	}
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		return err
	}
	s, err := store.OpenHooked(store.Config{FS: root, WriteBehind: 2 * time.Millisecond, Checkpoint: 11 * time.Millisecond}, h)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { _ = s.Run(ctx) }()
	last, err := lastChange(s)
	if err != nil {
		return err
	}
	for n := last + 1; ; n++ {
		if err := s.Commit([]store.Change{numbered(n)}); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// numbered is change n: it moves one document on, makes another anew, removes
// the one before, and adds to two streams.
func numbered(n int) store.Change {
	text := fmt.Appendf(nil, `{"change":%d}`, n)
	return store.Change{
		Docs: []store.Doc{
			{Path: "index.json", Body: text},
			{Path: fmt.Sprintf("d/%d.json", n), Body: text},
			{Path: fmt.Sprintf("d/%d.json", n-1)},
		},
		Lines: []store.Line{{Stream: "a.jsonl", Body: text}, {Stream: "s/b.jsonl", Body: text}},
	}
}

// lastChange checks that the files are exactly those after some change and gives
// its number.
func lastChange(s *store.Store) (int, error) {
	n := 0
	err := s.ReadStream("a.jsonl", func(l []byte) error {
		n++
		if want := fmt.Sprintf(`{"change":%d}`, n); string(l) != want {
			return fmt.Errorf("a.jsonl line %d is %q", n, l)
		}
		return nil
	})
	if err != nil || n == 0 {
		return n, err
	}
	if err := agrees(s, state{
		"index.json": fmt.Sprintf(`{"change":%d}`, n), fmt.Sprintf("d/%d.json", n): fmt.Sprintf(`{"change":%d}`, n),
		"a.jsonl": upTo(n), "s/b.jsonl": upTo(n),
	}); err != nil {
		return 0, fmt.Errorf("after change %d: %w", n, err)
	}
	return n, nil
}

func upTo(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"change\":%d}\n", i+1)
	}
	return b.String()
}

// writing is a child at work.
type writing struct {
	cmd  *exec.Cmd
	out  io.Reader
	errs bytes.Buffer
}

// start starts a child that writes to a folder until it is killed. bug may name
// a planted one.
func start(dir, bug string) (*writing, error) {
	w := &writing{cmd: self()}
	w.cmd.Args = append(w.cmd.Args, childFlag+dir)
	if bug != "" {
		w.cmd.Args = append(w.cmd.Args, bugFlag+bug)
	}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.cmd.Stderr = &w.errs
	var err error
	if w.out, err = w.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return w, w.cmd.Start()
}

func (w *writing) kill() { _ = w.cmd.Process.Kill() }

// write lets the child write until it has acknowledged count changes and a
// moment more, calls end, waits for the child and gives the last change that it
// acknowledged; 0 when there was none. end must make the child go.
func (w *writing) write(count int, more time.Duration, end func()) (acked int) {
	lines := bufio.NewScanner(w.out)
	ended := make(chan struct{})
	begun := false
	for i := 0; lines.Scan(); i++ {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			acked = n
		}
		if i == count {
			begun = true
			time.AfterFunc(more, func() { end(); close(ended) })
		}
	}
	if begun {
		<-ended
	}
	_ = w.cmd.Wait() // it was killed
	return acked
}

// alone says that the child ended by itself, without having been killed.
func (w *writing) alone() bool { return w.cmd.ProcessState.Exited() }

// said is what the child wrote about its end; it has ended.
func (w *writing) said() string { return strings.TrimSpace(w.errs.String()) }
