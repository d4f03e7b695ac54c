package store

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// Shorten takes out of a stream the lines that keep says no to, and gives how many
// they were. It tells of no edit, so it may be called before anybody listens.
// Whenever the power goes, the stream is then as it was or as it shall
// be. Lines cannot be appended meanwhile; a missing stream has none.
//
// The journal knows of a stream's durable bytes and refuses other ones, so it
// forgets the stream first: the whole stream is durable then, and with the next
// line it is taken up again as one from elsewhere.
func (s *Store) Shorten(name string, keep func(line []byte) bool) (out int, err error) {
	if rule, msg := checkPath(name); rule != "" {
		return 0, badPath(msg)
	}
	err = s.locked(func() error {
		s.jmu.Lock()
		defer s.jmu.Unlock()
		var rest []byte
		if rest, out, err = s.without(name, keep); err != nil || out == 0 {
			return err
		}
		if err := s.unknow(name); err != nil {
			return s.poison(err)
		}
		if err := s.replaceStream(name, rest); err != nil {
			return s.poison(err)
		}
		return nil
	})
	return out, err
}

// without gives what stays of a stream.
func (s *Store) without(name string, keep func([]byte) bool) (rest []byte, out int, err error) {
	if s.isDocument(name) {
		return nil, 0, conflict(name, "is a document")
	}
	if err := s.sweep(name); err != nil {
		return nil, 0, err
	}
	if _, err := s.fs.Stat(name); err != nil {
		if gone(err) {
			err = nil
		}
		return nil, 0, err
	}
	if s.streams[name] == nil { // its last line may be torn
		if _, err := s.adopt(name); err != nil {
			return nil, 0, err
		}
	}
	all, err := fsx.ReadFile(s.fs, name)
	if err != nil {
		return nil, 0, err
	}
	for line := range bytes.Lines(all) {
		if keep(bytes.TrimSuffix(line, []byte("\n"))) {
			rest = append(rest, line...)
		} else {
			out++
		}
	}
	return rest, out, nil
}

// sweep takes away what a process left that died while it made a stream shorter:
// lines that should be gone.
func (s *Store) sweep(name string) error {
	dir := path.Dir(name)
	entries, err := s.fs.List(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	left := tempPrefix + baseTag(name) + "-"
	entries = slices.DeleteFunc(entries, func(e fsx.Entry) bool { return !strings.HasPrefix(e.Name, left) })
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		if err := s.fs.Remove(path.Join(dir, e.Name)); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(dir)
}

// unknow makes a stream durable and begins a journal that does not know of it.
func (s *Store) unknow(name string) error {
	if err := s.turn(); err != nil {
		return err
	}
	st := s.streams[name]
	if st.file != nil {
		if err := st.file.Close(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	delete(s.streams, name)
	s.mu.Unlock()
	return s.turn()
}

// replaceStream puts other bytes in the place of a stream that the journal does
// not know of.
func (s *Store) replaceStream(name string, rest []byte) error {
	dir := path.Dir(name)
	temp := s.tempName(name, hashOf(rest))
	if err := s.writeFile(temp, rest); err != nil {
		return err
	}
	if err := s.fs.SyncDir(dir); err != nil { // the old one may only be gone when the new one has a name
		return err
	}
	if err := s.fs.Exchange(temp, name); err != nil {
		return err
	}
	if err := s.fs.SyncDir(dir); err != nil {
		return err
	}
	if err := s.fs.Remove(temp); err != nil {
		return err
	}
	return s.fs.SyncDir(dir)
}
