package ec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// Decisions 25 and 32: a session key names one session, only its hash is kept,
// and a revoked one names nothing.
func TestSessionKeys(t *testing.T) {
	e := ectest.New(t)
	key := contracts.NewSessionAPIKey()
	create := ec.CreateSessionKey{Key: chat("t1"), Name: " editor ", SHA256: contracts.HashSessionAPIKey(key)}
	if _, err := e.Send(create); fault.Code(err) != "not_ready" {
		t.Errorf("a key before the library's own: got %v, want not_ready", err)
	}
	e.Ready()
	id := contracts.UUID(e.Must(create).Subject)
	want := contracts.SessionAPIKeyOwner{SessionKey: chat("t1"), KeyID: id}
	want.SessionKey.ThreadID = "t1"
	look := func(what string) {
		t.Helper()
		got, err := e.View().ResolveSessionKey(create.SHA256)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", what, err, d)
		}
	}
	look("resolve")
	e.Restart()
	look("resolve after a restart")
	if list := e.View().SessionKeys(); list.Total != 1 || list.Items[0].Name != "editor" || list.Items[0].CreatedBy != "person" {
		t.Errorf("list: got %+v", list)
	}
	if _, err := e.Send(create); fault.Code(err) != "already_exists" {
		t.Errorf("the same key again: got %v, want already_exists", err)
	}
	e.Must(ec.RevokeSessionKey{KeyID: id})
	if _, err := e.View().ResolveSessionKey(create.SHA256); fault.Of(err) != fault.NotFound {
		t.Errorf("resolve a revoked key: got %v, want not found", err)
	}
	if _, err := e.Send(ec.RevokeSessionKey{KeyID: id}); fault.Of(err) != fault.NotFound {
		t.Errorf("R-CMD-05 revoke again by another command: got %v, want not found", err)
	}
	e.While(func() {
		audit := read(t, filepath.Join(e.Dir, "system/audit/2026-03.jsonl"))
		for _, effect := range []string{"session_key.created:" + string(id), "session_key.revoked:" + string(id), `"command":"session_key.create","actor":{"role":"user","name":"person"}`} {
			if !strings.Contains(audit, effect) { // R-CMD-06
				t.Errorf("R-CMD-06 the audit does not say %s", effect)
			}
		}
		if strings.Contains(audit, create.SHA256) || strings.Contains(read(t, filepath.Join(e.Dir, "system/keys.json")), create.SHA256) {
			t.Error("the hash of a revoked key is still there")
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSessionKeysAreChecked(t *testing.T) { // R-CMD-04
	e := ectest.New(t)
	e.Ready()
	hash := strings.Repeat("a", 64)
	for what, c := range map[string]struct {
		body ec.Body
		code string
	}{
		"no session":   {ec.CreateSessionKey{SHA256: hash}, "validation_failed"},
		"no hash":      {ec.CreateSessionKey{Key: chat("t"), SHA256: "abc"}, "validation_failed"},
		"two lines":    {ec.CreateSessionKey{Key: chat("t"), SHA256: hash, Name: "a\nb"}, "validation_failed"},
		"long name":    {ec.CreateSessionKey{Key: chat("t"), SHA256: hash, Name: strings.Repeat("n", 101)}, "validation_failed"},
		"unknown id":   {ec.RevokeSessionKey{KeyID: "0198a0c6-0000-7000-8000-000000000001"}, "not_found"},
		"other thread": {ec.CreateSessionKey{Key: contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: "chat", SurfaceID: "a", ThreadID: "b"}, SHA256: hash}, "validation_failed"},
	} {
		if _, err := e.Send(c.body); fault.Code(err) != c.code {
			t.Errorf("R-CMD-04 %s: got %v, want %s", what, err, c.code)
		}
	}
	for i := range 256 {
		e.Must(ec.CreateSessionKey{Key: chat("t"), SHA256: fmt.Sprintf("%064x", i+1)})
	}
	if _, err := e.Send(ec.CreateSessionKey{Key: chat("t"), SHA256: hash}); fault.Code(err) != "too_many_session_keys" {
		t.Errorf("one key more than there may be: got %v", err)
	}
	for _, role := range []ec.Role{ec.RoleAgent, ec.RoleSeam, ec.RoleWorker} {
		_, err := e.Do(t.Context(), ec.Command{ID: uuid.NewString(), Actor: ec.Actor{Role: role}, Body: ec.CreateSessionKey{Key: chat("t"), SHA256: hash}})
		if fault.Of(err) != fault.Forbidden {
			t.Errorf("R-CMD-04 the role %s makes a key: got %v, want forbidden", role, err)
		}
	}
}

// A list of sessions comes in pages that hold each session once, the latest
// activity first, also when sessions wake up in between.
func TestSessionsAreListedInPages(t *testing.T) {
	l := newLive(t)
	for i := range 7 {
		l.Must(ec.BootstrapSession{Key: chat(fmt.Sprintf("t%d", i))})
	}
	room := key(contracts.SurfaceRoom, "other", "board")
	l.Must(ec.BootstrapSession{Key: room})
	l.on(chat("t2"), "secure-code")
	list := func(f ec.SessionFilter) contracts.OverlaySessionList {
		t.Helper()
		out, err := l.View().Sessions(f)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	names := func(p contracts.OverlaySessionList) string {
		var out []string
		for _, s := range p.Items {
			out = append(out, s.SessionKey.SurfaceID)
		}
		return strings.Join(out, " ")
	}
	first := list(ec.SessionFilter{Limit: 3})
	if got := names(first); got != "t2 board t6" || first.Total != 8 {
		t.Errorf("first page: got %s of %d, want t2 board t6 of 8", got, first.Total)
	}
	if s := first.Items[0]; s.Revision != 1 || len(s.ActiveOverlayIDs) != 1 || s.ActiveOverlayIDs[0] != "secure-code" || !s.PendingRefresh || s.Token != s.SessionKey.Token() {
		t.Errorf("the line of t2: got %+v", s)
	}
	l.Clock.Add(time.Minute)
	l.on(chat("t4"), "secure-code") // moves to the front, before where the second page begins
	second := list(ec.SessionFilter{Limit: 3, After: first.Next})
	third := list(ec.SessionFilter{Limit: 3, After: second.Next})
	if got := names(second) + " | " + names(third); got != "t5 t3 t1 | t0" || third.Next != "" {
		t.Errorf("the other pages: got %s, next %q", got, third.Next)
	}
	for want, f := range map[string]ec.SessionFilter{
		"t4 t2": {Active: true}, "board": {WorkspaceID: "other"}, "board ": {Surface: contracts.SurfaceRoom}, "": {WorkspaceID: "nobody's"}, " ": {WorkspaceID: "other", Active: true},
	} {
		if got := names(list(f)); got != strings.TrimSpace(want) {
			t.Errorf("filter %+v: got %q, want %q", f, got, want)
		}
	}
	for _, after := range []string{"x", "1.x", "." + strings.Repeat("a", 64)} {
		if _, err := l.View().Sessions(ec.SessionFilter{After: after}); fault.Of(err) != fault.Malformed {
			t.Errorf("after %q: got %v, want malformed", after, err)
		}
	}
}

// A receipt is found by its turn, of a re-answer too; one that is not kept any
// more is told apart from a session without any.
func TestReceiptsAreFoundByTheirTurn(t *testing.T) {
	l := newLive(t)
	k := chat("t1")
	find := func(turn string) string {
		r, err := l.View().Receipt(k, turn)
		if err != nil {
			return fault.Code(err)
		}
		return r.TurnID
	}
	if got := find("1"); got != "truth_not_recorded" {
		t.Errorf("without any: got %s", got)
	}
	l.on(k, "secure-code")
	for i := range 13 {
		l.receipt(k, 1, fmt.Sprint(i))
	}
	for turn, want := range map[string]string{"12": "12", "2": "2", "1": "truth_not_kept", "nobody's": "truth_not_kept"} {
		if got := find(turn); got != want {
			t.Errorf("turn %s: got %s, want %s", turn, got, want)
		}
	}
	plan := l.Must(ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
		SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "clean_context", OverrideMode: contracts.OverrideOneTime, OverlayIDs: contracts.List[contracts.OverlayID]{"legal-research"},
	}}).Plan
	l.Must(ec.BuildPacket{Key: k, PlanID: plan.PlanID, TurnID: "again"})
	l.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
		SessionKey: k, TurnID: "again", ReanswerPlanID: plan.PlanID, OverrideMode: contracts.OverrideOneTime,
		RequestedOverlayIDs: contracts.List[contracts.OverlayID]{"legal-research"}, AppliedOverlayIDs: contracts.List[contracts.OverlayID]{"legal-research"},
	}})
	l.receipt(k, 1, "13")
	if got := find("again"); got != "again" {
		t.Errorf("the turn of a re-answer, after another turn: got %s", got)
	}
}
