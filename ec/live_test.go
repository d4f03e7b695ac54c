package ec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// R-SES-04, G-010: what raises the revision and what does not, step by step.
func TestRevisionRisesWithTheSetAndNothingElse(t *testing.T) {
	l := newLive(t)
	k := chat("t1")
	l.Must(ec.BootstrapSession{Key: k})
	step := func(what string, want int, do func()) {
		t.Helper()
		do()
		if got := l.state(k).Revision; got != want {
			t.Errorf("R-SES-04 after %s: revision %d, want %d", what, got, want)
		}
	}
	send := func(b ec.Body) func() { return func() { t.Helper(); l.Must(b) } }
	step("the start", 0, func() {})
	step("a second start", 0, send(ec.BootstrapSession{Key: k}))
	step("activate", 1, send(activate(k, "legal-research")))
	step("R-SES-06 activate again", 1, send(activate(k, "legal-research")))
	step("the packet, which consumes the label", 1, func() { l.packet(k, ec.PacketQuery{TurnID: "1"}) })
	step("the packet again", 1, func() { l.packet(k, ec.PacketQuery{TurnID: "2"}) })
	step("a receipt", 1, func() { l.receipt(k, 1, "2") })
	step("a forced packet", 1, func() { l.packet(k, ec.PacketQuery{TurnID: "3", Force: true}) })
	step("refresh", 2, send(ec.RequestRefresh{Key: k, Reason: contracts.RefreshManual}))
	step("refresh again", 2, send(ec.RequestRefresh{Key: k, Reason: contracts.RefreshManual}))
	step("a weaker reason", 2, send(ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: k, EventKind: contracts.RefreshCompaction}}))
	step("thread pin", 3, send(ec.PinOverlay{Key: k, OverlayID: "legal-research", Scope: contracts.PinThread}))
	step("the same pin", 3, send(ec.PinOverlay{Key: k, OverlayID: "legal-research", Scope: contracts.PinThread}))
	step("R-SES-07 deactivate what is off", 3, send(ec.DeactivateOverlay{Key: k, OverlayID: "creative-flow"}))
	step("deactivate", 4, send(ec.DeactivateOverlay{Key: k, OverlayID: "legal-research"}))
	step("clear of nothing", 4, send(ec.ClearSession{Key: k}))
	step("a plan that keeps nothing", 4, send(ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
		SelectedMessageIDs: contracts.List[string]{"m"}, ContextMode: "clean_context", OverrideMode: contracts.OverrideOneTime, OverlayIDs: contracts.List[contracts.OverlayID]{"secure-code"},
	}}))
	before := l.state(k)
	l.Restart()
	if d := cmp.Diff(mustEncode(before), mustEncode(l.state(k))); d != "" {
		t.Errorf("R-PIN-03 R-TRU-12 state after a restart (-before +after):\n%s", d)
	}
}

// receipt reports a turn in which everything of the last packet was applied.
func (l live) receipt(k contracts.OverlaySessionKey, revision int, turn string) {
	l.t.Helper()
	p, _ := l.packet(k, ec.PacketQuery{TurnID: turn})
	t := contracts.OverlayRuntimeTruthSummary{SessionKey: k, Revision: revision, TurnID: turn, PacketHash: p.PacketHash, RefreshReason: p.RefreshReason}
	for _, b := range p.OverlayBlocks {
		t.RequestedOverlayIDs = append(t.RequestedOverlayIDs, b.OverlayID)
		t.AppliedOverlayIDs = append(t.AppliedOverlayIDs, b.OverlayID)
	}
	l.Must(ec.RecordTruth{Truth: t})
}

func TestActivationRules(t *testing.T) {
	l := newLive(t)
	t.Run("R-SES-06 another source or scope changes the entry and keeps its id", func(t *testing.T) {
		k := chat("same")
		l.on(k, "secure-code")
		first := l.state(k).ActiveOverlays[0]
		r := l.Must(ec.ActivateOverlay{Key: k, OverlayID: "secure-code", Source: contracts.FromManual, PinScope: contracts.PinThread})
		now := l.state(k).ActiveOverlays[0]
		if !r.Changed || now.ActivationID != first.ActivationID || now.RequestedScope != contracts.PinThread || r.Session.Revision != 2 {
			t.Errorf("got %+v", now)
		}
	})
	t.Run("R-SES-09 R-SES-10 R-SES-11 R-SES-20 what cannot be turned on", func(t *testing.T) {
		task := key(contracts.SurfaceTask, "w", "x")
		l.refuses(activate(task, "concise-executive"), fault.Invalid, "surface_unsupported")
		for _, k := range []contracts.OverlaySessionKey{chat("x"), task, key(contracts.SurfaceRoom, "w", "x"), key(contracts.SurfacePanel, "w", "x")} {
			l.refuses(activate(k, "reflexion-learning"), fault.Invalid, "class_not_activatable")
		}
		l.refuses(activate(chat("x"), "spec-architect"), fault.Invalid, "explicit_invocation_required")
		l.refuses(ec.ActivateOverlay{Key: task, OverlayID: "spec-architect", Source: contracts.FromManual, PinScope: contracts.PinThread}, fault.Invalid, "explicit_invocation_required")
		l.refuses(activate(chat("x"), "nowhere"), fault.NotFound, "not_found")
		for _, source := range []contracts.OverlayActivationSource{"candidate_canary", "workspace_pin", "room_default", ""} {
			l.refuses(ec.ActivateOverlay{Key: chat("x"), OverlayID: "secure-code", Source: source}, fault.Invalid, "source_not_allowed")
		}
		l.refuses(ec.ActivateOverlay{Key: chat("x"), OverlayID: "secure-code", Source: "recommended", Truth: true, Retrieval: true}, fault.Gate, "gate_closed")
		l.Must(ec.SetFlags{Flags: contracts.Flags{LearnedRecommendations: true}})
		l.refuses(ec.ActivateOverlay{Key: chat("x"), OverlayID: "secure-code", Source: "recommended"}, fault.Gate, "gate_closed")
		l.Must(ec.ActivateOverlay{Key: chat("rec"), OverlayID: "secure-code", Source: "recommended", Truth: true, Retrieval: true}) // R-REG-12
	})
	t.Run("R-SES-12 R-HTTP-12 hard pairs in both orders", func(t *testing.T) {
		for i, p := range contracts.HardPairs()[:4] {
			for j, order := range [][2]contracts.OverlayID{{p[0], p[1]}, {p[1], p[0]}} {
				k := chat(fmt.Sprintf("hard-%d-%d", i, j))
				l.on(k, order[0])
				f := l.refuses(activate(k, order[1]), fault.Conflict, "hard_conflict")
				ids := []string{}
				for _, d := range f.Details {
					ids = append(ids, d.Field)
				}
				slices.Sort(ids)
				want := []string{string(p[0]), string(p[1])}
				slices.Sort(want)
				if !slices.Equal(ids, want) || !strings.Contains(f.Message, "exclude") {
					t.Errorf("refusal %v names %v, want %v", f, ids, want)
				}
				if st := l.state(k); st.Revision != 1 || len(st.ActiveOverlays) != 1 {
					t.Errorf("refused, and the state is %+v", st)
				}
			}
		}
	})
	t.Run("R-SES-14 R-SES-23 soft pairs warn once and stop warning", func(t *testing.T) {
		k := chat("soft")
		l.on(k, "legal-strict")
		for range 5 {
			l.on(k, "legal-research")
			if st := l.state(k); warned(st, "soft_conflict") != 1 || !strings.Contains(st.Warnings[0], "legal-strict") || !strings.Contains(st.Warnings[0], "legal-research") {
				t.Fatalf("warnings %q", st.Warnings)
			}
			l.Must(ec.DeactivateOverlay{Key: k, OverlayID: "legal-research"})
		}
		if st := l.state(k); len(st.Warnings) != 0 {
			t.Errorf("still warned: %q", st.Warnings)
		}
	})
	t.Run("R-SES-15 G-030 the third is noticed, the fourth needs a word", func(t *testing.T) {
		k := chat("count")
		l.on(k, "secure-code", "step-back-principles")
		if n := warned(l.state(k), "overlay_count"); n != 0 {
			t.Error("noticed at two")
		}
		l.on(k, "guided-verification")
		if n := warned(l.state(k), "overlay_count"); n != 1 {
			t.Errorf("at three: %d notices", n)
		}
		l.refuses(activate(k, "verify-first"), fault.Conflict, "live_limit_exceeded")
		l.Must(ec.ActivateOverlay{Key: k, OverlayID: "verify-first", Source: contracts.FromManual, OverrideLimit: true})
		if st := l.state(k); st.ActiveOverlays[3].Note != "override_limit" {
			t.Errorf("the override is not recorded: %+v", st.ActiveOverlays[3])
		}
		l.refuses(ec.ActivateOverlay{Key: k, OverlayID: "creative-flow", Source: contracts.FromManual, OverrideLimit: true}, fault.Conflict, "hard_conflict")
	})
	t.Run("R-SES-24 G-031 clear is one step, pins stay", func(t *testing.T) {
		k := chat("clear")
		l.on(k, "secure-code", "step-back-principles")
		l.Must(ec.PinOverlay{Key: k, OverlayID: "secure-code", Scope: contracts.PinWorkspace})
		r := l.Must(ec.ClearSession{Key: k})
		if r.Session.Revision != 4 || len(r.Session.ActiveOverlays) != 0 || len(l.View().Pins(contracts.PinWorkspace, "w").OverlayIDs) != 1 {
			t.Errorf("after clear: %+v", r.Session)
		}
		l.Must(ec.UnpinOverlay{Key: k, OverlayID: "secure-code", Scope: contracts.PinWorkspace})
	})
	t.Run("G-073 If-Match", func(t *testing.T) {
		k := chat("match")
		l.on(k, "secure-code")
		l.refuses(ec.DeactivateOverlay{Key: k, OverlayID: "secure-code", IfMatch: `"0"`}, fault.PreconditionFailed, "precondition_failed")
		l.Must(ec.DeactivateOverlay{Key: k, OverlayID: "secure-code", IfMatch: `"1"`})
	})
}

// R-SES-16, G-096: budgets, with overlays large enough to meet them.
func TestBudgets(t *testing.T) {
	l := newLive(t)
	for i := range 5 {
		l.own(fmt.Sprintf("big-%d", i), 300)
	}
	k := chat("t")
	l.on(k, "big-0", "big-1")
	if n := warned(l.state(k), "soft_budget"); n != 0 {
		t.Error("R-SES-16 warned at 600")
	}
	l.on(k, "big-2")
	if n := warned(l.state(k), "soft_budget"); n != 1 {
		t.Error("R-SES-16 not warned at 900")
	}
	l.Must(ec.ActivateOverlay{Key: k, OverlayID: "big-3", Source: contracts.FromManual, OverrideLimit: true}) // 1200 is allowed
	l.refuses(ec.ActivateOverlay{Key: k, OverlayID: "big-4", Source: contracts.FromManual, OverrideLimit: true}, fault.Conflict, "hard_budget_exceeded")

	t.Run("R-SES-18 G-016 an edit that passes the budget makes the newest inert, and back", func(t *testing.T) {
		rec := ectest.Overlay("big-0", sized("big-0", 310))
		rec.Frontmatter.LiveTokenTarget = 450
		before := l.state(k).Revision
		l.Must(ec.UpdateOverlay{OverlayID: "big-0", Record: rec})
		st := l.state(k)
		if got := l.set(k); got != "big-0 big-1 big-2 (big-3)" || st.Revision != before+1 || warned(st, "hard_budget") != 1 {
			t.Errorf("set %q, revision %d, warnings %q", got, st.Revision, st.Warnings)
		}
		p, _ := l.packet(k, ec.PacketQuery{TurnID: "1"})
		if blocks(p) != "big-0 big-1 big-2" || p.Dropped["big-3"] != contracts.DropHardBudget || p.EstimatedTotalTokens != 910 || len(p.RequestedOverlayIDs) != 4 {
			t.Errorf("R-PKT-07 R-PKT-08 packet %q, dropped %v, %d tokens", blocks(p), p.Dropped, p.EstimatedTotalTokens)
		}
		if p.RefreshReason != contracts.RefreshActivation {
			t.Errorf("R-LIB-09 the packet after the edit says %q", p.RefreshReason)
		}
		l.Must(ec.DeactivateOverlay{Key: k, OverlayID: "big-2"})
		if got := l.set(k); got != "big-0 big-1 big-3" {
			t.Errorf("with room again: %q", got)
		}
	})
}

// R-SES-15, R-SES-18: room in the budget does not make a fourth overlay live.
func TestInertEntriesMeetTheLimitToo(t *testing.T) {
	l := newLive(t)
	for id, tokens := range map[string]int{"one": 400, "two": 400, "three": 400, "four": 50} {
		l.own(id, tokens)
	}
	k := chat("t")
	resize := func(id string, tokens int) {
		rec := ectest.Overlay(id, sized(id, tokens))
		rec.Frontmatter.LiveTokenTarget = 450
		l.Must(ec.UpdateOverlay{OverlayID: contracts.OverlayID(id), Record: rec})
	}
	l.on(k, "one", "two", "three")
	resize("one", 440)
	l.on(k, "four")
	if got := l.set(k); got != "one two (three) four" {
		t.Fatalf("set %q", got)
	}
	resize("one", 60)
	st := l.state(k)
	if got := l.set(k); got != "one two (three) four" || st.ActiveOverlays[2].InertReason != "overlay_limit" || warned(st, "overlay_limit") != 1 {
		t.Errorf("with room in the budget: %q, %+v", got, st.Warnings)
	}
	l.Must(ec.DeactivateOverlay{Key: k, OverlayID: "four"})
	if got := l.set(k); got != "one two three" {
		t.Errorf("with room in the count: %q", got)
	}
}

// R-SES-11, G-017: an advisor protocol on a task is there for one dispatch.
func TestAdvisorProtocolForOneDispatch(t *testing.T) {
	for _, end := range []string{"the receipt", "the next turn's packet"} {
		t.Run("R-SES-11 gone after "+end, func(t *testing.T) {
			l := newLive(t)
			k := key(contracts.SurfaceTask, "w", "task")
			l.on(k, "secure-code", "spec-architect")
			p, _ := l.packet(k, ec.PacketQuery{TurnID: "1"})
			if blocks(p) != "secure-code spec-architect" {
				t.Fatalf("first packet: %q", blocks(p))
			}
			if live := p.OverlayBlocks[0].TokenEstimate; p.EstimatedTotalTokens != live {
				t.Errorf("R-SES-17 the total counts the advisor: %d, want %d", p.EstimatedTotalTokens, live)
			}
			if again, _ := l.packet(k, ec.PacketQuery{TurnID: "1"}); blocks(again) != blocks(p) {
				t.Errorf("a retry of the turn: %q", blocks(again))
			}
			revision := l.state(k).Revision
			if end == "the receipt" {
				l.receipt(k, revision, "1")
				if got := l.set(k); got != "secure-code" || l.state(k).Revision != revision+1 {
					t.Errorf("after the receipt: %q at %d", got, l.state(k).Revision)
				}
			}
			next, _ := l.packet(k, ec.PacketQuery{TurnID: "2"})
			if blocks(next) != "secure-code" || next.Revision != revision+1 || l.set(k) != "secure-code" {
				t.Errorf("second turn: %q at %d", blocks(next), next.Revision)
			}
		})
	}
}

func TestArchiveRestoreAndEditReachSessions(t *testing.T) {
	l := newLive(t)
	a, b, c := chat("a"), chat("b"), key(contracts.SurfaceChat, "other", "c")
	for _, k := range []contracts.OverlaySessionKey{a, b, c} {
		l.on(k, "secure-code")
		l.packet(k, ec.PacketQuery{TurnID: "1"})
	}
	l.receipt(a, 1, "1")
	l.Must(ec.PinOverlay{Key: a, OverlayID: "secure-code", Scope: contracts.PinThread})
	l.Must(ec.PinOverlay{Key: b, OverlayID: "secure-code", Scope: contracts.PinWorkspace})
	l.Must(ec.ArchiveOverlay{OverlayID: "secure-code"})
	for _, k := range []contracts.OverlaySessionKey{a, b, c} {
		st := l.state(k)
		p, _ := l.packet(k, ec.PacketQuery{TurnID: "2"})
		if len(st.ActiveOverlays) != 0 || warned(st, "overlay_archived") != 1 || blocks(p) != "" || p.RefreshReason != contracts.RefreshDeactivation || len(p.Warnings) != 1 {
			t.Errorf("R-SES-21 %s after archive: %+v, packet %+v", k.SurfaceID, st, p)
		}
	}
	if tr, err := l.View().Truth(a, true); err != nil || len(tr.AppliedOverlayIDs) != 1 {
		t.Errorf("R-SES-21 the old receipt: %+v, %v", tr, err)
	}
	l.refuses(activate(a, "secure-code"), fault.Conflict, "overlay_archived") // R-SES-08
	l.refuses(ec.PinOverlay{Key: a, OverlayID: "secure-code", Scope: contracts.PinUntilOff}, fault.Conflict, "overlay_archived")
	before := l.state(c).Revision
	l.Must(ec.RestoreOverlay{OverlayID: "secure-code"})
	// the pin is the workspace's: both of its sessions have it back, the other's has not
	if l.set(a) != "secure-code" || l.set(b) != "secure-code" || l.set(c) != "" {
		t.Errorf("R-SES-22 after restore: %q, %q, %q", l.set(a), l.set(b), l.set(c))
	}
	if st := l.state(b); !st.ForceRefreshNextTurn || st.PendingRefreshReason != contracts.RefreshActivation || st.ActiveOverlays[0].Source != contracts.FromWorkspacePin || len(st.Warnings) != 0 {
		t.Errorf("R-PKT-16 restored: %+v", st)
	}
	if st := l.state(c); st.Revision != before || len(st.Warnings) != 0 {
		t.Errorf("R-SES-22 the session without a pin: %+v", st)
	}
	t.Run("R-LIB-09 G-041 an edit counts from the next turn", func(t *testing.T) {
		old, _, _ := l.View().Overlay("secure-code")
		rec := old.Record
		rec.Body, rec.BodyHash = rec.Body+"\n- One more rule.\n", ""
		was, _ := l.packet(a, ec.PacketQuery{TurnID: "3"})
		l.Must(ec.UpdateOverlay{OverlayID: "secure-code", Record: rec})
		st := l.state(a)
		if st.ActiveOverlays[0].OverlayBodyHash == was.OverlayBlocks[0].BodyHash || warned(st, "overlay_edited") != 1 {
			t.Errorf("after the edit: %+v", st)
		}
		p, _ := l.packet(a, ec.PacketQuery{TurnID: "4"})
		if p.PacketHash == was.PacketHash || p.RefreshReason != contracts.RefreshActivation || p.OverlayBlocks[0].BodyHash != st.ActiveOverlays[0].OverlayBodyHash {
			t.Errorf("packet after the edit: %+v", p)
		}
		l.receipt(a, st.Revision, "4")
		if warned(l.state(a), "overlay_edited") != 0 {
			t.Error("R-SES-23 the news of the edit stays after its first receipt")
		}
	})
}

// R-SES-28, R-STO-06: a hundred concurrent changes of one session each raise the
// revision by one, and each answer carries its own.
func TestConcurrentChangesOfOneSession(t *testing.T) {
	l := newLive(t)
	k := chat("busy")
	l.Must(ec.BootstrapSession{Key: k})
	const n = 100
	revisions := make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id := []contracts.OverlayID{"secure-code", "step-back-principles"}[i%2]
			var body ec.Body = activate(k, id)
			if i%4 > 1 {
				body = ec.DeactivateOverlay{Key: k, OverlayID: id}
			}
			r, err := l.Do(context.Background(), ec.Command{ID: fmt.Sprint("c", i), Actor: ectest.User, Body: body})
			if err != nil {
				t.Error(err)
				return
			}
			if r.Changed {
				revisions[i] = r.Session.Revision
			}
		})
	}
	for range n {
		wg.Go(func() {
			for last, i := 0, 0; i < 20; i++ {
				b, due, err := l.View().Packet(k, ec.PacketQuery{TurnID: "r"})
				if due {
					r, doErr := l.Do(context.Background(), ec.Command{Actor: ec.Actor{Role: ec.RoleSeam}, Body: ec.BuildPacket{Key: k, TurnID: "r"}})
					if doErr != nil {
						t.Error(doErr)
						return
					}
					b = ec.PacketQuery{TurnID: "r"}.Encode(*r.Packet)
				}
				p, derr := contracts.Decode[contracts.OverlayPromptPacket](b.Body, contracts.Stored)
				if err != nil || derr != nil || p.Hash() != p.PacketHash || p.Revision < last || len(p.RequestedOverlayIDs) != len(p.OverlayBlocks) {
					t.Errorf("torn or older packet: %s, %v, %v", b.Body, err, derr)
					return
				}
				last = p.Revision
			}
		})
	}
	wg.Wait()
	var got []int
	for _, r := range revisions {
		if r > 0 {
			got = append(got, r)
		}
	}
	slices.Sort(got)
	for i, r := range got {
		if r != i+1 {
			t.Fatalf("R-SES-28 revisions %v have a gap or a repeat", got)
		}
	}
	if st := l.state(k); st.Revision != len(got) {
		t.Errorf("R-STO-06 revision %d after %d changes", st.Revision, len(got))
	}
}

func mustEncode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
