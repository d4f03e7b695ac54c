package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// reader reads a regular file. Unlike an os.File it costs nothing but the calls
// that read: a start opens every document there is.
type reader struct {
	name  string
	fd    int
	size  int64
	stamp Stamp
}

// Stamp implements Stamped.
func (f *reader) Stamp() Stamp { return f.stamp }

// Size is how long the file was when it was opened, in bytes.
func (f *reader) Size() int64 { return f.size }

// Read implements io.Reader.
func (f *reader) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	err = retry(func() (err error) { n, err = unix.Read(f.fd, p); return err })
	switch {
	case err != nil:
		return 0, wrap("read", f.name, err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close implements io.Closer; a second one is an error and closes nothing.
func (f *reader) Close() error {
	fd := f.fd
	f.fd = -1
	if fd < 0 {
		return wrap("close", f.name, fs.ErrClosed)
	}
	return wrap("close", f.name, unix.Close(fd))
}

// Open opens a regular file for reading.
func (r *Root) Open(name string) (io.ReadCloser, error) {
	if err := Check(name); err != nil {
		return nil, fmt.Errorf("open: path %w", err)
	}
	if f, err := r.beneath(name); f != nil || errors.Is(err, fs.ErrNotExist) {
		return f.orNone(), err
	}
	f, err := r.open("open", name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// orNone keeps a nil pointer from becoming a reader that is not nil.
func (f *reader) orNone() io.ReadCloser {
	if f == nil {
		return nil
	}
	return f
}

// beneath opens a regular file in one step that the kernel keeps inside the
// root. Whatever it cannot or will not do gives an error other than
// fs.ErrNotExist, and the way is walked instead, which says what is wrong.
func (r *Root) beneath(name string) (*reader, error) {
	if r.dir == nil {
		return nil, unix.ENOSYS
	}
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	f := &reader{name: name}
	err := retry(func() (err error) { f.fd, err = unix.Openat2(int(r.dir.Fd()), name, &how); return err })
	if err != nil {
		return nil, wrap("open", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.Join(wrap("open", name, ErrNotRegular), err, f.Close())
	}
	f.size, f.stamp = st.Size, stampOf(&st, time.Now())
	return f, nil
}
