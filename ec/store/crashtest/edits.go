package crashtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

// edits lets a person's text land between the look and the rename, and cuts at
// every call after it. The text must be found after recovery, told, and stay
// until it is accepted; what was acknowledged meanwhile must not be lost with it.
func (c *checker) edits(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for _, before := range []string{"", "text before"} {
		for _, after := range []string{"", "text after"} {
			for _, person := range []string{"", "a person's text"} {
				for _, early := range []bool{false, true} {
					if before == after || before == person || c.done() {
						continue
					}
					e := &edit{c: c, rand: r, before: before, after: after, person: person, early: early}
					e.run()
				}
			}
		}
	}
}

// edit is one such story; "" is no document.
type edit struct {
	c                     *checker
	rand                  *rand.Rand
	before, after, person string
	early                 bool // the edit is there before the store looks
	landed                bool
}

const edited = "t/edited.md"

func body(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

func (e *edit) fail(where string, format string, args ...any) {
	e.c.fail("edit %q, %q, person %q, early %t, %s: %w", e.before, e.after, e.person, e.early, where, fmt.Errorf(format, args...))
}

func (e *edit) run() {
	d := disksim.New()
	h := e.c.hooks
	h.BeforePlace = func(p string) {
		if p == edited && !e.early && !e.landed {
			e.land(d)
		}
	}
	s, err := store.OpenHooked(store.Config{FS: d}, e.c.hooks)
	if err != nil {
		e.fail("start", "%w", err)
		return
	}
	first := []store.Doc{{Path: "t/other.md", Body: []byte("x")}}
	if e.before != "" {
		first = append(first, store.Doc{Path: edited, Body: body(e.before)})
	}
	if err := s.Commit([]store.Change{{Docs: first}}); err != nil {
		e.fail("first commit", "%w", err)
		return
	}
	if err := s.Close(); err != nil {
		e.fail("close", "%w", err)
		return
	}
	told := ""
	s, err = store.OpenHooked(store.Config{FS: d, OnEdit: func(x store.Edit) { told = string(x.Body) + "!" }}, h)
	if err != nil {
		e.fail("second start", "%w", err)
		return
	}
	if err := s.Commit([]store.Change{{Docs: []store.Doc{{Path: edited, Body: body(e.after)}}}}); err != nil {
		e.fail("second commit", "%w", err)
		return
	}
	if e.early {
		e.land(d)
	}
	d.Before = func(n int, what string) {
		if e.landed {
			e.cuts(fmt.Sprintf("before call %d (%s)", n, what), d)
		}
	}
	if err := s.Flush(); err != nil {
		e.fail("flush", "%w", err)
	}
	if err := s.Checkpoint(); err != nil {
		e.fail("checkpoint", "%w", err)
	}
	d.Before = nil
	e.cuts("after the checkpoint", d)
	if e.person != e.after && told != e.person+"!" {
		e.fail("at the end", "told %q", told)
	}
}

// land is the person's edit, which reaches the disk at once.
func (e *edit) land(d *disksim.Disk) {
	d.Put(edited, body(e.person))
	before := d.Before
	d.Before = nil
	_ = d.SyncDir("t")
	d.Before = before
	e.landed = true
}

func (e *edit) cuts(where string, d *disksim.Disk) {
	cuts := disksim.Extremes()
	for range 16 {
		cuts = append(cuts, disksim.Cut{Names: disksim.Random, Content: disksim.Random, Rand: e.rand})
	}
	for _, cut := range cuts {
		e.judge(fmt.Sprintf("%s, cut %d/%d", where, cut.Names, cut.Content), d.PowerCut(cut))
	}
	e.judge(where+", killed", d.Kill())
	e.nest(where, d.Kill())
	e.nest(where, d.PowerCut(disksim.Cut{Names: disksim.All}))
}

// nest cuts the recovery at each of its calls.
func (e *edit) nest(where string, d *disksim.Disk) {
	d.Before = func(n int, what string) {
		for _, cut := range append(disksim.Extremes(), disksim.Cut{Names: disksim.Random, Content: disksim.Random, Rand: e.rand}) {
			e.judge(fmt.Sprintf("%s, again before call %d (%s) of recovery, cut %d/%d", where, n, what, cut.Names, cut.Content), d.PowerCut(cut))
		}
	}
	_, _ = e.c.open(d) // whether it opens is judged elsewhere
}

func (e *edit) judge(where string, d *disksim.Disk) {
	if e.c.done() {
		return
	}
	key := seenKey{len(e.before)<<16 | len(e.after)<<8 | len(e.person), 0, d.Fingerprint()}
	if e.c.seen[key] {
		return
	}
	e.c.seen[key] = true
	e.c.figures.disks++
	told := ""
	s, err := store.OpenHooked(store.Config{FS: d, OnEdit: func(x store.Edit) { told = string(x.Body) + "!" }}, e.c.hooks)
	if err != nil {
		e.fail(where, "recovery does not start: %w", err)
		return
	}
	got := string(d.Files()[edited])
	if got != e.person {
		e.fail(where, "the document is %q", got)
		return
	}
	if e.person == e.after {
		return
	}
	if b, _, err := s.Read(edited); err != nil || string(b) != e.after {
		e.fail(where, "what was acknowledged is lost: the store reads %q (%w)", b, err)
	}
	if err := s.Checkpoint(); err != nil {
		e.fail(where, "checkpoint: %w", err)
	}
	if told != e.person+"!" {
		e.fail(where, "told %q", told)
	}
	s.Accept(edited, body(e.person))
	if err := s.Commit([]store.Change{{Docs: []store.Doc{{Path: edited, Body: []byte("on top")}}}}); err != nil {
		e.fail(where, "commit after accept: %w", err)
	}
	d = d.PowerCut(disksim.Harshest())
	if _, err := e.c.open(d); err != nil || string(d.Files()[edited]) != "on top" {
		e.fail(where, "after accept and commit the document is %q (%w)", d.Files()[edited], err)
	}
}
