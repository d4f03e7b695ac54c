package store_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

const form = "upper case 1"

func upper(_ string, body []byte) ([]byte, error) { return bytes.ToUpper(body), nil }

// again opens a store that recalls over the disk as a process that ended left it.
func again(t *testing.T, d *disksim.Disk, set ...func(*store.Config)) (*counted, *store.Store) {
	t.Helper()
	c := &counted{Disk: d.Kill(), opens: map[string]int{}}
	c.Wait() // so that what was written last has a stamp
	cfg := store.Config{FS: c, Recall: true}
	for _, f := range set {
		f(&cfg)
	}
	s, err := store.Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return c, s
}

// remembered is the disk of a store that has kept the short forms of a/1 to a/3.
func remembered(t *testing.T, set ...func(*store.Config)) *disksim.Disk {
	t.Helper()
	c, s := again(t, disksim.New(), set...)
	commit(t, s, doc("a/1", "one"), doc("a/2", "two"), doc("a/3", "three"))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	remember(t, s, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return c.Disk
}

func remember(t *testing.T, s *store.Store, known map[string][]byte) {
	t.Helper()
	if err := s.Remember(form, func(yield func(string, []byte) bool) {
		for _, p := range []string{"a/1", "a/2", "a/3"} {
			if !yield(p, known[p]) {
				return
			}
		}
	}, upper); err != nil {
		t.Fatalf("remember: %v", err)
	}
}

func recalled(s *store.Store) string {
	var out []string
	all := maps.Collect(s.Recall(form))
	for _, p := range slices.Sorted(maps.Keys(all)) {
		out = append(out, p+"="+string(all[p]))
	}
	return strings.Join(out, " ")
}

func TestAStartDoesNotReadWhatItRecalls(t *testing.T) {
	c, s := again(t, remembered(t))
	if got, want := recalled(s), "a/1=ONE a/2=TWO a/3=THREE"; got != want {
		t.Errorf("recalled: got %q, want %q", got, want)
	}
	if n := c.opens["a/1"] + c.opens["a/2"] + c.opens["a/3"]; n != 0 {
		t.Errorf("the documents were opened %d times", n)
	}
}

// Whatever changes a document takes it out of what is recalled, and nothing else.
func TestOnlyWhatHasNotChangedIsRecalled(t *testing.T) {
	const others = "a/1=ONE a/3=THREE"
	ours := func(body []byte, then func(*store.Store) error) func(t *testing.T, d *disksim.Disk) *disksim.Disk {
		return func(t *testing.T, d *disksim.Disk) *disksim.Disk {
			t.Helper()
			c, s := again(t, d)
			commit(t, s, store.Change{Docs: []store.Doc{{Path: "a/2", Body: body}}})
			if err := then(s); err != nil {
				t.Fatal(err)
			}
			return c.Disk
		}
	}
	theirs := func(body string) func(t *testing.T, d *disksim.Disk) *disksim.Disk {
		return func(_ *testing.T, d *disksim.Disk) *disksim.Disk {
			d.Put("a/2", []byte(body))
			return d
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, d *disksim.Disk) *disksim.Disk
		want string
	}{
		"a command, then a clean end":        {ours([]byte("new"), (*store.Store).Close), others},
		"a command, then a kill":             {ours([]byte("new"), func(*store.Store) error { return nil }), others},
		"a command, written behind, a kill":  {ours([]byte("new"), (*store.Store).Flush), others},
		"the same text again":                {ours([]byte("two"), (*store.Store).Close), "a/1=ONE a/2=TWO a/3=THREE"},
		"a removal":                          {ours(nil, (*store.Store).Close), others},
		"a person's text of the same length": {theirs("owt"), others},
		"the same text from a backup":        {theirs("two"), others},
		"nothing but damage of the disk":     {func(_ *testing.T, d *disksim.Disk) *disksim.Disk { d.Flip("a/2", 0, 0); return d }, "a/1=ONE a/2=TWO a/3=THREE"},
		"the folder is gone":                 {func(_ *testing.T, d *disksim.Disk) *disksim.Disk { takeAll(d); return d }, ""},
		"the recall file cut short":          {func(t *testing.T, d *disksim.Disk) *disksim.Disk { return recut(t, d, -1) }, ""},
		"the recall file grown":              {func(t *testing.T, d *disksim.Disk) *disksim.Disk { return recut(t, d, 1) }, ""},
		"the recall file gone":               {func(_ *testing.T, d *disksim.Disk) *disksim.Disk { d.Put(".ec/recall", nil); return d }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := remembered(t)
			d.Wait()
			_, s := again(t, c.do(t, d))
			if got := recalled(s); got != c.want {
				t.Errorf("recalled: got %q, want %q", got, c.want)
			}
		})
	}
}

func takeAll(d *disksim.Disk) {
	for _, p := range []string{"a/1", "a/2", "a/3"} {
		d.Put(p, nil)
	}
}

func recut(t *testing.T, d *disksim.Disk, by int) *disksim.Disk {
	t.Helper()
	b := d.Files()[".ec/recall"]
	d.Put(".ec/recall", append(b, 0)[:len(b)+by])
	return d
}

// A bit that flips in the recall file costs time and nothing else.
func TestADamagedRecallFileIsLeftOut(t *testing.T) {
	d := remembered(t)
	for at := range d.Files()[".ec/recall"] {
		next := d.Kill()
		next.Flip(".ec/recall", at, at%8)
		if _, s := again(t, next); recalled(s) != "" {
			t.Fatalf("bit %d of byte %d flipped: recalled %q", at%8, at, recalled(s))
		}
	}
}

func TestAnotherFormatIsNotRecalled(t *testing.T) {
	_, s := again(t, remembered(t))
	if got := maps.Collect(s.Recall("upper case 2")); len(got) != 0 {
		t.Errorf("recalled of another format: %q", got)
	}
	_, s = again(t, remembered(t), func(c *store.Config) { c.Recall = false })
	if got := maps.Collect(s.Recall(form)); len(got) != 0 {
		t.Errorf("a store that was not to recall gave %q", got)
	}
}

// A second change within one tick of the clock would leave the stamp of the
// first: what has only just changed is not kept.
func TestWhatHasJustChangedIsNotRemembered(t *testing.T) {
	for phase := range 3 { // wherever in a tick it is
		d := remembered(t)
		for range phase {
			d.Put("a/other", []byte("x"))
		}
		c, s := again(t, d)
		known := maps.Collect(s.Recall(form))
		if err := s.Remember(form, func(yield func(string, []byte) bool) {
			yield("a/1", known["a/1"])
			c.Put("a/2", []byte("two"))
			yield("a/2", nil) // it is read
			c.Put("a/2", []byte("wto"))
		}, upper); err != nil {
			t.Fatal(err)
		}
		_, s = again(t, c.Disk)
		if got, want := recalled(s), "a/1=ONE"; got != want {
			t.Errorf("phase %d: recalled: got %q, want %q", phase, got, want)
		}
	}
}

// A short form made before a command changed the text is not kept with the new one.
func TestAnOldShortFormIsMadeAnew(t *testing.T) {
	c, s := again(t, remembered(t))
	known := maps.Collect(s.Recall(form))
	commit(t, s, doc("a/2", "new"))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	remember(t, s, known)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, s = again(t, c.Disk)
	if got, want := recalled(s), "a/1=ONE a/2=NEW a/3=THREE"; got != want {
		t.Errorf("recalled: got %q, want %q", got, want)
	}
}

// What was recalled is known as if it had been read: a text that a person put in
// its place since, and one that the disk has damaged, is told and not written over.
func TestAnEditOfARecalledDocumentIsTold(t *testing.T) {
	for name, spoil := range map[string]func(c *counted){
		"a person's text": func(c *counted) { c.Put("a/2", []byte("theirs")) },
		"a flipped bit":   func(c *counted) { c.Flip("a/2", 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			told := &[]string{}
			c, s := again(t, remembered(t), func(cfg *store.Config) { cfg.OnEdit = func(e store.Edit) { *told = append(*told, e.Path) } })
			if !strings.Contains(recalled(s), "a/2") {
				t.Fatal("not recalled")
			}
			spoil(c)
			before := string(c.Files()["a/2"])
			commit(t, s, doc("a/2", "ours"))
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"a/2"}, *told); d != "" {
				t.Errorf("told of edits (-want +got):\n%s", d)
			}
			if got := string(c.Files()["a/2"]); got != before {
				t.Errorf("on the disk: %q, want %q as it was found", got, before)
			}
		})
	}
}
