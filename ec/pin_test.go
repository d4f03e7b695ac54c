package ec_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

func (l live) start(k contracts.OverlaySessionKey) contracts.OverlaySessionState {
	l.t.Helper()
	l.Must(ec.BootstrapSession{Key: k})
	return l.state(k)
}

func TestPins(t *testing.T) {
	l := newLive(t)
	a := chat("a")
	pin := func(id contracts.OverlayID, scope contracts.OverlayPinScope) ec.PinOverlay {
		return ec.PinOverlay{Key: a, OverlayID: id, Scope: scope}
	}
	l.Must(pin("secure-code", contracts.PinThread))
	l.Must(pin("guided-verification", contracts.PinWorkspace))
	l.Must(pin("verify-first", contracts.PinUntilOff))
	t.Run("R-PIN-01 R-PIN-11 R-PIN-12 how far each scope reaches", func(t *testing.T) {
		for k, want := range map[contracts.OverlaySessionKey]string{
			a: "secure-code guided-verification verify-first", chat("b"): "guided-verification verify-first",
			key(contracts.SurfaceChat, "other", "c"): "verify-first",
		} {
			st := l.start(k)
			if got := l.set(k); got != want {
				t.Errorf("%s/%s: %q, want %q", k.WorkspaceID, k.SurfaceID, got, want)
			}
			if k != a && (st.Revision != 0 || st.ActiveOverlays[len(st.ActiveOverlays)-1].Source != contracts.FromGlobalPin) {
				t.Errorf("R-PIN-08 new session: %+v", st)
			}
		}
	})
	t.Run("R-PIN-02 G-036 where pins lie", func(t *testing.T) {
		if err := l.Store.Flush(); err != nil {
			t.Fatal(err)
		}
		for path, id := range map[string]string{"pins/workspace/w.json": "guided-verification", "pins/global.json": "verify-first", "sessions/" + a.FileName() + ".json": "secure-code"} {
			b, err := os.ReadFile(filepath.Join(l.Dir, "system/overlays", path))
			if err != nil || !strings.Contains(string(b), id) {
				t.Errorf("%s: %v %s", path, err, b)
			}
		}
	})
	t.Run("R-PIN-03 pins are there after a restart", func(t *testing.T) {
		before := mustEncode([]any{l.state(a), l.View().Pins(contracts.PinWorkspace, "w"), l.View().Pins(contracts.PinUntilOff, "")})
		l.Restart()
		if d := cmp.Diff(before, mustEncode([]any{l.state(a), l.View().Pins(contracts.PinWorkspace, "w"), l.View().Pins(contracts.PinUntilOff, "")})); d != "" {
			t.Error(d)
		}
	})
	t.Run("R-PIN-10 R-PIN-13 off here, on in the next thread", func(t *testing.T) {
		l.Must(ec.DeactivateOverlay{Key: a, OverlayID: "guided-verification"})
		l.Must(ec.BootstrapSession{Key: a}) // reload
		l.Restart()
		if got := l.set(a); strings.Contains(got, "guided") {
			t.Errorf("back after a reload: %q", got)
		}
		l.start(chat("d"))
		if got := l.set(chat("d")); !strings.Contains(got, "guided") {
			t.Errorf("the pin is gone: %q", got)
		}
		l.Must(ec.UnpinOverlay{Key: a, OverlayID: "guided-verification", Scope: contracts.PinWorkspace})
		if got := l.set(chat("d")); !strings.Contains(got, "guided") {
			t.Errorf("unpin turned it off: %q", got)
		}
		if scopes := l.state(chat("d")).ActiveOverlays[0].PinScopes; len(scopes) != 0 {
			t.Errorf("the badge shows a pin that is gone: %v", scopes)
		}
		l.start(chat("e"))
		if got := l.set(chat("e")); strings.Contains(got, "guided") {
			t.Errorf("unpinned and still in a new session: %q", got)
		}
	})
	t.Run("R-PIN-14 G-034 G-035 what cannot be pinned", func(t *testing.T) {
		task := key(contracts.SurfaceTask, "w", "t")
		l.refuses(ec.PinOverlay{Key: task, OverlayID: "spec-architect", Scope: contracts.PinThread}, fault.Invalid, "explicit_invocation_required")
		l.refuses(ec.PinOverlay{Key: task, OverlayID: "reflexion-learning", Scope: contracts.PinThread}, fault.Invalid, "class_not_activatable")
		l.refuses(ec.PinOverlay{Key: a, OverlayID: "verify-first", Scope: "for ever"}, fault.Invalid, "validation_failed")
		one, two := chat("one"), chat("two")
		l.start(one)
		l.Must(ec.ClearSession{Key: one})
		l.Must(ec.PinOverlay{Key: one, OverlayID: "creative-flow", Scope: contracts.PinWorkspace})
		l.start(two)
		l.Must(ec.ClearSession{Key: two})
		l.refuses(ec.PinOverlay{Key: two, OverlayID: "legal-strict", Scope: contracts.PinWorkspace}, fault.Conflict, "hard_conflict") // with the other pin
		l.refuses(ec.PinOverlay{Key: one, OverlayID: "legal-strict", Scope: contracts.PinThread}, fault.Conflict, "hard_conflict")    // with what is on
		l.Must(ec.PinOverlay{Key: two, OverlayID: "legal-strict", Scope: contracts.PinUntilOff})
	})
	t.Run("R-PIN-07 G-035 the earlier layer wins", func(t *testing.T) {
		st := l.start(chat("f"))
		if got := l.set(chat("f")); !strings.Contains(got, "creative-flow") || strings.Contains(got, "legal-strict") {
			t.Errorf("set %q", got)
		}
		if d := cmp.Diff(contracts.List[contracts.OverlayPair]{{"creative-flow", "legal-strict"}}, st.HardBlockedPairs); d != "" || warned(st, "hard_conflict") != 1 {
			t.Errorf("pairs %v, warnings %q", st.HardBlockedPairs, st.Warnings)
		}
		l.Must(ec.DeactivateOverlay{Key: chat("f"), OverlayID: "creative-flow"})
		if st := l.state(chat("f")); len(st.HardBlockedPairs) != 0 || len(st.Warnings) != 0 {
			t.Errorf("R-SES-23 the cause is gone: %+v", st)
		}
	})
}

// R-PIN-04, R-PIN-05, R-PIN-06, R-PIN-09: five layers in their order.
func TestBootstrapLayers(t *testing.T) {
	l := newLive(t)
	for _, id := range []string{"d-room", "d-mod", "d-ws", "d-global", "d-carry", "d-old"} {
		l.own(id, 60, contracts.SurfaceRoom, contracts.SurfacePanel, contracts.SurfaceChat)
	}
	room := func(id string) contracts.OverlaySessionKey { return key(contracts.SurfaceRoom, "w", id) }
	l.Must(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "m", AppliesTo: "both", UpdatedBy: "user", OverlayIDs: contracts.List[contracts.OverlayID]{"d-mod"}}})
	surface := contracts.SurfaceDefaults{WorkspaceID: "w", SurfaceKind: contracts.SurfaceRoom, UpdatedBy: "user", OverlayIDs: contracts.List[contracts.OverlayID]{"d-room"}, ModeratorIDs: contracts.List[string]{"m"}}
	l.Must(ec.PutSurfaceDefaults{Defaults: surface})
	prior := room("prior")
	l.start(prior)
	l.Must(ec.ClearSession{Key: prior})
	l.on(prior, "d-carry")
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "d-ws", Scope: contracts.PinWorkspace})
	l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: "d-room", Scope: contracts.PinWorkspace}) // a second layer for d-room
	l.Must(ec.BootstrapSession{Key: room("r"), CarryFrom: &prior, CarryIDs: []contracts.OverlayID{"d-carry"}})
	st := l.state(room("r"))
	var got []string
	for _, a := range st.ActiveOverlays {
		got = append(got, string(a.OverlayID)+" "+string(a.Source))
	}
	want := []string{"d-room room_default", "d-mod moderator_default", "d-ws workspace_pin"}
	if d := cmp.Diff(want, got); d != "" || st.Revision != 0 {
		t.Errorf("R-PIN-04 layers (-want +got):\n%s", d)
	}
	if warned(st, "overlay_limit") != 1 || !strings.Contains(strings.Join(st.Warnings, "\n"), "d-carry") {
		t.Errorf("R-PIN-17 what is left out is warned of: %q", st.Warnings)
	}
	if a := st.ActiveOverlays[0]; a.RequestedScope != contracts.PinWorkspace || a.PriorityRank != 8 || st.ActiveOverlays[1].PriorityRank != 9 || st.ActiveOverlays[2].PriorityRank != 10 {
		t.Errorf("R-PIN-09 G-038 entries %+v", st.ActiveOverlays)
	}
	p, _ := l.packet(room("r"), ec.PacketQuery{TurnID: "1"})
	if p.RefreshReason != contracts.RefreshRehydrate || blocks(p) != "d-room d-mod d-ws" {
		t.Errorf("R-PKT-16 R-PKT-09 packet after carry-forward: %q %q", p.RefreshReason, blocks(p))
	}
	t.Run("R-PIN-16 G-039 carry-forward only from the latest, only what is on", func(t *testing.T) {
		l.refuses(ec.BootstrapSession{Key: room("s"), CarryFrom: &prior, CarryIDs: []contracts.OverlayID{"d-carry"}}, fault.Conflict, "not_latest_session")
		latest := room("r")
		l.refuses(ec.BootstrapSession{Key: room("s"), CarryFrom: &latest, CarryIDs: []contracts.OverlayID{"d-old"}}, fault.Invalid, "validation_failed")
		l.refuses(ec.BootstrapSession{Key: room("r"), CarryFrom: &prior, CarryIDs: []contracts.OverlayID{"d-carry"}}, fault.Conflict, "session_in_use")
	})
	t.Run("R-ROM-05 R-ROM-06 moderator defaults", func(t *testing.T) {
		l.Must(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "m", AppliesTo: "panels", UpdatedBy: "user", OverlayIDs: contracts.List[contracts.OverlayID]{"d-mod"}}})
		surface.SurfaceKind, surface.OverlayIDs = contracts.SurfacePanel, nil
		l.Must(ec.PutSurfaceDefaults{Defaults: surface})
		l.start(room("only-panels"))
		panel := key(contracts.SurfacePanel, "w", "p")
		l.start(panel)
		if strings.Contains(l.set(room("only-panels")), "d-mod") || !strings.Contains(l.set(panel), "d-mod") {
			t.Errorf("applies_to panels: room %q, panel %q", l.set(room("only-panels")), l.set(panel))
		}
		pair := contracts.List[contracts.OverlayID]{"creative-flow", "legal-strict"}
		f := l.refuses(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "n", AppliesTo: "both", UpdatedBy: "user", OverlayIDs: pair}}, fault.Conflict, "hard_conflict")
		if len(f.Details) != 2 {
			t.Errorf("both ids are to be named: %v", f)
		}
		l.refuses(ec.PutModeratorDefaults{Defaults: contracts.ModeratorDefaults{ModeratorID: "n", AppliesTo: "both", UpdatedBy: "user", OverlayIDs: contracts.List[contracts.OverlayID]{"spec-architect"}}}, fault.Invalid, "validation_failed")
	})
	t.Run("G-036 R-PIN-13 the widest pin in force is shown, and the next one when it goes", func(t *testing.T) {
		k := chat("scopes")
		for _, scope := range []contracts.OverlayPinScope{contracts.PinUntilOff, contracts.PinThread, contracts.PinWorkspace} {
			l.Must(ec.PinOverlay{Key: k, OverlayID: "secure-code", Scope: scope})
		}
		for _, scope := range []contracts.OverlayPinScope{contracts.PinUntilOff, contracts.PinWorkspace, contracts.PinThread, ""} {
			resp, _, err := l.View().Session(k, true)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(resp.SessionState.ActiveOverlays, func(a contracts.ActiveOverlay) bool { return a.OverlayID == "secure-code" })
			if i < 0 || resp.SessionState.ActiveOverlays[i].RequestedScope != scope {
				t.Fatalf("the widest is %q, got %+v", scope, resp.SessionState.ActiveOverlays)
			}
			if scope != "" {
				l.Must(ec.UnpinOverlay{Key: k, OverlayID: "secure-code", Scope: scope})
			}
		}
	})
	t.Run("R-PIN-05 archived pins and defaults are left out with a warning", func(t *testing.T) {
		l.Must(ec.ArchiveOverlay{OverlayID: "d-room"})
		st := l.start(room("late"))
		if strings.Contains(l.set(room("late")), "d-room") || warned(st, "overlay_archived") != 1 {
			t.Errorf("set %q, warnings %q", l.set(room("late")), st.Warnings)
		}
	})
}

// R-PIN-17, R-PIN-18: limits and surfaces hold at bootstrap too.
func TestBootstrapLimits(t *testing.T) {
	l := newLive(t)
	k := chat("a")
	for _, id := range []contracts.OverlayID{"concise-executive", "secure-code", "guided-verification", "verify-first", "step-back-principles"} {
		l.Must(ec.ClearSession{Key: k})
		l.Must(ec.PinOverlay{Key: k, OverlayID: id, Scope: contracts.PinWorkspace})
	}
	st := l.start(chat("b"))
	if len(st.ActiveOverlays) != 3 || warned(st, "overlay_limit") != 2 || st.Revision != 0 {
		t.Errorf("R-PIN-17 five pins: %q, warnings %q", l.set(chat("b")), st.Warnings)
	}
	task := key(contracts.SurfaceTask, "w", "t")
	st = l.start(task)
	if got := l.set(task); !strings.HasPrefix(got, "(concise-executive) secure-code") || warned(st, "surface_unsupported") != 1 {
		t.Errorf("R-PIN-18 on a task: %q, %q", got, st.Warnings)
	}
	p, _ := l.packet(task, ec.PacketQuery{})
	if p.Dropped["concise-executive"] != contracts.DropSurface || strings.Contains(blocks(p), "concise") || p.RequestedOverlayIDs[0] != "concise-executive" {
		t.Errorf("G-109 R-PKT-08 packet %+v", p)
	}
}

// R-STO-08, R-STO-15, G-115: a session is forgotten two weeks after it was last used.
func TestPruning(t *testing.T) {
	l := newLive(t)
	k := chat("old")
	l.on(k, "secure-code")
	l.Must(ec.PinOverlay{Key: k, OverlayID: "secure-code", Scope: contracts.PinWorkspace})
	l.packet(k, ec.PacketQuery{TurnID: "1"})
	l.receipt(k, 2, "1")
	const day = 24 * time.Hour
	l.Clock.Add(14*day - time.Minute)
	if r := l.Must(ec.PruneSessions{}); r.Changed || len(l.state(k).ActiveOverlays) != 1 {
		t.Error("R-STO-08 pruned before its time")
	}
	seen := l.Feed.After(0)
	l.Clock.Add(2 * time.Minute)
	l.Must(ec.PruneSessions{})
	if _, _, err := l.View().Session(k, true); fault.Of(err) != fault.NotFound {
		t.Errorf("R-STO-08 kept after its time: %v", err)
	}
	events := l.Feed.After(seen[len(seen)-1].Seq)
	if len(events) != 1 || events[0].Type != "session.pruned" || events[0].Session != k.Token() {
		t.Errorf("G-115 notice of pruning: %+v", events)
	}
	l.Restart()
	if _, err := l.View().Truth(k, true); fault.Code(err) != "truth_not_recorded" {
		t.Errorf("G-023 receipts are pruned with their session: %v", err)
	}
	l.start(k)
	if st := l.state(k); st.Revision != 0 || l.set(k) != "secure-code" {
		t.Errorf("the pin is gone, or the state is old: %+v", st)
	}
}
