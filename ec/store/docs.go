package store

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// parallel is how many documents are synced at a time; the disk likes company.
const parallel = 16

// job is one document to be written behind.
type job struct {
	path    string
	body    []byte
	hash    string
	version uint64
	known   string
	foreign bool
	blocked bool   // what is in the way is no document
	temp    string // "" when there is none
}

// writeBehind brings every waiting document to its place. Content is synced
// before the name changes; names are synced by the checkpoint. The lock io is
// held.
func (s *Store) writeBehind() error {
	jobs := s.jobs()
	n := parallel
	if s.hook.Serial {
		n = 1
	}
	for chunk := range slices.Chunk(jobs, n) {
		if err := s.behind(chunk); err != nil {
			return s.poison(err)
		}
	}
	return nil
}

func (s *Store) jobs() []*job {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*job, 0, len(s.pending))
	for p := range s.pending {
		d := s.docs[p]
		out = append(out, &job{path: p, body: d.body, hash: d.hash, version: d.version, known: d.known, foreign: d.foreign, blocked: d.told == blocked})
	}
	slices.SortFunc(out, func(a, b *job) int {
		if a.path < b.path {
			return -1
		}
		return 1
	})
	return out
}

func (s *Store) behind(chunk []*job) error {
	var g errgroup.Group
	for _, j := range chunk {
		if j.foreign || j.body == nil || s.hook.Bugs.InPlace {
			continue
		}
		if len(chunk) == 1 {
			if err := s.prepare(j); err != nil {
				return err
			}
			continue
		}
		g.Go(func() error { return s.prepare(j) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, j := range chunk {
		if err := s.place(j); err != nil {
			return err
		}
	}
	return nil
}

// prepare writes the text beside its place and syncs it, unless it is in its
// place already: a torn temporary file beside its own text would look to
// recovery like the text of somebody else that an exchange brought out.
func (s *Store) prepare(j *job) error {
	if _, at, err := s.look(j.path); err != nil || at == j.hash {
		return err
	}
	j.temp = s.tempName(j.path, j.hash)
	if err := s.ensureDir(path.Dir(j.path)); err != nil {
		return err
	}
	err := s.writeFile(j.temp, j.body)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Somebody took the folder away.
	s.mu.Lock()
	clear(s.dirs)
	s.mu.Unlock()
	return errors.Join(s.ensureDir(path.Dir(j.path)), s.writeFile(j.temp, j.body))
}

func (s *Store) writeFile(name string, body []byte) error {
	f, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	if err := writeAll(f, body); err != nil {
		return errors.Join(err, f.Close())
	}
	if !s.hook.Bugs.TempNotSynced && !s.hook.Bugs.SyncAfterRename {
		if err := s.sync(f); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// place puts a prepared text where it belongs, unless a foreign text is there:
// that one stays, ours waits, and the caller is told.
func (s *Store) place(j *job) error {
	inPlace := s.hook.Bugs.InPlace && j.body != nil
	body, at, err := s.look(j.path)
	if err != nil {
		return err
	}
	switch {
	case at == j.hash:
		return s.there(j)
	case at == absent && j.blocked && j.body != nil: // it is gone
	case at != j.known && !s.hook.Bugs.EditOverwritten:
		return s.giveWay(j, body, at)
	}
	if inPlace {
		return s.overwrite(j)
	}
	if j.temp == "" && j.body != nil { // it waited for a foreign text that is gone now
		if err := s.prepare(j); err != nil {
			return err
		}
	}
	if s.hook.BeforePlace != nil {
		s.hook.BeforePlace(j.path)
	}
	switch {
	case j.body == nil:
		return s.takeAway(j)
	case at == absent:
		return s.putNew(j)
	default:
		return s.replace(j)
	}
}

// there ends a job whose text is in its place already, perhaps by somebody else
// and not yet synced.
func (s *Store) there(j *job) error {
	if err := s.dropTemp(j); err != nil {
		return err
	}
	if j.body != nil {
		err := s.ensureDir(path.Dir(j.path))
		if err == nil {
			err = s.fs.SyncFile(j.path)
		}
		if gone(err) { // somebody took it away in this moment
			return s.lookAgain(j)
		}
		if err != nil {
			return err
		}
	}
	s.settle(j)
	return nil
}

func (s *Store) putNew(j *job) error {
	switch err := s.fs.Rename(j.temp, j.path); {
	case errors.Is(err, fs.ErrExist): // somebody made it in this moment
		return s.lookAgain(j)
	case errors.Is(err, fs.ErrNotExist): // somebody took the folder away: it is written again
		j.temp = ""
		return nil
	case err != nil:
		return err
	}
	return s.placed(j)
}

// replace swaps the texts and looks at what came out, so that an edit that
// landed a moment ago is found.
func (s *Store) replace(j *job) error {
	switch err := s.fs.Exchange(j.temp, j.path); {
	case errors.Is(err, fs.ErrNotExist): // somebody took it away in this moment
		return s.lookAgain(j)
	case err != nil:
		return err
	}
	_, out, err := s.look(j.temp)
	if err != nil {
		return err
	}
	if out == j.known || s.hook.Bugs.EditOverwritten {
		if err := s.fs.Remove(j.temp); err != nil {
			return err
		}
		return s.placed(j)
	}
	// A foreign text came out: put it back.
	if err := s.fs.Exchange(j.temp, j.path); errors.Is(err, fs.ErrNotExist) {
		if err := s.fs.Rename(j.temp, j.path); err != nil {
			return err
		}
		j.temp = ""
		return s.lookAgain(j)
	} else if err != nil {
		return err
	}
	// Were the temporary name gone on the disk before the text was back, a power
	// cut would take the text with it.
	if !s.hook.Bugs.BackNotSynced {
		if err := s.fs.SyncDir(path.Dir(j.path)); err != nil {
			return err
		}
	}
	return s.lookAgain(j)
}

// takeAway removes a document by way of a temporary name, so that an edit that
// landed a moment ago is found.
func (s *Store) takeAway(j *job) error {
	j.temp = s.tempName(j.path, absent)
	switch err := s.fs.Rename(j.path, j.temp); {
	case errors.Is(err, fs.ErrNotExist):
		j.temp = ""
		return s.lookAgain(j)
	case err != nil:
		return err
	}
	_, out, err := s.look(j.temp)
	if err != nil {
		return err
	}
	if out == j.known || s.hook.Bugs.EditOverwritten {
		if err := s.fs.Remove(j.temp); err != nil {
			return err
		}
		return s.placed(j)
	}
	err = s.fs.Rename(j.temp, j.path)
	if err == nil {
		j.temp = ""
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.lookAgain(j)
}

// lookAgain gives way to what lies there now.
func (s *Store) lookAgain(j *job) error {
	body, at, err := s.look(j.path)
	if err != nil {
		return err
	}
	if at == j.hash {
		return s.there(j)
	}
	return s.giveWay(j, body, at)
}

func (s *Store) giveWay(j *job, body []byte, at string) error {
	if err := s.dropTemp(j); err != nil {
		return err
	}
	return s.contest(j.path, body, at)
}

// dropTemp takes away the temporary file of a job. If a race left somebody
// else's text in it, that text is kept aside first.
func (s *Store) dropTemp(j *job) error {
	if j.temp == "" {
		return nil
	}
	body, at, err := s.look(j.temp)
	if err != nil {
		return err
	}
	if at != j.hash && at != j.known && body != nil {
		if err := s.keep(body); err != nil {
			return err
		}
	}
	err = s.fs.Remove(j.temp)
	j.temp = ""
	s.touch(path.Dir(j.path))
	return err
}

func (s *Store) placed(j *job) error {
	if s.hook.Bugs.SyncAfterRename && j.body != nil {
		if err := s.fs.SyncFile(j.path); err != nil {
			return err
		}
	}
	s.settle(j)
	return nil
}

// settle remembers that the text of j is in its place.
func (s *Store) settle(j *job) {
	s.touch(path.Dir(j.path))
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.docs[j.path]
	if d.known == j.known {
		d.known, d.durable = j.hash, true
		s.over(j.path, d)
	}
	if d.version == j.version {
		d.pending, d.body = false, nil
		delete(s.pending, j.path)
	}
}

func (s *Store) touch(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[dir] = true
}

// look reads what lies at a path: its text and hash, or absent, or blocked.
func (s *Store) look(p string) ([]byte, string, error) {
	body, at, _, err := s.lookStamped(p)
	return body, at, err
}

// lookStamped is look with the stamp that the file had before it was read.
func (s *Store) lookStamped(p string) (body []byte, at string, stamp fsx.Stamp, err error) {
	f, err := s.fs.Open(p)
	if errors.Is(err, fsx.ErrNotRegular) {
		return nil, blocked, stamp, nil
	}
	if gone(err) {
		return nil, absent, stamp, nil
	}
	if err != nil {
		return nil, "", stamp, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	body, err = fsx.ReadAll(f, MaxDocument+1)
	if err != nil {
		return nil, "", stamp, err
	}
	if len(body) > MaxDocument {
		return nil, blocked, stamp, nil
	}
	return body, hashOf(body), fsx.StampOf(f), nil
}

// keep puts a text aside that has lost its place and must not be lost itself.
func (s *Store) keep(body []byte) error {
	name := keptDir + "/" + hashOf(body)[:32]
	s.log.Warn("text kept aside", "path", name, "bytes", len(body))
	if err := s.ensureDir(keptDir); err != nil {
		return err
	}
	if err := s.writeFile(name, body); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return errors.Join(s.fs.SyncFile(name), s.fs.SyncDir(keptDir))
}

// overwrite is a planted bug: the text is cut and written in place.
func (s *Store) overwrite(j *job) error {
	if j.known == absent {
		if err := s.writeFile(j.path, j.body); err != nil {
			return err
		}
		return s.placed(j)
	}
	if err := s.fs.Truncate(j.path, 0); err != nil {
		return err
	}
	f, err := s.fs.OpenAppend(j.path)
	if err != nil {
		return err
	}
	if err := errors.Join(writeAll(f, j.body), f.Sync(), f.Close()); err != nil {
		return err
	}
	return s.placed(j)
}
