package store_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

// Whatever lies where the journal should be, the store starts or refuses, and
// a refusal changes nothing.
func FuzzOpenWithAnyJournal(f *testing.F) {
	const name = ".ec/journal-0000000000000001.jsonl"
	d := disksim.New()
	s, err := store.Open(store.Config{FS: d})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"one", "\xff"} {
		if err := s.Commit([]store.Change{doc("a/b", text), {Lines: []store.Line{{Stream: "s", Body: []byte("1")}}}}); err != nil {
			f.Fatal(err)
		}
	}
	good := d.Files()[name]
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(strings.ReplaceAll(string(good), "a/b", "../")))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, journal []byte) {
		d := disksim.New()
		if err := d.MkdirAll(".ec"); err != nil {
			t.Fatal(err)
		}
		d.Put(name, journal)
		d.Put(".ec/lock", []byte{})
		before := d.Fingerprint()
		s, err := store.Open(store.Config{FS: d})
		if err != nil {
			if d.Fingerprint() != before {
				t.Errorf("refused (%v), and something changed", err)
			}
			return
		}
		if err := s.Commit([]store.Change{doc("after", "x")}); err != nil {
			t.Errorf("started, and is not writable: %v", err)
		}
	})
}
