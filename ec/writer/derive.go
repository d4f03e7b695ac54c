package writer

import (
	"time"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/internal/fault"
)

// derived is what the writer knows of index and metadata of the library. In a large
// one they take a while to make, so that is done beside the commands, and no
// oftener than it is worth.
type derived struct {
	edition uint64          // that they were last made of; 0: not yet
	busy    bool            // they are being made
	done    chan rendering  // buffer 1: whoever makes them never waits
	rest    time.Time       // not before
	blocked map[string]bool // documents with something else in their place
	tried   uint64          // revision at which that was last seen
}

// restFor is how many times as long as making them took they are left alone.
const restFor = 20

// rendering is index and metadata as they should be.
type rendering struct {
	edition, seq uint64
	docs         []ec.Doc // those that the store does not have so
	fine         []string // those that it has
	blocked      map[string]error
	err          error
	took         time.Duration
}

func (w *Writer) render(v *ec.View) rendering {
	began := time.Now()
	r := rendering{edition: v.Edition(), seq: v.Seq(), blocked: map[string]error{}}
	for _, d := range v.Derived() {
		now, ok, err := w.cfg.Store.Read(d.Path)
		switch {
		case fault.Of(err) == fault.Conflict: // a folder or a link is in its place
			r.blocked[d.Path] = err
		case err != nil:
			r.err = err
			return r
		case ok && string(now) == string(d.Body):
			r.fine = append(r.fine, d.Path)
		default:
			r.docs = append(r.docs, d)
		}
	}
	r.took = time.Since(began)
	return r
}

// behind says that index and metadata are not those of the current view.
func (w *Writer) behind() bool {
	v := w.View()
	return v.Edition() != w.derived.edition || len(w.derived.blocked) > 0 && v.Seq() != w.derived.tried
}

// derive begins to bring index and metadata to the state.
func (w *Writer) derive() {
	if w.derived.busy || !w.behind() || time.Now().Before(w.derived.rest) {
		return
	}
	w.derived.busy = true
	v := w.View()
	go func() { w.derived.done <- w.render(v) }()
}

// deriveLast brings them to the state before the end.
func (w *Writer) deriveLast() error {
	if w.derived.busy {
		if err := w.place(<-w.derived.done); err != nil {
			return err
		}
	}
	if !w.behind() {
		return nil
	}
	return w.place(w.render(w.View()))
}

// abandon waits for what is no longer needed.
func (w *Writer) abandon() {
	if w.derived.busy {
		<-w.derived.done
		w.derived.busy = false
	}
}

// place keeps what was made.
func (w *Writer) place(r rendering) error {
	began := time.Now()
	w.derived.busy = false
	if r.err != nil {
		return r.err
	}
	w.derived.edition, w.derived.tried = r.edition, r.seq
	for path, err := range r.blocked {
		w.inTheWay(path, err)
	}
	var c store.Change
	for _, d := range r.docs {
		delete(w.derived.blocked, d.Path)
		c.Docs = append(c.Docs, store.Doc{Path: d.Path, Body: d.Body})
	}
	for _, p := range r.fine {
		delete(w.derived.blocked, p)
	}
	var err error
	if len(c.Docs) > 0 {
		err = w.keep([]store.Change{c})
	}
	now := time.Now()
	w.derived.rest = now.Add(restFor * (r.took + now.Sub(began)))
	return err
}

// inTheWay tells once that something else lies where a derived document belongs.
// Nobody needs the document to read the library, so that is no reason to end.
func (w *Writer) inTheWay(path string, err error) {
	if !w.derived.blocked[path] {
		w.derived.blocked[path] = true
		w.cfg.Log.Warn("a derived document cannot be written; move away what is in its place", "path", path, "error", err)
	}
}
