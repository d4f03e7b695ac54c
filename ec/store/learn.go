package store

import (
	"runtime"
	"sync/atomic"

	"github.com/elnor/promptlab/ec/store/fsx"
	"golang.org/x/sync/errgroup"
)

// freshMax bounds the texts that a start keeps for their first reader, in bytes.
const freshMax = 64 << 20

// learnWatched takes what lies in the watched folders at the start as known. The
// caller is about to read most of it, so each text is kept for its first Read:
// at ten thousand documents, opening them twice is most of a start.
func (s *Store) learnWatched() error {
	paths, err := s.watched()
	if err != nil {
		return err
	}
	type text struct {
		path, hash string
		stamp      fsx.Stamp
		body       []byte // nil when there is no room to keep it
	}
	texts := make([]text, 0, len(paths))
	for _, p := range paths {
		if s.docs[p] == nil { // nobody else knows the store yet
			texts = append(texts, text{path: p})
		}
	}
	var kept atomic.Int64
	most := int64(freshMax)
	if s.hook.KeepAtStart > 0 {
		most = s.hook.KeepAtStart
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0) * 4) // they wait for the disk more than they work
	if s.hook.Serial {
		g.SetLimit(1)
	}
	for i := range texts {
		t := &texts[i]
		g.Go(func() error {
			body, at, stamp, err := s.lookStamped(t.path)
			if err != nil {
				return err
			}
			t.hash, t.stamp = at, stamp
			if kept.Add(int64(len(body))) <= most {
				t.body = body
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	s.fresh = map[string][]byte{}
	for _, t := range texts {
		if t.hash == blocked {
			continue // the first look through the folders tells of it
		}
		s.noteStamped(t.path, t.hash, t.stamp)
		if t.stamp != (fsx.Stamp{}) {
			s.stamps[t.path] = t.stamp
		}
		if t.body != nil {
			s.fresh[t.path] = t.body
		}
	}
	return nil
}

// forget lets go of the texts that nobody has read since the start.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = nil
}
