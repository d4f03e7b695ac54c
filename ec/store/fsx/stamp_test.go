package fsx_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// A change leaves another stamp, also one of the same length whose time was set
// back, one by way of a rename, and an exact copy.
func TestEveryChangeLeavesAnotherStamp(t *testing.T) {
	for name, change := range map[string]func(p string) error{
		"written over, time set back": func(p string) error {
			fi, err := os.Stat(p)
			return errors.Join(err, os.WriteFile(p, []byte("owt"), 0o600), os.Chtimes(p, fi.ModTime(), fi.ModTime()))
		},
		"replaced by a copy with its time": func(p string) error {
			fi, err := os.Stat(p)
			return errors.Join(err, os.WriteFile(p+".new", []byte("owt"), 0o600), os.Chtimes(p+".new", fi.ModTime(), fi.ModTime()), os.Rename(p+".new", p))
		},
		"moved away and back": func(p string) error { return errors.Join(os.Rename(p, p+".old"), os.Rename(p+".old", p)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, dir := root(t)
			p := filepath.Join(dir, "x")
			put(t, r, "x", "two")
			before := stamp(t, r, time.Hour)
			if before == (fsx.Stamp{}) || before.Size != 3 {
				t.Fatalf("the stamp is %+v", before)
			}
			untilLater(t, dir, before)
			if err := change(p); err != nil {
				t.Fatal(err)
			}
			if after := stamp(t, r, time.Hour); after == before || after == (fsx.Stamp{}) {
				t.Errorf("the stamp is %+v, as before the change", after)
			}
		})
	}
}

// stamp gives the stamp of "x" as it is after some time.
func stamp(t *testing.T, r *fsx.Root, later time.Duration) fsx.Stamp {
	t.Helper()
	s, err := fsx.StampAt(r, "x", time.Now().Add(later))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// untilLater makes files until the clock of the file system has ticked.
func untilLater(t *testing.T, dir string, than fsx.Stamp) {
	t.Helper()
	for range 1_000_000 {
		p := filepath.Join(dir, "tick")
		if err := errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o600)); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
		if fi.ModTime().UnixNano() > than.Changed {
			return
		}
	}
	t.Fatal("the clock does not move")
}

// A second change may follow within one tick of the clock.
func TestWhatHasJustChangedHasNoStamp(t *testing.T) {
	r, _ := root(t)
	put(t, r, "x", "two")
	if got := stamp(t, r, 0); got != (fsx.Stamp{}) {
		t.Errorf("just written: stamp %+v", got)
	}
	if got := stamp(t, r, -time.Hour); got != (fsx.Stamp{}) {
		t.Errorf("written in the future, says the clock: stamp %+v", got)
	}
}

func TestOnlyRegularFilesHaveStamps(t *testing.T) {
	r, dir := root(t)
	put(t, r, "x", "two")
	at := filepath.Join(dir, "x")
	if err := errors.Join(os.Symlink(at, filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	got, err := fsx.StampsAt(r, []string{"none", "link", "folder", "x"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"none", "link", "folder"} {
		if got[i] != (fsx.Stamp{}) {
			t.Errorf("%s: stamp %+v", name, got[i])
		}
	}
	if want := stamp(t, r, time.Hour); got[3] != want {
		t.Errorf("x: stamp %+v, want that of the open file, %+v", got[3], want)
	}
	if err := os.Symlink(filepath.Dir(dir), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Stamps("out", []string{"root"}); err == nil {
		t.Error("stamps of a folder outside were given")
	}
	for _, name := range []string{"../root", ".", "", "a/b"} {
		if _, err := r.Stamps(".", []string{name}); err == nil {
			t.Errorf("a stamp of %q was given", name)
		}
	}
}
