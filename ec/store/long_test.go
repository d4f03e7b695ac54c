package store_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

// R-STO-05: however long lines are, and wherever they lie in what is read at a
// time, each is read as it was written; a torn one at the end is cut off.
func TestLinesOfEveryLengthAreReadWhole(t *testing.T) {
	const chunk = store.StreamChunk
	line := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, lengths := range [][]int{
		{chunk - 2, 5}, {chunk - 1, 5}, {chunk, 5}, {chunk + 1, 5}, {5, chunk, 5}, {3*chunk + 7, 2, 2}, {2, 2 * chunk, chunk - 3, 2}, slices.Repeat([]int{997}, 1000),
	} {
		var want []string
		for _, n := range lengths {
			want = append(want, line(n))
		}
		text := strings.Join(want, "\n")
		for name, torn := range map[string]string{"a newline": "\n", "no newline": "", "a short torn line": "\n{", "a long torn line": "\n{" + strings.Repeat("y", chunk)} {
			d := disksim.New()
			d.Put("s.jsonl", []byte(text+torn))
			s := onSim(t, d)
			if got := lines(t, s, "s.jsonl"); !slices.Equal(got, want) {
				t.Errorf("lines of %d, then %s: read %d lines that are not those", lengths[:min(4, len(lengths))], name, len(got))
			}
			commit(t, s, store.Change{Lines: []store.Line{{Stream: "s.jsonl", Body: []byte(`3`)}}})
			if got := lines(t, s, "s.jsonl"); !slices.Equal(got, append(slices.Clip(want), "3")) {
				t.Errorf("lines of %d, then %s, then one more: %d lines that are not those", lengths[:min(4, len(lengths))], name, len(got))
			}
		}
	}
}

// A stream grows for years: neither reading it nor taking it up holds all of it.
func TestALongStreamIsNotHeldInMemory(t *testing.T) {
	dir := t.TempDir()
	const size = 64 << 20
	if err := os.WriteFile(filepath.Join(dir, "s.jsonl"), []byte(strings.Repeat(strings.Repeat("1", 1023)+"\n", size>>10)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := s.ReadStream("s.jsonl", func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Change{Lines: []store.Line{{Stream: "s.jsonl", Body: []byte(`3`)}}})
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > size/8 {
		t.Errorf("reading a stream of %d MB and adding a line took %d MB of memory, want next to nothing", size>>20, used>>20)
	}
}
