package ec

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// planLife is how long a plan may be dispatched; planKept how much longer it can
// be told apart from one that never was.
const (
	planLife = 15 * time.Minute
	planKept = 24 * time.Hour
)

const promptSeed = "Re-answer the selected turns using the selected overlay constraints."

// Plan is a re-answer plan's document.
type Plan struct {
	SchemaVersion int                                   `json:"schema_version"`
	Plan          contracts.OverlayReanswerPlan         `json:"plan"`
	TurnID        string                                `json:"turn_id,omitempty"` // of the dispatch that used it
	UsedAt        *contracts.Time                       `json:"used_at,omitempty"`
	Seq           uint64                                `json:"seq,omitempty"` // of the command that used it
	Packet        *contracts.OverlayPromptPacket        `json:"packet,omitempty"`
	Truth         *contracts.OverlayRuntimeTruthSummary `json:"truth,omitempty"`
}

// mark names for the audit what came to a plan: its packet or its receipt.
func (p *Plan) mark(what string) string {
	switch {
	case what == "used" && p.Packet != nil:
		return "@" + p.Packet.PacketHash
	case what == "receipt" && p.Truth != nil:
		return "@" + contracts.HashJSON(p.Truth)
	}
	return ""
}

func (s *State) preparePlan(c Command, b PreparePlan) (decision, error) {
	r, err := contracts.Check(b.Request, contracts.Client)
	if err == nil {
		err = checkPlan(r)
	}
	if err != nil {
		return decision{}, err
	}
	e, err := s.open(c, b.Key, b.IfMatch)
	if err != nil {
		return decision{}, err
	}
	d := decision{receipt: Receipt{Changed: true}}
	if r.KeepOverlayActiveAfterDispatch {
		for _, id := range r.OverlayIDs {
			o, ok := s.resolve(id)
			if !ok {
				return decision{}, noOverlay(id)
			}
			if err := e.turnOn(o, contracts.FromManual, "", false); err != nil {
				return decision{}, err
			}
		}
		if d, err = e.close("reanswer"); err != nil {
			return decision{}, err
		}
	} else if _, err := s.effective(c, e.base.SessionKey, r.OverrideMode, r.OverlayIDs); err != nil {
		return decision{}, err
	}
	plan := contracts.OverlayReanswerPlan{
		PlanID: contracts.DeriveID(c.ID, "reanswer-plan", 0), SessionKey: e.base.SessionKey, SelectedMessageIDs: r.SelectedMessageIDs, ContextMode: r.ContextMode,
		OverlayOverride:                contracts.OverlayDispatchOverride{Mode: r.OverrideMode, OverlayIDs: r.OverlayIDs, ClearAfterDispatch: true},
		KeepOverlayActiveAfterDispatch: r.KeepOverlayActiveAfterDispatch, PromptSeed: promptSeed,
		CreatedAt: c.At, ExpiresAt: contracts.At(c.At.Add(planLife)),
	}
	d.events = append(d.events, PlanPut{&Plan{SchemaVersion: 1, Plan: plan}, "prepared"})
	d.receipt.Subject, d.receipt.Plan, d.receipt.Changed = string(plan.PlanID), &plan, true
	return d, nil
}

// checkPlan checks what a request says about itself.
func checkPlan(r contracts.OverlayReanswerPlanRequest) error {
	var details []fault.Detail
	bad := func(field, rule, message string) {
		details = append(details, fault.Detail{Field: field, Rule: rule, Message: message})
	}
	if n := len(r.SelectedMessageIDs); n < 1 || n > 8 {
		bad("selected_message_ids", "count", "must name one to eight messages")
	}
	for i, id := range r.SelectedMessageIDs {
		switch n := utf8.RuneCountInString(id); {
		case n < 1 || n > 200:
			bad(fmt.Sprintf("selected_message_ids[%d]", i), "length", "must have 1 to 200 characters")
		case slices.Index(r.SelectedMessageIDs, id) != i:
			bad(fmt.Sprintf("selected_message_ids[%d]", i), "duplicate", "is named twice")
		}
	}
	details = append(details, checkOverride("override_mode", r.OverrideMode, r.OverlayIDs)...)
	if r.KeepOverlayActiveAfterDispatch && len(r.OverlayIDs) == 0 {
		bad("overlay_ids", "min_items", "must name what is to stay on after the dispatch")
	}
	if details != nil {
		return fault.Validation(details)
	}
	return nil
}

// checkOverride: one-time modes name overlays, the others do not.
func checkOverride(field string, mode contracts.OverlayDispatchOverrideMode, ids []contracts.OverlayID) []fault.Detail {
	var details []fault.Detail
	oneTime := mode == contracts.OverrideOneTime || mode == contracts.OverrideActivePlus
	switch {
	case !slices.Contains(mode.Values(), string(mode)):
		details = append(details, fault.Detail{Field: field, Rule: "enum", Message: "is not an override mode"})
	case oneTime && len(ids) == 0:
		details = append(details, fault.Detail{Field: "overlay_ids", Rule: "min_items", Message: "must name at least one overlay in this mode"})
	case !oneTime && len(ids) > 0:
		details = append(details, fault.Detail{Field: "overlay_ids", Rule: "max_items", Message: "must be empty in this mode"})
	}
	for i, id := range ids {
		if slices.Index(ids, id) != i {
			details = append(details, fault.Detail{Field: fmt.Sprintf("overlay_ids[%d]", i), Rule: "duplicate", Message: "is named twice"})
		}
	}
	return details
}

// effective gives the session as one dispatch with an override sees it. A
// session that is not there is computed and not stored.
func (s *State) effective(c Command, key contracts.OverlaySessionKey, mode contracts.OverlayDispatchOverrideMode, ids []contracts.OverlayID) (Session, error) {
	if details := checkOverride("mode", mode, ids); details != nil {
		return Session{}, fault.Validation(details)
	}
	var x Session
	if old, ok := s.session(key.FileName()); ok {
		x = old.clone()
	} else {
		x = s.bootstrap(c, key, nil)
	}
	if mode == contracts.OverrideOneTime {
		x.ActiveOverlays, x.Kept.Notes = nil, nil
	}
	for _, id := range ids {
		o, ok := s.resolve(id)
		if !ok {
			return Session{}, noOverlay(id)
		}
		if err := invocable(o, key.SurfaceKind, contracts.FromManual, ""); err != nil {
			return Session{}, err
		}
		i, held := x.entry(o.Record.Frontmatter.ID)
		if held && x.ActiveOverlays[i].ActiveForSurface {
			continue
		}
		if _, err := s.room(&x, o, contracts.FromManual, false); err != nil {
			return Session{}, err
		}
		if held {
			x.drop(i)
		}
		x.ActiveOverlays = append(x.ActiveOverlays, s.newEntry(c, o, contracts.FromManual, len(x.ActiveOverlays)))
	}
	s.settle(&x)
	return x, nil
}

// consumePlan gives a plan's packet to the dispatch that asks first. The session
// is left as it is: its refresh still waits, its packet is still its own.
func (s *State) consumePlan(c Command, b BuildPacket) (decision, error) {
	key, err := b.Key.Canonical("session_key")
	if err != nil {
		return decision{}, err
	}
	old, ok := s.plans.Get(string(b.PlanID))
	switch {
	case !ok:
		return decision{}, noPlan(b.PlanID)
	case old.Plan.SessionKey != key:
		return decision{}, otherSession()
	case old.Packet != nil && b.TurnID != "" && b.TurnID == old.TurnID:
		return decision{receipt: Receipt{Subject: string(b.PlanID), Packet: old.Packet}}, nil
	case old.Packet != nil:
		return decision{}, planUsed()
	case c.At.After(old.Plan.ExpiresAt.Time):
		return decision{}, fault.New(fault.Gone, "plan_expired", "the plan has expired; prepare another one")
	}
	over := old.Plan.OverlayOverride
	x, err := s.effective(c, key, over.Mode, over.OverlayIDs)
	if err != nil {
		return decision{}, err // such as an overlay that was archived since
	}
	packet := s.buildPacket(&x, c.At)
	packet.OverrideMode, packet.ReanswerPlanID = over.Mode, old.Plan.PlanID
	next := *old
	next.TurnID, next.UsedAt, next.Packet, next.Seq = b.TurnID, &c.At, &packet, s.Seq+1
	d, err := changed(string(b.PlanID), PlanPut{&next, "used"})
	d.receipt.Packet = &packet
	return d, err
}

// Plan gives a re-answer plan.
func (v *View) Plan(id contracts.UUID) (contracts.OverlayReanswerPlan, error) {
	p, ok := v.s.plans.Get(string(id))
	if !ok {
		return contracts.OverlayReanswerPlan{}, noPlan(id)
	}
	return p.Plan, nil
}
