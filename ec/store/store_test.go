package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/internal/fault"
)

func open(t *testing.T, dir string, set ...func(*store.Config)) *store.Store {
	t.Helper()
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := store.Config{FS: root}
	for _, f := range set {
		f(&cfg)
	}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	t.Cleanup(func() { _ = s.Close(); _ = root.Close() })
	return s
}

func doc(path, body string) store.Change {
	return store.Change{Docs: []store.Doc{{Path: path, Body: []byte(body)}}}
}

func commit(t *testing.T, s *store.Store, batch ...store.Change) {
	t.Helper()
	if err := s.Commit(batch); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func read(t *testing.T, s *store.Store, path string) string {
	t.Helper()
	b, ok, err := s.Read(path)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	if !ok {
		return "(none)"
	}
	return string(b)
}

func lines(t *testing.T, s *store.Store, stream string) []string {
	t.Helper()
	var out []string
	if err := s.ReadStream(stream, func(l []byte) error { out = append(out, string(l)); return nil }); err != nil {
		t.Fatalf("read stream %s: %v", stream, err)
	}
	return out
}

func onDisk(t *testing.T, dir, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStoreKeepsDocumentsAndStreams(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s,
		store.Change{
			Docs:  []store.Doc{{Path: "a/one.md", Body: []byte("first\x00\xff")}, {Path: "b.json", Body: []byte("{}")}},
			Lines: []store.Line{{Stream: "audit/2026.jsonl", Body: []byte(`{"n":1}`)}, {Stream: "audit/2026.jsonl", Body: []byte(`{"n":2}`)}},
		},
		doc("empty", ""),
	)
	check := func(s *store.Store, when string) {
		t.Helper()
		if got := read(t, s, "a/one.md"); got != "first\x00\xff" {
			t.Errorf("%s: a/one.md is %q", when, got)
		}
		if got := read(t, s, "empty"); got != "" {
			t.Errorf("%s: empty is %q", when, got)
		}
		if diff := cmp.Diff([]string{`{"n":1}`, `{"n":2}`}, lines(t, s, "audit/2026.jsonl")); diff != "" {
			t.Errorf("%s: stream (-want +got):\n%s", when, diff)
		}
		got, err := s.List("")
		if diff := cmp.Diff([]string{"a/one.md", "audit/2026.jsonl", "b.json", "empty"}, got); err != nil || diff != "" {
			t.Errorf("%s: list (-want +got), error %v:\n%s", when, err, diff)
		}
	}
	check(s, "before write-behind")
	if got := onDisk(t, dir, "b.json"); got != "(none)" {
		t.Errorf("document is on the disk before write-behind: %q", got)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	check(s, "after write-behind")
	if got := onDisk(t, dir, "b.json"); got != "{}" {
		t.Errorf("document after write-behind is %q", got)
	}
	commit(t, s, store.Change{Docs: []store.Doc{{Path: "b.json"}, {Path: "c/b.json", Body: []byte("{}")}}})
	if got, _ := s.List("c"); !cmp.Equal(got, []string{"c/b.json"}) || read(t, s, "b.json") != "(none)" {
		t.Errorf("after a move: list c = %v, b.json = %s", got, read(t, s, "b.json"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if read(t, s, "b.json") != "(none)" || read(t, s, "c/b.json") != "{}" {
		t.Error("the move did not survive a restart")
	}
}

// R-SYS-02
func TestSecondOpenIsLockedOut(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(store.Config{FS: root}); fault.Code(err) != "store_locked" || fault.Of(err) != fault.Conflict {
		t.Errorf("second open: got %v, want store_locked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

// R-SEC-03, R-STO-05
func TestCommitRefusesABadBatchAsAWhole(t *testing.T) {
	long := make([]byte, 256)
	for i := range long {
		long[i] = 'x'
	}
	s := open(t, t.TempDir())
	var batch []store.Change
	bad := []string{"", ".", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a\x00b", string(long), ".ec/lock", ".ec", "a/.ec-tmp-1", "a\xff"}
	for _, p := range bad {
		batch = append(batch, doc(p, "x"))
	}
	batch = append(batch, doc("good", "x"))
	badLines := []string{"", "{", "{}\n{}", "{}\n", "\"\xff\"", "{} {}"}
	for _, l := range badLines {
		batch = append(batch, store.Change{Lines: []store.Line{{Stream: "s.jsonl", Body: []byte(l)}}})
	}
	err := s.Commit(batch)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Invalid {
		t.Fatalf("got %v, want a validation fault", err)
	}
	var got, want []string
	for _, d := range f.Details {
		got = append(got, d.Field)
	}
	for i := range bad {
		want = append(want, fmt.Sprintf("batch[%d].docs[0].path", i))
	}
	for i := range badLines {
		want = append(want, fmt.Sprintf("batch[%d].lines[0].body", len(bad)+1+i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("named fields (-want +got):\n%s", diff)
	}
	if all, _ := s.List(""); len(all) != 0 || s.Err() != nil {
		t.Errorf("after a refused batch: files %v, error %v", all, s.Err())
	}
}

func TestPathsThatContradictEachOtherAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	commit(t, s, doc("file", "x"), doc("folder/x", "x"), store.Change{Lines: []store.Line{{Stream: "s", Body: []byte("1")}}})
	for _, flushed := range []bool{false, true} {
		for _, p := range []string{"file/below", "folder", "s", "s/below", "link", "link/below"} {
			if err := s.Commit([]store.Change{doc(p, "y")}); fault.Code(err) != "path_conflict" {
				t.Errorf("flushed %t: document %q: got %v, want path_conflict", flushed, p, err)
			}
		}
		for _, p := range []string{"file/below", "folder", "link"} {
			err := s.Commit([]store.Change{{Lines: []store.Line{{Stream: p, Body: []byte("1")}}}})
			if fault.Code(err) != "path_conflict" {
				t.Errorf("flushed %t: stream %q: got %v, want path_conflict", flushed, p, err)
			}
		}
		if err := s.Flush(); err != nil {
			t.Fatalf("flush: %v", err)
		}
	}
	commit(t, s, doc("after", "x"))
}
