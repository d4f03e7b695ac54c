package crashtest

import (
	"flag"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store/internal/hook"
)

var long = flag.Int("disks", 0, "how many disks TestCampaign judges; 0 leaves it out")

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
	}
	script := scripted()
	c := newChecker(hook.Hooks{}, script, 99)
	if raceDetector {
		return
	}
	c.faults(script, 5)
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

// TestCampaign is the long form: -args -disks 1000000.
func TestCampaign(t *testing.T) {
	if *long == 0 {
		t.Skip("left out; give -args -disks N")
	}
	start := time.Now()
	var total figures
	judge := func(c *checker, seed uint64) {
		if c.violation != nil {
			t.Fatalf("seed %d: %v", seed, c.violation)
		}
		total = total.plus(c.figures)
	}
	for seed := uint64(0); total.disks < *long; seed++ {
		script := scripted()
		if seed > 0 {
			script = seeded(1000+seed, 20+int(seed%40))
		}
		c := newChecker(hook.Hooks{}, script, seed)
		c.random, c.every, c.kills, c.flipStride = 60, 25, 5, 2
		c.drive(script)
		judge(c, seed)
		if seed%4 == 0 {
			c = newChecker(hook.Hooks{}, script, seed)
			c.faults(script, 1)
			c.edits(seed)
			judge(c, seed)
		}
	}
	t.Logf("%s, violations 0, %.0f s", total, time.Since(start).Seconds())
}
