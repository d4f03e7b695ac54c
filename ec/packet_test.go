package ec_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

func TestPacketsStayTheSame(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.on(k, "legal-strict", "secure-code")
	first, one := l.packet(k, ec.PacketQuery{TurnID: "1"})
	if first.RefreshReason != contracts.RefreshActivation {
		t.Errorf("G-018 the packet after a change says %q", first.RefreshReason)
	}
	t.Run("R-PKT-19 G-020 the reason labels one turn", func(t *testing.T) {
		if _, again := l.packet(k, ec.PacketQuery{TurnID: "1"}); string(again.Body) != string(one.Body) || again.ETag != one.ETag {
			t.Error("a retry of the turn gets another packet")
		}
	})
	_, plain := l.packet(k, ec.PacketQuery{TurnID: "2"})
	t.Run("R-PKT-10 G-021 nothing changes, no byte changes", func(t *testing.T) {
		seq := l.View().Seq()
		for i := range 10 {
			p, b := l.packet(k, ec.PacketQuery{TurnID: string(rune('a' + i))})
			if string(b.Body) != string(plain.Body) || b.ETag != plain.ETag || p.RefreshReason != "" || p.PacketHash != first.PacketHash {
				t.Fatalf("turn %d: another packet: %s", i, b.Body)
			}
		}
		if l.View().Seq() != seq {
			t.Error("reading wrote something")
		}
		l.Restart()
		if _, b := l.packet(k, ec.PacketQuery{TurnID: "z"}); string(b.Body) != string(plain.Body) {
			t.Errorf("after a restart: %s", b.Body)
		}
		if st := l.state(k); st.PromptPacketHash != first.PacketHash {
			t.Errorf("R-PKT-27 the state holds the hash %q", st.PromptPacketHash)
		}
	})
	t.Run("R-PKT-11 force gives a new time and nothing else", func(t *testing.T) {
		p, b := l.packet(k, ec.PacketQuery{TurnID: "f", Force: true})
		if p.PacketHash != first.PacketHash || p.Revision != first.Revision || !p.GeneratedAt.After(first.GeneratedAt.Time) || b.ETag == plain.ETag {
			t.Errorf("forced: %+v", p)
		}
		if _, again := l.packet(k, ec.PacketQuery{TurnID: "f", Force: true}); again.ETag != b.ETag {
			t.Error("a retry of a forced turn was built anew")
		}
	})
	t.Run("R-PKT-25 G-045 whatever revision is named", func(t *testing.T) {
		for _, r := range []int{0, l.state(k).Revision, 99} {
			p, b := l.packet(k, ec.PacketQuery{TurnID: "r", Revision: &r})
			if p.Revision != l.state(k).Revision || blocks(p) != "legal-strict secure-code" || (len(p.Warnings) == 1) != (r == 99) {
				t.Errorf("revision %d: %+v", r, p)
			}
			if _, next := l.packet(k, ec.PacketQuery{TurnID: "r2"}); (next.ETag != b.ETag) != (r == 99) {
				t.Error("the warning was for that answer only")
			}
		}
	})
	t.Run("R-PKT-11 a title is part of what reaches the prompt", func(t *testing.T) {
		d, _, _ := l.View().Overlay("secure-code")
		rec := d.Record
		rec.Frontmatter.Title = "Another title"
		l.Must(ec.UpdateOverlay{OverlayID: "secure-code", Record: rec})
		if p, _ := l.packet(k, ec.PacketQuery{TurnID: "title"}); p.PacketHash == first.PacketHash || p.OverlayBlocks[1].Title != "Another title" || p.Revision != first.Revision+1 {
			t.Errorf("after the edit: %+v", p)
		}
	})
	t.Run("R-PKT-06 R-PKT-07 blocks and totals", func(t *testing.T) {
		p, _ := l.packet(k, ec.PacketQuery{})
		sum := 0
		for _, b := range p.OverlayBlocks {
			sum += b.TokenEstimate
			if b.PositionHint != contracts.PositionHint || b.BodyHash != contracts.Hash(b.Body) || b.TokenEstimate != contracts.EstimateTokens(b.Body) {
				t.Errorf("block %+v", b)
			}
		}
		if p.EstimatedTotalTokens != sum || p.SoftBudget != 800 || p.HardBudget != 1200 || p.PacketHash != p.Hash() {
			t.Errorf("totals of %+v", p)
		}
	})
}

// A file that somebody edited while EC was not running is what the next turn gets,
// and the session says so.
func TestTextEditedWhileStopped(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	l.own("mine", 60)
	l.on(k, "mine")
	was, _ := l.packet(k, ec.PacketQuery{TurnID: "1"})
	was, _ = l.packet(k, ec.PacketQuery{TurnID: "2"})
	l.While(func() {
		path := filepath.Join(l.Dir, "system/overlays/templates/mine.md")
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(b, "One more rule.\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	p, _ := l.packet(k, ec.PacketQuery{TurnID: "3"})
	st := l.state(k)
	if p.PacketHash == was.PacketHash || p.Revision != was.Revision+1 || p.RefreshReason != contracts.RefreshActivation || st.ActiveOverlays[0].OverlayBodyHash != p.OverlayBlocks[0].BodyHash {
		t.Errorf("R-LIB-09 packet %+v, state %+v", p, st)
	}
}

func TestRefreshReasons(t *testing.T) {
	l := newLive(t)
	report := func(k contracts.OverlaySessionKey, r contracts.OverlayRefreshReason) ec.Body {
		return ec.ReportSessionEvent{Event: contracts.OverlaySessionEvent{SessionKey: k, EventKind: r}}
	}
	ask := func(k contracts.OverlaySessionKey, r contracts.OverlayRefreshReason) ec.Body {
		return ec.RequestRefresh{Key: k, Reason: r}
	}
	t.Run("R-PKT-18 R-PKT-19 R-PKT-22 each reason once", func(t *testing.T) {
		k := chat("each")
		l.on(k, "secure-code")
		set := l.set(k)
		for i, b := range []ec.Body{ask(k, "manual"), ask(k, "model_switch"), ask(k, "session_rehydrate"), report(k, "compaction"), report(k, "packet_trim"), report(k, "model_switch")} {
			want := []string{"manual", "model_switch", "session_rehydrate", "compaction", "packet_trim", "model_switch"}[i]
			l.packet(k, ec.PacketQuery{TurnID: "before" + want})
			l.Must(b)
			if st := l.state(k); !st.ForceRefreshNextTurn || string(st.PendingRefreshReason) != want {
				t.Errorf("after %s: %+v", want, st)
			}
			turn := want + string(b.Type())
			p, _ := l.packet(k, ec.PacketQuery{TurnID: turn})
			st := l.state(k)
			if string(p.RefreshReason) != want || st.ForceRefreshNextTurn || st.PendingRefreshReason != "" || string(st.LastRefreshReason) != want || st.LastRefreshAt == nil {
				t.Errorf("%s: packet says %q, state %+v", want, p.RefreshReason, st)
			}
			if p, _ := l.packet(k, ec.PacketQuery{TurnID: turn + "next"}); p.RefreshReason != "" {
				t.Errorf("%s labels a second turn", want)
			}
			if l.set(k) != set { // R-PKT-20 R-SES-25 R-SES-26
				t.Errorf("%s changed the set to %q", want, l.set(k))
			}
		}
	})
	t.Run("R-PKT-19 a packet without a turn is labelled once", func(t *testing.T) {
		k := chat("no-turn")
		l.on(k, "secure-code")
		if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != contracts.RefreshActivation {
			t.Errorf("first: %q", p.RefreshReason)
		}
		if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != "" {
			t.Errorf("second: %q", p.RefreshReason)
		}
	})
	t.Run("R-PKT-23 the stronger reason wins in either order", func(t *testing.T) {
		for i, order := range [][]ec.Body{{report(chat("p0"), "compaction"), ask(chat("p0"), "manual")}, {ask(chat("p1"), "manual"), report(chat("p1"), "compaction")}} {
			k := chat([]string{"p0", "p1"}[i])
			l.on(k, "secure-code")
			for _, b := range order {
				l.Must(b)
			}
			if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != contracts.RefreshManual {
				t.Errorf("order %d: %q", i, p.RefreshReason)
			}
		}
	})
	t.Run("R-PKT-24 G-018 reasons that are not the caller's", func(t *testing.T) {
		for _, r := range []contracts.OverlayRefreshReason{"compaction", "packet_trim", "activation_change", "deactivation_change", ""} {
			l.refuses(ask(chat("x"), r), fault.Invalid, "validation_failed")
		}
		l.refuses(report(chat("x"), "manual"), fault.Invalid, "validation_failed")
		_, err := l.Do(t.Context(), ec.Command{ID: "u", Actor: ec.Actor{Role: ec.RoleUser}, Body: report(chat("x"), "compaction")})
		if fault.Of(err) != fault.Forbidden {
			t.Errorf("a user reports a compaction: %v", err)
		}
	})
	t.Run("R-PKT-21 G-093 on an empty session", func(t *testing.T) {
		k := chat("empty")
		if r := l.Must(ask(k, "model_switch")); r.Changed || r.Session.ForceRefreshNextTurn {
			t.Errorf("model switch: %+v", r.Session)
		}
		if r := l.Must(ask(k, "manual")); !r.Changed || !r.Session.ForceRefreshNextTurn {
			t.Errorf("manual: %+v", r.Session)
		}
		if p, _ := l.packet(k, ec.PacketQuery{}); p.RefreshReason != contracts.RefreshManual || len(p.OverlayBlocks) != 0 {
			t.Errorf("packet %+v", p)
		}
	})
	t.Run("R-STO-08 a session in use is not forgotten for want of changes", func(t *testing.T) {
		k := chat("daily")
		l.on(k, "secure-code")
		_, was := l.packet(k, ec.PacketQuery{})
		_, was = l.packet(k, ec.PacketQuery{})
		for range 20 {
			l.Clock.Add(25 * time.Hour)
			if _, b := l.packet(k, ec.PacketQuery{Now: l.Clock.Now()}); b.ETag != was.ETag {
				t.Fatal("noting the use changed the packet")
			}
		}
		l.Must(ec.PruneSessions{})
		l.state(k)
	})
}

// R-PKT-09: the order of the stored list does not matter.
func TestPacketOrder(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	for _, id := range []contracts.OverlayID{"verify-first", "secure-code"} {
		l.Must(ec.PinOverlay{Key: chat("x"), OverlayID: id, Scope: contracts.PinWorkspace})
	}
	l.start(k)
	l.on(k, "guided-verification")
	want, _ := l.packet(k, ec.PacketQuery{})
	for range 20 {
		got := ec.BuildForTest(l.View(), k, func(a []contracts.ActiveOverlay) { rand.Shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] }) })
		if blocks(got) != blocks(want) || got.PacketHash != want.PacketHash {
			t.Fatalf("order %q, want %q", blocks(got), blocks(want))
		}
	}
	if blocks(want) != "secure-code verify-first guided-verification" { // pins of one instant by id, then what came later
		t.Errorf("order %q", blocks(want))
	}
}

func TestTruth(t *testing.T) {
	l := newLive(t)
	k := chat("t")
	truth := func(revision int, turn string, change func(*contracts.OverlayRuntimeTruthSummary)) ec.RecordTruth {
		s := contracts.OverlayRuntimeTruthSummary{
			SessionKey: k, Revision: revision, TurnID: turn, PacketHash: strings.Repeat("a", 64),
			RequestedOverlayIDs: contracts.List[contracts.OverlayID]{"secure-code", "verify-first"}, AppliedOverlayIDs: contracts.List[contracts.OverlayID]{"secure-code"},
			DroppedOverlayIDs: contracts.List[contracts.OverlayID]{"verify-first"}, DropReasonsByOverlay: contracts.Map[contracts.OverlayDropReason]{"verify-first": contracts.DropHardBudget},
		}
		if change != nil {
			change(&s)
		}
		return ec.RecordTruth{Truth: s}
	}
	t.Run("R-TRU-08 G-118 nothing recorded", func(t *testing.T) {
		l.refuses(truth(0, "1", nil), fault.NotFound, "not_found")
		l.on(k, "secure-code", "verify-first")
		if _, err := l.View().Truth(k, true); fault.Of(err) != fault.NotFound || fault.Code(err) != "truth_not_recorded" {
			t.Errorf("got %v", err)
		}
		if _, err := l.View().Truth(k, false); fault.Of(err) != fault.Unavailable || fault.Code(err) != "truth_unavailable" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R-TRU-01 R-TRU-04 R-TRU-12 recorded without a new revision", func(t *testing.T) {
		l.Must(truth(2, "1", nil))
		st := l.state(k)
		if st.Revision != 2 || st.LastAppliedRevision == nil || *st.LastAppliedRevision != 2 || st.LastAppliedAt == nil || st.LastAppliedPacketHash != strings.Repeat("a", 64) {
			t.Errorf("state %+v", st)
		}
		if d := cmp.Diff(contracts.List[contracts.OverlayID]{"verify-first"}, st.LastTrimmedOverlayIDs); d != "" {
			t.Errorf("G-109 trimmed: %s", d)
		}
		l.Restart()
		got, err := l.View().Truth(k, true)
		if err != nil || got.TurnID != "1" || got.DropReasonsByOverlay["verify-first"] != contracts.DropHardBudget {
			t.Errorf("after a restart: %+v, %v", got, err)
		}
		if l.Must(truth(2, "1", nil)).Changed {
			t.Error("the same receipt was recorded twice")
		}
	})
	t.Run("R-TRU-05 G-095 late and future receipts", func(t *testing.T) {
		l.refuses(truth(99, "9", nil), fault.Conflict, "future_revision")
		l.Must(truth(1, "0", nil)) // late
		if got, _ := l.View().Truth(k, true); got.Revision != 2 || *l.state(k).LastAppliedRevision != 2 {
			t.Errorf("a late receipt moved the last one back: %+v", got)
		}
		if n := len(l.View().TruthHistory(k)); n != 2 {
			t.Errorf("%d receipts are kept, want 2", n)
		}
		ahead := contracts.At(l.Clock.Now().Add(1000 * time.Hour))
		l.Must(truth(2, "2", func(s *contracts.OverlayRuntimeTruthSummary) { s.AppliedAt = &ahead }))
		l.Must(truth(2, "3", nil))
		if got, _ := l.View().Truth(k, true); got.TurnID != "3" {
			t.Errorf("a clock that is ahead shut out the next receipt: %+v", got)
		}
	})
	t.Run("R-TRU-02 every id is accounted for", func(t *testing.T) {
		for what, change := range map[string]func(*contracts.OverlayRuntimeTruthSummary){
			"unexplained":   func(s *contracts.OverlayRuntimeTruthSummary) { s.AppliedOverlayIDs = nil },
			"no reason":     func(s *contracts.OverlayRuntimeTruthSummary) { s.DropReasonsByOverlay = nil },
			"not requested": func(s *contracts.OverlayRuntimeTruthSummary) { s.AppliedOverlayIDs = append(s.AppliedOverlayIDs, "x") },
			"both": func(s *contracts.OverlayRuntimeTruthSummary) {
				s.AppliedOverlayIDs = append(s.AppliedOverlayIDs, "verify-first")
			},
			"extra reason": func(s *contracts.OverlayRuntimeTruthSummary) { s.DropReasonsByOverlay["secure-code"] = "archived" },
			"bad reason":   func(s *contracts.OverlayRuntimeTruthSummary) { s.DropReasonsByOverlay["verify-first"] = "mood" },
			"bad key":      func(s *contracts.OverlayRuntimeTruthSummary) { s.SessionKey.ThreadID = "other" },
		} {
			if f := l.refuses(truth(2, "b"+what, change), fault.Invalid, "validation_failed"); len(f.Details) == 0 {
				t.Errorf("%s: no field is named", what)
			}
		}
	})
	t.Run("R-TRU-08 a turn without a packet applied nothing", func(t *testing.T) {
		before := l.state(k).LastAppliedAt
		l.Must(truth(2, "down", func(s *contracts.OverlayRuntimeTruthSummary) {
			s.PacketHash, s.AppliedOverlayIDs, s.DroppedOverlayIDs = "", nil, s.RequestedOverlayIDs
			s.DropReasonsByOverlay = contracts.Map[contracts.OverlayDropReason]{"secure-code": "packet_unavailable", "verify-first": "packet_unavailable"}
		}))
		if at := l.state(k).LastAppliedAt; *at != *before {
			t.Errorf("last applied at %v, was %v", at, before)
		}
		if got, _ := l.View().Truth(k, true); len(got.AppliedOverlayIDs) != 0 || len(got.DroppedOverlayIDs) != 2 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("explain says a sentence for each", func(t *testing.T) {
		got, err := l.View().Explain(k)
		if err != nil || len(got.Items) != 2 || !got.Items[0].In || got.Items[0].LastTurn != "dropped" || !strings.Contains(got.Items[0].Sentence, "turned on by person") {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestReanswerPlans(t *testing.T) {
	l := newLive(t)
	for _, id := range []string{"big-a", "big-b", "big-c"} {
		l.own(id, 440)
	}
	plan := func(k contracts.OverlaySessionKey, mode contracts.OverlayDispatchOverrideMode, keep bool, ids ...contracts.OverlayID) ec.PreparePlan {
		return ec.PreparePlan{Key: k, Request: contracts.OverlayReanswerPlanRequest{
			SelectedMessageIDs: contracts.List[string]{"m1"}, ContextMode: "selected_turns_only", OverrideMode: mode, OverlayIDs: ids, KeepOverlayActiveAfterDispatch: keep,
		}}
	}
	files := func() string {
		t.Helper()
		if err := l.Store.Flush(); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, dir := range []string{"sessions", "pins", "templates"} {
			err := filepath.Walk(filepath.Join(l.Dir, "system/overlays", dir), func(p string, info os.FileInfo, err error) error {
				if err != nil || info.IsDir() {
					return nil
				}
				b, err := os.ReadFile(p)
				out.WriteString(p + " " + contracts.HashBytes(b) + "\n")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	known := chat("known")
	l.on(known, "secure-code")
	l.Must(ec.RequestRefresh{Key: known, Reason: contracts.RefreshManual})
	t.Run("R-REA-03 with keep false no file of sessions changes", func(t *testing.T) {
		for _, k := range []contracts.OverlaySessionKey{known, chat("never seen")} {
			before := files()
			r := l.Must(plan(k, contracts.OverrideOneTime, false, "verify-first"))
			p, _ := l.packet(k, ec.PacketQuery{PlanID: r.Plan.PlanID, TurnID: "re"})
			if blocks(p) != "verify-first" || p.OverrideMode != contracts.OverrideOneTime || p.ReanswerPlanID != r.Plan.PlanID || p.RefreshReason != "" {
				t.Errorf("packet %+v", p)
			}
			l.Must(ec.RecordTruth{Truth: contracts.OverlayRuntimeTruthSummary{
				SessionKey: k, Revision: p.Revision, TurnID: "re", PacketHash: p.PacketHash, ReanswerPlanID: r.Plan.PlanID, OverrideMode: p.OverrideMode,
				RequestedOverlayIDs: p.RequestedOverlayIDs, AppliedOverlayIDs: p.RequestedOverlayIDs,
			}})
			if d := cmp.Diff(before, files()); d != "" {
				t.Errorf("%s: files changed:\n%s", k.SurfaceID, d)
			}
			if tr, err := l.View().Truth(k, true); err != nil || tr.ReanswerPlanID != r.Plan.PlanID { // R-TRU-03
				t.Errorf("receipt of the override: %+v, %v", tr, err)
			}
		}
		if st := l.state(known); st.PendingRefreshReason != contracts.RefreshManual || st.LastAppliedAt != nil {
			t.Errorf("G-092 the override consumed the refresh: %+v", st)
		}
	})
	t.Run("R-REA-07 G-092 what each mode means", func(t *testing.T) {
		for _, c := range []struct {
			mode contracts.OverlayDispatchOverrideMode
			ids  []contracts.OverlayID
			want string
		}{
			{contracts.OverrideNone, nil, "secure-code"}, {contracts.OverrideUseActive, nil, "secure-code"},
			{contracts.OverrideOneTime, []contracts.OverlayID{"verify-first"}, "verify-first"},
			{contracts.OverrideActivePlus, []contracts.OverlayID{"verify-first"}, "secure-code verify-first"},
			{contracts.OverrideActivePlus, []contracts.OverlayID{"secure-code"}, "secure-code"},
		} {
			r := l.Must(plan(known, c.mode, false, c.ids...))
			if p, _ := l.packet(known, ec.PacketQuery{PlanID: r.Plan.PlanID}); blocks(p) != c.want {
				t.Errorf("R-PKT-26 mode %s with %v: %q, want %q", c.mode, c.ids, blocks(p), c.want)
			}
			p, err := l.View().OverridePacket(known, contracts.OverlayDispatchOverride{Mode: c.mode, OverlayIDs: c.ids}, contracts.At(l.Clock.Now()))
			if err != nil || blocks(p) != c.want {
				t.Errorf("R-REA-13 override on a turn, mode %s: %q, %v", c.mode, blocks(p), err)
			}
		}
	})
	t.Run("R-REA-08 R-SES-18 one-time overlays meet every rule", func(t *testing.T) {
		k := chat("rules")
		l.on(k, "creative-flow", "big-a")
		for _, c := range []struct {
			b    ec.PreparePlan
			kind fault.Kind
			code string
		}{
			{plan(k, contracts.OverrideOneTime, false), fault.Invalid, "validation_failed"},
			{plan(k, contracts.OverrideUseActive, false, "verify-first"), fault.Invalid, "validation_failed"},
			{plan(k, contracts.OverrideUseActive, true), fault.Invalid, "validation_failed"},
			{plan(k, contracts.OverrideOneTime, false, "verify-first", "verify-first"), fault.Invalid, "validation_failed"},
			{plan(k, contracts.OverrideOneTime, false, "nowhere"), fault.NotFound, "not_found"},
			{plan(k, contracts.OverrideOneTime, false, "reflexion-learning"), fault.Invalid, "post_task_not_live"},
			{plan(key(contracts.SurfaceTask, "w", "x"), contracts.OverrideOneTime, false, "concise-executive"), fault.Invalid, "surface_unsupported"},
			{plan(k, contracts.OverrideActivePlus, false, "legal-strict"), fault.Conflict, "hard_conflict"},
			{plan(k, contracts.OverrideOneTime, false, "creative-flow", "legal-strict"), fault.Conflict, "hard_conflict"},
			{plan(k, contracts.OverrideOneTime, false, "big-a", "big-b", "big-c"), fault.Conflict, "hard_budget"},
			{plan(k, contracts.OverrideActivePlus, true, "legal-strict"), fault.Conflict, "hard_conflict"}, // R-REA-04
		} {
			l.refuses(c.b, c.kind, c.code)
		}
		over := plan(k, contracts.OverrideUseActive, false)
		over.Request.SelectedMessageIDs = contracts.List[string]{"a", "a"}
		l.refuses(over, fault.Invalid, "validation_failed") // R-REA-01
		over.Request.SelectedMessageIDs = nil
		l.refuses(over, fault.Invalid, "validation_failed")
	})
	t.Run("R-REA-04 keep true turns the overlay on first", func(t *testing.T) {
		k := chat("keep")
		l.on(k, "secure-code")
		r := l.Must(plan(k, contracts.OverrideOneTime, true, "verify-first", "step-back-principles"))
		if l.set(k) != "secure-code verify-first step-back-principles" || l.state(k).Revision != 2 {
			t.Errorf("set %q at %d", l.set(k), l.state(k).Revision)
		}
		if p, _ := l.packet(k, ec.PacketQuery{PlanID: r.Plan.PlanID}); blocks(p) != "verify-first step-back-principles" && blocks(p) != "step-back-principles verify-first" {
			t.Errorf("this dispatch: %q", blocks(p))
		}
	})
	t.Run("R-REA-05 R-REA-11 G-025 once, in time, in its session", func(t *testing.T) {
		r := l.Must(plan(known, contracts.OverrideUseActive, false))
		id := r.Plan.PlanID
		if got := r.Plan.ExpiresAt.Sub(r.Plan.CreatedAt.Time); got != 15*time.Minute || r.Plan.PromptSeed == "" {
			t.Errorf("plan %+v", r.Plan)
		}
		l.refuses(ec.BuildPacket{Key: chat("other"), PlanID: id}, fault.Conflict, "plan_session_mismatch")
		_, first := l.packet(known, ec.PacketQuery{PlanID: id, TurnID: "1"})
		l.Must(ec.DeactivateOverlay{Key: known, OverlayID: "secure-code"})
		l.Restart()
		if _, again := l.packet(known, ec.PacketQuery{PlanID: id, TurnID: "1"}); string(again.Body) != string(first.Body) {
			t.Error("R-REA-05 a retry of the dispatch gets another packet")
		}
		if _, _, err := l.View().Packet(known, ec.PacketQuery{PlanID: id, TurnID: "2"}); fault.Code(err) != "plan_used" {
			t.Errorf("second use: %v", err)
		}
		l.refuses(ec.BuildPacket{Key: known, PlanID: id, TurnID: "2"}, fault.Conflict, "plan_used")
		late := l.Must(plan(known, contracts.OverrideUseActive, false)).Plan.PlanID
		l.Clock.Add(16 * time.Minute)
		l.refuses(ec.BuildPacket{Key: known, PlanID: late}, fault.Gone, "plan_expired")
		l.Clock.Add(25 * time.Hour)
		l.Must(ec.PruneSessions{})
		if _, err := l.View().Plan(late); fault.Of(err) != fault.NotFound {
			t.Errorf("an old plan is kept: %v", err)
		}
	})
}
