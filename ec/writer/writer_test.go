package writer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

const text = "Check the claim first.\n\n- Never guess a date.\n"

// R-SYS-01, R-CMD-05: concurrent commands are ordered, each is visible to its
// sender at once, and a repeated one has a single effect.
func TestConcurrentCommandsAreOrderedAndVisible(t *testing.T) {
	e := ectest.New(t)
	const n = 200
	seqs := make([]uint64, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id := contracts.OverlayID(fmt.Sprintf("overlay-%03d", i))
			cmd := ec.Command{ID: "cmd-" + string(id), Actor: ectest.User, Body: ec.CreateOverlay{Record: ectest.Overlay(string(id), text)}}
			for range 2 { // sent twice
				r, err := e.Do(context.Background(), cmd)
				if err != nil {
					t.Errorf("create %s: %v", id, err)
					return
				}
				v := e.View()
				if _, _, err := v.Overlay(id); err != nil || v.Seq() < r.Seq {
					t.Errorf("R-LIB-12 %s is not in the view after its answer: %v", id, err)
				}
				seqs[i] = r.Seq
			}
		})
	}
	wg.Wait()
	seen := map[uint64]bool{}
	for _, s := range seqs {
		if s < 1 || s > n || seen[s] {
			t.Fatalf("R-SYS-01 revision %d is out of range or given twice", s)
		}
		seen[s] = true
	}
	if got := e.View().Seq(); got != n {
		t.Errorf("R-CMD-05 %d commands were accepted, want %d", got, n)
	}
}

// R-CMD-05: the memory of past commands survives a restart.
func TestRepeatedCommandAfterRestart(t *testing.T) {
	e := ectest.New(t)
	cmd := ec.Command{ID: "same", Actor: ectest.User, Body: ec.CreateOverlay{Record: ectest.Overlay("once", text)}}
	first, err := e.Do(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	e.Restart()
	again, err := e.Do(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, again); d != "" || e.View().Seq() != first.Seq {
		t.Errorf("R-CMD-05 repeated after a restart (-first +again):\n%s", d)
	}
}

// R-CMD-05: an ID that a caller chose stands for one request, also after a restart.
func TestAnIDStandsForOneRequest(t *testing.T) {
	e := ectest.New(t)
	cmd := ec.Command{ID: "same", Request: "a", Actor: ectest.User, Body: ec.CreateOverlay{Record: ectest.Overlay("once", text)}}
	if _, err := e.Do(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	other := cmd
	other.Request, other.Body = "b", ec.CreateOverlay{Record: ectest.Overlay("twice", text)}
	for _, when := range []string{"at once", "after a restart"} {
		if _, err := e.Do(t.Context(), cmd); err != nil {
			t.Errorf("R-CMD-05 repeated %s: %v", when, err)
		}
		if _, err := e.Do(t.Context(), other); fault.Code(err) != "idempotency_key_reused" {
			t.Errorf("R-CMD-05 another request with the same ID %s: got %v, want it refused", when, err)
		}
		if n := e.View().Seq(); n != 1 {
			t.Errorf("R-CMD-05 %s: revision %d, want 1", when, n)
		}
		e.Restart()
	}
}

func TestGivingUpBeforeTheTurnChangesNothing(t *testing.T) {
	e := ectest.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := e.View().Seq()
	_, err := e.Do(ctx, ec.Command{ID: "x", Actor: ectest.User, Body: ec.CreateOverlay{Record: ectest.Overlay("gone", text)}})
	if err == nil { // it may have been taken in the same instant; then it has happened
		if e.View().Seq() != before+1 {
			t.Error("told accepted, and nothing happened")
		}
		return
	}
	if fault.Of(err) != fault.Unavailable || !errors.Is(err, context.Canceled) || e.View().Seq() != before {
		t.Errorf("got %v at revision %d, want unavailable at %d", err, e.View().Seq(), before)
	}
}

func file(e *ectest.Env, path string) string { return filepath.Join(e.Dir, filepath.FromSlash(path)) }

// eventually flushes the store until cond holds: hand edits and written-behind
// documents follow a command within a moment.
func eventually(t *testing.T, e *ectest.Env, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !cond() {
		changed := e.Changed()
		if err := e.Store.Rescan(); err != nil {
			t.Fatal(err)
		}
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond): // a rescan that found nothing new
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func TestHandEdits(t *testing.T) {
	e := ectest.New(t)
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("hand", text)})
	if err := e.Store.Flush(); err != nil {
		t.Fatal(err)
	}
	path := file(e, "system/overlays/templates/hand.md")
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("R-STO-07 a good edit is taken in", func(t *testing.T) {
		edited := strings.Replace(string(src), "Never guess", "Never ever guess", 1)
		if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, e, "the library has the edited text", func() bool {
			d, _, _ := e.View().Overlay("hand")
			return strings.Contains(d.Record.Body, "Never ever guess")
		})
		got, _ := os.ReadFile(path)
		if string(got) != edited {
			t.Error("the person's file was written over")
		}
	})
	t.Run("a bad edit is left alone and reported", func(t *testing.T) {
		const broken = "---\nid: hand\nfoo: [\n---\nx\n"
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, e, "the status names the file", func() bool { return len(e.View().Status().Warnings) > 0 })
		d, _, _ := e.View().Overlay("hand")
		if !strings.Contains(d.Record.Body, "Never ever guess") {
			t.Error("the last good text is gone")
		}
		if got, _ := os.ReadFile(path); string(got) != broken {
			t.Error("the person's file was written over")
		}
	})
	reason := path + ".rejected.txt"
	said := func() string {
		if err := e.Store.Flush(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(reason)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	names := func(note, warning string) bool { // one reason a line there
		for one := range strings.SplitSeq(warning, "; ") {
			if !strings.Contains(note, "  "+one+"\n") {
				return false
			}
		}
		return true
	}
	news := func(kind string) (n int) {
		for _, ev := range e.Feed.After(0) {
			if ev.Type == kind && ev.Overlay == "hand" {
				n++
			}
		}
		return n
	}
	t.Run("the reason lies beside the file, and goes when the file is good", func(t *testing.T) {
		if s := said(); !strings.Contains(s, "hand.md was changed by hand") || !names(s, e.View().Status().Warnings[0].Message) {
			t.Errorf("beside the refused file: %q, status %v", s, e.View().Status().Warnings)
		}
		if n := news("hand_edit.refused"); n != 1 {
			t.Errorf("%d events of the refusal, want 1", n)
		}
		if err := os.Remove(reason); err != nil { // the note is ours, and a person may throw it away
			t.Fatal(err)
		}
		eventually(t, e, "the missing note is seen", func() bool { return e.View().Seq() > 3 })
		if err := os.WriteFile(path, []byte("---\nid: other\n---\nx\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		was := e.View().Status().Warnings[0].Message
		eventually(t, e, "another reason", func() bool { return e.View().Status().Warnings[0].Message != was })
		if s := said(); !names(s, e.View().Status().Warnings[0].Message) {
			t.Errorf("the note was not renewed: %q", s)
		}
		if err := os.WriteFile(path, src, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, e, "the refusal is over", func() bool { return len(e.View().Status().Warnings) == 0 })
		if s := said(); s != "" || news("hand_edit.resolved") != 1 {
			t.Errorf("after the correction: note %q, %d events", s, news("hand_edit.resolved"))
		}
	})
	t.Run("what is done to files while EC is stopped is looked at when it starts", func(t *testing.T) {
		write := func(name, text string) func() {
			return func() {
				if err := os.WriteFile(file(e, "system/overlays/templates/"+name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		e.While(write("apart.md", strings.Replace(string(src), "id: hand", "id: apart", 1)))
		eventually(t, e, "the library has the new file", func() bool { _, _, err := e.View().Overlay("apart"); return err == nil })
		e.While(write("odd.md", "no header\n"))
		reason = file(e, "system/overlays/templates/odd.md.rejected.txt")
		eventually(t, e, "the new file that is not good is reported", func() bool { return strings.Contains(said(), "odd.md") })
		e.While(write("odd.md", strings.Replace(string(src), "id: hand", "id: odd", 1)))
		eventually(t, e, "the note goes when the file was corrected meanwhile", func() bool { return said() == "" })
		if w := e.View().Status().Warnings; len(w) != 0 {
			t.Errorf("still warned: %v", w)
		}
	})
	t.Run("R-STO-07 a save by command takes the place of a refused text, which is kept", func(t *testing.T) {
		const broken = "---\nid: hand\nmine: [\n---\nmany hours of work\n"
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, e, "the refusal", func() bool { return len(e.View().Status().Warnings) == 1 })
		e.Must(ec.UpdateOverlay{OverlayID: "hand", Record: ectest.Overlay("hand", text+"- By command.\n")})
		if w := e.View().Status().Warnings; len(w) != 0 {
			t.Errorf("the file is good and the status says %v", w)
		}
		e.Restart()
		kept, err := filepath.Glob(file(e, "system/overlays/history/hand/rejected-*.md"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("kept %v, %v; want the one text", kept, err)
		}
		if b, err := os.ReadFile(kept[0]); err != nil || string(b) != broken {
			t.Errorf("the text that was replaced is kept as %q, %v", b, err)
		}
		if b, _ := os.ReadFile(path); !strings.Contains(string(b), "By command") {
			t.Errorf("the file is %q", b)
		}
	})
	t.Run("a new file is taken in", func(t *testing.T) {
		doc := strings.Replace(string(src), "id: hand", "id: fresh", 1)
		if err := os.WriteFile(file(e, "system/overlays/templates/fresh.md"), []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, e, "the library has the new overlay", func() bool { _, _, err := e.View().Overlay("fresh"); return err == nil })
	})
}

// R-CMD-06, R-STO-01: the audit is a chain, names no text, and every file lies
// where the layout says.
func TestAuditAndLayout(t *testing.T) {
	e := ectest.New(t)
	j := e.Job(e.Lab(40), `{}`)
	e.Must(ec.CancelJob{JobID: j.JobID})
	session, err := contracts.OverlaySessionKey{WorkspaceID: "../w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "a/b"}.Canonical("")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []contracts.OverlayPinScope{contracts.PinThread, contracts.PinWorkspace, contracts.PinUntilOff} {
		e.Must(ec.PinOverlay{Key: session, OverlayID: "note-style", Scope: scope})
	}
	e.Must(ec.BuildPacket{Key: session, TurnID: "1"})
	e.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{SessionKey: session, Revision: 3, TurnID: "1"}})
	e.Must(ec.PreparePlan{Key: session, Request: contracts.OverlayReanswerPlanRequest{
		SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "clean_context", OverrideMode: contracts.OverrideUseActive,
	}})
	e.Must(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "m", AppliesTo: "both", OverlayIDs: contracts.List[contracts.OverlayID]{"note-style"}}})
	e.Must(ec.SubmitFeedback{Feedback: contracts.OverlayFeedback{
		FeedbackID: contracts.DeriveID("f", "feedback", 0), OverlayID: "note-style", WorkspaceID: "../w", SessionKey: session, ResponseRating: "positive",
	}})
	e.Restart()
	paths, err := e.Store.List("")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"system/overlays/templates/", "system/overlays/history/", "system/overlays/index.json", "system/overlays/metadata.json",
		"system/keys.json", "system/prompt_lab/feature_flags.json", "system/prompt_lab/worker/queue/failed/", "system/prompt_lab/datasets/", "system/audit/",
		"system/overlays/sessions/" + session.FileName() + ".json", "system/overlays/sessions/" + session.FileName() + ".truth.json",
		"system/overlays/pins/global.json", "system/overlays/pins/workspace/~", "system/overlays/reanswer_plans/",
		"system/overlays/extensions/defaults.json", "signals/doc17/overlay_feedback.jsonl",
	}
	for _, p := range paths {
		ok := false
		for _, a := range allowed {
			ok = ok || strings.HasPrefix(p, a)
		}
		if !ok {
			t.Errorf("R-STO-01 %s is not in the layout", p)
		}
	}
	prev, lines := "", 0
	for _, p := range paths {
		if !strings.HasPrefix(p, "system/audit/") {
			continue
		}
		err := e.Store.ReadStream(p, func(line []byte) error {
			if strings.Contains(string(line), "plain words") || strings.Contains(string(line), "write note number") {
				t.Errorf("R-CMD-06 the audit holds a text: %s", line)
			}
			l, err := ec.CheckAuditLine(line, prev)
			prev = l.Hash
			lines++
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if uint64(lines) != e.View().Seq() {
		t.Errorf("R-CMD-06 %d lines for %d commands", lines, e.View().Seq())
	}
	if _, err := ec.CheckAuditLine([]byte(`{"seq":1,"prev":"","hash":"x"}`), ""); err == nil {
		t.Error("a forged line was believed")
	}
}

// R-LAB-09: a job's document is in exactly one folder, the one of its status.
func TestJobDocumentFollowsItsStatus(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(40)
	j := e.Job(ref, `{}`)
	where := func() []string {
		paths, err := e.Store.List("system/prompt_lab/worker/queue/")
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	check := func(folder string) {
		t.Helper()
		want := []string{"system/prompt_lab/worker/queue/" + folder + "/" + string(j.JobID) + ".json"}
		if d := cmp.Diff(want, where()); d != "" {
			t.Errorf("R-LAB-09 job files (-want +got):\n%s", d)
		}
	}
	check("pending")
	e.Claim(j.JobID)
	check("running")
	e.Restart()
	check("running")
	e.Must(ec.CancelJob{JobID: j.JobID})
	check("failed")
}
