package fsx

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// WalkOnly keeps a Root from using the short way of reading.
func WalkOnly(r *Root) {
	_ = r.dir.Close()
	r.dir = nil
}

// Share is what a fork does: somebody else has the file of a lock, too, until
// the function that is given back is called.
func Share(lock io.Closer) (let func() error, err error) {
	h, ok := lock.(held)
	if !ok {
		return nil, fmt.Errorf("%T is not the lock of a Root", lock)
	}
	fd, err := unix.Dup(int(h.f.Fd()))
	return func() error { return unix.Close(fd) }, err
}
