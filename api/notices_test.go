package api_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

// R-PRE-11, R-QUX-23: the notice of an upgrade is there until a person puts it
// away, and then never again.
func TestNotices(t *testing.T) {
	r := newRig(t)
	const u = ec.RoleUser
	if got := read[contracts.NoticeList](r, "notices of a new library", r.ask(u, "GET", "/api/notices", ""), 200); len(got.Items) != 0 {
		t.Errorf("R-QUX-23 a library that was never R3 has notices: %+v", got)
	}
	r.env.While(func() { // an R3 library in its place
		for _, folder := range []string{"system", ".ec", "signals"} {
			if err := os.RemoveAll(filepath.Join(r.env.Dir, folder)); err != nil {
				t.Fatal(err)
			}
		}
		pins := filepath.Join(r.env.Dir, "system/overlays/pins")
		if err := os.MkdirAll(pins, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(pins, "global.json"), []byte(`{"overlay_ids":["elicitation"]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	r.want("R-PRE-15 a change before the upgrade", r.ask(ec.RoleOperator, "PUT", "/api/flags", `{}`), 503, "upgrade_pending")
	upgrade(t, r.env)
	list := read[contracts.NoticeList](r, "notices", r.ask(u, "GET", "/api/notices", ""), 200)
	if len(list.Items) != 1 || list.Items[0].Message == "" {
		t.Fatalf("R-PRE-11 notices after the upgrade: %+v, want one with a text", list)
	}
	id := list.Items[0].NoticeID
	r.want("an agent's dismissal", r.ask(ec.RoleAgent, "POST", "/api/notices/"+id+"/dismiss", "{}"), 403, "")
	r.want("of what is not there", r.ask(u, "POST", "/api/notices/other/dismiss", ""), 404, "not_found")
	for range 2 {
		if left := read[contracts.NoticeList](r, "dismissal", r.ask(u, "POST", "/api/notices/"+id+"/dismiss", ""), 200); len(left.Items) != 0 {
			t.Errorf("R-QUX-23 left after dismissal: %+v", left)
		}
	}
	r.env.Restart()
	if again := read[contracts.NoticeList](r, "after a restart", r.ask(u, "GET", "/api/notices", ""), 200); len(again.Items) != 0 {
		t.Errorf("R-QUX-23 shown again: %+v", again)
	}
}

// upgraded makes it look as if the library had been R3 once, and its notice,
// some-notice, not been read.
func upgraded(t *testing.T, r *rig) {
	t.Helper()
	r.env.While(func() {
		file := filepath.Join(r.env.Dir, "system/overlays/install_state.json")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const at = `"2026-01-01T00:00:00Z"`
		record := `"migration":{"from":"R3","step":"done","started_at":` + at + `,"notices":[{"id":"some-notice","created_at":` + at + `}]},`
		if err := os.WriteFile(file, bytes.Replace(b, []byte("{"), []byte("{"+record), 1), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

func upgrade(t *testing.T, e *ectest.Env) {
	t.Helper()
	for n := 0; e.View().UpgradeDue(); n++ {
		if e.Must(ec.Migrate{Pack: pack()}); n > 20 {
			t.Fatal("the upgrade does not end")
		}
	}
}

// R-PRE-17, R-PRE-12: a post-task template is offered when a task has ended or
// failed, or on request, and never while it runs.
func TestPostTaskOffers(t *testing.T) {
	r := newRig(t)
	rec := ectest.Overlay("look-back", "Say what went well.\n")
	rec.Frontmatter.ArtifactClass, rec.Frontmatter.SupportedSurfaces = contracts.ClassPostTask, contracts.List[contracts.SupportedSurface]{contracts.SurfacePostTask}
	r.env.Must(ec.CreateOverlay{Record: rec})
	key, err := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceTask, SurfaceID: "42"}.Canonical("")
	if err != nil {
		t.Fatal(err)
	}
	at := "/api/overlay-sessions/" + key.Token()
	offers := func(query string) (why string, revision int) {
		s := read[contracts.OverlaySessionResponse](r, "session", r.ask(ec.RoleUser, "GET", at+query, ""), 200)
		for _, o := range s.PostTaskOffers {
			why += string(o.OverlayID) + ": " + string(o.Trigger) + " "
		}
		return why, s.SessionState.Revision
	}
	for _, step := range []struct{ status, want string }{
		{"", ""}, {"started", ""}, {"completed", "look-back: completed "}, {"started", ""}, {"failed", "look-back: failed "},
	} {
		if step.status != "" {
			body := `{"status":"` + step.status + `","session_key":` + string(key.JSON()) + `}`
			r.want("report", r.ask(ec.RoleSeam, "POST", "/internal/doc17/task-events", body), 200, "")
		}
		got, revision := offers("")
		if got != step.want || revision != 0 {
			t.Errorf("R-PRE-17 after %q: offered %q at revision %d, want %q at 0", step.status, got, revision, step.want)
		}
		if got, _ := offers("?debrief=true"); got != "look-back: requested " {
			t.Errorf("R-PRE-17 on request after %q: offered %q", step.status, got)
		}
		r.env.Restart()
		if got, _ := offers(""); got != step.want {
			t.Errorf("R-PRE-17 after %q and a restart: offered %q, want %q", step.status, got, step.want)
		}
	}
	r.want("R-SES-10 turning it on", r.ask(ec.RoleUser, "POST", at+"/activate", `{"overlay_id":"look-back"}`), 422, "class_not_activatable")
	r.env.Must(ec.ArchiveOverlay{OverlayID: "look-back"})
	if got, _ := offers("?debrief=true"); got != "" {
		t.Errorf("an archived template is offered: %q", got)
	}
	r.want("an unknown status", r.ask(ec.RoleSeam, "POST", "/internal/doc17/task-events", `{"status":"paused","session_key":`+string(key.JSON())+`}`), 422, "validation_failed")
}
