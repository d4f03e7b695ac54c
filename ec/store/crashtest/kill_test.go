package crashtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
)

// R-STO-13: a real process, a real file system, SIGKILL.
func TestNothingAcknowledgedIsLostByKill(t *testing.T) {
	const kills = 40
	_, acked, err := killRounds(t, kills, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d changes acknowledged, none lost", kills, acked)
	if acked < kills {
		t.Errorf("only %d changes were acknowledged", acked)
	}
}

// perFolder is how many kills one folder sees: its streams grow, and are read
// after each.
const perFolder = 50

// killRounds kills a writing child so many times, in so many folders at a time,
// and gives how many kills there were and changes acknowledged.
func killRounds(t *testing.T, kills, lanes int) (done, acked int, err error) {
	t.Helper()
	type lane struct{ seed, kills int }
	begun := 0
	next := func(figures) (lane, bool) {
		l := lane{seed: begun, kills: min(perFolder, kills-begun)}
		begun += l.kills
		return l, l.kills > 0
	}
	dirs := t.TempDir()
	f, err := spread(lanes, next, func(l lane) (figures, error) {
		dir := filepath.Join(dirs, fmt.Sprint(l.seed))
		defer os.RemoveAll(dir)
		done, n, err := killLane(dir, l.seed, l.kills)
		return figures{points: done, acks: n}, err
	})
	return f.points, f.acks, err
}

func killLane(dir string, seed, kills int) (done, total int, err error) {
	r := rand.New(rand.NewPCG(1, uint64(seed)))
	acked := 0
	for done = range kills {
		c, err := start(dir, "")
		if err != nil {
			return done, total, err
		}
		last := c.write(1+r.IntN(25), time.Duration(r.IntN(3000))*time.Microsecond, c.kill)
		total += max(0, last-acked)
		if c.alone() {
			return done, total, fmt.Errorf("kill %d of lane %d: the child ended by itself: %s", done, seed, c.said())
		}
		if acked, err = recovered(dir, max(last, acked)); err != nil {
			return done, total, fmt.Errorf("kill %d of lane %d: %w", done, seed, err)
		}
	}
	return kills, total, nil
}

// recovered opens what a child left, holds it against the last acknowledged
// change, and gives the last one that is there.
func recovered(dir string, acked int) (int, error) {
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	s, err := store.Open(store.Config{FS: root})
	if err != nil {
		return 0, fmt.Errorf("recovery: %w", err)
	}
	n, err := lastChange(s)
	if err == nil && n < acked {
		err = fmt.Errorf("change %d was acknowledged, the last one found is %d", acked, n)
	}
	return n, errors.Join(err, s.Close())
}

func self() *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		panic(err) // the test's own program
	}
	return exec.Command(path)
}
