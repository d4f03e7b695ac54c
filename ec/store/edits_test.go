package store_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/store/internal/hook"
)

func write(t *testing.T, dir, path, text string) {
	t.Helper()
	full := filepath.Join(dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o700), os.WriteFile(full, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// tell collects edits as "path=text" or "path gone".
func tell(into *[]string) func(*store.Config) {
	return func(c *store.Config) {
		c.Watch = []string{"templates"}
		c.OnEdit = func(e store.Edit) {
			if e.Gone {
				*into = append(*into, e.Path+" gone")
			} else {
				*into = append(*into, e.Path+"="+string(e.Body))
			}
		}
	}
}

func TestRescanSeesEveryKindOfHandEditOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "templates/old.md", "old")
	write(t, dir, "templates/sub/gone.md", "x")
	write(t, dir, "sessions/s.json", "{}")
	var told []string
	s := open(t, dir, tell(&told))
	commit(t, s, doc("templates/ours.md", "ours"))
	scan := func() {
		t.Helper()
		if err := errors.Join(s.Flush(), s.Rescan()); err != nil {
			t.Fatal(err)
		}
	}
	scan()
	if told != nil {
		t.Fatalf("without an edit told %v", told)
	}
	write(t, dir, "templates/old.md", "old, edited")
	write(t, dir, "templates/ours.md", "ours, edited")
	write(t, dir, "templates/new.md", "new")
	write(t, dir, "templates/.new.md.swp", "an editor's")
	write(t, dir, "sessions/s.json", "not watched")
	if err := os.Remove(filepath.Join(dir, "templates/sub/gone.md")); err != nil {
		t.Fatal(err)
	}
	scan()
	scan()
	want := []string{"templates/new.md=new", "templates/old.md=old, edited", "templates/ours.md=ours, edited", "templates/sub/gone.md gone"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Fatalf("told (-want +got):\n%s", diff)
	}
	told = nil
	commit(t, s, doc("templates/ours.md", "ours again"))
	scan()
	if got := onDisk(t, dir, "templates/ours.md"); got != "ours, edited" || told != nil {
		t.Errorf("an edit that was not accepted became %q, told %v", got, told)
	}
	if got := read(t, s, "templates/ours.md"); got != "ours again" {
		t.Errorf("the acknowledged text reads %q", got)
	}
	s.Accept("templates/ours.md", []byte("ours, edited"))
	if got := read(t, s, "templates/ours.md"); got != "ours, edited" {
		t.Errorf("the accepted text reads %q", got)
	}
	commit(t, s, doc("templates/ours.md", "on top"))
	scan()
	if got := onDisk(t, dir, "templates/ours.md"); got != "on top" || told != nil {
		t.Errorf("after accept the document is %q, told %v", got, told)
	}
}

// vanishing is a file system where a person is quick: what is about to be synced,
// or to be given its name, is taken away first.
type vanishing struct {
	fsx.FS
	dir          string
	sync, rename string // the path that goes; empty: none
}

func (v *vanishing) SyncFile(p string) error {
	if p == v.sync {
		v.sync = ""
		if err := os.Remove(filepath.Join(v.dir, p)); err != nil {
			return err
		}
	}
	return v.FS.SyncFile(p)
}

func (v *vanishing) Rename(from, to string) error {
	if to == v.rename {
		v.rename = ""
		if err := os.RemoveAll(filepath.Join(v.dir, filepath.Dir(to))); err != nil {
			return err
		}
	}
	return v.FS.Rename(from, to)
}

// R-STO-07: a file that goes away at the worst moment is a hand edit like any
// other; it never ends the store.
func TestFileTakenAwayWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	v := &vanishing{FS: root, dir: dir}
	var told []string
	cfg := store.Config{FS: v}
	tell(&told)(&cfg)
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, doc("templates/other.md", "x"))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "templates/a.md", "theirs")
	if err := s.Rescan(); err != nil {
		t.Fatal(err)
	}
	s.Accept("templates/a.md", []byte("theirs"))
	commit(t, s, doc("templates/a.md", "theirs")) // as when a hand edit is taken in
	told, v.sync = nil, "templates/a.md"
	if err := s.Flush(); err != nil {
		t.Fatalf("a file that vanished before its sync ended the store: %v", err)
	}
	if diff := cmp.Diff([]string{"templates/a.md gone"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	s.Accept("templates/a.md", nil)
	told, v.rename = nil, "templates/new.md"
	commit(t, s, doc("templates/new.md", "ours"))
	if err := errors.Join(s.Flush(), s.Flush(), s.Checkpoint()); err != nil {
		t.Fatalf("a folder that vanished ended the store: %v", err)
	}
	if got := onDisk(t, dir, "templates/new.md"); got != "ours" {
		t.Errorf("the folder is made again and the document is %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEditBetweenLookAndRenameIsNotLost(t *testing.T) {
	for name, c := range map[string]struct{ before, ours string }{
		"replaced": {"before", "ours"}, "removed": {"before", ""}, "made": {"", "ours"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.before != "" {
				write(t, dir, "templates/a.md", c.before)
			}
			root, err := fsx.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			cfg := store.Config{FS: root}
			tell(&told)(&cfg)
			s, err := store.OpenHooked(cfg, hook.Hooks{BeforePlace: func(p string) { write(t, dir, p, "theirs") }})
			if err != nil {
				t.Fatal(err)
			}
			d := store.Doc{Path: "templates/a.md"}
			if c.ours != "" {
				d.Body = []byte(c.ours)
			}
			commit(t, s, store.Change{Docs: []store.Doc{d}})
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if got := onDisk(t, dir, "templates/a.md"); got != "theirs" {
				t.Errorf("the document is %q", got)
			}
			if diff := cmp.Diff([]string{"templates/a.md=theirs"}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			told = nil
			s = open(t, dir, tell(&told)) // what was acknowledged is in the journal still
			want := c.ours
			if want == "" {
				want = "(none)"
			}
			if got := read(t, s, "templates/a.md"); got != want {
				t.Errorf("after a restart the acknowledged text reads %q, want %q", got, want)
			}
			if err := s.Flush(); err != nil || len(told) != 1 || onDisk(t, dir, "templates/a.md") != "theirs" {
				t.Errorf("after a restart: told %v, document %q, error %v", told, onDisk(t, dir, "templates/a.md"), err)
			}
		})
	}
}

// Two edits in a row, the second while the first is being put back.
func TestTextThatLosesItsPlaceIsKeptAside(t *testing.T) {
	d := disksim.New()
	s, err := store.OpenHooked(store.Config{FS: d}, hook.Hooks{BeforePlace: func(p string) { d.Put(p, []byte("first edit")) }})
	if err != nil {
		t.Fatal(err)
	}
	d.Put("a.md", []byte("before"))
	commit(t, s, doc("a.md", "ours"))
	d.Before = func(_ int, what string) {
		if what == "exchange a.md" && string(d.Files()["a.md"]) == "ours" {
			d.Put("a.md", []byte("second edit"))
		}
	}
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	d.Before = nil
	var texts []string
	for name, text := range d.PowerCut(disksim.Harshest()).Files() {
		if name == "a.md" || strings.HasPrefix(name, ".ec/kept/") {
			texts = append(texts, string(text))
		}
	}
	slices.Sort(texts)
	if diff := cmp.Diff([]string{"first edit", "second edit"}, texts); diff != "" {
		t.Errorf("texts of people on the disk (-want +got):\n%s", diff)
	}
}

func TestRunWritesBehindChecksPointsAndRescansInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disksim.New()
		var told []string
		cfg := store.Config{FS: d}
		tell(&told)(&cfg)
		s, err := store.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		commit(t, s, doc("templates/a.md", "ours"))
		wait := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		wait(time.Second)
		if got := string(d.Files()["templates/a.md"]); got != "ours" {
			t.Errorf("a second after the commit the document is %q", got)
		}
		d.Put("templates/a.md", []byte("theirs"))
		wait(2 * time.Second)
		if diff := cmp.Diff([]string{"templates/a.md=theirs"}, told); diff != "" {
			t.Errorf("told within one rescan (-want +got):\n%s", diff)
		}
		wait(30 * time.Second)
		harsh := d.PowerCut(disksim.Harshest())
		if _, err := store.Open(store.Config{FS: harsh}); err != nil || string(harsh.Files()["templates/a.md"]) != "theirs" {
			t.Errorf("after a checkpoint and a power cut: %q, error %v", harsh.Files()["templates/a.md"], err)
		}
		commit(t, s, doc("last", "x"))
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run ended with %v", err)
		}
		if string(d.Files()["last"]) != "x" {
			t.Error("run ended without writing the last document")
		}
	})
}

// stamped is a file system whose stamps a test makes up, and which tells what is read.
type stamped struct {
	fsx.FS
	stamps  map[string]fsx.Stamp
	settled bool

	mu   sync.Mutex // a start reads side by side
	read []string
}

func (f *stamped) stamp(p string) fsx.Stamp {
	if !f.settled {
		return fsx.Stamp{}
	}
	return stdcmp.Or(f.stamps[p], fsx.Stamp{Inode: 1})
}

func (f *stamped) Stamps(dir string, names []string) ([]fsx.Stamp, error) {
	out := make([]fsx.Stamp, len(names))
	for i, name := range names {
		out[i] = f.stamp(dir + "/" + name)
	}
	return out, nil
}

// withStamp is an open file with the stamp that it had.
type withStamp struct {
	io.ReadCloser
	stamp fsx.Stamp
}

func (w withStamp) Stamp() fsx.Stamp { return w.stamp }

func (f *stamped) Open(p string) (io.ReadCloser, error) {
	if strings.HasPrefix(p, "templates/") {
		f.mu.Lock()
		f.read = append(f.read, p)
		f.mu.Unlock()
	}
	r, err := f.FS.Open(p)
	if err != nil {
		return nil, err
	}
	return withStamp{r, f.stamp(p)}, nil
}

// A look through the folders reads what changed since the last one and no more; where
// the clock cannot tell, and now and then, it reads everything.
func TestRescanReadsWhatChanged(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "templates/a.md", "a")
	write(t, dir, "templates/b.md", "b")
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	files := &stamped{FS: root, stamps: map[string]fsx.Stamp{}, settled: true}
	s := open(t, dir, tell(&told), func(c *store.Config) { c.FS = files })
	scan := func(what string, want ...string) {
		t.Helper()
		files.read = nil
		if err := s.Rescan(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, files.read); diff != "" {
			t.Errorf("%s: read (-want +got):\n%s", what, diff)
		}
	}
	scan("the first time, after the start has read them")
	scan("nothing happened")
	write(t, dir, "templates/b.md", "b, edited")
	files.stamps["templates/b.md"] = fsx.Stamp{Changed: 1}
	scan("one was changed", "templates/b.md")
	if len(told) != 1 || told[0] != "templates/b.md=b, edited" {
		t.Fatalf("told %v, want the edit", told)
	}
	scan("it was told")
	files.settled = false
	scan("a change may have left the stamp as it was", "templates/a.md", "templates/b.md")
	scan("still", "templates/a.md", "templates/b.md")
	files.settled = true
	scan("settled again", "templates/a.md", "templates/b.md")
	quiet := 0
	for range 2 * store.EverythingAgain {
		files.read = nil
		if err := s.Rescan(); err != nil {
			t.Fatal(err)
		}
		if len(files.read) == 0 {
			quiet++
		}
	}
	if want := 2*store.EverythingAgain - 2; quiet != want {
		t.Errorf("%d looks read nothing, want %d: everything is read again now and then", quiet, want)
	}
}
