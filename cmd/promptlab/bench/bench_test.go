package bench

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var table = flag.Bool("bench-table", false, "measure and print the table; takes about two minutes")

// TestBench prints the table. -run TestBench/jobs measures one row.
func TestBench(t *testing.T) {
	if !*table {
		t.Skip("measures only with -bench-table; run: make bench")
	}
	b := &board{}
	began, load := time.Now(), loadAverage()
	for _, row := range []struct {
		name    string
		measure func(*testing.T, *board)
	}{
		{"packet", packet},
		{"commit", commit},
		{"gateway", gatewayRow},
		{"gateway-cpu", gatewayPeer},
		{"chat", chatRow},
		{"jobs", jobs},
		{"optimizer", optimizer},
		{"evidence", evidenceRow},
		{"library", library}, // start, lookup and the curve; last: it leaves the disk busy
	} {
		t.Run(row.name, func(t *testing.T) {
			b.measured = false
			row.measure(t, b)
			if !b.measured {
				t.Error("the row has no line")
			}
		})
	}
	b.print(t, time.Since(began), load)
}

// The words of the last column. A goal is never a failure of the test.
const (
	yes     = "yes"
	no      = "no"
	skipped = "SKIPPED"
)

// line is one line of the table.
type line struct{ name, ours, reference, ratio, goal, holds string }

// board collects the lines and what has to be said about them.
type board struct {
	lines    []line
	notes    []string
	measured bool // the row under way has a line
}

func (b *board) add(l line) {
	b.lines = append(b.lines, l)
	b.measured = true
}

func (b *board) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func verdict(ok bool) string {
	if ok {
		return yes
	}
	return no
}

func (b *board) print(t *testing.T, took time.Duration, load string) {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s/%s, %d CPUs, %s, took %s, load before %s, after %s\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), took.Round(time.Second), load, loadAverage())
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tOURS\tREFERENCE\tRATIO\tGOAL\tHOLDS")
	for _, l := range b.lines {
		fmt.Fprintln(w, strings.Join([]string{l.name, l.ours, l.reference, l.ratio, l.goal, l.holds}, "\t"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&out, "\nWhat was measured, and how it varied:")
	for _, n := range b.notes {
		fmt.Fprintln(&out, "- "+n)
	}
	fmt.Fprintln(os.Stdout, out.String())
}

// loadAverage gives the load of the last minute: who else wants the machine.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg") // Linux alone
	load, _, ok := strings.Cut(string(b), " ")
	if !ok {
		return "unknown"
	}
	return load
}
