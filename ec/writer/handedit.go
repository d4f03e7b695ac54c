package writer

import (
	"context"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/uuid"
)

// Edit tells the writer of a file that somebody else changed. It never blocks and
// loses nothing: the store tells of each text once, and a whole folder may change
// at a time.
func (w *Writer) Edit(e store.Edit) {
	w.editsMu.Lock()
	w.edits = append(w.edits, e)
	w.editsMu.Unlock()
	select {
	case w.edited <- struct{}{}:
	default: // it is told already
	}
}

// takeEdits takes in the hand edits that wait, as many together as a batch holds.
func (w *Writer) takeEdits() error {
	w.editsMu.Lock()
	edits := w.edits
	w.edits = nil
	w.editsMu.Unlock()
	return w.external(edits, false)
}

// external takes in hand edits, or notes why it cannot.
func (w *Writer) external(edits []store.Edit, atStart bool) error {
	for some := range slices.Chunk(edits, maxBatch) {
		var changes []store.Change
		var live []contracts.LiveEvent
		for _, e := range some {
			if out, ok := w.takeIn(e, atStart); ok {
				changes, live = append(changes, storeChange(out.Change)), append(live, out.Live...)
			}
		}
		if err := w.commit(changes, live); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) takeIn(e store.Edit, atStart bool) (ec.Outcome, bool) {
	cmd := ec.Command{
		ID: uuid.Must(uuid.NewV7()).String(), At: contracts.At(w.cfg.Now()), Actor: ec.Actor{Role: ec.RoleSystem, Name: "external"},
		Body: ec.ExternalEdit{Path: e.Path, Body: e.Body, Gone: e.Gone, Blocked: e.Blocked, Settled: e.Settled, AtStart: atStart},
	}
	out, err := w.state.Perform(cmd)
	if err != nil {
		w.cfg.Log.Warn("a hand edit was not understood", "path", e.Path, "error", err)
		return out, false
	}
	if !e.Blocked && !e.Settled {
		w.cfg.Store.Accept(e.Path, e.Body) // refused or not: the file stays as the person left it
	}
	w.log(request{ctx: context.Background(), cmd: cmd}, out)
	return out, true
}

// lookAgain hands in the files that were not taken in when EC started: new ones,
// broken ones, and those that somebody has corrected meanwhile.
func (w *Writer) lookAgain() error {
	var edits []store.Edit
	for _, path := range w.View().RefusedFiles() {
		body, ok, err := w.cfg.Store.Read(path)
		blocked := fault.Of(err) == fault.Conflict
		if err != nil && !blocked {
			return err
		}
		edits = append(edits, store.Edit{Path: path, Body: body, Gone: !ok && !blocked, Blocked: blocked})
	}
	return w.external(edits, true)
}
