package fsx

import (
	"errors"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// settledAfter is more than any file system's clock needs to tell two changes
// apart.
const settledAfter = 2 * time.Second

// stampOf gives the zero stamp for a file that has changed too recently, after
// the clock says that it is, or at a time that its file system does not keep.
func stampOf(st *unix.Stat_t, now time.Time) Stamp {
	changed := st.Ctim.Nano()
	if changed <= 0 || changed > now.Add(-settledAfter).UnixNano() {
		return Stamp{}
	}
	return Stamp{Size: st.Size, Modified: st.Mtim.Nano(), Changed: changed, Inode: st.Ino}
}

// Stamped is a reader that knows the stamp which its file had when it was opened.
type Stamped interface{ Stamp() Stamp }

// StampOf gives the stamp of an open file, zero when it has none.
func StampOf(r any) Stamp {
	if s, ok := r.(Stamped); ok {
		return s.Stamp()
	}
	return Stamp{}
}

// Stamps gives the stamps of the names in one folder: of a regular file its own,
// of everything else and of what goes away meanwhile the zero stamp.
func (r *Root) Stamps(dir string, names []string) ([]Stamp, error) {
	d, err := r.folder(dir)
	if err != nil {
		return nil, r.explain("stamps", dir, err)
	}
	defer d.Close() //nolint:errcheck // nothing was written
	out := make([]Stamp, len(names))
	return out, stamps(int(d.Fd()), names, out, time.Now())
}

func stamps(fd int, names []string, out []Stamp, now time.Time) error {
	for i, name := range names {
		if path.Base(name) != name || Check(name) != nil {
			return wrap("stamps", name, errors.New("not a name"))
		}
		var st unix.Stat_t
		err := retry(func() error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
		switch {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			return wrap("stamps", name, err)
		case st.Mode&unix.S_IFMT == unix.S_IFREG:
			out[i] = stampOf(&st, now)
		}
	}
	return nil
}
