package store

import (
	"path"
	"slices"
	"strings"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// contest reports a foreign text (at is its hash) once, after making it durable:
// the caller may build on it, and a power cut must not take it back. A text of
// ours for that path goes on waiting.
func (s *Store) contest(p string, body []byte, at string) error {
	old := func(d *doc) bool { // accepted meanwhile, or told before
		return d.known == at || d.foreign && d.told == at
	}
	s.mu.Lock()
	d := s.docs[p]
	done := old(d)
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.syncForeign(p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old(d) {
		return nil
	}
	d.foreign, d.told = true, at
	s.edits = append(s.edits, editOf(p, body, at))
	return nil
}

func editOf(p string, body []byte, at string) Edit {
	return Edit{Path: p, Body: body, Gone: at == absent, Blocked: at == blocked}
}

// Accept says that the caller took a foreign edit in: body (nil: its removal) is
// now the known text of path, and a text of ours that was still waiting is
// dropped in its favour. To make that last across a crash, commit the same text
// as a document, or another one to be written over it.
func (s *Store) Accept(p string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.docs[p]
	if d == nil {
		d = &doc{}
		s.docs[p] = d
	}
	d.known, d.durable = hashOf(body), d.told == hashOf(body)
	d.foreign, d.told = false, ""
	d.pending, d.body, d.stamp = false, nil, fsx.Stamp{}
	d.version++
	delete(s.pending, p)
	delete(s.fresh, p)
}

// Rescan compares the watched folders with what is known and tells OnEdit of
// every difference. Run does it regularly.
func (s *Store) Rescan() error {
	err := s.locked(s.rescan)
	s.deliver()
	return err
}

func (s *Store) rescan() error {
	s.forget()
	seen, err := s.watched()
	if err != nil {
		return s.poison(err)
	}
	if s.scans++; s.scans%everythingAgain == 0 {
		clear(s.stamps)
	}
	paths := s.knownBelow(seen)
	now, err := s.stampsOf(paths)
	if err != nil {
		return s.poison(err)
	}
	for i, p := range paths {
		if last, ok := s.stamps[p]; ok && now[i] == last {
			continue // nothing has happened to it since it was compared
		}
		if err := s.rescanOne(p); err != nil {
			return s.poison(err)
		}
	}
	return nil
}

// everythingAgain is how many looks through the folders may trust stamps before
// one reads every file again.
const everythingAgain = 150

// rescanOne compares one file with what is known.
func (s *Store) rescanOne(p string) error {
	delete(s.stamps, p)
	body, at, stamp, err := s.lookStamped(p)
	if err != nil {
		return err
	}
	if s.differs(p, at) {
		s.note(p, absent)
		if err := s.contest(p, body, at); err != nil {
			return err
		}
	}
	if stamp != (fsx.Stamp{}) {
		s.stamps[p] = stamp
	}
	return nil
}

// stampsOf gives the stamps of files, each in the place of its path. What is not
// there, and what has changed so recently that a stamp says nothing, has none.
func (s *Store) stampsOf(paths []string) ([]fsx.Stamp, error) {
	out := make([]fsx.Stamp, len(paths))
	for from := 0; from < len(paths); {
		dir := path.Dir(paths[from])
		var names []string
		for _, p := range paths[from:] {
			if path.Dir(p) != dir {
				break
			}
			names = append(names, path.Base(p))
		}
		stamps, err := s.fs.Stamps(dir, names)
		if err != nil && !gone(err) {
			return nil, err
		}
		if err == nil {
			copy(out[from:], stamps)
		}
		from += len(names)
	}
	return out, nil
}

// differs says that a text is neither the one we know of nor the one we wait to
// write. An edit that was told of and is undone now is told of again.
func (s *Store) differs(p, at string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.docs[p]
	if d == nil {
		return at != absent
	}
	if at == d.known || d.pending && at == d.hash {
		s.over(p, d)
		return false
	}
	return true
}

// over says that nothing foreign lies at a path any more. The lock mu is held.
func (s *Store) over(p string, d *doc) {
	if d.foreign {
		s.edits = append(s.edits, Edit{Path: p, Settled: true})
	}
	d.foreign, d.told = false, ""
}

// watched lists the files of the watched folders that may be documents, and what
// lies there that is neither a file nor a folder.
func (s *Store) watched() ([]string, error) {
	var out []string
	for _, dir := range s.cfg.Watch {
		err := s.walkAll(strings.TrimSuffix(dir, "/"), func(p string, _ bool) {
			if !strings.HasPrefix(path.Base(p), ".") {
				out = append(out, p)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// knownBelow adds the paths of watched folders that were there before.
func (s *Store) knownBelow(seen []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, d := range s.docs {
		if (d.known != absent || d.foreign) && s.isWatched(p) {
			seen = append(seen, p)
		}
	}
	slices.Sort(seen)
	return slices.Compact(seen)
}

func (s *Store) isWatched(p string) bool {
	return slices.ContainsFunc(s.cfg.Watch, func(dir string) bool {
		return strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
	})
}
