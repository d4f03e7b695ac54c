package store_test

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/ec/store/internal/hook"
)

// counted is a disk that counts how often each file is opened for reading.
type counted struct {
	*disksim.Disk
	mu    sync.Mutex
	opens map[string]int
}

func (c *counted) Open(name string) (io.ReadCloser, error) {
	c.mu.Lock()
	c.opens[name]++
	c.mu.Unlock()
	return c.Disk.Open(name)
}

func template(i int) string { return fmt.Sprintf("templates/%03d.md", i) }

// library is a disk with n documents in the watched folder, just opened.
func library(t *testing.T, n int, h hook.Hooks) (*counted, *store.Store, *[]string) {
	t.Helper()
	d := &counted{Disk: disksim.New(), opens: map[string]int{}}
	if err := d.MkdirAll("templates"); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d.Put(template(i), fmt.Appendf(nil, "text %d", i))
	}
	told := &[]string{}
	cfg := store.Config{FS: d}
	tell(told)(&cfg)
	s, err := store.OpenHooked(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	return d, s, told
}

func TestAStartOpensEachWatchedDocumentOnce(t *testing.T) {
	const n = 300
	d, s, _ := library(t, n, hook.Hooks{})
	for i := range n {
		if got, want := read(t, s, template(i)), fmt.Sprintf("text %d", i); got != want {
			t.Fatalf("%s reads %q, want %q", template(i), got, want)
		}
		if got := d.opens[template(i)]; got != 1 {
			t.Fatalf("%s was opened %d times before its first reader had it", template(i), got)
		}
	}
	d.Put(template(7), []byte("theirs"))
	if got := read(t, s, template(7)); got != "theirs" {
		t.Errorf("the second reader gets %q, want what lies there", got)
	}
}

// What was kept at the start never hides what came after it.
func TestTheTextOfTheStartHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(d *counted, s *store.Store) error
		want string
	}{
		"a change": {func(_ *counted, s *store.Store) error {
			commit(t, s, doc(template(0), "ours"))
			return s.Flush()
		}, "ours"},
		"a removal": {func(_ *counted, s *store.Store) error {
			commit(t, s, store.Change{Docs: []store.Doc{{Path: template(0)}}})
			return s.Flush()
		}, "(none)"},
		"an edit that was accepted": {func(d *counted, s *store.Store) error {
			d.Put(template(0), []byte("theirs"))
			s.Accept(template(0), []byte("theirs"))
			return nil
		}, "theirs"},
		"an edit that was seen": {func(d *counted, s *store.Store) error {
			d.Put(template(0), []byte("theirs"))
			return s.Rescan()
		}, "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			d, s, _ := library(t, 2, hook.Hooks{})
			if err := c.do(d, s); err != nil {
				t.Fatal(err)
			}
			if got := read(t, s, template(0)); got != c.want {
				t.Errorf("reads %q, want %q", got, c.want)
			}
		})
	}
}

// An edit between the start and the first reader is told, whichever text that
// reader got.
func TestAnEditBeforeTheFirstReaderIsTold(t *testing.T) {
	d, s, told := library(t, 2, hook.Hooks{})
	d.Put(template(0), []byte("theirs"))
	if got := read(t, s, template(0)); got != "text 0" {
		t.Errorf("the first reader gets %q, want the text that the store knows", got)
	}
	if err := s.Rescan(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{template(0) + "=theirs"}, *told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestAStartKeepsNoMoreThanItsBound(t *testing.T) {
	const n = 40 // of 6 or 7 bytes each
	d, s, _ := library(t, n, hook.Hooks{KeepAtStart: 70})
	again := 0
	for i := range n {
		if got, want := read(t, s, template(i)), fmt.Sprintf("text %d", i); got != want {
			t.Fatalf("%s reads %q, want %q", template(i), got, want)
		}
		again += d.opens[template(i)] - 1
	}
	if kept := n - again; kept < 8 || kept > 11 {
		t.Errorf("%d texts of 6 or 7 bytes were kept, the bound is 70 bytes", kept)
	}
}

// A document that cannot be read at the start stops it, and the lock is free.
func TestAStartThatCannotReadADocumentStops(t *testing.T) {
	d, s, _ := library(t, 50, hook.Hooks{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	bad := &failing{FS: d.Disk, path: template(31)}
	cfg := store.Config{FS: bad, Watch: []string{"templates"}}
	if _, err := store.Open(cfg); err == nil {
		t.Fatal("it started")
	}
	bad.path = ""
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatalf("once it can be read: %v", err)
	}
	if got := read(t, s, template(31)); got != "text 31" {
		t.Errorf("once it can be read it reads %q", got)
	}
}

type failing struct {
	fsx.FS
	path string
}

func (f *failing) Open(name string) (io.ReadCloser, error) {
	if name == f.path {
		return nil, io.ErrUnexpectedEOF
	}
	return f.FS.Open(name)
}
