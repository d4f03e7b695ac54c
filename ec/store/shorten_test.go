package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

func lineOf(n int) store.Change {
	return store.Change{
		Docs:  []store.Doc{{Path: "d.json", Body: fmt.Appendf(nil, `{"n":%d}`, n)}},
		Lines: []store.Line{{Stream: "f/s.jsonl", Body: fmt.Appendf(nil, `{"n":%d}`, n)}, {Stream: "f/other.jsonl", Body: fmt.Appendf(nil, `{"n":%d}`, n)}},
	}
}

func streamOf(t *testing.T, s *store.Store, name string) string {
	t.Helper()
	var out []string
	if err := s.ReadStream(name, func(line []byte) error { out = append(out, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func oldLine(line []byte) bool {
	return !bytes.Contains(line, []byte(`:1}`)) && !bytes.Contains(line, []byte(`:2}`))
}

const (
	wholeStream = `{"n":1} {"n":2} {"n":3} {"n":4}`
	shortStream = `{"n":3} {"n":4}`
)

func filled(t *testing.T) (*disksim.Disk, *store.Store) {
	t.Helper()
	d := disksim.New()
	s := onSim(t, d)
	for n := 1; n <= 4; n++ {
		commit(t, s, lineOf(n))
	}
	return d, s
}

// R-STO-09: a stream can be made shorter; what stays keeps its order, other streams
// are not touched, and lines go on behind it, also after a restart.
func TestShorten(t *testing.T) {
	d, s := filled(t)
	if n, err := s.Shorten("f/nothing.jsonl", oldLine); n != 0 || err != nil {
		t.Errorf("a missing stream: %d lines, %v", n, err)
	}
	if n, err := s.Shorten("f/s.jsonl", oldLine); n != 2 || err != nil {
		t.Fatalf("shortened by %d lines, %v; want 2", n, err)
	}
	if n, err := s.Shorten("f/s.jsonl", oldLine); n != 0 || err != nil {
		t.Errorf("shortened again by %d lines, %v; want none", n, err)
	}
	for _, when := range []string{"at once", "after a restart"} {
		if got := streamOf(t, s, "f/s.jsonl"); got != shortStream {
			t.Errorf("R-STO-09 %s: %s, want %s", when, got, shortStream)
		}
		if got := streamOf(t, s, "f/other.jsonl"); got != wholeStream {
			t.Errorf("R-STO-09 %s the other stream: %s", when, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = onSim(t, d.Kill())
	}
	commit(t, s, lineOf(5))
	if n, err := s.Shorten("f/s.jsonl", func([]byte) bool { return false }); n != 3 || err != nil {
		t.Errorf("emptied of %d lines, %v; want 3", n, err)
	}
	commit(t, s, lineOf(6))
	if got := streamOf(t, s, "f/s.jsonl"); got != `{"n":6}` {
		t.Errorf("a line after everything went: %s", got)
	}
}

// R-STO-09, R-STO-13: whenever the power goes while a stream is made shorter, it is as
// it was or as it shall be, nothing else is lost, and it can be tried again.
func TestShorteningSurvivesEveryCut(t *testing.T) {
	d, s := filled(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same every time
	disks, short := 0, 0
	judge := func(where string, cut *disksim.Disk) {
		disks++
		s, err := store.Open(store.Config{FS: cut})
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		got := streamOf(t, s, "f/s.jsonl")
		if got != wholeStream && got != shortStream {
			t.Errorf("R-STO-09 %s: %q, want all lines or the kept ones", where, got)
		}
		if got == shortStream {
			short++
		}
		if got := streamOf(t, s, "f/other.jsonl"); got != wholeStream {
			t.Errorf("R-STO-13 %s the other stream: %q", where, got)
		}
		if body, ok, err := s.Read("d.json"); err != nil || !ok || string(body) != `{"n":4}` {
			t.Errorf("R-STO-13 %s the document: %q, %v, %v", where, body, ok, err)
		}
		commit(t, s, lineOf(5))
		if _, err := s.Shorten("f/s.jsonl", oldLine); err != nil {
			t.Errorf("%s: again: %v", where, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", where, err)
		}
		after := onSim(t, cut.Kill())
		if got, want := streamOf(t, after, "f/s.jsonl"), shortStream+` {"n":5}`; got != want {
			t.Errorf("%s, tried again: %q, want %q", where, got, want)
		}
		for name := range cut.Files() {
			if strings.Contains(name, ".ec-tmp-") {
				t.Errorf("%s: %s was left", where, name)
			}
		}
	}
	d.Before = func(n int, what string) {
		cuts := disksim.Extremes()
		for range 6 {
			cuts = append(cuts, disksim.Cut{Names: disksim.Random, Content: disksim.Random, Rand: random})
		}
		for i, cut := range cuts {
			judge(fmt.Sprintf("before call %d (%s), cut %d", n, what, i), d.PowerCut(cut))
		}
		judge(fmt.Sprintf("before call %d (%s), killed", n, what), d.Kill())
	}
	if n, err := s.Shorten("f/s.jsonl", oldLine); n != 2 || err != nil {
		t.Fatalf("shortened by %d lines, %v; want 2", n, err)
	}
	d.Before = nil
	judge("at the end", d.PowerCut(disksim.Harshest()))
	if disks < 100 || short == 0 || short == disks {
		t.Errorf("%d disks were looked at, %d of them with the short stream; want both kinds", disks, short)
	}
}
