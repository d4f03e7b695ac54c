package crashtest

import (
	"reflect"
	"testing"

	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// hunt runs the checker against a store with a planted bug until it finds
// something.
func hunt(bugs hook.Bugs) (error, figures) {
	var total figures
	for seed := range uint64(6) {
		script := scripted()
		if seed > 0 {
			script = seeded(seed, 25)
		}
		c := newChecker(hook.Hooks{Bugs: bugs}, script, seed)
		c.random, c.flipStride, c.every, c.kills = 4, 3, 60, 9
		c.drive(script)
		if c.violation == nil {
			c.faults(script, 5)
		}
		if c.violation == nil && seed < 2 {
			c.edits(seed)
		}
		total = total.plus(c.figures)
		if c.violation != nil {
			return c.violation, total
		}
	}
	return nil, total
}

// Every planted bug must be caught: a checker that cannot fail proves nothing.
func TestCheckerCatches(t *testing.T) {
	kinds := reflect.TypeFor[hook.Bugs]()
	for i := range kinds.NumField() {
		name := kinds.Field(i).Name
		t.Run(name, func(t *testing.T) {
			var bugs hook.Bugs
			reflect.ValueOf(&bugs).Elem().Field(i).SetBool(true)
			violation, total := hunt(bugs)
			if violation == nil {
				t.Fatalf("not caught: %s", total)
			}
			msg := violation.Error()
			t.Logf("after %d disks: %.160s", total.disks+total.nested+total.flips, msg)
		})
	}
}
