package crashtest

import (
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// The campaign is driven by flags; without -disks TestCrash is left out.
var (
	wantDisks = flag.Int("disks", 0, "TestCrash: judge at least so many simulated disks")
	wantFlips = flag.Int("flips", 4000, "TestCrash: flip at least so many bits")
	wantKills = flag.Int("kills", 200, "TestCrash: kill a writing process so many times, and a serving one so many times")
	wantCuts  = flag.Int("cuts", 25, "TestCrash: cut the power of each real file system so many times")
	deep      = flag.Bool("deep", false, "TestCrash: more cuts at each point, more recoveries cut")
	program   = flag.String("program", "", "TestCrash: the built promptlab, to be killed under HTTP load")
	oneUnit   = flag.String("unit", "", "TestUnit: look again at the unit that a violation named")
)

// report collects the figures of TestCrash for the line that TestMain prints last.
type report struct {
	mu         sync.Mutex
	start      time.Time
	figures    figures
	caught     string
	kills      string
	served     string
	cuts       [2]string // as powerCuts says, in order
	planted    [2]int    // bugs that a real power cut showed, of how many
	violations int
}

// told is what TestCrash found, for TestMain, which alone can print at the end.
var told report

func (r *report) set(f func(r *report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// print writes the line of figures; nothing when TestCrash did not run.
func (r *report) print(w io.Writer) {
	if r.start.IsZero() {
		return
	}
	f := r.figures
	fmt.Fprintf(w, "crash: disks=%d nested=%d points=%d acks=%d mutants=%s faults=%d flips=%d(%d refused) kills=%s http=%s cuts=%s cut_mutants=%d/%d violations=%d seconds=%.0f\n",
		f.disks, f.nested, f.points, f.acks, r.caught, f.faults, f.flips, f.refused, r.kills, r.served, strings.Join(r.cuts[:], ","), r.planted[0], r.planted[1], r.violations, time.Since(r.start).Seconds())
}

// violated counts a broken promise and shows it.
func violated(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		told.set(func(r *report) { r.violations++ })
		t.Error(err)
	}
}

// R-STO-04, R-STO-05, R-STO-13, R-CMD-08: the whole proof, as large as the flags
// say. Its parts run beside each other: some need the processor, some the disk.
func TestCrash(t *testing.T) {
	if *wantDisks == 0 {
		t.Skip("left out; give -args -disks N, or run make crash")
	}
	told.set(func(r *report) {
		r.start = time.Now()
		r.caught, r.kills, r.served = "not run", "not run", "not run"
		for i, fs := range powerCuts() {
			r.cuts[i] = fs.name + ":not run"
		}
	})
	workers := runtime.GOMAXPROCS(0)
	t.Run("disks", func(t *testing.T) {
		t.Parallel()
		f, err := spread(workers, campaign(*wantDisks, *wantFlips, *deep), func(u unit) (figures, error) { return u.run(hook.Hooks{}) })
		told.set(func(r *report) { r.figures = f })
		violated(t, err)
	})
	t.Run("mutants", func(t *testing.T) {
		t.Parallel()
		caught, all := catchAll(t, workers)
		told.set(func(r *report) { r.caught = fmt.Sprintf("%d/%d", caught, all) })
		if caught != all {
			t.Errorf("%d of %d planted bugs were caught", caught, all)
		}
	})
	t.Run("kills", func(t *testing.T) {
		t.Parallel()
		kills, acked, err := killRounds(t, *wantKills, workers)
		told.set(func(r *report) { r.kills = fmt.Sprintf("%d(%d acked)", kills, acked) })
		violated(t, err)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		if *program == "" {
			told.set(func(r *report) { r.served = "skipped(no -program)" })
			t.Skip("no -program is given")
		}
		kills, acked, err := serveRounds(t, *program, *wantKills, 2*workers) // it waits more than it works
		told.set(func(r *report) { r.served = fmt.Sprintf("%d(%d acked)", kills, acked) })
		violated(t, err)
	})
	for i, fs := range powerCuts() {
		t.Run("cuts "+fs.name, func(t *testing.T) {
			t.Parallel()
			if why := fs.missing(); why != "" {
				fmt.Fprintf(os.Stderr, "power cuts: NO REAL POWER CUTS ON %s: %s\n", strings.ToUpper(fs.name), why)
				told.set(func(r *report) { r.cuts[i] = fmt.Sprintf("%s:skipped(%s)", fs.name, why) })
				t.Skip(why)
			}
			cuts, acked, err := fs.rounds(t, *wantCuts)
			told.set(func(r *report) { r.cuts[i] = fmt.Sprintf("%s:%d(%d acked)", fs.name, cuts, acked) })
			violated(t, err)
		})
		// Others, such as folders that are not synced, real file systems hide.
		for _, bug := range []string{"JournalNotSynced", "TempNotSynced"} {
			t.Run("mutant "+fs.name+" "+bug, func(t *testing.T) {
				t.Parallel()
				fs.here(t)
				err := fs.planted(t, bug)
				told.set(func(r *report) {
					r.planted[1]++
					if err == nil {
						r.planted[0]++
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// catchAll hunts every planted bug and says how many there are.
func catchAll(t *testing.T, workers int) (caught, all int) {
	kinds := reflect.TypeFor[hook.Bugs]()
	i := 0
	next := func(figures) (int, bool) { i++; return i - 1, i <= kinds.NumField() }
	var mu sync.Mutex
	_, _ = spread(workers, next, func(i int) (figures, error) {
		f, violation := hunt(bugOf(i))
		mu.Lock()
		defer mu.Unlock()
		if violation == nil {
			t.Errorf("%s: not caught: %s", kinds.Field(i).Name, f)
		} else {
			caught++
		}
		return f, nil // a violation is what was wanted
	})
	return caught, kinds.NumField()
}

// bugOf gives the store's bug of a number.
func bugOf(i int) hook.Bugs {
	var bugs hook.Bugs
	reflect.ValueOf(&bugs).Elem().Field(i).SetBool(true)
	return bugs
}

// TestUnit looks again at what a violation named: -args -unit cuts:17:0/0:true.
func TestUnit(t *testing.T) {
	if *oneUnit == "" {
		t.Skip("left out; give -args -unit NAME")
	}
	u, err := parseUnit(*oneUnit)
	if err != nil {
		t.Fatal(err)
	}
	f, err := u.run(hook.Hooks{})
	t.Log(f)
	if err != nil {
		t.Error(err)
	}
}

// A violation's unit is enough to see it again: the same disks, in the same
// order, whatever runs beside it.
func TestAUnitIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("one goroutine only; runs without the race detector")
	}
	for _, u := range []unit{{kind: unitFaults, seed: 5, part: 2, parts: 99}, {kind: unitEdits, seed: 4}, {kind: unitCuts, seed: 40}} {
		again, err := parseUnit(u.String())
		if err != nil || again != u {
			t.Fatalf("unit %s reads %+v, want %+v (%v)", u, again, u, err)
		}
		h := hook.Hooks{Bugs: hook.Bugs{FoldersNotSynced: u.kind == unitCuts}}
		first, err1 := u.run(h)
		second, err2 := again.run(h)
		if first != second || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Errorf("unit %s: first %s, %v; then %s, %v", u, first, err1, second, err2)
		}
	}
}

// A figure is not taken for a proof: a failure stops the work and is given.
func TestSpreadGivesTheFailure(t *testing.T) {
	t.Parallel()
	n := 0
	f, err := spread(3, func(figures) (int, bool) { n++; return n, n <= 1000 }, func(i int) (figures, error) {
		if i == 10 {
			return figures{disks: 1}, fmt.Errorf("number %d", i)
		}
		return figures{disks: 1}, nil
	})
	if err == nil || err.Error() != "number 10" || f.disks < 10 || f.disks > 15 {
		t.Errorf("ten pieces, the last of which fails: %d done, error %v", f.disks, err)
	}
}
