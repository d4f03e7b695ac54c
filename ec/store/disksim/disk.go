// Package disksim is a simulated disk for tests of the store. It keeps apart
// what a running program sees and what is durable, and builds the disks that
// may be found after a power cut: any part of the names that no sync covered,
// and each unsynced write absent, whole, cut, zero-filled, garbage or with a
// hole. It can fail any call. It knows nothing of the store.
package disksim

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// Disk is a file system in memory.
type Disk struct {
	// Before, when set, is called before every call that may change something,
	// with the number of that call. It may build disks from this one.
	Before func(call int, what string)

	mu     sync.Mutex
	root   *node
	calls  int
	age    int // changes so far, those of the disks before it too
	locked map[string]bool
	fault  *Fault
}

// New gives an empty disk.
func New() *Disk { return &Disk{root: newDir()} }

// Calls is the number of calls so far, those that only read too.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Files gives every file as a running program sees it, by path.
func (d *Disk) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string][]byte{}
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for k, c := range n.names {
			if c.dir {
				walk(prefix+k+"/", c)
			} else {
				out[prefix+k] = append([]byte(nil), c.cur...)
			}
		}
	}
	walk("", d.root)
	return out
}

// Flip inverts one bit of a file, on the disk and as seen.
func (d *Disk) Flip(name string, offset, bit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(name)
	n.cur[offset] ^= 1 << bit
	if offset < len(n.kept) {
		n.kept[offset] ^= 1 << bit
	}
}

// Put is somebody else replacing or making a file, or with a nil body removing
// it. The content is synced, the name is not.
func (d *Disk) Put(name string, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.age++
	dir := d.find(path.Dir(name))
	if body == nil {
		dir.change(move{{path.Base(name), nil}}, d.now())
		return
	}
	n := &node{}
	n.append(body, d.now())
	n.sync()
	dir.change(move{{path.Base(name), n}}, d.now())
}

// Fingerprint is the same for disks that a running program cannot tell apart.
func (d *Disk) Fingerprint() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := fnv.New64a()
	var walk func(n *node)
	walk = func(n *node) {
		for _, k := range sorted(n.names) {
			c := n.names[k]
			_, _ = fmt.Fprintf(h, "%s %t %d %d\n", k, c.dir, len(c.cur), c.changed)
			_, _ = h.Write(c.cur)
			if c.dir {
				walk(c)
			}
		}
		_, _ = h.Write([]byte("end"))
	}
	walk(d.root)
	return h.Sum64()
}

func sorted(m map[string]*node) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// find walks to a path; nil when it is missing. The lock is held.
func (d *Disk) find(name string) *node {
	n := d.root
	if name == "." {
		return n
	}
	for seg := range strings.SplitSeq(name, "/") {
		if n == nil || !n.dir {
			return nil
		}
		n = n.names[seg]
	}
	return n
}

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// enter counts a call and gives the fault to be played in it, with the lock
// held.
func (d *Disk) enter(what string, changes bool) FaultKind {
	d.mu.Lock()
	n := d.calls
	d.calls++
	if changes {
		d.age++
	}
	if d.Before != nil && changes {
		d.mu.Unlock()
		d.Before(n, what)
		d.mu.Lock()
	}
	if d.fault != nil && n == d.fault.At {
		return d.fault.Kind
	}
	return NoFault
}

func (d *Disk) regular(op, name string) (*node, error) {
	n := d.find(name)
	if n == nil {
		return nil, fail(op, name, fs.ErrNotExist)
	}
	if n.dir {
		return nil, fail(op, name, fsx.ErrNotRegular)
	}
	return n, nil
}

func (d *Disk) folder(op, name string) (*node, error) {
	n := d.find(name)
	if n == nil {
		return nil, fail(op, name, fs.ErrNotExist)
	}
	if !n.dir {
		return nil, fail(op, name, syscall.ENOTDIR)
	}
	return n, nil
}

// Open implements fsx.FS.
func (d *Disk) Open(name string) (io.ReadCloser, error) {
	f := d.enter("open "+name, false)
	defer d.mu.Unlock()
	if f != NoFault {
		return nil, fail("open", name, syscall.EIO)
	}
	n, err := d.regular("open", name)
	if err != nil {
		return nil, err
	}
	return reading{bytes.NewReader(append([]byte(nil), n.cur...)), d.stamp(n)}, nil
}

// Stat implements fsx.FS.
func (d *Disk) Stat(name string) (fsx.Entry, error) {
	f := d.enter("stat "+name, false)
	defer d.mu.Unlock()
	if f != NoFault {
		return fsx.Entry{}, fail("stat", name, syscall.EIO)
	}
	n := d.find(name)
	if n == nil {
		return fsx.Entry{}, fail("stat", name, fs.ErrNotExist)
	}
	return fsx.Entry{Name: path.Base(name), Dir: n.dir, Regular: !n.dir, Size: int64(len(n.cur))}, nil
}

// List implements fsx.FS.
func (d *Disk) List(dir string) ([]fsx.Entry, error) {
	f := d.enter("list "+dir, false)
	defer d.mu.Unlock()
	if f != NoFault {
		return nil, fail("list", dir, syscall.EIO)
	}
	n, err := d.folder("list", dir)
	if err != nil {
		return nil, err
	}
	out := make([]fsx.Entry, 0, len(n.names))
	for _, k := range sorted(n.names) {
		out = append(out, fsx.Entry{Name: k, Dir: n.names[k].dir, Regular: !n.names[k].dir})
	}
	return out, nil
}

type unlock func()

func (u unlock) Close() error { u(); return nil }

// Lock implements fsx.FS. The lock belongs to this Disk; disks built from it
// are unlocked.
func (d *Disk) Lock(name string) (io.Closer, error) {
	f := d.enter("lock "+name, true)
	defer d.mu.Unlock()
	if f != NoFault {
		return nil, fail("lock", name, syscall.EIO)
	}
	if d.locked[name] {
		return nil, fail("lock", name, fsx.ErrLocked)
	}
	if d.find(name) == nil {
		dir, err := d.folder("lock", path.Dir(name))
		if err != nil {
			return nil, err
		}
		dir.change(move{{path.Base(name), &node{}}}, d.now())
	}
	if d.locked == nil {
		d.locked = map[string]bool{}
	}
	d.locked[name] = true
	return unlock(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locked, name)
	}), nil
}
