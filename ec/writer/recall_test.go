package writer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/ec/store/disksim"
)

const sessionsDir = "system/overlays/sessions/"

// reads is a disk that remembers which sessions were opened.
type reads struct {
	*disksim.Disk
	mu   sync.Mutex
	seen []string
}

func (r *reads) Open(name string) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasPrefix(name, sessionsDir) {
		r.seen = append(r.seen, strings.TrimPrefix(name, sessionsDir))
	}
	return r.Disk.Open(name)
}

// next starts EC over the disk that the one before left.
func next(t *testing.T, d *disksim.Disk) (*rig, *reads) {
	t.Helper()
	over := &reads{Disk: d.Kill()}
	over.Wait()
	r, err := rigOver(t, over, over.Disk, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.stop() })
	return r, over
}

func (r *rig) end() {
	r.t.Helper()
	if err := r.store.Flush(); err != nil {
		r.t.Fatal(err)
	}
	r.disk.Wait()
	if err := errors.Join(r.stop(), r.store.Close()); err != nil {
		r.t.Fatal(err)
	}
}

func fileOf(k contracts.OverlaySessionKey) string { return k.FileName() + ".json" }

// R-SES-01: after a clean end a start goes by what was kept of the sessions and is
// where it would be if it had read them; what has changed since is read.
func TestASleepingSessionIsNotReadAgain(t *testing.T) {
	one, two := surfaceKey(contracts.SurfaceChat, "one"), surfaceKey(contracts.SurfaceChat, "two")
	r, _ := next(t, disksim.New())
	for i, b := range []ec.Body{
		ec.CreateOverlay{Record: ectest.Overlay("note-style", "Write in plain words.\n")},
		ec.ActivateOverlay{Key: one, OverlayID: "note-style", Source: contracts.FromManual},
		ec.ActivateOverlay{Key: two, OverlayID: "note-style", Source: contracts.FromManual},
	} {
		if _, err := r.send(i, b); err != nil {
			t.Fatal(err)
		}
	}
	want := picture(r.View())
	r.end()

	r, over := next(t, r.disk)
	if len(over.seen) != 0 {
		t.Errorf("sessions opened at the second start: %q, want none", over.seen)
	}
	if got := picture(r.View()); got != want {
		t.Errorf("the state is another than before the end:\n got %s\nwant %s", got, want)
	}
	if list, err := r.View().Sessions(ec.SessionFilter{Active: true}); err != nil || len(list.Items) != 2 {
		t.Errorf("active sessions: %+v (%v), want two", list, err)
	}
	if _, err := r.send(10, ec.DeactivateOverlay{Key: one, OverlayID: "note-style"}); err != nil {
		t.Fatal(err)
	}
	want = picture(r.View())
	r.end()

	r, over = next(t, r.disk)
	if len(over.seen) != 0 {
		t.Errorf("sessions opened at the third start: %q, want none", over.seen)
	}
	if got := picture(r.View()); got != want {
		t.Errorf("after a change the state is another than before the end:\n got %s\nwant %s", got, want)
	}
	r.end()

	// A person edits one document; it keeps its length.
	was := r.disk.Files()[sessionsDir+fileOf(two)]
	r.disk.Put(sessionsDir+fileOf(two), bytes.Replace(was, []byte(`"updated_by": "person"`), []byte(`"updated_by": "nobody"`), 1))
	r, over = next(t, r.disk)
	if !slices.Equal(over.seen, []string{fileOf(two)}) {
		t.Errorf("sessions opened after an edit: %q, want the edited one", over.seen)
	}
	if st, _, err := r.View().Session(two, false); err != nil || st.SessionState.UpdatedBy != "nobody" {
		t.Errorf("the edited session: %+v (%v), want what the person wrote", st.SessionState, err)
	}
}

// An overlay that is archived is still found to concern a session that sleeps.
func TestARecalledSessionFollowsItsOverlays(t *testing.T) {
	one := surfaceKey(contracts.SurfaceChat, "one")
	r, _ := next(t, disksim.New())
	for i, b := range []ec.Body{
		ec.CreateOverlay{Record: ectest.Overlay("note-style", "Write in plain words.\n")},
		ec.ActivateOverlay{Key: one, OverlayID: "note-style", Source: contracts.FromManual},
	} {
		if _, err := r.send(i, b); err != nil {
			t.Fatal(err)
		}
	}
	r.end()
	r, over := next(t, r.disk)
	if _, err := r.send(10, ec.ArchiveOverlay{OverlayID: "note-style"}); err != nil {
		t.Fatal(err)
	}
	st, _, err := r.View().Session(one, false)
	if err != nil || len(st.SessionState.ActiveOverlays) != 0 || len(over.seen) > 1 {
		t.Errorf("after its overlay was archived the session has %+v (%v), opened %q", st.SessionState.ActiveOverlays, err, over.seen)
	}
}

const templatesDir = "system/overlays/templates/"

// R-OVL-01 and R-STO-12: a start that goes by short forms of overlays is where it would
// be without; with a damaged file of them, without one, and after hand edits, too.
func TestAStartWithShortFormsOfOverlaysIsLikeOneWithout(t *testing.T) {
	r, _ := next(t, disksim.New())
	for i, b := range []ec.Body{
		ec.CreateOverlay{Record: ectest.Overlay("note-style", "Break it down. Never refuse.\n")},
		ec.CreateOverlay{Record: ectest.Overlay("old-style", "Write in old words.\n")},
		ec.CreateOverlay{Record: ectest.Overlay("third-style", "Write in third words.\n")},
		ec.ArchiveOverlay{OverlayID: "old-style"},
		ec.UpdateOverlay{OverlayID: "note-style", Record: ectest.Overlay("note-style", "Break it down now.\n")},
	} {
		if _, err := r.send(i, b); err != nil {
			t.Fatal(err)
		}
	}
	r.end()
	kept := r.disk
	if !bytes.Contains(kept.Files()[".ec/recall"], []byte(templatesDir+"third-style.md")) {
		t.Fatal("the overlays have no short forms")
	}
	edit := func(d *disksim.Disk, p, from, to string) {
		d.Put(p, bytes.Replace(d.Files()[p], []byte(from), []byte(to), 1))
	}
	for name, change := range map[string]func(d *disksim.Disk){
		"as it was":            func(*disksim.Disk) {},
		"a text edited":        func(d *disksim.Disk) { edit(d, templatesDir+"third-style.md", "third words", "other words") },
		"a header edited":      func(d *disksim.Disk) { edit(d, templatesDir+"third-style.md", "Title of", "Titel of") },
		"a header broken":      func(d *disksim.Disk) { edit(d, templatesDir+"third-style.md", "title:", "title") },
		"an archived one":      func(d *disksim.Disk) { edit(d, "system/overlays/archived/old-style.md", "old words", "new words") },
		"one put in the other": func(d *disksim.Disk) { d.Put(templatesDir+"third-style.md", d.Files()[templatesDir+"note-style.md"]) },
		"one removed":          func(d *disksim.Disk) { d.Put(templatesDir+"third-style.md", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			pictures := map[string]string{}
			for how, spoil := range map[string]func(d *disksim.Disk){
				"with":    func(*disksim.Disk) {},
				"without": func(d *disksim.Disk) { d.Put(".ec/recall", nil) },
				"damaged": func(d *disksim.Disk) { d.Flip(".ec/recall", len(d.Files()[".ec/recall"])/2, 3) },
			} {
				d := kept.Kill()
				change(d)
				spoil(d)
				r, _ := next(t, d)
				// before its first command the writer has looked at what was edited
				if _, err := r.send(20, ec.ActivateOverlay{Key: surfaceKey(contracts.SurfaceChat, "x"), OverlayID: "note-style", Source: contracts.FromManual}); err != nil {
					t.Fatal(err)
				}
				refused, err := json.Marshal(r.View().Status().Warnings)
				if err != nil {
					t.Fatal(err)
				}
				pictures[how] = picture(r.View()) + string(refused)
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
			}
			if pictures["with"] != pictures["without"] || pictures["damaged"] != pictures["without"] {
				t.Errorf("the states differ:\n   with %s\nwithout %s\ndamaged %s", pictures["with"], pictures["without"], pictures["damaged"])
			}
		})
	}
}
