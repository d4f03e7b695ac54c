package app

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// A start is sparing with memory, by the size of what it will load, and leaves the
// collector as it found it.
func TestAStartLeavesTheCollectorAsItWas(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	root := t.TempDir()
	limit := debug.SetMemoryLimit(-1)
	sparing(root)()
	if err := os.MkdirAll(filepath.Join(root, ".ec"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".ec", "recall"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, ".ec", "recall"), 1<<30); err != nil {
		t.Fatal(err)
	}
	restore := sparing(root)
	if got := debug.SetMemoryLimit(-1); got != min(limit, 4<<30) {
		t.Errorf("while a large library is loaded the memory is bounded at %d", got)
	}
	restore()
	if p, l := debug.SetGCPercent(100), debug.SetMemoryLimit(-1); p != 100 || l != limit {
		t.Errorf("after the start: percent %d, limit %d; want 100 and %d", p, l, limit)
	}
}

// What one build has kept for the next start is not for another one, so each must
// have a name, and the same one at every start.
func TestABuildHasAName(t *testing.T) {
	if a, b := buildID(), buildID(); len(a) < 40 || a != b {
		t.Errorf("this program is named %q, then %q", a, b)
	}
}
