// Package store keeps bytes: documents, which are replaced as a whole, and
// streams of lines, which only grow. Both are plain files under one folder. A
// change may touch many of them and is there as a whole or not at all, also
// after a power cut, because it is first written to a short redo journal; many
// changes share one sync of it. Documents follow up to a second later.
//
// People may edit documents by hand. The store never writes over a text that it
// did not write or that was not accepted; it reports it.
//
// It deliberately does not know what the documents mean, who may write them, or
// what a session is. One goroutine calls Commit.
package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/store/internal/hook"
	"github.com/elnor/promptlab/internal/fault"
)

// Doc is the new text of a document. Path is slash-separated and relative to
// the root; a nil Body removes the document.
type Doc struct {
	Path string
	Body []byte
}

// Line is one JSON value, without a newline inside, for the end of a stream.
type Line struct {
	Stream string
	Body   []byte
}

// Change is the effect of one command: all of it or nothing survives a crash.
type Change struct {
	Docs  []Doc
	Lines []Line
}

// Edit is a document that somebody else changed or, if Gone, took away. Blocked
// says that something else lies there: a link, a folder, or what is too large.
// Settled says that what was told of a path is over, and the text there ours.
type Edit struct {
	Path                   string
	Body                   []byte
	Gone, Blocked, Settled bool
}

// Limits of one document and one line, in bytes.
const (
	MaxDocument = 16 << 20
	MaxLine     = 4 << 20
)

// Config is what a store needs.
type Config struct {
	FS  fsx.FS
	Log *slog.Logger
	// Watch names the folders whose documents people may edit by hand; they are
	// compared by hash every Rescan. Names that begin with a dot are left out.
	Watch []string
	// OnEdit is told of each foreign edit once per text, from the goroutine of
	// Run, Flush, Rescan or Close, without a lock held. The edit stays where it is,
	// and nothing of ours is written to that path until Accept is called for it.
	// So call Accept also for a text that is refused, but not for what is Blocked or
	// Settled.
	OnEdit func(Edit)
	// WriteBehind is how long a document may wait (default 500 ms), Checkpoint
	// how often the journal is emptied (30 s), Rescan how often watched folders
	// are looked through (1.5 s).
	WriteBehind, Checkpoint, Rescan time.Duration
	// Recall lets a start go by what Remember has kept of documents that have not
	// changed since. Without it every text is read.
	Recall bool
	// MaxRecords and MaxBytes of the journal bring the checkpoint forward
	// (10,000 and 32 MiB).
	MaxRecords int
	MaxBytes   int64
}

func (c *Config) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.WriteBehind, 500*time.Millisecond)
	set(&c.Checkpoint, 30*time.Second)
	set(&c.Rescan, 1500*time.Millisecond)
	if c.MaxRecords <= 0 {
		c.MaxRecords = 10_000
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 32 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Store is an open store. Locks are taken in the order recalling, io, jmu, mu.
type Store struct {
	cfg  Config
	fs   fsx.FS
	log  *slog.Logger
	hook hook.Hooks
	lock io.Closer

	recalling sync.Mutex // the recall file

	io  sync.Mutex // documents, checkpoints, rescans: one at a time
	jmu sync.Mutex // the journal and what goes into it
	mu  sync.Mutex // everything below; never held during I/O

	j       journal              // by jmu
	streams map[string]*stream   // the map and the files by jmu, lengths by mu too
	temps   atomic.Uint64        // counts temporary names
	scans   int                  // of the watched folders, by io
	stamps  map[string]fsx.Stamp // of files that were compared since they last changed, by io
	dirs    map[string]bool      // folders known to be durable
	docs    map[string]*doc
	pending map[string]struct{} // documents not yet written behind
	dirty   map[string]bool     // folders with names not yet synced
	fresh   map[string][]byte   // texts read at the start, for their first reader
	edits   []Edit              // to be told
	err     error
	closed  bool

	kick     chan struct{} // buffer 1: a checkpoint is due now
	poisoned chan struct{} // closed with the first error
}

// doc is what the store knows of one path.
type doc struct {
	known   string    // hash of the text that may be on the disk: read, written or accepted
	durable bool      // that text is known to survive
	stamp   fsx.Stamp // of the file whose text was read first; zero once that may have changed
	pending bool
	version uint64 // of the pending text
	body    []byte
	hash    string // of body
	told    string // hash of the foreign text last reported; "" when there is none
	foreign bool   // there is a foreign text
}

// Open takes the lock of the root, brings documents and streams to the last
// durable change and starts a fresh journal. A root that is held gives the
// fault store_locked. It refuses to start, and changes nothing, when durable
// data is damaged; the error names file and line.
func Open(cfg Config) (*Store, error) { return OpenHooked(cfg, hook.Hooks{}) }

// OpenHooked is Open for the store's own checker.
func OpenHooked(cfg Config, h hook.Hooks) (*Store, error) {
	cfg.defaults()
	s := &Store{
		cfg: cfg, fs: cfg.FS, log: cfg.Log, hook: h,
		streams: map[string]*stream{}, dirs: map[string]bool{".": true}, docs: map[string]*doc{},
		pending: map[string]struct{}{}, dirty: map[string]bool{}, stamps: map[string]fsx.Stamp{},
		kick: make(chan struct{}, 1), poisoned: make(chan struct{}),
	}
	if err := s.fs.MkdirAll(ecDir); err != nil {
		return nil, err
	}
	lock, err := s.fs.Lock(lockPath)
	if errors.Is(err, fsx.ErrLocked) {
		return nil, fault.Wrap(fault.Conflict, "store_locked", err, "another EC holds this data root")
	}
	if err != nil {
		return nil, err
	}
	s.lock = lock
	err = s.recover()
	if err == nil {
		err = s.learnWatched()
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// Run writes behind, checkpoints and rescans until ctx ends; then it flushes,
// checkpoints and returns nil. It returns at once, with the reason, when the
// store is poisoned.
func (s *Store) Run(ctx context.Context) error {
	s.forget() // whoever wanted to read everything has done so
	s.deliver()
	behind, check, scan := time.NewTicker(s.cfg.WriteBehind), time.NewTicker(s.cfg.Checkpoint), time.NewTicker(s.cfg.Rescan)
	defer behind.Stop()
	defer check.Stop()
	defer scan.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return s.Checkpoint()
		case <-s.poisoned:
			return s.Err()
		case <-behind.C:
			err = s.Flush()
		case <-check.C:
			err = s.Checkpoint()
		case <-s.kick:
			err = s.Checkpoint()
		case <-scan.C:
			err = s.Rescan()
		}
		if err != nil {
			return err
		}
	}
}

// Err is nil, or why no write is accepted any more.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.closed {
		return fault.New(fault.Unavailable, "store_closed", "the store is closed")
	}
	return s.err
}

// poison makes err the reason why nothing is written any more. What is on the
// disk may differ from what the process believes; only a new start can tell.
func (s *Store) poison(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook.Bugs.GoOnAfterError {
		return err
	}
	if s.err == nil {
		s.err = fault.Wrap(fault.Unavailable, "store_poisoned", err,
			"the store cannot be written any more; whether the last command happened is known after a restart")
		close(s.poisoned)
		s.log.Error("store poisoned", "error", err)
	}
	return s.err
}

// Flush writes the waiting documents now. Their names are durable only after
// the next checkpoint; until then the journal has them.
func (s *Store) Flush() error {
	err := s.locked(s.writeBehind)
	s.deliver()
	return err
}

// Checkpoint writes the waiting documents, makes everything durable where it
// belongs, and starts an empty journal.
func (s *Store) Checkpoint() error {
	err := s.locked(s.checkpoint)
	s.deliver()
	return err
}

func (s *Store) locked(f func() error) error {
	s.io.Lock()
	defer s.io.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	return f()
}

// Close flushes, checkpoints and gives up the lock. After a poisoning it only
// gives up the lock and returns the reason. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	err := s.Checkpoint()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.jmu.Lock()
	defer s.jmu.Unlock()
	return errors.Join(err, s.release())
}

// release closes every file and gives up the lock.
func (s *Store) release() error {
	var errs []error
	if s.j.file != nil {
		errs = append(errs, s.j.file.Close())
		s.j.file = nil
	}
	for _, st := range s.streams {
		if st.file != nil {
			errs = append(errs, st.file.Close())
			st.file = nil
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// deliver tells of foreign edits.
func (s *Store) deliver() {
	s.mu.Lock()
	edits := s.edits
	s.edits = nil
	s.mu.Unlock()
	for _, e := range edits {
		s.log.Info("document changed by somebody else", "path", e.Path, "gone", e.Gone)
		if s.cfg.OnEdit != nil {
			s.cfg.OnEdit(e)
		}
	}
}
