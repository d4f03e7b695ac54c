package store

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Read gives the current text of a document, also one that is not yet written
// behind; false when there is none. What is there and was never seen before is
// known from then on.
func (s *Store) Read(p string) ([]byte, bool, error) {
	if rule, msg := checkPath(p); rule != "" {
		return nil, false, badPath(msg)
	}
	s.mu.Lock()
	if d := s.docs[p]; d != nil && d.pending {
		defer s.mu.Unlock()
		return bytes.Clone(d.body), d.body != nil, nil
	}
	if body, ok := s.fresh[p]; ok {
		delete(s.fresh, p)
		s.mu.Unlock()
		return body, true, nil
	}
	s.mu.Unlock()
	body, at, stamp, err := s.lookStamped(p)
	if err != nil {
		return nil, false, err
	}
	if at == blocked {
		if s.isWatched(p) { // this tells of it; when it is over that is told too
			d := s.note(p, absent)
			s.mu.Lock()
			d.foreign, d.told = true, blocked
			s.mu.Unlock()
		}
		return nil, false, conflict(p, "is not a document")
	}
	if at != absent {
		s.noteStamped(p, at, stamp)
	}
	return body, at != absent, nil
}

// List gives the paths of all files below a folder ("" is the root), sorted,
// with those that are not yet written behind, without the store's own.
func (s *Store) List(prefix string) ([]string, error) {
	dir := strings.TrimSuffix(prefix, "/")
	if dir == "" {
		dir = "."
	} else if rule, msg := checkPath(dir); rule != "" {
		return nil, badPath(msg)
	}
	var found []string
	s.mu.Lock()
	waiting := maps.Clone(s.pending)
	s.mu.Unlock()
	if err := s.walk(dir, func(p string) { found = append(found, p) }); err != nil {
		return nil, err
	}
	s.mu.Lock()
	maps.Copy(waiting, s.pending)
	if len(waiting) == 0 { // as at every start after a clean end
		s.mu.Unlock()
		slices.Sort(found)
		return found, nil
	}
	set := make(map[string]bool, len(found))
	for _, p := range found {
		set[p] = true
	}
	for p := range waiting {
		d := s.docs[p]
		if dir != "." && !strings.HasPrefix(p, dir+"/") {
			continue
		}
		if d.pending && d.body != nil || !d.pending && d.known != absent {
			set[p] = true
		} else {
			delete(set, p)
		}
	}
	s.mu.Unlock()
	return slices.Sorted(maps.Keys(set)), nil
}

// walk calls fn with every regular file below a folder that is not the store's
// own. Links are not followed; a missing folder is empty.
func (s *Store) walk(dir string, fn func(p string)) error {
	return s.walkAll(dir, func(p string, regular bool) {
		if regular {
			fn(p)
		}
	})
}

// walkAll is walk with links and the like.
func (s *Store) walkAll(dir string, fn func(p string, regular bool)) error {
	entries, err := s.fs.List(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := e.Name
		if dir != "." {
			p = dir + "/" + e.Name
		}
		switch {
		case p == ecDir, strings.HasPrefix(e.Name, tempPrefix):
		case e.Dir:
			if err := s.walkAll(p, fn); err != nil {
				return err
			}
		default:
			fn(p, e.Regular)
		}
	}
	return nil
}
