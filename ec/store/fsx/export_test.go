package fsx

import (
	"fmt"
	"io"
	"time"

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

// StampAt gives the stamp of an open file as it is at another time.
func StampAt(r *Root, name string, now time.Time) (Stamp, error) {
	f, err := r.beneath(name)
	if err != nil {
		return Stamp{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return Stamp{}, err
	}
	return stampOf(&st, now), nil
}

// StampsAt gives the stamps of names in the root as they are at another time.
func StampsAt(r *Root, names []string, now time.Time) ([]Stamp, error) {
	out := make([]Stamp, len(names))
	return out, stamps(int(r.dir.Fd()), names, out, now)
}

// Records reads what the kernel would have told of a folder.
func Records(r *Root, b []byte) ([]Entry, error) { return records(int(r.dir.Fd()), b, nil) }
