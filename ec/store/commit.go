package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/internal/fault"
)

// staged is a batch on its way: nothing of it is seen before it is durable.
type staged struct {
	recs  []record
	docs  map[string]Doc
	tails map[string][]byte // what each stream grows by
	order []string          // streams in the order of their first line
}

// Commit makes the changes of a batch durable, in order, with one write and one
// sync, and returns then. A bad batch is refused as a whole and changes nothing
// (faults validation_failed, path_conflict). Any other error poisons the store
// and leaves open whether the changes happened. The bodies must not be changed
// afterwards.
func (s *Store) Commit(batch []Change) error {
	s.jmu.Lock()
	defer s.jmu.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	if err := validate(batch); err != nil {
		return err
	}
	st, err := s.stage(batch)
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	if err != nil {
		return s.poison(err)
	}
	if len(st.recs) == 0 {
		return nil
	}
	if err := s.write(st); err != nil {
		if err = s.poison(err); err != nil && !s.hook.Bugs.GoOnAfterError {
			return err
		}
	}
	s.publish(st)
	if s.j.records >= s.cfg.MaxRecords || s.j.bytes >= s.cfg.MaxBytes {
		select {
		case s.kick <- struct{}{}:
		default: // it is on its way
		}
	}
	return nil
}

// stage turns a batch into records and finds everything that would make it fail
// later, when it can no longer be refused.
func (s *Store) stage(batch []Change) (*staged, error) {
	st := &staged{docs: map[string]Doc{}, tails: map[string][]byte{}}
	bs := s.j.lsn + 1
	for _, c := range batch {
		if len(c.Docs)+len(c.Lines) == 0 {
			continue
		}
		r := record{LSN: bs + uint64(len(st.recs)), BS: bs}
		for _, d := range c.Docs {
			prev, err := s.stageDoc(st, d)
			if err != nil {
				return nil, err
			}
			r.Docs = append(r.Docs, docRec{Path: d.Path, Prev: prev, Gone: d.Body == nil, text: textOf(d.Body)})
			st.docs[d.Path] = d
		}
		for _, l := range c.Lines {
			at, err := s.stageLine(st, l)
			if err != nil {
				return nil, err
			}
			r.Lines = append(r.Lines, lineRec{Stream: l.Stream, At: at, text: textOf(l.Body)})
		}
		st.recs = append(st.recs, r)
	}
	if s.hook.Bugs.OnlyLastChange && len(st.recs) > 1 {
		last := st.recs[len(st.recs)-1]
		last.LSN = bs
		st.recs = []record{last}
	}
	return st, nil
}

func conflict(p, message string) error {
	return fault.Wrap(fault.Conflict, "path_conflict", errors.New(p), "the path cannot be used: it %s", message)
}

func badPath(message string) error {
	return fault.Validation([]fault.Detail{{Field: "path", Rule: "path", Message: message}})
}

// stageDoc gives the hash of what may lie at the path of d.
func (s *Store) stageDoc(st *staged, d Doc) (string, error) {
	if s.streams[d.Path] != nil || st.tails[d.Path] != nil {
		return "", conflict(d.Path, "is a stream")
	}
	for _, up := range fsx.Parents(d.Path)[1:] {
		_, staged := st.docs[up]
		if staged || s.isDocument(up) || s.streams[up] != nil {
			return "", conflict(d.Path, "lies below a document")
		}
	}
	s.mu.Lock()
	known, isDir := s.docs[d.Path], s.dirs[d.Path]
	s.mu.Unlock()
	if isDir {
		return "", conflict(d.Path, "is a folder")
	}
	if known == nil {
		var err error
		if known, err = s.learn(d.Path); err != nil {
			return "", err
		}
	}
	if d.Body != nil {
		if err := s.ensureDir(path.Dir(d.Path)); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	prev, durable := known.known, known.durable
	s.mu.Unlock()
	if prev == blocked {
		return "", conflict(d.Path, "is not a document")
	}
	if !durable && prev != absent {
		// Somebody else wrote it, perhaps a moment ago. If it went away in a power
		// cut, what came back would look like a foreign edit to recovery.
		if err := s.syncForeign(d.Path); err != nil {
			return "", err
		}
		s.mu.Lock()
		known.durable = true
		s.mu.Unlock()
	}
	return prev, nil
}

func (s *Store) isDocument(p string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.docs[p]
	return d != nil && (d.known != absent || d.pending && d.body != nil)
}

// learn takes what lies at a path now as the text that the caller knows of.
func (s *Store) learn(p string) (*doc, error) {
	_, at, err := s.look(p)
	if err != nil {
		return nil, err
	}
	if at == blocked && s.isWatched(p) {
		at = absent // it is a person's, like an edit: ours waits until it is gone
	}
	if at == blocked {
		return nil, conflict(p, "is not a regular file")
	}
	return s.note(p, at), nil
}

// note remembers a path for the first time.
func (s *Store) note(p, hash string) *doc { return s.noteStamped(p, hash, fsx.Stamp{}) }

func (s *Store) noteStamped(p, hash string, stamp fsx.Stamp) *doc {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.docs[p]
	if d == nil {
		d = &doc{known: hash, stamp: stamp}
		s.docs[p] = d
	}
	return d
}

// ensureDir makes a folder that survives.
func (s *Store) ensureDir(dir string) error {
	s.mu.Lock()
	ok := s.dirs[dir]
	s.mu.Unlock()
	if ok {
		return nil
	}
	err := s.fs.MkdirAll(dir)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fsx.ErrNotRegular) {
		return conflict(dir, "is not a folder")
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range append(fsx.Parents(dir), dir) {
		s.dirs[p] = true
	}
	return nil
}

func (s *Store) stageLine(st *staged, l Line) (int64, error) {
	if _, staged := st.docs[l.Stream]; staged || s.isPending(l.Stream) {
		return 0, conflict(l.Stream, "is a document")
	}
	str := s.streams[l.Stream]
	if str == nil {
		var err error
		if str, err = s.adopt(l.Stream); err != nil {
			return 0, err
		}
	}
	tail, ok := st.tails[l.Stream]
	if !ok {
		st.order = append(st.order, l.Stream)
	}
	at := str.length + int64(len(tail))
	tail = append(tail, l.Body...)
	st.tails[l.Stream] = append(tail, '\n')
	return at, nil
}

func (s *Store) isPending(p string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.docs[p] != nil && s.docs[p].pending
}

// write is the commit: journal, sync, then the streams, then the mark that says
// that this batch was synced.
func (s *Store) write(st *staged) error {
	bugs := s.hook.Bugs
	if bugs.AckBeforeSync && s.j.owed {
		if err := s.j.file.Sync(); err != nil {
			return err
		}
	}
	var buf bytes.Buffer
	for _, r := range st.recs {
		if err := encode(&buf, r); err != nil {
			return err
		}
	}
	if !bugs.NoJournal {
		err := writeAll(s.j.file, buf.Bytes())
		if err != nil && (!bugs.ShortWriteUnseen || !errors.Is(err, io.ErrShortWrite)) {
			return err
		}
	}
	s.j.owed = bugs.AckBeforeSync
	if !bugs.AckBeforeSync && !bugs.JournalNotSynced && !bugs.NoJournal {
		if err := s.sync(s.j.file); err != nil {
			return err
		}
	}
	s.j.lsn += uint64(len(st.recs))
	s.j.records += len(st.recs)
	s.j.bytes += int64(buf.Len())
	for _, name := range st.order {
		if err := s.grow(name, st.tails[name]); err != nil {
			return err
		}
	}
	if bugs.NoJournal {
		return nil
	}
	buf.Reset()
	buf.WriteByte('\n') // so that one flipped bit cannot make record and mark one bad line
	if err := encode(&buf, record{LSN: s.j.lsn, BS: s.j.lsn + 1, Mark: true}); err != nil {
		return err
	}
	return writeAll(s.j.file, buf.Bytes())
}

// sync syncs once. A second try would answer well and mean nothing.
func (s *Store) sync(f fsx.File) error {
	err := f.Sync()
	if err != nil && s.hook.Bugs.RetrySync {
		err = f.Sync()
	}
	return err
}

// publish lets readers see a durable batch.
func (s *Store) publish(st *staged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, d := range st.docs {
		delete(s.fresh, p)
		k := s.docs[p]
		k.pending, k.body, k.hash = true, d.Body, hashOf(d.Body)
		k.version++
		k.stamp = fsx.Stamp{}
		s.pending[p] = struct{}{}
	}
}

// syncForeign makes what somebody else wrote durable.
func (s *Store) syncForeign(p string) error {
	if err := s.fs.SyncFile(p); err != nil && !gone(err) {
		return err
	}
	if err := s.fs.SyncDir(path.Dir(p)); err != nil && !gone(err) {
		return err
	}
	return nil
}

// gone says that there is no document at a path.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fsx.ErrNotRegular) || errors.Is(err, syscall.ENOTDIR)
}
