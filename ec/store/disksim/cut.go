package disksim

import "math/rand/v2"

// Fate is what becomes of the changes that no sync has covered.
type Fate int

// The fates.
const (
	None   Fate = iota // nothing survives
	All                // everything survives
	Random             // each change has its own fate
	Zeros              // content only: right size, zeros inside
)

// Cut describes one power cut: what survives of names and of content.
type Cut struct {
	Names, Content Fate
	Rand           *rand.Rand // for Random
}

// Harshest is the cut that keeps only what was synced.
func Harshest() Cut { return Cut{} }

// Extremes are the cuts that need no chance: nothing, everything, names
// without content, names with zeros, content without names.
func Extremes() []Cut {
	return []Cut{
		{Names: None, Content: None}, {Names: All, Content: All}, {Names: All, Content: None},
		{Names: All, Content: Zeros}, {Names: None, Content: All},
	}
}

// PowerCut gives the disk as it is found after a power cut. The original is
// not touched.
func (d *Disk) PowerCut(c Cut) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{root: c.survive(d.root), age: d.age}
}

// Kill gives the disk as the next process finds it when only the process died:
// everything it did is seen, and no more durable than it was.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{root: d.root.clone(map[*node]*node{}), age: d.age}
}

func (c Cut) survive(n *node) *node {
	if !n.dir {
		body := c.content(n)
		at := c.changed(n)
		return &node{cur: body, kept: append([]byte(nil), body...), changed: at, changedKept: at}
	}
	names := make(map[string]*node, len(n.stable))
	for k, v := range n.stable {
		names[k] = v
	}
	for _, m := range n.moves {
		if c.Names == All || c.Names == Random && c.Rand.IntN(2) == 0 {
			apply(names, m)
		}
	}
	out := newDir()
	for _, k := range sorted(names) { // in order, so that one seed gives one disk
		s := c.survive(names[k])
		out.names[k], out.stable[k] = s, s
	}
	return out
}

// changed gives the time that is found of the last change.
func (c Cut) changed(n *node) int {
	if c.Content == All || c.Content == Zeros || c.Content == Random && c.Rand.IntN(2) == 0 {
		return n.changed
	}
	return n.changedKept
}

func (c Cut) content(n *node) []byte {
	b := append([]byte(nil), n.kept...)
	for _, w := range n.ops {
		switch {
		case w.data == nil:
			if c.Content == All || c.Content == Zeros || c.Content == Random && c.Rand.IntN(2) == 0 {
				b = resize(b, w.off)
			}
		case c.Content == All:
			b = put(b, w.off, w.data)
		case c.Content == Zeros:
			b = put(b, w.off, make([]byte, len(w.data)))
		case c.Content == Random:
			b = c.damage(b, w)
		}
	}
	return b
}

// damage lets one write survive absent, whole, cut, zero-filled, as garbage or
// with a hole inside.
func (c Cut) damage(b []byte, w write) []byte {
	n := len(w.data)
	switch c.Rand.IntN(6) {
	case 0:
		return b
	case 1:
		return put(b, w.off, w.data)
	case 2:
		return put(b, w.off, w.data[:c.Rand.IntN(n+1)])
	case 3:
		return put(b, w.off, make([]byte, n))
	case 4:
		g := make([]byte, n)
		for i := range g {
			g[i] = byte(c.Rand.Uint32())
		}
		return put(b, w.off, g)
	default:
		h := append([]byte(nil), w.data...)
		from := c.Rand.IntN(n + 1)
		clear(h[from : from+c.Rand.IntN(n-from+1)])
		return put(b, w.off, h)
	}
}
