package crashtest

import (
	"reflect"
	"testing"

	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// hunt runs the checker against a store with a planted bug until it finds
// something: first a little of everything, then more and more cuts.
func hunt(bugs hook.Bugs) (total figures, violation error) {
	look := func(seed uint64, script []step, how func(c *checker)) {
		if violation != nil {
			return
		}
		c := newChecker(hook.Hooks{Bugs: bugs}, script, seed)
		c.random, c.flipStride, c.every, c.kills = 4, 3, 60, 9
		how(c)
		violation, total = c.violation, total.plus(c.figures)
	}
	script := scripted()
	look(0, script, func(c *checker) { c.limit = 900; c.drive(script) })
	look(0, script, func(c *checker) { c.quiet = true; c.drive(script) })
	look(0, script, func(c *checker) { c.faults(script, 7, 6) })
	look(0, script, func(c *checker) { c.edits(0) })
	for seed := range uint64(8) {
		script := seeded(seed, 25)
		look(seed, script, func(c *checker) { c.random = 12; c.drive(script) })
		look(seed, script, func(c *checker) { c.faults(script, 5, 4) })
	}
	return total, violation
}

// Every planted bug must be caught: a checker that cannot fail proves nothing.
func TestCheckerCatches(t *testing.T) {
	if raceDetector {
		t.Skip("one goroutine only; runs without the race detector")
	}
	kinds := reflect.TypeFor[hook.Bugs]()
	for i := range kinds.NumField() {
		name := kinds.Field(i).Name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total, violation := hunt(bugOf(i))
			if violation == nil {
				t.Fatalf("not caught: %s", total)
			}
			msg := violation.Error()
			t.Logf("after %d disks: %.160s", total.disks+total.nested+total.flips, msg)
		})
	}
}
