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
	c     *checker
	d     *disksim.Disk
	s     *store.Store
	known map[string][]byte        // short forms at the start
	acked int                      // changes
	hi    int                      // changes begun, also those refused
	base  int                      // calls of the processes before this one
	watch bool                     // judge at every point
	each  func(n int, what string) // told of every call, if not watched
	fault *disksim.Fault           // to be played, counted over all processes
}

// drive runs a workload with a look at every call and acknowledgement (unless
// quiet), and flips bits of what it leaves.
func (c *checker) drive(script []step) {
	r := &run{c: c, d: disksim.New(), watch: !c.quiet}
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
	c.point("at the end", r.d, r.acked, r.hi)
	c.flips(r.d, r.acked)
}

func (r *run) follow() {
	if !r.watch {
		r.d.Before = r.each
		return
	}
	r.d.Before = func(n int, what string) {
		r.c.point(fmt.Sprintf("change %d, before call %d (%s)", r.hi, n, what), r.d, r.acked, r.hi)
	}
}

func (r *run) open() (err error) {
	if r.s, err = r.c.open(r.d); err == nil {
		r.learn()
	}
	return err
}

func (r *run) step(st step) error {
	switch {
	case len(st.batch) > 0:
		r.hi += len(st.batch)
		if err := r.s.Commit(st.batch); err != nil {
			return err
		}
		r.acked = r.hi
		if r.watch {
			r.c.figures.acks++
			r.c.point(fmt.Sprintf("change %d acknowledged", r.acked), r.d, r.acked, r.hi)
		}
		return nil
	case st.do == flush:
		return r.s.Flush()
	case st.do == checkpoint:
		return r.s.Checkpoint()
	case st.do == remember:
		return r.remember()
	case st.do == restart:
		if err := r.remember(); err != nil {
			return err
		}
		if err := r.s.Close(); err != nil {
			return err
		}
	}
	r.base += r.d.Calls()
	r.d = r.d.Kill()
	r.follow()
	if r.fault != nil {
		r.d.Inject(&disksim.Fault{At: r.fault.At - r.base, Kind: r.fault.Kind})
	}
	return r.open()
}

// flips inverts single bits of the journal, the streams and the recall file of a
// disk as a killed process left it. The store must refuse to start or lose nothing.
func (c *checker) flips(d *disksim.Disk, acked int) {
	d.Before = nil
	files := d.Files()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body := files[name]
		if !strings.HasSuffix(name, ".jsonl") && name != ".ec/recall" {
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
			if err := c.recalls(s, files); err != nil {
				c.fail("bit %d of byte %d of %s flipped: %w", bit, at, name, err)
			}
		}
	}
}

// fault runs a workload in which one call fails, and judges what is left right
// after it and at the end.
func (c *checker) fault(script []step, f disksim.Fault) {
	if c.done() {
		return
	}
	c.figures.faults++
	where := fmt.Sprintf("fault %d at call %d", f.Kind, f.At)
	goOn := c.hooks.Bugs.GoOnAfterError
	r := &run{c: c, d: disksim.New(), fault: &f}
	r.d.Inject(&f)
	err := r.open()
	looked := false
	for _, st := range script {
		fresh := st.do == restart || st.do == crash
		if r.s == nil || err != nil && fresh {
			break
		}
		if e := r.step(st); e != nil {
			err = e
			if !fresh && r.s.Err() == nil && !goOn {
				c.fail("%s: not poisoned by %w", where, err)
			}
		} else if err != nil && len(st.batch) > 0 && !goOn {
			c.fail("%s: a change was acknowledged after an error: %w", where, err)
		}
		if !looked && r.base+r.d.Calls() > f.At {
			looked = true
			r.left(where + ", right after")
		}
	}
	r.left(where)
}

// left judges what a fault has left, without the fault.
func (r *run) left(where string) {
	cuts := append(disksim.Extremes(), disksim.Cut{Names: disksim.Random, Content: disksim.Random, Rand: r.c.rand})
	for _, cut := range cuts {
		r.c.disk(fmt.Sprintf("%s, cut %d/%d", where, cut.Names, cut.Content), r.d.PowerCut(cut), r.acked, r.hi)
	}
	r.c.disk(where+", killed", r.d.Kill(), r.acked, r.hi)
	if r.fault.At%3 == 0 {
		r.c.nest(where+", killed", r.d.Kill(), r.acked, r.hi)
	}
}

// faults fails every call of a workload in each way that it can fail, one at a
// time; of these, every stride-th beginning with the one called first.
func (c *checker) faults(script []step, stride, first int) {
	clean := &run{c: c, d: disksim.New()}
	calls := map[int]string{} // by number over all processes of the workload
	clean.each = func(n int, what string) { calls[clean.base+n] = what }
	clean.follow()
	if err := clean.open(); err != nil {
		c.fail("the first start: %w", err)
	}
	for _, st := range script {
		if err := clean.step(st); err != nil {
			c.fail("without a fault: %w", err)
			return
		}
	}
	count := 0
	try := func(at int, kinds ...disksim.FaultKind) {
		for _, kind := range kinds {
			if count%stride == first {
				c.fault(script, disksim.Fault{At: at, Kind: kind})
			}
			count++
		}
	}
	for at := range clean.base + clean.d.Calls() {
		switch what := calls[at]; {
		case what == "":
			try(at, disksim.EIO)
		case strings.HasPrefix(what, "write "):
			try(at, disksim.EIO, disksim.EIODone, disksim.ENOSPC, disksim.Short)
		default:
			try(at, disksim.EIO, disksim.EIODone)
		}
	}
}
