package fsx_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// R-SEC-03: a folder with more names than the kernel tells at a time is listed whole
// and in order, and what is neither a file nor a folder is neither.
func TestAFolderIsListedWhole(t *testing.T) {
	r, dir := root(t)
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%s", i, strings.Repeat("n", i%200))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink("folder", filepath.Join(dir, "link")),
		os.Symlink("nowhere", filepath.Join(dir, "loose")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var want []fsx.Entry
	for _, n := range names {
		want = append(want, fsx.Entry{Name: n.Name(), Dir: n.IsDir(), Regular: n.Type().IsRegular()})
	}
	got, err := r.List(".")
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("list of %d names: %v (-want +got):\n%s", len(want), err, d)
	}
	if got, err := r.List("folder"); len(got) != 0 || err != nil {
		t.Errorf("list of an empty folder: %v, %v", got, err)
	}
	if _, err := r.List("pipe"); err == nil {
		t.Error("a pipe was listed")
	}
}

// Some file systems do not say what a name is: it is looked at then.
func TestNamesOfUnknownKindAreLookedAt(t *testing.T) {
	r, dir := root(t)
	put(t, r, "x", "one")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	record := func(name string, kind byte) []byte {
		b := make([]byte, (19+len(name)+1+7)/8*8)
		binary.NativeEndian.PutUint64(b, 1)
		binary.NativeEndian.PutUint16(b[16:], uint16(len(b)))
		b[18] = kind
		copy(b[19:], name)
		return b
	}
	var all []byte
	for _, name := range []string{".", "..", "x", "folder", "gone"} {
		all = append(all, record(name, syscall.DT_UNKNOWN)...)
	}
	all = append(all, record("link", syscall.DT_LNK)...)
	got, err := fsx.Records(r, all)
	want := []fsx.Entry{{Name: "x", Regular: true}, {Name: "folder", Dir: true}, {Name: "link"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("names of unknown kind: %v (-want +got):\n%s", err, d)
	}
	for n := range len(all) { // nothing that is cut short is read beyond its end
		got, err := fsx.Records(r, all[:n:n])
		if err == nil && len(got) > len(want) {
			t.Errorf("cut after %d bytes: %v", n, got)
		}
	}
}
