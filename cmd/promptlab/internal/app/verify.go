package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/internal/fault"
)

// Verify checks a data root: the audit is an unbroken chain, every document of
// ours can be read, and index and metadata say what the overlays say. Beside a
// running server only the audit is checked: the rest is on its way to the disk.
func (s Servers) Verify(memory string) (cli.VerifyReport, error) {
	var r cli.VerifyReport
	if _, err := os.Stat(memory); err != nil {
		return r, fmt.Errorf("look at the data root: %w", err)
	}
	root, err := fsx.OpenRoot(memory)
	if err != nil {
		return r, fmt.Errorf("open the data root: %w", err)
	}
	st, err := store.Open(store.Config{FS: root, Log: slog.New(slog.DiscardHandler)})
	switch {
	case fault.Code(err) == "store_locked":
		r.Running = true
		return r, verifyAudit(memory, &r)
	case err != nil:
		r.Problems = append(r.Problems, cli.VerifyProblem{Message: err.Error()})
		return r, nil
	}
	if err := verifyAudit(memory, &r); err != nil {
		return r, errors.Join(err, st.Close())
	}
	verifyState(st, &r)
	return r, st.Close()
}

// verifyAudit follows the chain of the audit through its files.
func verifyAudit(memory string, r *cli.VerifyReport) error {
	files, err := filepath.Glob(filepath.Join(memory, "system", "audit", "*.jsonl"))
	if err != nil {
		return fmt.Errorf("list the audit: %w", err)
	}
	slices.Sort(files)
	prev := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the audit: %w", err)
		}
		lines := strings.SplitAfter(string(b), "\n")
		for i, line := range lines {
			if line == "" || r.Running && !strings.HasSuffix(line, "\n") {
				continue // the end, or a line that is being written now
			}
			l, err := ec.CheckAuditLine([]byte(strings.TrimSuffix(line, "\n")), prev)
			if err != nil {
				r.Problems = append(r.Problems, cli.VerifyProblem{File: path.Join("system/audit", filepath.Base(f)), Line: i + 1, Message: err.Error()})
				return nil // what follows a broken link says nothing
			}
			prev = l.Hash
			r.AuditLines++
			r.Revision = l.Seq
		}
	}
	return nil
}

// verifyState loads everything as a server would, and compares what is derived.
func verifyState(st *store.Store, r *cli.VerifyReport) {
	files, err := st.List("")
	if err != nil {
		r.Problems = append(r.Problems, cli.VerifyProblem{Message: err.Error()})
		return
	}
	r.Files = len(files)
	state, err := ec.Load(st, ec.DefaultPolicy(), "")
	if err != nil {
		r.Problems = append(r.Problems, cli.VerifyProblem{Message: err.Error()})
		return
	}
	view := ec.NewView(state)
	for _, d := range view.Derived() {
		have, ok, err := st.Read(d.Path)
		if err != nil || ok && string(have) != string(d.Body) {
			r.Problems = append(r.Problems, cli.VerifyProblem{File: d.Path, Message: "does not say what the overlays say; a server rebuilds it at its next start"})
		}
	}
	for _, w := range view.Status().Warnings {
		r.Problems = append(r.Problems, cli.VerifyProblem{File: w.Subject, Message: w.Message})
	}
}
