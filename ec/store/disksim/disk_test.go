package disksim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// after gives what may be found of file "f" after cuts of each kind: "-" when
// its name is gone.
func after(t *testing.T, do func(d *Disk) error) []string {
	t.Helper()
	d := New()
	if err := do(d); err != nil {
		t.Fatal(err)
	}
	cuts := Extremes()
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		cuts = append(cuts, Cut{Names: Random, Content: Random, Rand: r})
	}
	var found []string
	for _, c := range cuts {
		body, ok := d.PowerCut(c).Files()["f"]
		text := string(body)
		if !ok {
			text = "-"
		}
		if !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

func TestAPowerCutKeepsWhatWasSyncedAndPartsOfTheRest(t *testing.T) {
	write := func(d *Disk, syncFile, syncDir bool) error {
		f, err := d.Create("f")
		if err != nil {
			return err
		}
		if _, err := f.Write([]byte("ab")); err != nil {
			return err
		}
		if syncFile {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		if syncDir {
			return d.SyncDir(".")
		}
		return nil
	}
	if got := after(t, func(d *Disk) error { return write(d, true, true) }); !slices.Equal(got, []string{"ab"}) {
		t.Errorf("all synced: found %q", got)
	}
	if got := after(t, func(d *Disk) error { return write(d, true, false) }); !slices.Equal(got, []string{"-", "ab"}) {
		t.Errorf("name not synced: found %q", got)
	}
	got := after(t, func(d *Disk) error { return write(d, false, true) })
	for _, want := range []string{"", "ab", "a", "\x00\x00", "\x00b"} {
		if !slices.Contains(got, want) {
			t.Errorf("content not synced: %q was never found in %q", want, got)
		}
	}
	if slices.Contains(got, "-") || len(got) < 20 {
		t.Errorf("content not synced: found %d kinds, with the name gone: %t", len(got), slices.Contains(got, "-"))
	}
}

func TestPagesOfAFailedSyncNeverReachTheDisk(t *testing.T) {
	d := New()
	f, err := d.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	d.Inject(&Fault{At: d.Calls(), Kind: EIO})
	if err := f.Sync(); err == nil {
		t.Fatal("the sync did not fail")
	}
	if err := f.Sync(); err != nil {
		t.Fatalf("the second sync: %v", err)
	}
	if err := d.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	if got := string(d.Kill().Files()["f"]); got != "ab" {
		t.Errorf("a reader sees %q", got)
	}
	if got := string(d.PowerCut(Cut{Names: All, Content: All}).Files()["f"]); got != "" {
		t.Errorf("after a power cut there is %q", got)
	}
}
