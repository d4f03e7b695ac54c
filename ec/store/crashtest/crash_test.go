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
	start := time.Now()
	var total figures
	workloads := [][]step{scripted()}
	for seed := range uint64(4) {
		workloads = append(workloads, seeded(seed, 25))
	}
	for i, script := range workloads {
		c := newChecker(hook.Hooks{}, script, uint64(i))
		c.drive(script)
		if c.violation != nil {
			t.Fatalf("workload %d: %v", i, c.violation)
		}
		total = total.plus(c.figures)
	}
	script := scripted()
	c := newChecker(hook.Hooks{}, script, 99)
	c.faults(script, 7)
	if c.violation != nil {
		t.Fatal(c.violation)
	}
	total = total.plus(c.figures)
	t.Logf("%s, violations 0, %.1f s", total, time.Since(start).Seconds())
	if total.disks < 10_000 || total.nested == 0 || total.faults == 0 || total.flips == 0 {
		t.Errorf("too little was judged: %s", total)
	}
}
