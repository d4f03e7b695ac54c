package writer

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/internal/fault"
)

// R-STO-02: a change that reaches outside what EC owns is a mistake of ours. It is
// found before anything of its batch is written.
func TestAChangeOutsideOfWhatECOwnsIsNotWritten(t *testing.T) {
	good := store.Change{Docs: []store.Doc{{Path: "system/overlays/index.json", Body: []byte("{}")}}, Lines: []store.Line{{Stream: "system/audit/2026-01.jsonl", Body: []byte("{}")}}}
	for _, c := range []struct {
		name   string
		change store.Change
		bad    string
	}{
		{"document", store.Change{Docs: []store.Doc{{Path: "system/doc8/promotions/x.json", Body: []byte("{}")}}}, "system/doc8/promotions/x.json"},
		{"removal", store.Change{Docs: []store.Doc{{Path: "notes.txt"}}}, "notes.txt"},
		{"stream", store.Change{Lines: []store.Line{{Stream: "signals/doc8/x.jsonl", Body: []byte("{}")}}}, "signals/doc8/x.jsonl"},
		{"stream over a document", store.Change{Lines: []store.Line{{Stream: "system/overlays/index.json", Body: []byte("{}")}}}, "system/overlays/index.json"},
		{"document over a stream", store.Change{Docs: []store.Doc{{Path: "system/audit/2026-01.jsonl", Body: []byte("{}")}}}, "system/audit/2026-01.jsonl"},
	} {
		t.Run("R-STO-02 "+c.name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := fsx.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			log := slog.New(slog.DiscardHandler)
			st, err := store.Open(store.Config{FS: root, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			w, err := Open(Config{Store: st, Policy: ec.DefaultPolicy(), Now: time.Now, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			err = w.commit([]store.Change{good, c.change}, nil)
			if !errors.Is(err, errStray) || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("commit of %s: got %v, want it refused with the path", c.bad, err)
			}
			if told := w.failed(err); fault.Of(told) != fault.Internal {
				t.Errorf("senders are told %v, want a mistake of ours", told)
			}
			if _, ok, _ := st.Read("system/overlays/index.json"); ok {
				t.Error("the change beside it was kept")
			}
			if err := errors.Join(st.Flush(), st.Checkpoint(), st.Err(), st.Close()); err != nil {
				t.Errorf("the store afterwards: %v, want it as it was", err)
			}
			err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if rel, _ := filepath.Rel(dir, p); err == nil && !d.IsDir() && !strings.HasPrefix(rel, ".ec") {
					t.Errorf("%s was written", rel)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// R-STO-02: the owned half of such a batch is written when it comes alone.
func TestWhatIsOwnedIsWritten(t *testing.T) {
	root, err := fsx.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open(store.Config{FS: root, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{cfg: Config{Store: st, Log: log}}
	err = w.keep([]store.Change{{Docs: []store.Doc{{Path: "system/overlays/index.json", Body: []byte("{}")}}, Lines: []store.Line{{Stream: "system/audit/2026-01.jsonl", Body: []byte("{}")}}}})
	if body, ok, _ := st.Read("system/overlays/index.json"); err != nil || !ok || string(body) != "{}" {
		t.Errorf("kept %q, %v: %v", body, ok, err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
