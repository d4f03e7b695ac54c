package crashtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// checker judges disks. It keeps the first violation.
type checker struct {
	hooks      hook.Hooks
	states     []state
	rand       *rand.Rand
	random     int  // disks by chance at each point, besides the extremes
	every      int  // of so many disks the recovery of one is cut, too
	kills      int  // at each so many points the process only dies
	flipStride int  // one bit of each so many bytes is flipped
	quiet      bool // power is not cut, only bits are flipped
	limit      int  // disks, then it stops; 0: none

	seen      map[seenKey]bool
	figures   figures
	recalled  int // short forms that a start went by
	violation error
}

type seenKey struct {
	lo, hi int
	print  uint64
}

// figures count what was done.
type figures struct {
	points, acks, disks, nested, faults, flips, refused int
}

func (f figures) String() string {
	return fmt.Sprintf("points %d, acks %d, disks %d, nested %d, faults %d, flips %d (%d refused)",
		f.points, f.acks, f.disks, f.nested, f.faults, f.flips, f.refused)
}

func newChecker(h hook.Hooks, script []step, seed uint64) *checker {
	h.Serial = true
	return &checker{
		hooks: h, states: states(script), rand: rand.New(rand.NewPCG(seed, 1)),
		random: 24, every: 150, kills: 25, flipStride: 5, seen: map[seenKey]bool{},
	}
}

func (c *checker) done() bool {
	return c.violation != nil || c.limit > 0 && c.figures.disks >= c.limit
}

func (c *checker) fail(format string, args ...any) {
	if c.violation == nil {
		c.violation = fmt.Errorf(format, args...)
	}
}

func (c *checker) open(d *disksim.Disk) (*store.Store, error) {
	return store.OpenHooked(store.Config{FS: d, Recall: true}, c.hooks)
}

// point is a moment at which the power may go: lo changes were acknowledged, hi
// were begun.
func (c *checker) point(where string, d *disksim.Disk, lo, hi int) {
	if c.done() {
		return
	}
	c.figures.points++
	cuts := disksim.Extremes()
	for range c.random {
		fates := []disksim.Fate{disksim.None, disksim.All, disksim.Random, disksim.Random}
		cuts = append(cuts, disksim.Cut{Names: fates[c.rand.IntN(4)], Content: fates[c.rand.IntN(4)], Rand: c.rand})
	}
	for _, cut := range cuts {
		c.disk(fmt.Sprintf("%s, cut %d/%d", where, cut.Names, cut.Content), d.PowerCut(cut), lo, hi)
	}
	if c.figures.points%c.kills == 0 {
		c.nest(where+", killed", d.Kill(), lo, hi)
		c.disk(where+", killed", d.Kill(), lo, hi)
	}
}

// disk judges one disk found after a cut.
func (c *checker) disk(where string, d *disksim.Disk, lo, hi int) {
	if c.done() {
		return
	}
	key := seenKey{lo, hi, d.Fingerprint()}
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	c.figures.disks++
	if c.every > 0 && c.figures.disks%c.every == 0 {
		c.nest(where, d, lo, hi)
	}
	if err := c.judge(d.Kill(), lo, hi, false); err != nil {
		c.fail("%s: %d acknowledged, %d begun: %w", where, lo, hi, err)
	}
}

// nest cuts the recovery of a disk at each of its calls.
func (c *checker) nest(where string, d *disksim.Disk, lo, hi int) {
	d = d.Kill()
	d.Before = func(n int, what string) {
		if c.done() {
			return
		}
		for _, cut := range append(disksim.Extremes(), disksim.Cut{Names: disksim.Random, Content: disksim.Random, Rand: c.rand}) {
			next := d.PowerCut(cut)
			key := seenKey{lo, hi, next.Fingerprint()}
			if c.seen[key] || c.done() {
				continue
			}
			c.seen[key] = true
			c.figures.nested++
			if err := c.judge(next, lo, hi, c.figures.nested%4 != 0); err != nil {
				c.fail("%s, again before call %d (%s) of recovery, cut %d/%d: %d acknowledged, %d begun: %w",
					where, n, what, cut.Names, cut.Content, lo, hi, err)
			}
		}
	}
	_, _ = c.open(d) // whether it opens is judged elsewhere
}

// judge recovers a disk and holds it against the promise; in brief, without a
// second start and another change.
func (c *checker) judge(d *disksim.Disk, lo, hi int, brief bool) error {
	s, err := c.open(d)
	if err != nil {
		return fmt.Errorf("recovery does not start: %w", err)
	}
	files, err := visible(d)
	if err != nil {
		return err
	}
	n := c.match(files, lo, hi)
	if n < 0 {
		return fmt.Errorf("the files are those of no moment allowed: %s", c.explain(files, lo, hi))
	}
	if brief {
		return nil
	}
	if err := c.recalls(s, files); err != nil {
		return err
	}
	if err := agrees(s, files); err != nil {
		return err
	}
	again := d.Kill()
	if _, err := c.open(again); err != nil {
		return fmt.Errorf("second recovery does not start: %w", err)
	}
	if second, err := visible(again); err != nil || !maps.Equal(files, second) {
		return fmt.Errorf("the second recovery changed something (%w)", err)
	}
	extra := store.Change{
		Docs:  []store.Doc{{Path: "extra.json", Body: []byte("{}")}},
		Lines: []store.Line{{Stream: audit, Body: []byte(`{"extra":true}`)}},
	}
	if err := s.Commit([]store.Change{extra}); err != nil {
		return fmt.Errorf("not writable after recovery: %w", err)
	}
	want := maps.Clone(files)
	apply(want, extra)
	last := d.PowerCut(disksim.Harshest())
	if _, err := c.open(last); err != nil {
		return fmt.Errorf("recovery after one more change does not start: %w", err)
	}
	if got, err := visible(last); err != nil || !maps.Equal(want, got) {
		return fmt.Errorf("the change made after recovery is lost (%w)", err)
	}
	return nil
}

// match gives the number of changes after which the files were like this.
func (c *checker) match(files state, lo, hi int) int {
	for n := hi; n >= lo; n-- {
		if maps.Equal(files, c.states[n]) {
			return n
		}
	}
	return -1
}

func (c *checker) explain(files state, lo, hi int) string {
	for n, s := range c.states {
		if maps.Equal(files, s) {
			return fmt.Sprintf("those after %d", n)
		}
	}
	var b strings.Builder
	for p, want := range c.states[lo] {
		if files[p] != want && files[p] != c.states[hi][p] {
			fmt.Fprintf(&b, "%s is %q, was %q; ", p, files[p], want)
		}
	}
	for p, got := range files {
		if _, ok := c.states[hi][p]; !ok {
			fmt.Fprintf(&b, "%s is there: %q; ", p, got)
		}
	}
	return b.String()
}

// visible gives the files that are not the store's own; a temporary file or a
// text kept aside has no business there.
func visible(d *disksim.Disk) (state, error) {
	out := state{}
	for p, b := range d.Files() {
		if strings.Contains(p, ".ec-tmp-") || strings.HasPrefix(p, ".ec/kept/") {
			return nil, fmt.Errorf("%s is left over", p)
		}
		if !strings.HasPrefix(p, ".ec/") {
			out[p] = string(b)
		}
	}
	return out, nil
}

// agrees says that the store reads what the files hold.
func agrees(s *store.Store, files state) error {
	list, err := s.List("")
	if err != nil || len(list) != len(files) {
		return fmt.Errorf("list gives %v for %d files (%w)", list, len(files), err)
	}
	for _, p := range list {
		var got strings.Builder
		if !strings.HasSuffix(p, ".jsonl") {
			b, _, err := s.Read(p)
			if err != nil {
				return err
			}
			got.Write(b)
		} else if err := s.ReadStream(p, func(l []byte) error { got.Write(l); return got.WriteByte('\n') }); err != nil {
			return err
		}
		if got.String() != files[p] {
			return fmt.Errorf("the store reads %q from %s, which holds %q", got.String(), p, files[p])
		}
	}
	return nil
}

func (f figures) plus(g figures) figures {
	return figures{
		f.points + g.points, f.acks + g.acks, f.disks + g.disks, f.nested + g.nested,
		f.faults + g.faults, f.flips + g.flips, f.refused + g.refused,
	}
}
