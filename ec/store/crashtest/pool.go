package crashtest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// unit is a piece of work that one goroutine does alone. The same unit judges
// the same disks wherever it runs and whatever runs beside it, so its name is
// all that is needed to see a violation again.
type unit struct {
	kind  string // cuts, faults or edits
	seed  uint64
	part  int // of parts, for faults
	parts int
	deep  bool // more cuts at each point, more recoveries cut
}

// kinds of units.
const (
	unitCuts   = "cuts"
	unitFaults = "faults"
	unitEdits  = "edits"
)

func (u unit) String() string {
	return fmt.Sprintf("%s:%d:%d/%d:%t", u.kind, u.seed, u.part, u.parts, u.deep)
}

// parseUnit reads what String wrote.
func parseUnit(s string) (unit, error) {
	var u unit
	f := strings.Split(s, ":")
	if len(f) != 4 {
		return u, fmt.Errorf("unit %q is not kind:seed:part/parts:deep", s)
	}
	part, parts, _ := strings.Cut(f[2], "/")
	var errs [4]error
	u.kind = f[0]
	u.seed, errs[0] = strconv.ParseUint(f[1], 10, 64)
	u.part, errs[1] = strconv.Atoi(part)
	u.parts, errs[2] = strconv.Atoi(parts)
	u.deep, errs[3] = strconv.ParseBool(f[3])
	for _, err := range errs {
		if err != nil {
			return u, fmt.Errorf("unit %q: %w", s, err)
		}
	}
	switch u.kind {
	case unitCuts, unitEdits:
	case unitFaults:
		if u.parts < 1 || u.part < 0 || u.part >= u.parts {
			return u, fmt.Errorf("unit %q: there is no such part", s)
		}
	default:
		return u, fmt.Errorf("unit %q: the kind is not cuts, faults or edits", s)
	}
	return u, nil
}

// script is the workload of a unit: the scripted one, or one made by chance.
func (u unit) script() []step {
	if u.seed == 0 {
		return scripted()
	}
	return seeded(1000+u.seed, 20+int(u.seed%40)) //nolint:gosec // below 60
}

// run judges the unit's disks with a store that has the given bugs, if any.
func (u unit) run(h hook.Hooks) (figures, error) {
	script := u.script()
	c := newChecker(h, script, u.seed)
	c.flipStride = 1
	if u.deep {
		c.random, c.every, c.kills = 60, 100, 20
	}
	switch u.kind {
	case unitCuts:
		c.drive(script)
	case unitFaults:
		c.faults(script, u.parts, u.part)
	case unitEdits:
		c.edits(u.seed)
	}
	if c.violation != nil {
		return c.figures, fmt.Errorf("unit %s: %w", u, c.violation)
	}
	return c.figures, nil
}

// spread runs work on so many goroutines until next says that there is no more
// or one piece fails. The first failure is given. next is never called twice at
// a time; it is told of everything that was found so far.
func spread[T any](workers int, next func(sofar figures) (T, bool), work func(T) (figures, error)) (figures, error) {
	var mu sync.Mutex
	var total figures
	var failed error
	take := func() (T, bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil {
			var none T
			return none, false
		}
		return next(total)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				w, more := take()
				if !more {
					return
				}
				f, err := work(w)
				mu.Lock()
				total = total.plus(f)
				if failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return total, failed
}

// campaign gives units until so many disks and flips were judged: first every
// I/O fault of the scripted workload and the edits, then workload after
// workload. A deep one goes on with faults and edits beside them.
func campaign(disks, flips int, deep bool) func(figures) (unit, bool) {
	const parts = 16
	var waiting []unit
	more := func(seed uint64) {
		for p := range parts {
			waiting = append(waiting, unit{kind: unitFaults, seed: seed, part: p, parts: parts, deep: deep})
		}
		waiting = append(waiting, unit{kind: unitEdits, seed: seed, deep: deep})
	}
	more(0)
	for seed := range uint64(2) {
		waiting = append(waiting, unit{kind: unitEdits, seed: seed + 1, deep: deep})
	}
	seed := uint64(0)
	return func(sofar figures) (unit, bool) {
		if len(waiting) == 0 {
			if sofar.disks >= disks && sofar.flips >= flips {
				return unit{}, false
			}
			waiting = append(waiting, unit{kind: unitCuts, seed: seed, deep: deep})
			if seed++; deep && seed%4 == 0 {
				more(seed)
			}
		}
		u := waiting[0]
		waiting = waiting[1:]
		return u, true
	}
}
