// Package crashtest proves the store's protocol: it drives the real store over
// a simulated disk, cuts the power at every call and every acknowledgement,
// lets the real code recover, and compares with what was promised. It knows the
// store's promise and a little of its workload, nothing of its files' form.
package crashtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/elnor/promptlab/ec/store"
)

// step is one thing a workload does: a batch, or what it does between batches.
type step struct {
	batch []store.Change
	do    action
}

type action int

const (
	commit action = iota
	flush
	checkpoint
	remember
	restart // remember, close and open
	crash   // the process dies and the next one opens
)

// state is every file by path, except the store's own.
type state map[string]string

// states gives what the files must be after each change: states[n] after n.
func states(script []step) []state {
	cur := state{}
	out := []state{{}}
	for _, s := range script {
		for _, c := range s.batch {
			next := make(state, len(cur)+1)
			for k, v := range cur {
				next[k] = v
			}
			apply(next, c)
			out = append(out, next)
			cur = next
		}
	}
	return out
}

func apply(s state, c store.Change) {
	for _, d := range c.Docs {
		if d.Body == nil {
			delete(s, d.Path)
		} else {
			s[d.Path] = string(d.Body)
		}
	}
	for _, l := range c.Lines {
		s[l.Stream] += string(l.Body) + "\n"
	}
}

// maker makes changes with contents that tell where they come from.
type maker struct{ n int }

func (m *maker) doc(path string, size int) store.Doc {
	return store.Doc{Path: path, Body: fmt.Appendf(nil, `{"path":%q,"change":%d,"pad":"%s"}`, path, m.n, strings.Repeat("x", size))}
}

func (m *maker) line(stream string, size int) store.Line {
	return store.Line{Stream: stream, Body: fmt.Appendf(nil, `{"change":%d,"pad":"%s"}`, m.n, strings.Repeat("y", size))}
}

func (m *maker) change(docs []store.Doc, lines ...store.Line) store.Change {
	m.n++
	return store.Change{Docs: docs, Lines: lines}
}

const audit, feed = "audit/a.jsonl", "feed.jsonl"

// scripted is the workload that has each kind of change once: several files at
// once, several streams, moves, rewrites that coalesce, removal and rebirth,
// documents only, lines only, batches.
func scripted() []step {
	m := &maker{}
	one := func(c store.Change) step { return step{batch: []store.Change{c}} }
	var s []step
	add := func(more ...step) { s = append(s, more...) }
	add(one(m.change([]store.Doc{m.doc("t/a.md", 20), m.doc("index.json", 40)}, m.line(audit, 5))))
	add(step{do: flush})
	add(one(m.change([]store.Doc{m.doc("t/b.md", 20), m.doc("index.json", 45)}, m.line(audit, 5), m.line(feed, 9))))
	add(one(m.change([]store.Doc{m.doc("t/a.md", 30)})), step{do: checkpoint})
	add(one(m.change(nil, m.line(feed, 3))), step{do: flush})
	batch := []store.Change{}
	for i := range 3 {
		batch = append(batch, m.change([]store.Doc{m.doc("t/a.md", 10*i), m.doc("s/k.json", 5)}, m.line(audit, i)))
	}
	add(step{batch: batch}, step{do: crash})
	add(one(m.change([]store.Doc{{Path: "t/a.md"}, m.doc("old/a.md", 12), m.doc("index.json", 30)}, m.line(audit, 2))))
	add(step{do: flush})
	add(one(m.change([]store.Doc{m.doc("t/a.md", 7), {Path: "old/a.md"}}, m.line(audit, 2))))
	add(one(m.change([]store.Doc{m.doc("s/k.json", 9), m.doc("s/l.json", 0)})))
	add(step{do: restart})
	add(one(m.change([]store.Doc{{Path: "s/k.json"}}, m.line(feed, 4))), step{do: flush}, step{do: checkpoint})
	add(one(m.change([]store.Doc{m.doc("s/k.json", 9)}, m.line(feed, 4))), step{do: remember})
	add(one(m.change([]store.Doc{m.doc("s/k.json", 3)})))
	return s
}

// seeded is a workload made by chance.
func seeded(seed uint64, length int) []step {
	r := rand.New(rand.NewPCG(seed, 7))
	m := &maker{}
	paths := []string{"index.json", "t/a.md", "t/b.md", "old/a.md", "s/k.json", "s/deep/er/l.json"}
	streams := []string{audit, feed, "s/n.jsonl"}
	change := func() store.Change {
		var docs []store.Doc
		var lines []store.Line
		for range r.IntN(4) {
			p := paths[r.IntN(len(paths))]
			if r.IntN(4) == 0 {
				docs = append(docs, store.Doc{Path: p})
			} else {
				docs = append(docs, m.doc(p, r.IntN(60)))
			}
		}
		for range r.IntN(3) {
			lines = append(lines, m.line(streams[r.IntN(len(streams))], r.IntN(30)))
		}
		return m.change(docs, lines...)
	}
	var s []step
	for range length {
		switch r.IntN(10) {
		case 0, 1:
			s = append(s, step{do: flush})
		case 2:
			s = append(s, step{do: checkpoint})
		case 3:
			s = append(s, step{do: []action{restart, crash, crash}[r.IntN(3)]})
		default:
			var batch []store.Change
			for range 1 + r.IntN(1+r.IntN(4)) {
				batch = append(batch, change())
			}
			s = append(s, step{batch: batch})
		}
	}
	return s
}
