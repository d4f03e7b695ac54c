package store_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/elnor/promptlab/internal/fault"
)

func onSim(t *testing.T, d *disksim.Disk, set ...func(*store.Config)) *store.Store {
	t.Helper()
	cfg := store.Config{FS: d}
	for _, f := range set {
		f(&cfg)
	}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// R-CMD-08
func TestAnErrorOfTheDiskPoisons(t *testing.T) {
	d := disksim.New()
	s := onSim(t, d)
	commit(t, s, doc("a", "1"))
	d.Inject(&disksim.Fault{At: d.Calls() + 1, Kind: disksim.EIO}) // the write works, the sync does not
	err := s.Commit([]store.Change{doc("b", "2")})
	if fault.Code(err) != "store_poisoned" || fault.Of(err) != fault.Unavailable || !errors.Is(err, syscall.EIO) {
		t.Fatalf("commit with a failing sync: got %v, want store_poisoned", err)
	}
	if err := s.Commit([]store.Change{doc("c", "3")}); fault.Code(err) != "store_poisoned" {
		t.Errorf("commit after it: got %v", err)
	}
	if err := s.Run(context.Background()); fault.Code(err) != "store_poisoned" {
		t.Errorf("run after it: got %v", err)
	}
	if got := read(t, s, "a"); got != "1" {
		t.Errorf("reading after it gives %q", got)
	}
	if err := s.Close(); fault.Code(err) != "store_poisoned" {
		t.Errorf("close after it: got %v", err)
	}
	s = onSim(t, d)
	if got := read(t, s, "a"); got != "1" {
		t.Errorf("after a restart the acknowledged document is %q", got)
	}
	commit(t, s, doc("c", "3"))
}

func TestDamageIsRefusedWithFileAndLineAndChangesNothing(t *testing.T) {
	d := disksim.New()
	s := onSim(t, d)
	for _, text := range []string{"1", "2", "3"} {
		commit(t, s, doc("a", text))
	}
	var journal string
	for name := range d.Files() {
		if strings.HasPrefix(name, ".ec/journal") {
			journal = name
		}
	}
	next := d.Kill()
	at := strings.Index(string(next.Files()[journal]), `"t":"2"`)
	next.Flip(journal, at+5, 0)
	before := next.Fingerprint()
	_, err := store.Open(store.Config{FS: next})
	if err == nil || !strings.Contains(err.Error(), journal+":5: ") {
		t.Errorf("open of a damaged journal: got %v, want %s:5", err, journal)
	}
	if next.Fingerprint() != before {
		t.Error("the refused start changed something")
	}
}

func TestTheJournalIsCheckpointedByNumberAndSize(t *testing.T) {
	for name, limit := range map[string]func(*store.Config){
		"records": func(c *store.Config) { c.MaxRecords = 5 },
		"bytes":   func(c *store.Config) { c.MaxBytes = 500 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := disksim.New()
				s := onSim(t, d, limit)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				first := journals(d)
				go func() { ended <- s.Run(ctx) }()
				for range 4 {
					commit(t, s, doc("a", "text"))
				}
				synctest.Wait()
				if name == "records" && journals(d) != first {
					t.Error("checkpoint before the limit")
				}
				for range 46 {
					commit(t, s, doc("a", "text"))
				}
				synctest.Wait()
				if journals(d) == first {
					t.Error("no checkpoint after the limit")
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func journals(d *disksim.Disk) string {
	var out string
	for name := range d.Files() {
		if strings.HasPrefix(name, ".ec/journal") {
			out += name
		}
	}
	return out
}

// R-STO-05: a torn last line of a stream from elsewhere does not spoil the next.
func TestAnAdoptedStreamIsRepaired(t *testing.T) {
	for text, want := range map[string]string{
		"{\"n\":1}\n{\"n\":": "{\"n\":1}\n{\"n\":3}\n",
		"{\"n\":1}":          "{\"n\":1}\n{\"n\":3}\n",
		"":                   "{\"n\":3}\n",
	} {
		d := disksim.New()
		d.Put("s.jsonl", []byte(text))
		s := onSim(t, d)
		commit(t, s, store.Change{Lines: []store.Line{{Stream: "s.jsonl", Body: []byte(`{"n":3}`)}}})
		if got := string(d.Files()["s.jsonl"]); got != want {
			t.Errorf("stream %q with one line more is %q, want %q", text, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		onSim(t, d)
	}
}
