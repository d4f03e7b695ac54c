package writer_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/ec/writer"
)

// looks counts how often the index was compared with what it should be.
type looks struct {
	*store.Store
	n atomic.Int64
}

func (l *looks) Read(p string) ([]byte, bool, error) {
	if p == "system/overlays/index.json" {
		l.n.Add(1)
	}
	return l.Store.Read(p)
}

// R-STO-12: index and metadata follow the library within a moment; what happens to
// sessions makes no work for them.
func TestIndexAndMetadataFollowTheLibraryAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{FS: disksim.New(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		kept := &looks{Store: s}
		w, err := writer.Open(writer.Config{Store: kept, Policy: ec.DefaultPolicy(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		kept.n.Store(0) // those of the load
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		after := func(b ec.Body) (index string, looked int64) {
			t.Helper()
			if _, err := w.Do(context.Background(), ec.Command{Actor: ectest.User, Body: b}); err != nil {
				t.Fatal(err)
			}
			before := kept.n.Load()
			<-time.After(3 * time.Second)
			synctest.Wait()
			looked = kept.n.Load() - before
			body, _, err := s.Read("system/overlays/index.json")
			if err != nil {
				t.Fatal(err)
			}
			return string(body), looked
		}
		index, looked := after(ec.CreateOverlay{Record: ectest.Overlay("first", text)})
		if want := string(w.View().Derived()[0].Body); index != want || looked != 1 {
			t.Errorf("after an overlay was made: looked %d times, index\n%s\nwant\n%s", looked, index, want)
		}
		was := index
		for _, name := range []string{"one", "two", "three"} {
			index, looked = after(ec.ActivateOverlay{Key: surfaceKey(contracts.SurfaceChat, name), OverlayID: "first", Source: contracts.FromManual})
			if index != was || looked != 0 {
				t.Errorf("after a session's command: looked at the index %d times, want none", looked)
			}
		}
		index, looked = after(ec.ArchiveOverlay{OverlayID: "first"})
		if want := string(w.View().Derived()[0].Body); index != want || index == was || looked != 1 {
			t.Errorf("after an overlay was archived: looked %d times, index\n%s\nwant\n%s", looked, index, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
