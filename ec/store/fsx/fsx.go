// Package fsx is the narrow door through which the store reaches a file system.
//
// It has only the calls whose behaviour across a power cut the store has
// thought about, so that a simulated disk can stand in for the real one and be
// cut at every one of them. It does not know what the files mean.
//
// Paths are relative to the root, slash-separated and clean; the root itself
// is ".". Root is the implementation for production; it needs Linux.
package fsx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ErrNotRegular says that a path exists and is neither a regular file nor (for
// the calls that take a folder) a folder: a symbolic link, a pipe, a device.
var ErrNotRegular = errors.New("not a regular file")

// ErrLocked says that somebody else holds the lock.
var ErrLocked = errors.New("locked")

// MaxSegment is the longest name of a file or folder, in bytes.
const MaxSegment = 255

// File is an open file that grows at its end. A short write without an error
// is possible and is the caller's to notice.
type File interface {
	io.Writer
	Sync() error // content and size are durable; the name is not
	Close() error
}

// Entry describes one name.
type Entry struct {
	Name    string // last segment
	Dir     bool
	Regular bool
	Size    int64 // of a regular file, from Stat only
}

// Stamp is when and where a file was last changed. Unlike the time of writing,
// which anybody may set, the time of change is the kernel's own.
type Stamp struct {
	Size              int64
	Modified, Changed int64 // nanoseconds since 1970
	Inode             uint64
}

// FS is what the store needs of a file system. A missing file is fs.ErrNotExist.
// Nothing is durable before the Sync call that says so, except what MkdirAll
// makes.
type FS interface {
	// Create makes a new file for writing; fs.ErrExist when the name is taken.
	Create(path string) (File, error)
	// OpenAppend opens an existing regular file for writing at its end.
	OpenAppend(path string) (File, error)
	// Open opens a regular file for reading. The reader may be Stamped.
	Open(path string) (io.ReadCloser, error)
	// Stat looks at a name without following a symbolic link.
	Stat(path string) (Entry, error)
	// List gives the names in one folder, sorted.
	List(dir string) ([]Entry, error)
	// Stamps gives the stamps of names in one folder: of a regular file its own,
	// of everything else the zero stamp.
	Stamps(dir string, names []string) ([]Stamp, error)
	// Rename moves a file within its folder; fs.ErrExist when the new name is
	// taken: it never replaces.
	Rename(from, to string) error
	// Exchange swaps two names of one folder in one step.
	Exchange(a, b string) error
	// Remove takes away the name of a file.
	Remove(path string) error
	// Truncate sets the size of a regular file.
	Truncate(path string, size int64) error
	// MkdirAll makes a folder and its parents, and makes all their names
	// durable, those that were there before too.
	MkdirAll(dir string) error
	// SyncFile makes the content of a regular file durable.
	SyncFile(path string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, which it makes if need be.
	// ErrLocked when it is held. It dies with the process.
	Lock(path string) (io.Closer, error)
}

// Check says what is wrong with a path, or nil.
func Check(name string) error {
	switch {
	case name == "" || name == ".":
		return errors.New("is empty")
	case strings.IndexByte(name, 0) >= 0:
		return errors.New("holds a NUL byte")
	case !fs.ValidPath(name):
		return errors.New("is not a clean relative path")
	case len(name) > 4000:
		return errors.New("is longer than 4000 bytes")
	}
	for seg := range strings.SplitSeq(name, "/") {
		if len(seg) > MaxSegment {
			return fmt.Errorf("has a segment of more than %d bytes", MaxSegment)
		}
	}
	return nil
}

// Parents gives the folders above a path from the root down, "." first.
func Parents(name string) []string {
	out := []string{"."}
	for i := range len(name) {
		if name[i] == '/' {
			out = append(out, name[:i])
		}
	}
	return out
}

// ReadFile reads a whole regular file.
func ReadFile(f FS, name string) ([]byte, error) {
	r, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	return ReadAll(r, -1)
}

// ReadAll reads to the end, but no more than limit bytes if that is not
// negative. A reader that knows how much there is makes it cheaper.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	size := int64(bytes.MinRead)
	if k, ok := r.(interface{ Size() int64 }); ok {
		size = k.Size()
	}
	if limit >= 0 {
		r, size = io.LimitReader(r, limit), min(size, limit)
	} else {
		size = min(size, 1<<20) // a giant length is not believed
	}
	// Room for one byte more, so that the end is seen without growing.
	b := make([]byte, 0, size+1)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, bytes.MinRead)
		}
	}
}

// sameDir refuses a rename across folders: only one folder's names change in
// one step, so that syncing that one folder is enough.
func sameDir(from, to string) error {
	if path.Dir(from) != path.Dir(to) {
		return fmt.Errorf("rename %s to %s: not in one folder", from, to)
	}
	return nil
}
