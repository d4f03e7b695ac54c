package store

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// recover brings the files to the last record of the journal. It can be cut at
// any point and begin again. It goes by names in order, here and in all that it
// calls, so that the same disk is always recovered by the same calls.
func (s *Store) recover() error {
	cur, all, err := s.choose()
	if err != nil {
		return err
	}
	plan, err := s.plan(cur)
	if err != nil {
		return err
	}
	// From here on the disk changes. What was read may have been written by a
	// process that died before its sync, so it goes to a new file first.
	for _, f := range all {
		s.j.gen = max(s.j.gen, f.gen)
		s.j.stale = append(s.j.stale, f.name)
	}
	if len(cur.recs) == 0 {
		s.takeExtents(plan)
		return s.begin(header{LSN: cur.last, Streams: cur.head.Streams}, nil)
	}
	if !s.hook.Bugs.ReplayInPlaceJournal {
		if err := s.begin(cur.head, cur.recs); err != nil {
			return err
		}
	} else {
		s.j.lsn = cur.last
	}
	s.log.Info("recovering", "journal", cur.name, "records", len(cur.recs))
	texts := chains(cur.recs)
	if err := s.clearTemps(texts); err != nil {
		return err
	}
	if err := s.restoreDocs(texts); err != nil {
		return err
	}
	if err := s.restoreStreams(plan); err != nil {
		return err
	}
	for p := range texts {
		s.touchUp(p)
	}
	return s.turn()
}

// choose finds the journal to go by. A newer one that is not whole was never
// needed: the one before it is still there.
func (s *Store) choose() (*found, []*found, error) {
	all, err := s.findJournals()
	if err != nil {
		return nil, nil, err
	}
	cur := &found{}
	for _, f := range all {
		if f.whole {
			if f.last < cur.last {
				return nil, nil, damaged(f.name, 1, "it begins at record %d, but %s has record %d", f.head.LSN, cur.name, cur.last)
			}
			cur = f
		}
	}
	for _, f := range all {
		if f.whole || f.gen < cur.gen {
			continue
		}
		if cur.gen == 0 && (f.more || len(f.recs) > 0 || f.head.Gen == f.gen) {
			return nil, nil, damaged(f.name, f.line, "it cannot be read and there is no journal before it")
		}
		s.log.Warn("unfinished journal left out", "journal", f.name)
	}
	return cur, all, nil
}

// replay is what the journal says about one stream: base durable bytes, then
// tail.
type replay struct {
	base   int64
	crc    uint32
	sealed bool // crc is known from the header
	tail   []byte
	exists bool
	size   int64
}

// plan compares every stream with the journal and refuses what cannot be.
func (s *Store) plan(cur *found) (map[string]*replay, error) {
	out := map[string]*replay{}
	for name, e := range cur.head.Streams {
		if rule, _ := checkPath(name); rule != "" || e.Len < 0 {
			return nil, damaged(cur.name, 1, "it names a stream that cannot be")
		}
		out[name] = &replay{base: e.Len, crc: e.CRC, sealed: true}
	}
	for _, r := range cur.recs {
		for _, d := range r.Docs {
			if rule, _ := checkPath(d.Path); rule != "" {
				return nil, damaged(cur.name, 0, "record %d names a document that cannot be", r.LSN)
			}
		}
		for _, l := range r.Lines {
			if rule, _ := checkPath(l.Stream); rule != "" || l.At < 0 {
				return nil, damaged(cur.name, 0, "record %d names a stream that cannot be", r.LSN)
			}
			rp := out[l.Stream]
			if rp == nil {
				rp = &replay{base: l.At}
				out[l.Stream] = rp
			}
			if l.At != rp.base+int64(len(rp.tail)) {
				return nil, damaged(cur.name, 0, "record %d does not continue %s", r.LSN, l.Stream)
			}
			rp.tail = append(append(rp.tail, l.bytes()...), '\n')
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if err := s.inspect(name, out[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inspect checks the durable part of a stream. Beyond it a power cut may have
// left anything, but not more than the journal knows of: a line is appended only
// after the sync of its record.
func (s *Store) inspect(name string, rp *replay) error {
	e, err := s.fs.Stat(name)
	if err != nil && !gone(err) {
		return err
	}
	rp.exists, rp.size = err == nil && e.Regular, e.Size
	if rp.size < rp.base || err == nil && !e.Regular {
		return damaged(name, 0, "it ends after %d of %d durable bytes", rp.size, rp.base)
	}
	if rp.base > 0 {
		_, crc, err := s.measure(name, rp.base)
		if err != nil {
			return err
		}
		if rp.sealed && crc != rp.crc {
			return s.changed(name, rp.base)
		}
		rp.crc = crc
	}
	if known := rp.base + int64(len(rp.tail)); rp.size > known {
		b, err := fsx.ReadFile(s.fs, name)
		if err != nil {
			return err
		}
		return damaged(name, bytes.Count(b[:known], []byte("\n"))+1, "the journal knows of %d bytes only", known)
	}
	return nil
}

// changed names the first line that is no JSON in the durable part of a stream,
// if the change can be seen that way.
func (s *Store) changed(name string, base int64) error {
	b, err := fsx.ReadFile(s.fs, name)
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(b[:min(base, int64(len(b)))]) {
		n++
		if !json.Valid(line) || line[len(line)-1] != '\n' {
			return damaged(name, n, "the line is not the one that was written")
		}
	}
	return damaged(name, 0, "one of its %d lines is not the one that was written", n)
}

// takeExtents takes streams over that have nothing to be repeated.
func (s *Store) takeExtents(plan map[string]*replay) {
	for name, rp := range plan {
		s.streams[name] = &stream{exists: rp.exists, length: rp.base, crc: rp.crc}
	}
}

// restoreStreams cuts each stream to its durable part and appends the rest
// again, also when it looks right: it may be there for readers only.
func (s *Store) restoreStreams(plan map[string]*replay) error {
	s.takeExtents(plan)
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		rp := plan[name]
		if len(rp.tail) == 0 {
			continue
		}
		if err := s.ensureDir(path.Dir(name)); err != nil {
			return err
		}
		tail := rp.tail
		switch bugs := s.hook.Bugs; {
		case bugs.TornTailKept && rp.size > rp.base:
			tail = tail[rp.size-rp.base:]
			rp.base = rp.size
		case bugs.ReplayTwice:
			rp.base = rp.size
		case rp.size > rp.base:
			if err := s.fs.Truncate(name, rp.base); err != nil {
				return err
			}
		}
		s.streams[name].length = rp.base
		if err := s.grow(name, tail); err != nil {
			return err
		}
		if s.hook.Bugs.TornTailKept {
			s.streams[name].crc = crc32.Update(rp.crc, castagnoli, rp.tail)
		}
		s.touchUp(name)
	}
	return nil
}

// chain is what the journal says about one document: the texts of ours that may
// lie at its path, and the last one, which belongs there.
type chain struct {
	ours map[string]bool
	prev string
	body []byte
}

func chains(recs []record) map[string]*chain {
	out := map[string]*chain{}
	for _, r := range recs {
		for _, d := range r.Docs {
			c := out[d.Path]
			if c == nil {
				c = &chain{ours: map[string]bool{}}
				out[d.Path] = c
			}
			c.prev, c.body = d.Prev, d.body()
			c.ours[d.Prev], c.ours[hashOf(c.body)] = true, true
		}
	}
	return out
}

// restoreDocs lets every document of the journal wait to be written. The text
// that lies there now is known if it is one of ours; otherwise it is a foreign
// edit, which will be found in the usual way.
func (s *Store) restoreDocs(texts map[string]*chain) error {
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		c := texts[p]
		d := &doc{known: c.prev, pending: true, version: 1, body: c.body, hash: hashOf(c.body)}
		_, at, err := s.look(p)
		if err != nil {
			return err
		}
		if c.ours[at] || s.hook.Bugs.EditOverwritten {
			d.known = at
		}
		s.docs[p] = d
		s.pending[p] = struct{}{}
	}
	return nil
}

// touchUp marks every folder above p: the process before may have died between
// making a name and syncing it.
func (s *Store) touchUp(p string) {
	for _, dir := range fsx.Parents(p) {
		s.touch(dir)
	}
}

// clearTemps takes away what a cut write-behind left, except texts of people:
// after an exchange a temporary file may hold one.
func (s *Store) clearTemps(texts map[string]*chain) error {
	byDir := map[string]map[string]string{} // folder -> tag of base name -> path
	for p := range texts {
		dir := path.Dir(p)
		if byDir[dir] == nil {
			byDir[dir] = map[string]string{}
		}
		byDir[dir][baseTag(p)] = p
	}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		entries, err := s.fs.List(dir)
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		entries = slices.DeleteFunc(entries, func(e fsx.Entry) bool { return !strings.HasPrefix(e.Name, tempPrefix) })
		if len(entries) == 0 {
			continue
		}
		// The process before may have put a text of somebody else back and died
		// before that was durable; the way it went is not wiped out before it is.
		if err := s.fs.SyncDir(dir); err != nil {
			return err
		}
		for _, e := range entries {
			if err := s.clearTemp(path.Join(dir, e.Name), byDir[dir], texts); err != nil {
				return err
			}
		}
		// A torn one that came back after its text was placed would look like what
		// the exchange brought out.
		if err := s.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) clearTemp(temp string, targets map[string]string, texts map[string]*chain) error {
	base, tag, ok := tags(path.Base(temp))
	target := targets[base]
	body, out, err := s.look(temp)
	if err != nil {
		return err
	}
	if s.hook.Bugs.TempsDeleted {
		return s.fs.Remove(temp)
	}
	if !ok || target == "" {
		if body != nil {
			if err := s.keep(body); err != nil {
				return err
			}
		}
		return s.fs.Remove(temp)
	}
	if texts[target].ours[out] {
		return s.fs.Remove(temp)
	}
	// The text is not one of ours, or ours and torn. It was torn only if it never
	// reached its place; if what was to be put there lies there, this came out.
	_, at, err := s.look(target)
	if err != nil {
		return err
	}
	removal := tag == textTag(absent)
	switch {
	case removal && at == absent:
		return s.fs.Rename(temp, target)
	case !removal && at != absent && at != blocked && textTag(at) == tag:
		if err := s.fs.Exchange(temp, target); err != nil {
			return err
		}
		if err := s.fs.SyncDir(path.Dir(target)); err != nil { // before the name temp goes
			return err
		}
	case removal && body != nil:
		if err := s.keep(body); err != nil {
			return err
		}
	}
	return s.fs.Remove(temp)
}
