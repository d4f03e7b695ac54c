package crashtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
)

// childFlag marks the process that writes until it is killed.
const childFlag = "-store-child="

func TestMain(m *testing.M) {
	for _, a := range os.Args {
		if dir, ok := strings.CutPrefix(a, childFlag); ok {
			fmt.Fprintln(os.Stderr, child(dir))
			os.Exit(1)
		}
	}
	debug.SetGCPercent(800) // many small, short-lived disks: half the time went into collecting them
	os.Exit(m.Run())
}

// child commits change after change, the store's own goroutine working beside
// it, and writes the number of each to its output when it is acknowledged.
func child(dir string) error {
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		return err
	}
	s, err := store.Open(store.Config{FS: root, WriteBehind: 2 * time.Millisecond, Checkpoint: 11 * time.Millisecond})
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

// R-STO-13: a real process, a real file system, SIGKILL.
func TestNothingAcknowledgedIsLostByKill(t *testing.T) {
	const kills = 40
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	acked, total := 0, 0
	for k := range kills {
		before := acked
		acked = writeAndKill(t, self, dir, 1+r.IntN(25), time.Duration(r.IntN(3000))*time.Microsecond, acked)
		total += acked - before
		root, err := fsx.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(store.Config{FS: root})
		if err != nil {
			t.Fatalf("kill %d: recovery: %v", k, err)
		}
		n, err := lastChange(s)
		if err != nil {
			t.Fatalf("kill %d: %v", k, err)
		}
		if n < acked {
			t.Fatalf("kill %d: change %d was acknowledged, the last one found is %d", k, acked, n)
		}
		acked = n
		if err := errors.Join(s.Close(), root.Close()); err != nil {
			t.Fatalf("kill %d: close: %v", k, err)
		}
	}
	t.Logf("%d kills, %d changes acknowledged, none lost", kills, total)
	if total < kills {
		t.Errorf("only %d changes were acknowledged", total)
	}
}

// writeAndKill lets a child write until it has acknowledged count changes and a
// moment more, kills it, and gives the last one acknowledged.
func writeAndKill(t *testing.T, self, dir string, count int, more time.Duration, acked int) int {
	t.Helper()
	cmd := exec.Command(self, childFlag+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			acked = n
		}
		if i == count {
			time.AfterFunc(more, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // it was killed
	return acked
}
