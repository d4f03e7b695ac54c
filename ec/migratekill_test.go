package ec_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/store"
	"github.com/elnor/promptlab/ec/store/disksim"
	"github.com/google/go-cmp/cmp"
)

// oldDisk is a simulated disk with the documents of testdata/r3.
func oldDisk(t *testing.T) *disksim.Disk {
	t.Helper()
	d := disksim.New()
	err := fs.WalkDir(os.DirFS("testdata/r3"), "system", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := os.ReadFile(filepath.Join("testdata/r3", p))
		if err != nil {
			return err
		}
		if err := d.MkdirAll(path.Dir(p)); err != nil {
			return err
		}
		d.Put(p, body)
		return d.SyncDir(path.Dir(p))
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// runUpgrade starts on a disk as it is and migrates to the end, with every
// document written at once after each command. It stops before the store is
// closed when asked to.
func runUpgrade(t *testing.T, d *disksim.Disk, p ec.Pack) (steps []string, err error) {
	t.Helper()
	st, err := store.Open(store.Config{FS: d, Log: slog.New(slog.DiscardHandler), Watch: ec.Watched()})
	if err != nil {
		return nil, err
	}
	state, err := ec.Load(st, small(), "")
	if err != nil {
		return nil, err
	}
	at := contracts.At(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	for i := 0; ec.NewView(state).UpgradeDue(); i++ {
		out, err := state.Perform(ec.Command{ID: fmt.Sprint("m", state.Seq, "-", i), At: at, Actor: ec.Actor{Role: ec.RoleSystem}, Body: ec.Migrate{Pack: p}})
		if err != nil {
			return nil, err
		}
		c := store.Change{}
		for _, x := range out.Change.Docs {
			c.Docs = append(c.Docs, store.Doc(x))
		}
		for _, x := range out.Change.Lines {
			c.Lines = append(c.Lines, store.Line(x))
		}
		if err := st.Commit([]store.Change{c}); err != nil {
			return nil, err
		}
		if err := st.Flush(); err != nil {
			return nil, err
		}
		steps = append(steps, out.Receipt.Note)
	}
	return steps, st.Close()
}

// documents are a disk's files but the audit, which tells of each step.
func documents(d *disksim.Disk) map[string]string {
	out := map[string]string{}
	for p, b := range d.Files() {
		if strings.HasPrefix(p, "system/") && !strings.HasPrefix(p, "system/audit/") {
			out[p] = string(b)
		}
	}
	return out
}

// R-PRE-15, G-064: a migration that is killed, or loses power, before any of its
// writes is brought to the same end by the next start. And until it has
// succeeded, every document is somewhere as it was: in its place or in the backup.
func TestUpgradeKilledAnywhere(t *testing.T) {
	p := pack(t)
	before := documents(oldDisk(t))
	whole := oldDisk(t)
	steps, err := runUpgrade(t, whole, p)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(steps, " "); !strings.HasPrefix(got, "begun begun") || !strings.HasSuffix(got, "saved library library done") {
		t.Fatalf("R-PRE-15 steps %s; the test wants several for the backup and for sessions", got)
	}
	want := documents(whole)

	const stride = 13
	type found struct {
		where string
		disk  *disksim.Disk
	}
	var cuts []found
	victim := oldDisk(t)
	calls := 0
	var mu sync.Mutex // documents are written side by side
	victim.Before = func(call int, what string) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%stride == 0 {
			where := fmt.Sprintf("before call %d, %s", call, what)
			cuts = append(cuts, found{"killed " + where, victim.Kill()}, found{"power cut " + where, victim.PowerCut(disksim.Harshest())})
		}
	}
	if _, err := runUpgrade(t, victim, p); err != nil {
		t.Fatal(err)
	}
	for _, f := range cuts {
		left := documents(f.disk)
		for name, text := range before { // after a power cut the journal may have it, which the next start shows
			if strings.HasPrefix(f.where, "killed") && left[name] != text && left[strings.Replace(name, "system/overlays/", "system/overlays/backup/r3/", 1)] != text {
				t.Errorf("R-PRE-15 %s: %s is nowhere as it was", f.where, name)
			}
		}
		if _, err := runUpgrade(t, f.disk, p); err != nil {
			t.Fatalf("R-PRE-15 %s: the next start: %v", f.where, err)
		}
		if d := cmp.Diff(want, documents(f.disk)); d != "" {
			t.Fatalf("R-PRE-15 %s (-at once +in two):\n%.3000s", f.where, d)
		}
	}
	t.Logf("%d disks, all brought to the same end", len(cuts))
}
