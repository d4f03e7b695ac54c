package fsx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// List gives the names in one folder, sorted.
func (r *Root) List(dir string) ([]Entry, error) {
	d, err := r.folder(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	out, err := entries(int(d.Fd()))
	if err != nil {
		return nil, wrap("list", dir, err)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// entries reads an open folder as the kernel tells it: os keeps more of each name
// than is asked for, and looks at every single file of a folder that os.Root
// opened, although the folder says what each of them is.
func entries(fd int) ([]Entry, error) {
	buf := make([]byte, 64<<10)
	var out []Entry
	for {
		n := 0
		err := retry(func() (err error) { n, err = unix.Getdents(fd, buf); return err })
		if err != nil || n <= 0 {
			return out, err
		}
		if out, err = records(fd, buf[:n], out); err != nil {
			return nil, err
		}
	}
}

// records appends what one answer of the kernel holds: for each name a number, a
// place, the length of the record in 16 bits, a kind and the name up to a NUL.
func records(fd int, b []byte, out []Entry) ([]Entry, error) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	for len(b) > 0 {
		if len(b) < nameAt {
			return nil, errors.New("the folder cannot be read")
		}
		end := int(binary.NativeEndian.Uint16(b[lengthAt:]))
		if end < nameAt || end > len(b) {
			return nil, errors.New("the folder cannot be read")
		}
		kind := b[kindAt]
		name, _, _ := bytes.Cut(b[nameAt:end], []byte{0})
		b = b[end:]
		if string(name) == "." || string(name) == ".." {
			continue
		}
		e := Entry{Name: string(name), Dir: kind == unix.DT_DIR, Regular: kind == unix.DT_REG}
		if kind == unix.DT_UNKNOWN { // some file systems do not say
			var st unix.Stat_t
			err := retry(func() error { return unix.Fstatat(fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW) })
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return nil, err
			}
			e.Dir, e.Regular = st.Mode&unix.S_IFMT == unix.S_IFDIR, st.Mode&unix.S_IFMT == unix.S_IFREG
		}
		if len(out) == cap(out) {
			out = slices.Grow(out, max(16, len(out)))
		}
		out = append(out, e)
	}
	return out, nil
}
