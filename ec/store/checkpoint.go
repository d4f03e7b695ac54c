package store

import (
	"maps"
	"slices"
)

// checkpoint empties the journal. Most documents are written before commits are
// held up; the few that came in meanwhile after. The lock io is held.
func (s *Store) checkpoint() error {
	if err := s.writeBehind(); err != nil {
		return err
	}
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if s.j.records == 0 && !s.unsynced() {
		return nil
	}
	if err := s.turn(); err != nil {
		return s.poison(err)
	}
	return nil
}

func (s *Store) unsynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty) > 0
}

// turn makes everything durable in its place and begins the next journal. Both
// locks are held.
func (s *Store) turn() error {
	bugs := s.hook.Bugs
	if !bugs.CheckpointTooSoon {
		if err := s.writeBehind(); err != nil {
			return err
		}
	}
	if bugs.JournalDroppedEarly {
		if err := s.drop(s.j.stale); err != nil {
			return err
		}
		if err := s.fs.SyncDir(ecDir); err != nil {
			return err
		}
	}
	if err := s.syncFolders(); err != nil {
		return err
	}
	extents, err := s.syncStreams()
	if err != nil {
		return err
	}
	var carry []record
	if !bugs.CheckpointTooSoon {
		carry = s.waiting()
	}
	return s.begin(header{LSN: s.j.lsn, Streams: extents}, carry)
}

func (s *Store) syncFolders() error {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = map[string]bool{}
	s.mu.Unlock()
	if s.hook.Bugs.FoldersNotSynced {
		return nil
	}
	for _, dir := range slices.Sorted(maps.Keys(dirty)) {
		if err := s.fs.SyncDir(dir); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// waiting gives, as one record, the documents that wait because a foreign text
// lies in their place: acknowledged, and nowhere but in the journal.
func (s *Store) waiting() []record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var docs []docRec
	for _, p := range slices.Sorted(maps.Keys(s.pending)) {
		d := s.docs[p]
		docs = append(docs, docRec{Path: p, Prev: d.known, Gone: d.body == nil, text: textOf(d.body)})
	}
	if docs == nil {
		return nil
	}
	return []record{{LSN: s.j.lsn + 1, BS: s.j.lsn + 1, Docs: docs}}
}
