package crashtest

import (
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// R-STO-04, R-STO-05, R-STO-13, R-CMD-08
func TestStoreSurvivesEveryCut(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var total figures
	workloads := [][]step{scripted()}
	for seed := range uint64(3) {
		workloads = append(workloads, seeded(seed, 25))
	}
	if raceDetector {
		workloads = workloads[:1]
	}
	for i, script := range workloads {
		c := newChecker(hook.Hooks{}, script, uint64(i))
		if raceDetector {
			c.random = 2
		}
		c.drive(script)
		if c.violation != nil {
			t.Fatalf("workload %d: %v", i, c.violation)
		}
		total = total.plus(c.figures)
		if i == 0 && c.recalled == 0 {
			t.Error("no start went by a recall file")
		}
	}
	script := scripted()
	c := newChecker(hook.Hooks{}, script, 99)
	if raceDetector {
		return
	}
	c.faults(script, 5, 4)
	if c.violation != nil {
		t.Fatal(c.violation)
	}
	total = total.plus(c.figures)
	t.Logf("%s, violations 0, %.1f s", total, time.Since(start).Seconds())
	if total.disks < 10_000 || total.nested == 0 || total.faults == 0 || total.flips == 0 {
		t.Errorf("too little was judged: %s", total)
	}
}

// A text that a person writes between the store's look and its rename is found
// after every cut, told, and not written over.
func TestEditsSurviveEveryCut(t *testing.T) {
	t.Parallel()
	c := newChecker(hook.Hooks{}, nil, 1)
	for seed := range uint64(3) {
		if seed == 0 || !raceDetector {
			c.edits(seed)
		}
	}
	if c.violation != nil {
		t.Fatal(c.violation)
	}
	t.Log(c.figures)
}
