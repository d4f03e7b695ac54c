package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/cli"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/internal/fault"
)

// Beside a running server a document may be on its way to the disk while it is
// read; what is wrong is looked at again, a little longer than that takes.
const (
	looks     = 4
	lookAgain = 1500 * time.Millisecond
)

// VerifySession checks a session's receipts against the files of a data root. A
// root that nobody has open is first brought to where its journal leads; one that
// a server has open, or that cannot be written, is only read.
func (s Servers) VerifySession(ctx context.Context, memory, file string) (cli.SessionReport, error) {
	var r cli.SessionReport
	if _, err := os.Stat(memory); err != nil {
		return r, fmt.Errorf("look at the data root: %w", err)
	}
	root, err := fsx.OpenRoot(memory)
	if err != nil {
		return r, fmt.Errorf("open the data root: %w", err)
	}
	st, err := store.Open(store.Config{FS: root, Log: slog.New(slog.DiscardHandler)})
	switch {
	case err == nil:
		found, err := ec.CheckSession(st, file)
		return report(found), errors.Join(err, st.Close())
	case fault.Code(err) == "store_locked":
		r.Running = true
	case !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS):
		return r, err
	}
	return lookUntilSteady(ctx, disk{root}, file, r.Running)
}

// lookUntilSteady looks again while something is missing, until two looks agree.
func lookUntilSteady(ctx context.Context, from disk, file string, running bool) (cli.SessionReport, error) {
	var before *ec.SessionCheck
	for look := 1; ; look++ {
		found, err := ec.CheckSession(from, file)
		r := report(found)
		r.Running = running
		clean := err == nil && len(found.Problems)+len(found.Notes) == 0
		steady := before != nil && reflect.DeepEqual(*before, found)
		if clean || steady || !running || look == looks || err != nil && fault.Of(err) != fault.NotFound {
			return r, err
		}
		before = &found
		again := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return r, ctx.Err()
		case <-again.C:
		}
	}
}

func report(c ec.SessionCheck) cli.SessionReport {
	r := cli.SessionReport{SessionKey: c.SessionKey, Receipts: c.Receipts, Recomputed: c.Recomputed}
	for _, f := range c.Problems {
		r.Problems = append(r.Problems, cli.VerifyProblem(f))
	}
	for _, f := range c.Notes {
		r.Notes = append(r.Notes, cli.VerifyProblem(f))
	}
	return r
}

// disk is a data root as it lies there, without its journal.
type disk struct{ fs fsx.FS }

// Read gives a document; false when there is none.
func (d disk) Read(path string) ([]byte, bool, error) {
	b, err := fsx.ReadFile(d.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", path, err)
	}
	return b, true, nil
}

// List gives the files directly in a folder, sorted; a missing folder is empty.
func (d disk) List(prefix string) ([]string, error) {
	entries, err := d.fs.List(strings.TrimSuffix(prefix, "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	var out []string
	for _, e := range entries {
		if e.Regular {
			out = append(out, prefix+e.Name)
		}
	}
	return out, nil
}

// ReadStream calls fn with every whole line of a stream: the last one may be
// being written.
func (d disk) ReadStream(path string, fn func(line []byte) error) error {
	b, _, err := d.Read(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(b) {
		if whole, ok := bytes.CutSuffix(line, []byte("\n")); ok {
			if err := fn(whole); err != nil {
				return err
			}
		}
	}
	return nil
}
