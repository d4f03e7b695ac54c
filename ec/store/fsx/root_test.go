package fsx_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/ec/store/fsx"
)

func root(t *testing.T) (*fsx.Root, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := fsx.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, filepath.Join(dir, "root")
}

func put(t *testing.T, f fsx.FS, name, text string) {
	t.Helper()
	h, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Sync(), h.Close()); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, f fsx.FS, name string) string {
	t.Helper()
	b, err := fsx.ReadFile(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Both implementations keep one contract.
func TestContract(t *testing.T) {
	r, _ := root(t)
	walking, _ := root(t)
	fsx.WalkOnly(walking)
	for name, f := range map[string]fsx.FS{"root": r, "root, walking": walking, "simulated": disksim.New()} {
		t.Run(name, func(t *testing.T) {
			want := func(what string, err, is error) {
				t.Helper()
				if !errors.Is(err, is) || (is == nil) != (err == nil) {
					t.Errorf("%s: got %v, want %v", what, err, is)
				}
			}
			want("mkdir", f.MkdirAll("a/b"), nil)
			want("mkdir again", f.MkdirAll("a/b"), nil)
			put(t, f, "a/x", "one")
			put(t, f, "a/y", "two")
			_, err := f.Create("a/x")
			want("create over a file", err, fs.ErrExist)
			want("rename over a file", f.Rename("a/x", "a/y"), fs.ErrExist)
			want("rename of nothing", f.Rename("a/none", "a/z"), fs.ErrNotExist)
			want("exchange", f.Exchange("a/x", "a/y"), nil)
			want("exchange with nothing", f.Exchange("a/x", "a/none"), fs.ErrNotExist)
			if get(t, f, "a/x") != "two" || get(t, f, "a/y") != "one" {
				t.Error("exchange did not swap")
			}
			h, err := f.OpenAppend("a/x")
			want("append", err, nil)
			_, err = h.Write([]byte(" more"))
			want("write", err, nil)
			want("close", h.Close(), nil)
			want("truncate", f.Truncate("a/y", 1), nil)
			if get(t, f, "a/x") != "two more" || get(t, f, "a/y") != "o" {
				t.Errorf("after append and truncate: %q, %q", get(t, f, "a/x"), get(t, f, "a/y"))
			}
			_, err = f.OpenAppend("a/none")
			want("append to nothing", err, fs.ErrNotExist)
			_, err = f.Open("a/b")
			want("open of a folder", err, fsx.ErrNotRegular)
			_, err = f.Open("a/none")
			want("open of nothing", err, fs.ErrNotExist)
			_, err = f.Open("none/x")
			want("open of nothing in nothing", err, fs.ErrNotExist)
			put(t, f, "a/empty", "")
			if got := get(t, f, "a/empty"); got != "" {
				t.Errorf("an empty file reads %q", got)
			}
			want("remove", f.Remove("a/empty"), nil)
			if f.Remove("a/b") == nil || f.Rename("a/x", "a/b/x") == nil {
				t.Error("removed a folder, or renamed into another one")
			}
			want("sync of a file", f.SyncFile("a/x"), nil)
			want("sync of a folder", errors.Join(f.SyncDir("a"), f.SyncDir(".")), nil)
			want("mkdir below a file", f.MkdirAll("a/x/z"), syscall.ENOTDIR)
			list, err := f.List("a")
			want("list", err, nil)
			if len(list) != 3 || list[0].Name != "b" || !list[0].Dir || list[1].Name != "x" || !list[1].Regular {
				t.Errorf("list gives %+v", list)
			}
			lock, err := f.Lock("a/lock")
			want("lock", err, nil)
			_, err = f.Lock("a/lock")
			want("second lock", err, fsx.ErrLocked)
			want("unlock", lock.Close(), nil)
			lock, err = f.Lock("a/lock")
			want("lock after unlock", err, nil)
			want("unlock", lock.Close(), nil)
		})
	}
}

// R-SEC-03
func TestNoPathLeavesTheRoot(t *testing.T) {
	t.Run("short way", func(t *testing.T) { r, dir := root(t); noPathLeaves(t, r, dir) })
	t.Run("walking", func(t *testing.T) { r, dir := root(t); fsx.WalkOnly(r); noPathLeaves(t, r, dir) })
}

func noPathLeaves(t *testing.T, r *fsx.Root, dir string) {
	t.Helper()
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := errors.Join(os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "way")), os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")),
		os.WriteFile(filepath.Join(dir, "inside"), []byte("i"), 0o600), os.Symlink("inside", filepath.Join(dir, "near")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"../outside/secret", "/etc/passwd", "way/secret", "link", "near", "pipe", "a/../../outside/secret", "x\x00"} {
		if _, err := r.Open(p); err == nil {
			t.Errorf("open %q worked", p)
		}
		if _, err := r.OpenAppend(p); err == nil {
			t.Errorf("append to %q worked", p)
		}
		if err := r.Truncate(p, 0); err == nil {
			t.Errorf("truncate %q worked", p)
		}
		if _, err := r.Create(p); err == nil {
			t.Errorf("create %q worked", p)
		}
	}
	for _, p := range []string{"way/new", "../outside/new"} {
		if _, err := r.Create(p); err == nil {
			t.Errorf("create %q worked", p)
		}
		if err := r.MkdirAll(p); err == nil {
			t.Errorf("mkdir %q worked", p)
		}
	}
	for _, p := range []string{"way/secret", "../outside/secret"} {
		if err := r.Remove(p); err == nil {
			t.Errorf("remove %q worked", p)
		}
	}
	names, err := os.ReadDir(outside)
	if err != nil || len(names) != 1 {
		t.Errorf("outside there is now %v, %v", names, err)
	}
}

// A process that is being started has every open file until it becomes another
// program. A lock that was given up in that moment is free all the same.
func TestALockThatWasGivenUpIsFreeWhoeverHasItsFile(t *testing.T) {
	r, _ := root(t)
	lock, err := r.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	let, err := fsx.Share(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := r.Lock("lock")
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	if err := errors.Join(again.Close(), let()); err != nil {
		t.Error(err)
	}
}
