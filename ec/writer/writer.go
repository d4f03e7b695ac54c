// Package writer is the single owner of the state. One goroutine takes commands
// in batches, decides them, makes the batch durable with one journal write, and
// publishes an immutable view; only then does it answer. Readers never meet it.
//
// It does not know what commands mean (ec) nor how bytes are kept (ec/store).
package writer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/feed"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// Store keeps the bytes.
type Store interface {
	ec.Source
	Commit(batch []store.Change) error
	Accept(path string, body []byte)
	Remember(format string, docs iter.Seq2[string, []byte], short func(path string, body []byte) ([]byte, error)) error
	Err() error
}

// Config is what a writer needs.
type Config struct {
	Store   Store
	Feed    *feed.Feed // may be nil
	Policy  ec.Policy
	Now     func() time.Time // the one clock of the domain
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
	Derive  time.Duration         // how soon index and metadata follow a change; default 1 s
	Build   string                // names the program; another one does not go by what this one keeps for the next start
}

// maxBatch bounds how many commands share one journal write.
const maxBatch = 256

// Writer implements ec.Service.
type Writer struct {
	cfg     Config
	state   *ec.State
	view    atomic.Pointer[published]
	queue   chan request
	edited  chan struct{}
	editsMu sync.Mutex
	edits   []store.Edit  // told by the store, not yet taken
	done    chan struct{} // closed when Run has ended
	metrics *metrics
	derived derived // what is known of index and metadata
}

type published struct {
	view    *ec.View
	changed chan struct{} // closed when the next view is there
}

type request struct {
	ctx   context.Context //nolint:containedctx // lives as long as the call that waits for it
	cmd   ec.Command
	reply chan reply
}

type reply struct {
	receipt ec.Receipt
	err     error
}

// Open loads the state and takes in what people did to the files of overlays
// meanwhile, so that nobody is ever served what was not looked at. It starts nothing.
func Open(cfg Config) (*Writer, error) {
	if cfg.Derive == 0 {
		cfg.Derive = time.Second
	}
	state, err := ec.Load(cfg.Store, cfg.Policy, cfg.Build)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		cfg: cfg, state: state, queue: make(chan request), done: make(chan struct{}),
		edited:  make(chan struct{}, 1), // one word for all that wait
		metrics: newMetrics(cfg.Metrics),
		derived: derived{done: make(chan rendering, 1), blocked: map[string]bool{}},
	}
	w.view.Store(&published{ec.NewView(state.Copy()), make(chan struct{})})
	return w, w.lookAgain()
}

// View gives the current view.
func (w *Writer) View() *ec.View { return w.view.Load().view }

// Changed gives a channel that is closed when a newer view than the current one
// is there.
func (w *Writer) Changed() <-chan struct{} { return w.view.Load().changed }

// Do hands in a command and waits for its outcome. A caller that gives up before
// its turn changes nothing; once the writer has taken the command it is waited
// for, so that nobody is told "cancelled" about a command that happened.
func (w *Writer) Do(ctx context.Context, c ec.Command) (ec.Receipt, error) {
	if c.ID == "" {
		c.ID = uuid.Must(uuid.NewV7()).String()
	}
	r := request{ctx, c, make(chan reply, 1)}
	select {
	case w.queue <- r:
	case <-ctx.Done():
		return ec.Receipt{}, fault.Wrap(fault.Unavailable, "ec_unavailable", ctx.Err(), "the request was given up before it was taken")
	case <-w.done:
		return ec.Receipt{}, w.unavailable()
	}
	a := <-r.reply // Run answers everything it has taken
	return a.receipt, a.err
}

func (w *Writer) unavailable() error {
	return fault.Wrap(fault.Unavailable, "ec_unavailable", w.cfg.Store.Err(), "the store takes no changes now; if this was a change, its outcome is unknown: repeat it with the same key")
}

// Run takes commands until the context ends. An error means that the store is
// broken: the process should end, and the next start recovers.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.done)
	tick := time.NewTicker(w.cfg.Derive)
	defer tick.Stop()
	defer w.abandon()
	for {
		var err error
		select {
		case r := <-w.queue:
			err = w.batch(r)
		case <-w.edited:
			err = w.takeEdits()
		case <-tick.C:
			w.derive()
		case r := <-w.derived.done:
			err = w.place(r)
		case <-ctx.Done():
			if err := w.deriveLast(); err != nil {
				return err
			}
			w.remember()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// batch performs the first command and all that wait behind it, then makes them
// durable together.
func (w *Writer) batch(first request) error {
	var taken []request
	var answers []reply
	var changes []store.Change
	var live []contracts.LiveEvent
	for r, more := first, true; more; r, more = w.next(len(taken)) {
		r.cmd.At = contracts.At(w.cfg.Now()) // here and nowhere else
		out, err := w.state.Perform(r.cmd)
		taken = append(taken, r)
		answers = append(answers, reply{out.Receipt, err})
		if err == nil && !out.Repeated {
			changes = append(changes, storeChange(out.Change))
			live = append(live, out.Live...)
			w.log(r, out)
		}
	}
	err := w.commit(changes, live)
	for i, r := range taken {
		if err != nil {
			answers[i] = reply{err: w.failed(err)}
		}
		r.reply <- answers[i]
	}
	w.metrics.batch(len(taken), len(changes))
	return err
}

func (w *Writer) next(have int) (request, bool) {
	if have >= maxBatch {
		return request{}, false
	}
	select {
	case r := <-w.queue:
		return r, true
	default:
		return request{}, false
	}
}

func (w *Writer) commit(changes []store.Change, live []contracts.LiveEvent) error {
	if len(changes) == 0 {
		return nil
	}
	if err := w.keep(changes); err != nil {
		w.cfg.Log.Error("the store cannot be written", "error", err)
		return err
	}
	old := w.view.Load()
	w.view.Store(&published{ec.NewView(w.state.Copy()), make(chan struct{})})
	close(old.changed)
	if w.cfg.Feed != nil {
		w.cfg.Feed.Publish(live...)
	}
	return nil
}

func (w *Writer) log(r request, out ec.Outcome) {
	w.cfg.Log.LogAttrs(r.ctx, slog.LevelInfo, "command",
		slog.String("command", r.cmd.Body.Type()), slog.String("command_id", r.cmd.ID), slog.String("role", string(r.cmd.Actor.Role)),
		slog.Uint64("revision", out.Receipt.Seq), slog.String("subject", out.Receipt.Subject), slog.Bool("changed", out.Receipt.Changed))
}

// errStray is a mistake of ours: a change reaches outside what EC owns. Nothing
// of its batch is written. The state in memory is ahead of the files then, so the
// process ends, as after a write that failed.
var errStray = errors.New("a change reaches outside what EC owns")

// keep is the one way to the store: every path of a change must lie in a place
// that EC owns.
func (w *Writer) keep(changes []store.Change) error {
	for _, c := range changes {
		for _, d := range c.Docs {
			if _, ok := ec.OwnerOf(d.Path, false); !ok {
				return fmt.Errorf("%w: document %s", errStray, d.Path)
			}
		}
		for _, l := range c.Lines {
			if _, ok := ec.OwnerOf(l.Stream, true); !ok {
				return fmt.Errorf("%w: stream %s", errStray, l.Stream)
			}
		}
	}
	return w.cfg.Store.Commit(changes)
}

// failed is what senders are told of a batch that was not kept.
func (w *Writer) failed(err error) error {
	if errors.Is(err, errStray) {
		return fault.Wrap(fault.Internal, "internal", err, "nothing was changed: EC made a mistake")
	}
	return w.unavailable()
}

// remember keeps what the next start need not find out again; it is only slower without.
func (w *Writer) remember() {
	if err := w.cfg.Store.Remember(ec.RecallFormat(w.cfg.Build), w.View().Sleepers(), ec.ShortForm); err != nil {
		w.cfg.Log.Warn("the next start will read everything", "error", err)
	}
}

func storeChange(c ec.Change) store.Change {
	out := store.Change{Docs: make([]store.Doc, len(c.Docs)), Lines: make([]store.Line, len(c.Lines))}
	for i, d := range c.Docs {
		out.Docs[i] = store.Doc{Path: d.Path, Body: d.Body}
	}
	for i, l := range c.Lines {
		out.Lines[i] = store.Line{Stream: l.Stream, Body: l.Body}
	}
	return out
}
