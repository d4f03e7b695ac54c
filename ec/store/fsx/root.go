package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root is a folder of the machine. No path leaves it, by ".." or by a symbolic
// link, and files that are not regular are refused.
type Root struct {
	root *os.Root
	dir  *os.File // the same folder, for the short way of reading; nil: always walk
}

// OpenRoot opens the folder dir and makes it, readable by its owner only, when
// it is missing.
func OpenRoot(dir string) (*Root, error) {
	if err := makeRoot(dir); err != nil {
		return nil, fmt.Errorf("make root folder: %w", err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open root folder: %w", err)
	}
	d, err := r.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open root folder: %w", err), r.Close())
	}
	return &Root{root: r, dir: d}, nil
}

// makeRoot makes dir and the folders above it, and lets the names of those that
// were missing survive. The name of dir itself is synced even if it was there:
// the process that made it may have died before its sync.
func makeRoot(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	above := []string{filepath.Dir(dir)}
	for {
		p := above[len(above)-1]
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		above = append(above, filepath.Dir(p))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, p := range above {
		d, err := os.Open(p)
		if errors.Is(err, fs.ErrPermission) {
			return nil // not ours: this one and those above it were there
		}
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Close lets the folder go; open files stay usable.
func (r *Root) Close() error {
	if r.dir == nil {
		return r.root.Close()
	}
	return errors.Join(r.dir.Close(), r.root.Close())
}

// folder opens a folder. Nothing else is opened: a pipe would wait for somebody.
func (r *Root) folder(name string) (*os.File, error) {
	return r.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// parent opens the folder of name. os.Root walks there, so that no link leads
// out; the last segment is then used below it without following links.
func (r *Root) parent(op, name string) (*os.File, string, error) {
	if err := Check(name); err != nil {
		return nil, "", fmt.Errorf("%s: path %w", op, err)
	}
	d, err := r.folder(path.Dir(name))
	if err != nil {
		return nil, "", r.explain(op, path.Dir(name), err)
	}
	return d, path.Base(name), nil
}

// explain turns the refusal of a link that leads out of the root, which os.Root
// tells by text only, into ErrNotRegular.
func (r *Root) explain(op, dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return err
	}
	for _, p := range append(Parents(dir), dir)[1:] {
		if fi, lerr := r.root.Lstat(p); lerr != nil || fi.Mode()&fs.ModeSymlink != 0 {
			return wrap(op, p, errors.Join(ErrNotRegular, err))
		}
	}
	return err
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (r *Root) open(op, name string, flags int) (*os.File, error) {
	d, base, err := r.parent(op, name)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // only a handle to walk with
	fd := -1
	// O_NONBLOCK: opening a pipe that somebody put there must not hang.
	err = retry(func() (err error) {
		fd, err = unix.Openat(int(d.Fd()), base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		return err
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, wrap(op, name, ErrNotRegular)
	}
	if err != nil {
		return nil, wrap(op, name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, wrap(op, name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, wrap(op, name, ErrNotRegular)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// file is an open file of a Root.
type file struct{ *os.File }

// Sync makes content and size durable. A failure must not be tried again: the
// kernel forgets the pages that it could not write.
func (f file) Sync() error {
	return wrap("sync", f.Name(), retry(func() error { return unix.Fdatasync(int(f.Fd())) }))
}

// Create makes a new file that only its owner may read.
func (r *Root) Create(name string) (File, error) {
	f, err := r.open("create", name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

// OpenAppend opens an existing regular file for writing at its end.
func (r *Root) OpenAppend(name string) (File, error) {
	f, err := r.open("append", name, unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

// Stat looks at a name without following a symbolic link.
func (r *Root) Stat(name string) (Entry, error) {
	if name != "." {
		if err := Check(name); err != nil {
			return Entry{}, fmt.Errorf("stat: path %w", err)
		}
	}
	fi, err := r.root.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: path.Base(name), Dir: fi.IsDir(), Regular: fi.Mode().IsRegular(), Size: fi.Size()}, nil
}

func (r *Root) renameat2(op, from, to string, flags uint) error {
	if err := sameDir(from, to); err != nil {
		return err
	}
	if err := Check(to); err != nil {
		return fmt.Errorf("%s: path %w", op, err)
	}
	d, base, err := r.parent(op, from)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // only a handle to walk with
	return wrap(op, to, retry(func() error {
		return unix.Renameat2(int(d.Fd()), base, int(d.Fd()), path.Base(to), flags)
	}))
}

// Rename moves a file within its folder and never replaces.
func (r *Root) Rename(from, to string) error {
	return r.renameat2("rename", from, to, unix.RENAME_NOREPLACE)
}

// Exchange swaps two names of one folder in one step.
func (r *Root) Exchange(a, b string) error {
	return r.renameat2("exchange", a, b, unix.RENAME_EXCHANGE)
}

// Remove takes away the name of a file; a folder is refused.
func (r *Root) Remove(name string) error {
	d, base, err := r.parent("remove", name)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // only a handle to walk with
	return wrap("remove", name, retry(func() error { return unix.Unlinkat(int(d.Fd()), base, 0) }))
}

// Truncate sets the size of a regular file.
func (r *Root) Truncate(name string, size int64) error {
	f, err := r.open("truncate", name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// MkdirAll makes a folder and its parents and makes all their names durable.
func (r *Root) MkdirAll(dir string) error {
	if dir == "." {
		return nil
	}
	if err := Check(dir); err != nil {
		return fmt.Errorf("mkdir: path %w", err)
	}
	for _, p := range append(Parents(dir), dir)[1:] {
		if err := r.root.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		st, err := r.root.Stat(p) // a link to a folder inside the root is fine
		if err != nil {
			return r.explain("mkdir", p, err)
		}
		if !st.IsDir() {
			return wrap("mkdir", p, unix.ENOTDIR)
		}
		if err := r.SyncDir(path.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

// SyncFile makes the content of a regular file durable.
func (r *Root) SyncFile(name string) error {
	f, err := r.open("sync", name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(file{f}.Sync(), f.Close())
}

// SyncDir makes the names in a folder durable.
func (r *Root) SyncDir(dir string) error {
	d, err := r.folder(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock takes the kernel's lock of a file, which ends with the process.
func (r *Root) Lock(name string) (io.Closer, error) {
	f, err := r.open("lock", name, unix.O_CREAT|unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	err = retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return held{f}, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, wrap("lock", name, ErrLocked)
	}
	return nil, wrap("lock", name, err)
}

// held is a lock. It is given up in so many words: a process that is being
// started at this moment has the file, too, until it becomes another program,
// and closing ours alone would leave the lock with it.
type held struct{ f *os.File }

// Close gives the lock up.
func (h held) Close() error {
	err := retry(func() error { return unix.Flock(int(h.f.Fd()), unix.LOCK_UN) })
	return errors.Join(wrap("unlock", h.f.Name(), err), h.f.Close())
}
