package writer

import (
	"context"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/uuid"
)

// external takes in a hand edit, or notes why it cannot.
func (w *Writer) external(e store.Edit, atStart bool) error {
	cmd := ec.Command{
		ID: uuid.Must(uuid.NewV7()).String(), At: contracts.At(w.cfg.Now()), Actor: ec.Actor{Role: ec.RoleSystem, Name: "external"},
		Body: ec.ExternalEdit{Path: e.Path, Body: e.Body, Gone: e.Gone, AtStart: atStart},
	}
	out, err := w.state.Perform(cmd)
	if err != nil {
		w.cfg.Log.Warn("a hand edit was not understood", "path", e.Path, "error", err)
		return nil
	}
	if !e.Gone || !ec.OverlayFile(e.Path) {
		w.cfg.Store.Accept(e.Path, e.Body) // refused or not: the file stays as the person left it
	}
	w.log(request{ctx: context.Background(), cmd: cmd}, out)
	return w.commit([]store.Change{storeChange(out.Change)}, out.Live)
}

// lookAgain hands in the files that were not taken in when EC started: new ones,
// broken ones, and those that somebody has corrected meanwhile.
func (w *Writer) lookAgain() error {
	for _, path := range w.View().RefusedFiles() {
		body, ok, err := w.cfg.Store.Read(path)
		if err != nil && fault.Of(err) != fault.Conflict { // a folder or a link in its place counts as gone
			return err
		}
		if err := w.external(store.Edit{Path: path, Body: body, Gone: !ok}, true); err != nil {
			return err
		}
	}
	return nil
}
