package disksim

// node is a file or a folder. cur is what a running program sees; what
// survives a power cut is kept plus some of the changes since the last sync.
type node struct {
	dir bool

	cur  []byte // file: as seen
	kept []byte // file: durable
	ops  []write

	changed     int // file: the disk's time of the last change of its content or its name
	changedKept int // file: the durable one

	names  map[string]*node // folder: as seen
	stable map[string]*node // folder: durable
	moves  []move
}

// write is one change of a file's content that no sync has covered: data at
// off, or a new size when data is nil.
type write struct {
	off  int
	data []byte
}

// move is one change of a folder's names that no sync has covered. It happens
// as a whole or not at all.
type move []naming

type naming struct {
	name string
	to   *node // nil: the name goes away
}

func newDir() *node {
	return &node{dir: true, names: map[string]*node{}, stable: map[string]*node{}}
}

func (n *node) change(m move, now int) {
	apply(n.names, m)
	for _, x := range m {
		if x.to != nil {
			x.to.changed = now
		}
	}
	n.moves = append(n.moves, m)
}

func apply(names map[string]*node, m move) {
	for _, x := range m {
		if x.to == nil {
			delete(names, x.name)
		} else {
			names[x.name] = x.to
		}
	}
}

func (n *node) append(data []byte, now int) {
	n.changed = now
	if len(data) == 0 {
		return
	}
	w := write{off: len(n.cur), data: append([]byte(nil), data...)}
	n.cur = append(n.cur, data...)
	n.ops = append(n.ops, w)
}

func (n *node) truncate(size, now int) {
	n.changed = now
	n.cur = resize(n.cur, size)
	n.ops = append(n.ops, write{off: size})
}

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

// put writes data at off; a gap before it is filled with zeros.
func put(b []byte, off int, data []byte) []byte {
	if len(b) < off+len(data) {
		b = resize(b, off+len(data))
	}
	copy(b[off:], data)
	return b
}

// sync makes content or names durable.
func (n *node) sync() {
	if n.dir {
		for _, m := range n.moves {
			apply(n.stable, m)
		}
		n.moves = nil
		return
	}
	for _, w := range n.ops {
		if w.data == nil {
			n.kept = resize(n.kept, w.off)
		} else {
			n.kept = put(n.kept, w.off, w.data)
		}
	}
	n.ops, n.changedKept = nil, n.changed
}

// lose is a sync that failed: the kernel forgets the pages of a file, so no
// later sync brings them to the disk, though readers still see them. Names are
// tried again.
func (n *node) lose() {
	if !n.dir {
		n.ops = nil
	}
}

// clone copies a node with everything that is not durable yet.
func (n *node) clone(seen map[*node]*node) *node {
	if n == nil {
		return nil
	}
	if c, ok := seen[n]; ok {
		return c
	}
	c := &node{dir: n.dir, changed: n.changed, changedKept: n.changedKept}
	seen[n] = c
	if !n.dir {
		c.cur = append([]byte(nil), n.cur...)
		c.kept = append([]byte(nil), n.kept...)
		c.ops = append([]write(nil), n.ops...)
		return c
	}
	c.names, c.stable = make(map[string]*node, len(n.names)), make(map[string]*node, len(n.stable))
	for k, v := range n.names {
		c.names[k] = v.clone(seen)
	}
	for k, v := range n.stable {
		c.stable[k] = v.clone(seen)
	}
	for _, m := range n.moves {
		cm := make(move, len(m))
		for i, x := range m {
			cm[i] = naming{x.name, x.to.clone(seen)}
		}
		c.moves = append(c.moves, cm)
	}
	return c
}
