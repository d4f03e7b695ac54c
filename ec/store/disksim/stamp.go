package disksim

import (
	"io"
	"path"
	"syscall"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// ticks is how many changes happen within one tick of the disk's clock. A clock
// as coarse as that makes stamps as bad as they may be.
const ticks = 3

// now is the disk's time, in ticks. The lock is held.
func (d *Disk) now() int { return 1 + d.age/ticks }

// Wait lets a tick go by.
func (d *Disk) Wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.age += ticks
}

// stamp tells files apart by nothing but time and size. The lock is held.
func (d *Disk) stamp(n *node) fsx.Stamp {
	if n == nil || n.dir || n.changed >= d.now() {
		return fsx.Stamp{}
	}
	return fsx.Stamp{Size: int64(len(n.cur)), Changed: int64(n.changed)}
}

// Stamps implements fsx.FS.
func (d *Disk) Stamps(dir string, names []string) ([]fsx.Stamp, error) {
	f := d.enter("stamps "+dir, false)
	defer d.mu.Unlock()
	if f != NoFault {
		return nil, fail("stamps", dir, syscall.EIO)
	}
	n, err := d.folder("stamps", dir)
	if err != nil {
		return nil, err
	}
	out := make([]fsx.Stamp, len(names))
	for i, name := range names {
		out[i] = d.stamp(n.names[path.Base(name)])
	}
	return out, nil
}

// reading is an open file.
type reading struct {
	io.Reader
	stamp fsx.Stamp
}

// Close implements io.Closer.
func (reading) Close() error { return nil }

// Stamp implements fsx.Stamped.
func (r reading) Stamp() fsx.Stamp { return r.stamp }
