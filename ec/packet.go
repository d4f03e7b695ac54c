package ec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// packetMemo keeps the bytes of a session's packet once somebody has asked for
// them: plain, and with the label of the refresh that it answered. They are a
// function of the session and the library, so that it does not matter who
// computes them first.
type packetMemo struct{ plain, labelled atomic.Pointer[PacketBytes] }

// PacketBytes is a packet ready to be sent.
type PacketBytes struct {
	Body []byte
	ETag string // strong, quoted
}

// PacketQuery says which packet is asked for.
type PacketQuery struct {
	TurnID   string         // the turn that it is for; a retry names the same one
	PlanID   contracts.UUID // of a re-answer
	Force    bool           // built anew, even if nothing has changed
	Revision *int           // that the caller knows of
	Now      time.Time      // for noting that the session is in use; may be zero
}

// Packet gives a session's packet. Where due is true nothing is given: the
// caller sends BuildPacket, whose receipt holds the packet. It is not read again
// from a later view: a change in between would take the label of the refresh,
// which goes out once, away from the only reader that it was for.
func (v *View) Packet(key contracts.OverlaySessionKey, q PacketQuery) (p PacketBytes, due bool, err error) {
	if q.PlanID != "" {
		return v.planPacket(key, q)
	}
	x, ok := v.s.session(key.FileName())
	if !ok || v.s.packetDue(x, q) {
		return PacketBytes{}, true, nil
	}
	labelled := x.Kept.Packet.labels(q.TurnID)
	if q.ahead(x.Revision) {
		return q.Encode(v.s.sessionPacket(x, labelled)), false, nil
	}
	memo := &x.memo.plain
	if labelled {
		memo = &x.memo.labelled
	}
	if have := memo.Load(); have != nil {
		return *have, false, nil
	}
	made := q.Encode(v.s.sessionPacket(x, labelled))
	memo.Store(&made)
	return made, false, nil
}

// labels says whether a packet for this turn carries the reason of the refresh:
// the turn is the one that it was built for.
func (p *PacketStamp) labels(turn string) bool {
	return p.Reason != "" && turn != "" && turn == p.TurnID
}

// ahead says whether the caller knows of a revision that there is not.
func (q PacketQuery) ahead(revision int) bool { return q.Revision != nil && *q.Revision > revision }

// Encode gives the bytes of a packet as the answer to a query.
func (q PacketQuery) Encode(p contracts.OverlayPromptPacket) PacketBytes {
	mark := ""
	if p.ReanswerPlanID == "" && q.ahead(p.Revision) {
		mark = fmt.Sprintf("f%d", *q.Revision)
		p.Warnings = append(slices.Clone(p.Warnings), fmt.Sprintf("future_revision: revision %d was asked for; this is %d, the newest there is", *q.Revision, p.Revision))
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic("ec: encode packet: " + err.Error()) // our own types only
	}
	return PacketBytes{Body: body, ETag: `"` + contracts.HashBytes(body)[:32] + mark + `"`}
}

// packetDue says whether a command must come before a packet is given out.
func (s *State) packetDue(x *Session, q PacketQuery) bool {
	stamp := x.Kept.Packet
	again := stamp != nil && q.TurnID != "" && q.TurnID == stamp.TurnID // a retry of the turn
	switch {
	case stamp == nil, stamp.Revision != x.Revision, x.ForceRefreshNextTurn, x.PendingRefreshReason != "":
		return true
	case q.Force && !again, s.outdated(x):
		return true
	case !q.Now.IsZero() && q.Now.Sub(x.Kept.ActiveAt.Time) > 24*time.Hour:
		return true // so that a session in use is not taken for a forgotten one
	}
	return slices.ContainsFunc(x.Kept.Issued, func(i IssuedForOne) bool { return q.TurnID == "" || i.TurnID != q.TurnID })
}

func (s *State) stampPacket(c Command, b BuildPacket) (decision, error) {
	if b.PlanID != "" {
		return s.consumePlan(c, b)
	}
	e, err := s.open(c, b.Key, "")
	if err != nil {
		return decision{}, err
	}
	q := PacketQuery{TurnID: b.TurnID, Force: b.Force, Now: c.At.Time}
	if e.old != nil && !s.packetDue(e.old, q) {
		p := s.sessionPacket(e.old, e.old.Kept.Packet.labels(b.TurnID)) // somebody else was first
		return decision{receipt: Receipt{Subject: e.old.file, Packet: &p}}, nil
	}
	n := &e.next
	gone := map[contracts.UUID]bool{} // one-dispatch entries whose dispatch is over
	for _, i := range n.Kept.Issued {
		gone[i.ActivationID] = b.TurnID == "" || i.TurnID != b.TurnID
	}
	if s.outdated(&e.base) {
		e.reason = contracts.RefreshActivation
	}
	e.endDispatch(gone)
	if _, err := e.close("packet"); err != nil { // settles and counts the revision
		return decision{}, err
	}
	inUse := e.old != nil && !s.packetNeeded(e.old, q) // only the activity is noted
	labelled := inUse && n.Kept.Packet.labels(b.TurnID)
	if !inUse {
		labelled = n.PendingRefreshReason != ""
		n.Kept.Packet = &PacketStamp{Revision: n.Revision, GeneratedAt: c.At, TurnID: b.TurnID, Reason: n.PendingRefreshReason, Seq: s.Seq + 1}
		if n.PendingRefreshReason != "" || n.ForceRefreshNextTurn {
			n.LastRefreshReason, n.LastRefreshAt = cmp.Or(n.PendingRefreshReason, contracts.RefreshManual), &c.At
		}
		n.PendingRefreshReason, n.ForceRefreshNextTurn = "", false
		n.PromptPacketHash = s.sessionPacket(n, false).PacketHash
		n.Kept.Issued = issuedFor(n, b.TurnID)
	}
	n.Kept.ActiveAt = c.At
	next := n.clone()
	next.memo = &packetMemo{}
	if inUse {
		next.memo = e.old.memo
	}
	p := s.sessionPacket(&next, labelled)
	return decision{
		[]Event{SessionPut{Session: &next, Previous: e.old, What: "packet"}},
		Receipt{Subject: next.file, Changed: true, Session: &next.OverlaySessionState, Packet: &p},
	}, nil
}

// outdated says whether a text was changed behind EC's back, by hand while it
// was not running: the session then still names the text of before.
func (s *State) outdated(x *Session) bool {
	return slices.ContainsFunc(x.ActiveOverlays, func(a contracts.ActiveOverlay) bool {
		o, ok := s.overlays.Get(string(a.OverlayID))
		return ok && o.Record.BodyHash != a.OverlayBodyHash
	})
}

// packetNeeded is packetDue without the note of activity.
func (s *State) packetNeeded(x *Session, q PacketQuery) bool {
	q.Now = time.Time{}
	return s.packetDue(x, q)
}

// endDispatch takes out one-dispatch entries whose dispatch is over.
func (e *edit) endDispatch(gone map[contracts.UUID]bool) {
	n := &e.next
	before := len(n.ActiveOverlays)
	n.ActiveOverlays = slices.DeleteFunc(n.ActiveOverlays, func(a contracts.ActiveOverlay) bool { return a.OneDispatch && gone[a.ActivationID] })
	n.Kept.Issued = slices.DeleteFunc(n.Kept.Issued, func(i IssuedForOne) bool { return gone[i.ActivationID] })
	if len(n.ActiveOverlays) < before {
		e.reason = contracts.RefreshDeactivation
	}
}

// issuedFor remembers with which turn each one-dispatch entry went out first.
func issuedFor(x *Session, turn string) contracts.List[IssuedForOne] {
	var out contracts.List[IssuedForOne]
	for _, a := range x.ActiveOverlays {
		if !a.OneDispatch {
			continue
		}
		i := slices.IndexFunc(x.Kept.Issued, func(i IssuedForOne) bool { return i.ActivationID == a.ActivationID })
		if i >= 0 {
			out = append(out, x.Kept.Issued[i])
		} else {
			out = append(out, IssuedForOne{a.ActivationID, turn})
		}
	}
	return out
}

// sessionPacket builds the packet that a session's stamp stands for.
func (s *State) sessionPacket(x *Session, labelled bool) contracts.OverlayPromptPacket {
	p := s.buildPacket(x, x.Kept.Packet.GeneratedAt)
	if labelled {
		p.RefreshReason = x.Kept.Packet.Reason
	}
	return p
}

// layerOf orders sources of equal rank as they came into the session.
func layerOf(source contracts.OverlayActivationSource) int {
	switch source {
	case contracts.FromRoom, contracts.FromTask:
		return 0
	case contracts.FromModerator:
		return 1
	case contracts.FromWorkspacePin:
		return 2
	case contracts.FromGlobalPin:
		return 3
	default:
		return 4
	}
}

// byPlace orders the entries of a packet.
func byPlace(a, b contracts.ActiveOverlay) int {
	return cmp.Or(a.PriorityRank-b.PriorityRank, layerOf(a.Source)-layerOf(b.Source), a.ActivatedAt.Compare(b.ActivatedAt.Time), cmp.Compare(a.OverlayID, b.OverlayID))
}

// buildPacket is a function of a session's set and the library. What was asked
// for is in a block or among the dropped, with a warning.
func (s *State) buildPacket(x *Session, at contracts.Time) contracts.OverlayPromptPacket {
	p := contracts.OverlayPromptPacket{
		SessionKey: x.SessionKey, Revision: x.Revision, SoftBudget: contracts.SoftBudget, HardBudget: contracts.HardBudget, GeneratedAt: at,
		Dropped: contracts.Map[contracts.OverlayDropReason]{},
	}
	entries := slices.Clone(x.ActiveOverlays)
	slices.SortFunc(entries, byPlace)
	for _, w := range x.Warnings {
		if !bytes.HasPrefix([]byte(w), []byte(noteEdited+":")) { // news for a person, and over with the next receipt
			p.Warnings = append(p.Warnings, w)
		}
	}
	for _, a := range entries {
		p.RequestedOverlayIDs = append(p.RequestedOverlayIDs, a.OverlayID)
		o, ok := s.overlays.Get(string(a.OverlayID))
		switch {
		case !ok || o.Archived():
			p.Dropped[string(a.OverlayID)] = contracts.DropArchived
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s: %s is not in use any more and was left out", noteArchived, a.OverlayID))
			continue
		case !a.ActiveForSurface:
			p.Dropped[string(a.OverlayID)] = dropOf(a.InertReason)
			continue
		}
		fm := o.Record.Frontmatter
		block := contracts.OverlayPromptBlock{
			OverlayID: fm.ID, Title: fm.Title, Body: o.Record.Body, BodyHash: o.Record.BodyHash, ArtifactClass: fm.ArtifactClass, PriorityRank: a.PriorityRank,
			TokenEstimate: contracts.EstimateTokens(o.Record.Body), PositionHint: contracts.PositionHint, Source: a.Source, CandidateID: a.CandidateID,
		}
		if fm.ArtifactClass == contracts.ClassLive {
			p.EstimatedTotalTokens += block.TokenEstimate
		}
		p.OverlayBlocks = append(p.OverlayBlocks, block)
	}
	p.PacketHash = p.Hash()
	return p
}

func dropOf(inert string) contracts.OverlayDropReason {
	switch inert {
	case inertConflict:
		return contracts.DropConflict
	case inertSurface:
		return contracts.DropSurface
	default:
		return contracts.DropHardBudget // of tokens or of count; the warning says which
	}
}

// OverridePacket gives the packet for one dispatch with an override that is
// attached to an ordinary turn. Nothing is stored.
func (v *View) OverridePacket(key contracts.OverlaySessionKey, o contracts.OverlayDispatchOverride, at contracts.Time) (contracts.OverlayPromptPacket, error) {
	key, err := key.Canonical("session_key")
	if err != nil {
		return contracts.OverlayPromptPacket{}, err
	}
	c := Command{ID: "override", Actor: Actor{Role: RoleSeam}, At: at}
	x, err := v.s.effective(c, key, o.Mode, o.OverlayIDs)
	if err != nil {
		return contracts.OverlayPromptPacket{}, err
	}
	p := v.s.buildPacket(&x, at)
	p.OverrideMode, p.RefreshReason = o.Mode, o.RefreshReason
	return p, nil
}

// OverrideBytes is OverridePacket, ready to be sent.
func (v *View) OverrideBytes(key contracts.OverlaySessionKey, o contracts.OverlayDispatchOverride, at contracts.Time) (PacketBytes, error) {
	p, err := v.OverridePacket(key, o, at)
	if err != nil {
		return PacketBytes{}, err
	}
	return PacketQuery{}.Encode(p), nil
}

// planPacket gives the packet of a plan that is being dispatched.
func (v *View) planPacket(key contracts.OverlaySessionKey, q PacketQuery) (PacketBytes, bool, error) {
	pl, ok := v.s.plans.Get(string(q.PlanID))
	if !ok {
		return PacketBytes{}, false, noPlan(q.PlanID)
	}
	if pl.Plan.SessionKey.FileName() != key.FileName() {
		return PacketBytes{}, false, otherSession()
	}
	if pl.Packet == nil {
		return PacketBytes{}, true, nil
	}
	if q.TurnID == "" || pl.TurnID != q.TurnID {
		return PacketBytes{}, false, planUsed()
	}
	return q.Encode(*pl.Packet), false, nil
}

func noPlan(id contracts.UUID) error {
	return fault.New(fault.NotFound, "not_found", "there is no re-answer plan %q", id)
}

func otherSession() error {
	return fault.New(fault.Conflict, "plan_session_mismatch", "the plan belongs to another session")
}

func planUsed() error {
	return fault.New(fault.Conflict, "plan_used", "the plan has been used; prepare another one")
}
