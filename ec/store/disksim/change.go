package disksim

import (
	"io/fs"
	"path"
	"syscall"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// FaultKind is how a call fails.
type FaultKind int

// The kinds of fault. On a call that they do not fit, all are EIO.
const (
	NoFault FaultKind = iota
	EIO               // the call fails and did nothing; a failed sync forgets the pages
	EIODone           // the call fails and was done all the same
	ENOSPC            // half of the write is done
	Short             // half of the write is done, and there is no error
)

// Fault is a failure of the call number At.
type Fault struct {
	At   int
	Kind FaultKind
}

// Inject sets the fault to come; nil takes it away.
func (d *Disk) Inject(f *Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// act plays a fault around a change that is otherwise sure to work.
func act(f FaultKind, op, name string, do func()) error {
	switch f {
	case NoFault:
		do()
		return nil
	case EIODone:
		do()
	}
	return fail(op, name, syscall.EIO)
}

type handle struct {
	d    *Disk
	n    *node
	name string
}

// Create implements fsx.FS.
func (d *Disk) Create(name string) (fsx.File, error) {
	f := d.enter("create "+name, true)
	defer d.mu.Unlock()
	dir, err := d.folder("create", path.Dir(name))
	if err != nil {
		return nil, err
	}
	if dir.names[path.Base(name)] != nil {
		return nil, fail("create", name, fs.ErrExist)
	}
	n := &node{changedKept: d.now()} // with the name comes the time when it was made
	if err := act(f, "create", name, func() { dir.change(move{{path.Base(name), n}}, d.now()) }); err != nil {
		return nil, err
	}
	return &handle{d, n, name}, nil
}

// OpenAppend implements fsx.FS.
func (d *Disk) OpenAppend(name string) (fsx.File, error) {
	f := d.enter("append "+name, false)
	defer d.mu.Unlock()
	n, err := d.regular("append", name)
	if err != nil {
		return nil, err
	}
	if f != NoFault {
		return nil, fail("append", name, syscall.EIO)
	}
	return &handle{d, n, name}, nil
}

// Write implements fsx.File.
func (h *handle) Write(p []byte) (int, error) {
	f := h.d.enter("write "+h.name, true)
	defer h.d.mu.Unlock()
	half := p[:len(p)/2]
	switch f {
	case NoFault:
		h.n.append(p, h.d.now())
		return len(p), nil
	case ENOSPC:
		h.n.append(half, h.d.now())
		return len(half), fail("write", h.name, syscall.ENOSPC)
	case Short:
		h.n.append(half, h.d.now())
		return len(half), nil
	case EIODone:
		h.n.append(p, h.d.now())
	}
	return 0, fail("write", h.name, syscall.EIO)
}

// Sync implements fsx.File.
func (h *handle) Sync() error {
	f := h.d.enter("sync "+h.name, true)
	defer h.d.mu.Unlock()
	return syncing(f, h.name, h.n)
}

func syncing(f FaultKind, name string, n *node) error {
	if f != NoFault && f != EIODone {
		n.lose()
	}
	return act(f, "sync", name, n.sync)
}

// Close implements fsx.File.
func (h *handle) Close() error {
	f := h.d.enter("close "+h.name, false)
	defer h.d.mu.Unlock()
	return act(f, "close", h.name, func() {})
}

// Rename implements fsx.FS.
func (d *Disk) Rename(from, to string) error {
	f := d.enter("rename "+to, true)
	defer d.mu.Unlock()
	dir, err := d.folder("rename", path.Dir(from))
	if err != nil {
		return err
	}
	if path.Dir(from) != path.Dir(to) {
		return fail("rename", to, syscall.EXDEV)
	}
	n := dir.names[path.Base(from)]
	if n == nil {
		return fail("rename", from, fs.ErrNotExist)
	}
	if dir.names[path.Base(to)] != nil {
		return fail("rename", to, fs.ErrExist)
	}
	return act(f, "rename", to, func() { dir.change(move{{path.Base(from), nil}, {path.Base(to), n}}, d.now()) })
}

// Exchange implements fsx.FS.
func (d *Disk) Exchange(a, b string) error {
	f := d.enter("exchange "+b, true)
	defer d.mu.Unlock()
	dir, err := d.folder("exchange", path.Dir(a))
	if err != nil {
		return err
	}
	if path.Dir(a) != path.Dir(b) {
		return fail("exchange", b, syscall.EXDEV)
	}
	na, nb := dir.names[path.Base(a)], dir.names[path.Base(b)]
	if na == nil || nb == nil {
		return fail("exchange", b, fs.ErrNotExist)
	}
	return act(f, "exchange", b, func() { dir.change(move{{path.Base(a), nb}, {path.Base(b), na}}, d.now()) })
}

// Remove implements fsx.FS.
func (d *Disk) Remove(name string) error {
	f := d.enter("remove "+name, true)
	defer d.mu.Unlock()
	if _, err := d.regular("remove", name); err != nil {
		return err
	}
	return act(f, "remove", name, func() { d.find(path.Dir(name)).change(move{{path.Base(name), nil}}, d.now()) })
}

// Truncate implements fsx.FS.
func (d *Disk) Truncate(name string, size int64) error {
	f := d.enter("truncate "+name, true)
	defer d.mu.Unlock()
	n, err := d.regular("truncate", name)
	if err != nil {
		return err
	}
	return act(f, "truncate", name, func() { n.truncate(int(size), d.now()) })
}

// MkdirAll implements fsx.FS: every new folder and every sync of a parent is a
// call of its own.
func (d *Disk) MkdirAll(dir string) error {
	if dir == "." {
		return nil
	}
	for _, p := range append(fsx.Parents(dir), dir)[1:] {
		if err := d.mkdir(p); err != nil {
			return err
		}
		if err := d.SyncDir(path.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Disk) mkdir(p string) error {
	f := d.enter("mkdir "+p, true)
	defer d.mu.Unlock()
	parent, err := d.folder("mkdir", path.Dir(p))
	if err != nil {
		return err
	}
	switch n := parent.names[path.Base(p)]; {
	case n == nil:
		return act(f, "mkdir", p, func() { parent.change(move{{path.Base(p), newDir()}}, d.now()) })
	case !n.dir:
		return fail("mkdir", p, syscall.ENOTDIR)
	default:
		return act(f, "mkdir", p, func() {})
	}
}

// SyncFile implements fsx.FS.
func (d *Disk) SyncFile(name string) error {
	f := d.enter("syncfile "+name, true)
	defer d.mu.Unlock()
	n, err := d.regular("sync", name)
	if err != nil {
		return err
	}
	return syncing(f, name, n)
}

// SyncDir implements fsx.FS.
func (d *Disk) SyncDir(name string) error {
	f := d.enter("syncdir "+name, true)
	defer d.mu.Unlock()
	n, err := d.folder("sync", name)
	if err != nil {
		return err
	}
	return syncing(f, name, n)
}
