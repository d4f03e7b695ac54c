package ec_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// oldLibrary lays out a library of R3: the documents of testdata/r3, and the
// other presets that there were then, in the pack's form but with another text.
func oldLibrary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/r3")); err != nil {
		t.Fatal(err)
	}
	for _, o := range pack(t).Overlays {
		id := string(o.Frontmatter.ID)
		if slices.Contains([]string{"verify-first", "diverse-sampling"}, id) {
			continue
		}
		there := false
		for _, name := range []string{"templates/" + id, "templates/" + strings.ReplaceAll(id, "-", "_"), "archived/" + id} {
			_, err := os.Stat(filepath.Join(dir, "system/overlays", name+".md"))
			there = there || err == nil
		}
		if !there {
			text := "---\nid: " + id + "\ntitle: Of before\npreset: true\n---\nThe old text of " + id + ".\n"
			if err := os.WriteFile(filepath.Join(dir, "system/overlays/templates", id+".md"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// small makes the migration take many steps.
func small() ec.Policy {
	p := ec.DefaultPolicy()
	p.UpgradeBatch = 3
	return p
}

// upgrade does what a start does, and says after how many commands it was done.
func upgrade(t *testing.T, e *ectest.Env) (commands int) {
	t.Helper()
	for e.View().UpgradeDue() {
		if r := e.Must(ec.Migrate{Pack: pack(t)}); !r.Changed || commands > 100 {
			t.Fatalf("command %d of the migration got %+v and left something to do", commands, r)
		}
		commands++
	}
	return commands
}

func on(t *testing.T, v *ec.View, k contracts.OverlaySessionKey) (st contracts.OverlaySessionState, ids []contracts.OverlayID) {
	t.Helper()
	r, _, err := v.Session(k, false)
	if err != nil {
		t.Fatalf("session %+v: %v", k, err)
	}
	for _, a := range r.SessionState.ActiveOverlays {
		ids = append(ids, a.OverlayID)
	}
	return r.SessionState, ids
}

func TestUpgradeFromR3(t *testing.T) {
	e := ectest.At(t, oldLibrary(t), small())
	if !e.View().UpgradeDue() {
		t.Fatal("G-064 sessions and pins without an install state are not recognised")
	}
	if _, err := e.Send(ec.SetFlags{Flags: contracts.Flags{PromptLab: true}}); fault.Code(err) != "upgrade_pending" {
		t.Errorf("R-PRE-15 a command before the migration: got %v, want upgrade_pending", err)
	}
	if docs := e.View().Derived(); len(docs) > 0 {
		t.Errorf("R-PRE-15 before the backup, %s would be written over", docs[0].Path)
	}
	e.Restart()
	if n := upgrade(t, e); n < 8 {
		t.Errorf("the migration took %d commands; the test wants many", n)
	}
	check := func(t *testing.T) {
		t.Helper()
		v := e.View()
		for _, want := range []struct {
			key      contracts.OverlaySessionKey
			ids      []contracts.OverlayID
			revision int
			reason   contracts.OverlayRefreshReason
		}{
			{key(contracts.SurfaceChat, "Acme Inc", "T-1"), []contracts.OverlayID{"guided-verification"}, 8, contracts.RefreshDeactivation},
			{key(contracts.SurfaceRoom, "acme", "board"), []contracts.OverlayID{"concise-executive"}, 3, contracts.RefreshDeactivation},
			{key(contracts.SurfaceTask, "acme", "42"), []contracts.OverlayID{"structured-decomposition"}, 2, contracts.RefreshDeactivation},
			{key(contracts.SurfaceChat, "acme", "quiet"), []contracts.OverlayID{"my-style"}, 5, contracts.RefreshDeactivation},
		} {
			st, ids := on(t, v, want.key)
			if !slices.Equal(ids, want.ids) {
				t.Errorf("R-PRE-11 R-PRE-12 on in %s: got %v, want %v", want.key.SurfaceID, ids, want.ids)
			}
			if st.Revision != want.revision || st.PendingRefreshReason != want.reason {
				t.Errorf("R-PRE-11 %s: revision %d, pending %q; want %d, %q", want.key.SurfaceID, st.Revision, st.PendingRefreshReason, want.revision, want.reason)
			}
		}
	}
	check(t)
	t.Run("G-064 R-PRE-15 it is over after a restart too", func(t *testing.T) {
		e.Restart()
		if e.View().UpgradeDue() {
			t.Fatal("the library still waits for its migration")
		}
		if r := e.Must(ec.Migrate{Pack: pack(t)}); r.Changed {
			t.Errorf("R-PRE-15 the migration ran again: %+v", r)
		}
		check(t)
	})
	t.Run("R-PRE-12 R-PRE-14 the library is of this release", func(t *testing.T) {
		v := e.View()
		if got := v.Overlays(ec.OverlayFilter{Tier: "hidden"}).Total; got != 3 {
			t.Errorf("R-PRE-12 hidden overlays: %d, want 3", got)
		}
		for _, o := range pack(t).Overlays {
			id := o.Frontmatter.ID
			d, _, err := v.Overlay(id)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				continue
			}
			gone := id == "creative-flow"
			if (d.Record.ArchivedAt != nil) != gone || d.Record.Source != contracts.SourcePreset {
				t.Errorf("R-PRE-08 %s: archived %v, source %s", id, d.Record.ArchivedAt != nil, d.Record.Source)
			}
			if !gone && (d.Record.Body != o.Body || d.Record.Frontmatter.ArtifactClass != o.Frontmatter.ArtifactClass) {
				t.Errorf("R-PRE-12 R-PRE-14 %s is of class %s with the text %.40q", id, d.Record.Frontmatter.ArtifactClass, d.Record.Body)
			}
		}
		mine, _, err := v.Overlay("my-style")
		if err != nil || mine.Record.Source != contracts.SourceUser || !strings.HasPrefix(mine.Record.Body, "Write short sentences.") || mine.Record.Frontmatter.SupportedSurfaces[0] != contracts.SurfaceChat {
			t.Errorf("a person's own overlay: %+v, %v", mine.Record, err)
		}
		old, err := os.ReadFile(filepath.Join(e.Dir, "system/overlays/history/guided-verification/000001.md"))
		if err != nil || !bytes.Contains(old, []byte("the owner of this library added")) {
			t.Errorf("R-PRE-08 the text of before is not in the history: %v", err)
		}
		index, err := os.ReadFile(filepath.Join(e.Dir, "system/overlays/backup/r3/index.json"))
		if err != nil || string(index) != "{\"version\": 3, \"overlays\": []}\n" {
			t.Errorf("R-PRE-15 the old index is not in the backup: %q, %v", index, err)
		}
		again := e.Must(ec.InstallPresets{Pack: pack(t)})
		if again.Changed || len(again.Install.Unchanged) != 20 {
			t.Errorf("R-PRE-14 an install after the upgrade: %+v", again.Install)
		}
	})
	t.Run("R-PRE-13 pins and defaults start nothing that is not live any more", func(t *testing.T) {
		for _, want := range []struct {
			key contracts.OverlaySessionKey
			ids []contracts.OverlayID
		}{
			{key(contracts.SurfaceChat, "Acme Inc", "new"), []contracts.OverlayID{"legal-strict", "guided-verification"}},
			{key(contracts.SurfaceTask, "acme", "new"), []contracts.OverlayID{"structured-decomposition", "guided-verification"}},
			{key(contracts.SurfaceRoom, "acme", "new"), []contracts.OverlayID{"concise-executive", "guided-verification"}},
		} {
			e.Must(ec.BootstrapSession{Key: want.key})
			st, ids := on(t, e.View(), want.key)
			if !slices.Equal(ids, want.ids) || len(st.Warnings) > 0 {
				t.Errorf("R-PRE-13 a new %s starts with %v and warnings %q, want %v and none", want.key.SurfaceKind, ids, st.Warnings, want.ids)
			}
		}
	})
	t.Run("R-PRE-11 R-QUX-23 one notice, until it is dismissed", func(t *testing.T) { notices(t, e) })
}

func notices(t *testing.T, e *ectest.Env) {
	t.Helper()
	list := e.View().Notices().Items
	if len(list) != 1 {
		t.Fatalf("R-PRE-11 notices: %+v, want one", list)
	}
	n := list[0]
	said := n.Message + strings.Join(n.Details, "\n")
	for _, want := range []string{"advisor protocols", "Task Debrief", "elicitation was turned off in 3 ", "spec-architect was turned off in 4 ", "reflexion-learning was turned off in 4 ", "New presets: verify-first, diverse-sampling.", "torn.json", "loose-note.md", "backup"} {
		if !strings.Contains(said, want) {
			t.Errorf("R-PRE-11 the notice does not say %q:\n%s", want, said)
		}
	}
	e.Restart()
	if d := cmp.Diff(list, e.View().Notices().Items); d != "" {
		t.Errorf("R-QUX-23 the notice after a restart (-before +after):\n%s", d)
	}
	if _, err := e.Send(ec.DismissNotice{ID: "another"}); fault.Of(err) != fault.NotFound {
		t.Errorf("dismissing what is not there: got %v", err)
	}
	if r := e.Must(ec.DismissNotice{ID: n.NoticeID}); !r.Changed {
		t.Errorf("dismissing: %+v", r)
	}
	if r := e.Must(ec.DismissNotice{ID: n.NoticeID}); r.Changed {
		t.Errorf("dismissing again: %+v", r)
	}
	for range 2 {
		if got := e.View().Notices().Items; len(got) != 0 {
			t.Errorf("R-QUX-23 after dismissal: %+v", got)
		}
		e.Restart()
	}
}

// R-CMD-07: nobody from outside migrates or is told to.
func TestOnlyECMigrates(t *testing.T) {
	e := ectest.At(t, oldLibrary(t), small())
	for _, role := range []ec.Role{ec.RoleUser, ec.RoleOperator, ec.RoleSeam, ec.RoleAgent, ec.RoleWorker} {
		_, err := e.Do(t.Context(), ec.Command{ID: "x" + string(role), Actor: ec.Actor{Role: role}, Body: ec.Migrate{Pack: pack(t)}})
		if fault.Of(err) != fault.Forbidden {
			t.Errorf("R-CMD-07 %s: got %v, want forbidden", role, err)
		}
	}
}

// G-064: what this release wrote is never taken for R3, also before presets are
// installed, and nor is an empty library.
func TestWhatIsNotR3(t *testing.T) {
	e := ectest.New(t)
	if e.View().UpgradeDue() {
		t.Error("G-064 an empty library is taken for R3")
	}
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("mine", body)})
	e.Must(ec.PinOverlay{Key: chat("t"), OverlayID: "mine", Scope: contracts.PinUntilOff})
	e.Restart()
	if e.View().UpgradeDue() {
		t.Error("G-064 a library of this release without presets is taken for R3")
	}
	e.While(func() {
		for _, folder := range []string{"system/audit", ".ec"} {
			if err := os.RemoveAll(filepath.Join(e.Dir, folder)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if e.View().UpgradeDue() {
		t.Error("G-064 a library of this release without its audit is taken for R3")
	}
	if got := e.View().Notices().Items; len(got) != 0 {
		t.Errorf("R-QUX-23 notices of a library that was never R3: %+v", got)
	}
}
