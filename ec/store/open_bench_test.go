package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
)

// BenchmarkOpenAndReadAll is what a start costs the store: 10,000 watched
// documents are taken as known, then each is read once.
func BenchmarkOpenAndReadAll(b *testing.B) {
	dir := b.TempDir()
	const n = 10_000
	text := make([]byte, 1500)
	if err := os.MkdirAll(filepath.Join(dir, "system/overlays/templates"), 0o700); err != nil {
		b.Fatal(err)
	}
	name := func(i int) string { return fmt.Sprintf("system/overlays/templates/o-%05d.md", i) }
	for i := range n {
		copy(text, fmt.Sprint(i))
		if err := os.WriteFile(filepath.Join(dir, name(i)), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		root, err := fsx.OpenRoot(dir)
		if err != nil {
			b.Fatal(err)
		}
		s, err := store.Open(store.Config{FS: root, Watch: []string{"system/overlays/templates"}})
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			if _, ok, err := s.Read(name(i)); err != nil || !ok {
				b.Fatalf("read %d: %t, %v", i, ok, err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		_ = root.Close()
	}
}
