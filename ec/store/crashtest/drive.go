package crashtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

// run is one workload on its way.
type run struct {
	c          *checker
	d          *disksim.Disk
	s          *store.Store
	acked, hi  int
	begun      int // changes of the script so far, also those refused
	inner      string
	errors     int
	watch      bool // judge at every point
	stopOnFail bool
}

// drive runs a workload with a look at every call and acknowledgement.
func (c *checker) drive(script []step) {
	r := &run{c: c, d: disksim.New(), watch: true}
	r.follow()
	if err := r.open(); err != nil {
		c.fail("the first start: %w", err)
		return
	}
	for i, st := range script {
		if c.done() {
			return
		}
		if err := r.step(st); err != nil {
			c.fail("step %d: %w", i, err)
			return
		}
	}
	r.inner = "end"
	c.point("at the end", r.d, r.acked, r.hi)
	c.flips(r.d, r.acked)
}

func (r *run) follow() {
	if !r.watch {
		return
	}
	r.d.Before = func(n int, what string) {
		r.c.point(fmt.Sprintf("change %d, before call %d (%s)", r.hi, n, what), r.d, r.acked, r.hi)
	}
}

func (r *run) open() (err error) {
	r.s, err = r.c.open(r.d)
	return err
}

func (r *run) step(st step) error {
	switch {
	case len(st.batch) > 0:
		r.begun += len(st.batch)
		r.hi = r.begun
		if err := r.s.Commit(st.batch); err != nil {
			return err
		}
		r.acked = r.begun
		if r.watch {
			r.c.figures.acks++
			r.c.point(fmt.Sprintf("change %d acknowledged", r.acked), r.d, r.acked, r.hi)
		}
		return nil
	case st.do == flush:
		return r.s.Flush()
	case st.do == checkpoint:
		return r.s.Checkpoint()
	case st.do == restart:
		if err := r.s.Close(); err != nil {
			return err
		}
	}
	if st.do == restart || st.do == crash {
		r.d.Before = nil
		next := r.d.Kill()
		r.d = next
		r.follow()
		return r.open()
	}
	return nil
}

// flips inverts single bits of the journal and the streams of a disk as a killed
// process left it. The store must refuse to start or lose nothing.
func (c *checker) flips(d *disksim.Disk, acked int) {
	d.Before = nil
	files := d.Files()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body := files[name]
		if !strings.HasSuffix(name, ".jsonl") {
			continue
		}
		for at := range body {
			if c.done() {
				return
			}
			if at%c.flipStride != 0 {
				continue
			}
			next := d.Kill()
			bit := c.rand.IntN(8)
			next.Flip(name, at, bit)
			c.figures.flips++
			s, err := c.open(next)
			if err != nil {
				c.figures.refused++
				if !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "journal") {
					c.fail("bit %d of byte %d of %s: refused without its name: %w", bit, at, name, err)
				}
				continue
			}
			files, err := visible(next)
			if err != nil || c.match(files, acked, acked) < 0 {
				c.fail("bit %d of byte %d of %s flipped: started, and lost something: %s (%w)", bit, at, name, c.explain(files, acked, acked), err)
			}
			_ = s
		}
	}
}

// fault runs a workload in which one call fails, and judges what is left.
func (c *checker) fault(script []step, f disksim.Fault) {
	if c.done() {
		return
	}
	c.figures.faults++
	where := fmt.Sprintf("fault %d at call %d", f.Kind, f.At)
	r := &run{c: c, d: disksim.New()}
	r.d.Inject(&f)
	err := r.open()
	for _, st := range script {
		if r.s == nil || err != nil && (st.do == restart || st.do == crash) {
			break
		}
		if st.do == crash || st.do == restart {
			calls := r.d.Calls()
			if err = r.step(st); err != nil {
				break
			}
			r.d.Inject(&disksim.Fault{At: f.At - calls, Kind: f.Kind})
			continue
		}
		if e := r.step(st); e != nil {
			err = e
			r.errors++
		} else if err != nil && len(st.batch) > 0 && !c.hooks.Bugs.GoOnAfterError {
			c.fail("%s: a change was acknowledged after an error: %w", where, err)
		}
	}
	if err != nil && r.s != nil && r.s.Err() == nil && r.errors > 0 && !c.hooks.Bugs.GoOnAfterError {
		c.fail("%s: not poisoned by %w", where, err)
	}
	r.d.Inject(nil)
	r.d.Before = nil
	cuts := append(disksim.Extremes(), disksim.Cut{Names: disksim.Random, Content: disksim.Random, Rand: c.rand})
	for _, cut := range cuts {
		c.disk(fmt.Sprintf("%s, cut %d/%d", where, cut.Names, cut.Content), r.d.PowerCut(cut), r.acked, r.hi)
	}
	c.disk(where+", killed", r.d.Kill(), r.acked, r.hi)
	if f.At%3 == 0 {
		c.nest(where+", killed", r.d.Kill(), r.acked, r.hi)
	}
}

// faults fails every stride-th call of a workload in each way.
func (c *checker) faults(script []step, stride int) {
	clean := &run{c: c, d: disksim.New()}
	total := 0
	if err := clean.open(); err != nil {
		c.fail("the first start: %w", err)
	}
	for _, st := range script {
		if st.do == crash || st.do == restart {
			total += clean.d.Calls()
		}
		if err := clean.step(st); err != nil {
			c.fail("without a fault: %w", err)
			return
		}
	}
	total += clean.d.Calls()
	kinds := []disksim.FaultKind{disksim.EIO, disksim.EIODone, disksim.ENOSPC, disksim.Short}
	for at := 0; at < total; at++ {
		for k, kind := range kinds {
			if (at*len(kinds)+k)%stride == 0 {
				c.fault(script, disksim.Fault{At: at, Kind: kind})
			}
		}
	}
}
