package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/fsx"
)

// R-STO-05, R-STO-06: readers, write-behind, checkpoints and rescans run beside
// the writer, and a reader sees a document only go forward.
func TestReadersSeeAcknowledgedTextsOnly(t *testing.T) {
	const changes = 400
	dir := t.TempDir()
	s := open(t, dir, func(c *store.Config) {
		c.WriteBehind, c.Checkpoint, c.Rescan = time.Millisecond, 5*time.Millisecond, 3*time.Millisecond
		c.Watch = []string{"d"}
		c.OnEdit = func(e store.Edit) { t.Errorf("our own write was told as an edit: %s %q", e.Path, e.Body) }
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	commit(t, s, numbered(0))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			last := 0
			for {
				select {
				case <-done:
					return
				default:
				}
				b, ok, err := s.Read("d/a.json")
				var n int
				if err != nil || !ok || json.Unmarshal(b, &n) != nil || n < last {
					t.Errorf("read gives %q, %t, %v after %d", b, ok, err, last)
					return
				}
				last = n
				count := 0
				if err := s.ReadStream("s.jsonl", func([]byte) error { count++; return nil }); err != nil || count < last+1 {
					t.Errorf("%d lines, error %v, when the document was at %d", count, err, last)
					return
				}
				if list, err := s.List("d"); err != nil || len(list) != 2 {
					t.Errorf("list gives %v, %v", list, err)
					return
				}
			}
		})
	}
	for n := 1; n <= changes; n++ {
		commit(t, s, numbered(n))
	}
	close(done)
	wg.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, want := onDisk(t, dir, "d/a.json"), fmt.Sprint(changes); got != want {
		t.Errorf("at the end the document is %q, want %q", got, want)
	}
}

func numbered(n int) store.Change {
	text := []byte(fmt.Sprint(n))
	return store.Change{
		Docs:  []store.Doc{{Path: "d/a.json", Body: text}, {Path: "d/b.json", Body: text}},
		Lines: []store.Line{{Stream: "s.jsonl", Body: text}},
	}
}

// One sync for a whole batch, so that many commands share it.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := benchStore(b)
			batch := make([]store.Change, size)
			for i := range batch {
				batch[i] = numbered(i)
			}
			for b.Loop() {
				if err := s.Commit(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}

func benchStore(b *testing.B) *store.Store {
	b.Helper()
	root, err := fsx.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(store.Config{FS: root})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		_ = s.Close()
	})
	return s
}
