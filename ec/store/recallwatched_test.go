package store_test

import (
	"testing"

	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
)

func watchA(c *store.Config) { c.Watch = []string{"a"} }

// A document that people may edit is read at every start. Its short form counts
// for that very text, whatever its stamp is, and for no other.
func TestTheShortFormOfAWatchedDocumentGoesWithItsText(t *testing.T) {
	const all, others = "a/1=ONE a/2=TWO a/3=THREE", "a/1=ONE a/3=THREE"
	for name, c := range map[string]struct {
		do   func(d *disksim.Disk)
		want string
	}{
		"nothing":                      {func(*disksim.Disk) {}, all},
		"the same text from a backup":  {func(d *disksim.Disk) { d.Put("a/2", []byte("two")) }, all},
		"a text of the same length":    {func(d *disksim.Disk) { d.Put("a/2", []byte("owt")) }, others},
		"damage that leaves the stamp": {func(d *disksim.Disk) { d.Flip("a/2", 0, 0) }, others},
		"a removal":                    {func(d *disksim.Disk) { d.Put("a/2", nil) }, others},
	} {
		t.Run(name, func(t *testing.T) {
			d := remembered(t, watchA)
			d.Wait()
			c.do(d)
			n, s := again(t, d, watchA)
			if got := recalled(s); got != c.want {
				t.Errorf("recalled: got %q, want %q", got, c.want)
			}
			if n.opens["a/1"] != 1 || n.opens["a/3"] != 1 {
				t.Errorf("R-STO-01: documents that people may edit were opened %v times, want once each", n.opens)
			}
		})
	}
}

// What a command has written and was not yet in its place is the journal's to tell.
func TestAWaitingTextHasNoShortForm(t *testing.T) {
	d := remembered(t, watchA)
	d.Wait()
	c, s := again(t, d, watchA)
	commit(t, s, doc("a/2", "new"))
	_, s = again(t, c.Disk, watchA)
	if got, want := recalled(s), "a/1=ONE a/3=THREE"; got != want {
		t.Errorf("recalled after a kill: got %q, want %q", got, want)
	}
}

// A start that goes by short forms keeps those that it made no use of as they were,
// and makes those of texts that have changed anew.
func TestShortFormsOfWatchedDocumentsAreKeptUpToDate(t *testing.T) {
	d := remembered(t, watchA)
	d.Wait()
	c, s := again(t, d, watchA)
	known := map[string][]byte{"a/1": []byte("kept"), "a/2": []byte("too old"), "a/3": []byte("THREE")}
	commit(t, s, doc("a/2", "new"))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	remember(t, s, known)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, s = again(t, c.Disk, watchA)
	if got, want := recalled(s), "a/1=kept a/2=NEW a/3=THREE"; got != want {
		t.Errorf("recalled: got %q, want %q", got, want)
	}
}
