package ec_test

import (
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
	t.Run("R-TRU-01 a receipt that is handed over twice is kept once", func(t *testing.T) {
		twice := chat("twice")
		l.on(twice, "secure-code", "verify-first")
		at := func(minutes int, mode contracts.OverlayDispatchOverrideMode) func(*contracts.OverlayRuntimeTruthSummary) {
			when := contracts.At(l.Clock.Now().Add(time.Duration(minutes-60) * time.Minute))
			return func(s *contracts.OverlayRuntimeTruthSummary) {
				s.SessionKey, s.AppliedAt, s.OverrideMode = twice, &when, mode
			}
		}
		early, over := at(1, ""), at(3, contracts.OverrideUseActive)
		for _, b := range []ec.RecordTruth{truth(2, "early", early), truth(2, "late", at(2, "")), truth(2, "over", over)} {
			l.Must(b)
		}
		before := len(l.View().TruthHistory(twice))
		for _, b := range []ec.RecordTruth{truth(2, "early", early), truth(2, "over", over)} {
			if l.Must(b).Changed || len(l.View().TruthHistory(twice)) != before {
				t.Errorf("the receipt of %s is there twice: %d, want %d", b.Truth.TurnID, len(l.View().TruthHistory(twice)), before)
			}
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
			{plan(k, contracts.OverrideOneTime, false, "reflexion-learning"), fault.Invalid, "class_not_activatable"},
			{plan(key(contracts.SurfaceTask, "w", "x"), contracts.OverrideOneTime, false, "concise-executive"), fault.Invalid, "surface_unsupported"},
			{plan(k, contracts.OverrideActivePlus, false, "legal-strict"), fault.Conflict, "hard_conflict"},
			{plan(k, contracts.OverrideOneTime, false, "creative-flow", "legal-strict"), fault.Conflict, "hard_conflict"},
			{plan(k, contracts.OverrideOneTime, false, "big-a", "big-b", "big-c"), fault.Conflict, "hard_budget_exceeded"},
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
