package ec

import (
	"cmp"
	"slices"

	"github.com/elnor/promptlab/contracts"
)

// checkState holds a session's own document against the audit, its receipts and
// the texts that it names.
func (k *sessionCheck) checkState(x *Session, receipts *Truth) {
	file := k.sessionPath()
	if k.lastKnown >= 0 && x.Revision != k.lastKnown {
		k.problem(file, "is at revision %d; the audit's last is %d", x.Revision, k.lastKnown)
	}
	if receipts != nil && receipts.Last != nil && receipts.Last.PacketHash != "" {
		last := receipts.Last
		if x.LastAppliedPacketHash != last.PacketHash {
			k.problem(file, "last_applied_packet_hash is %s; the last receipt says %s", x.LastAppliedPacketHash, last.PacketHash)
		}
		if x.LastAppliedRevision == nil || *x.LastAppliedRevision != last.Revision {
			k.problem(file, "last_applied_revision is not the %d of the last receipt", last.Revision)
		}
	}
	stamp := x.Kept.Packet
	if stamp == nil {
		return
	}
	was, issued := k.issued[x.PromptPacketHash]
	if !issued && len(k.issued) > 0 {
		k.problem(file, "prompt_packet_hash %s is of no packet that was built for this session", x.PromptPacketHash)
	}
	if stamp.Revision != x.Revision {
		return // what the next packet will be is not decided yet
	}
	var slots []slot
	entries := slices.Clone(x.ActiveOverlays)
	slices.SortFunc(entries, byPlace)
	for _, a := range entries {
		if !a.ActiveForSurface {
			continue
		}
		s := slot{id: a.OverlayID, sources: []contracts.OverlayActivationSource{a.Source}, rank: a.PriorityRank, candidates: nonEmpty(a.CandidateID), absent: k.archivedNow(a.OverlayID)}
		if v, ok := k.inForce(a.OverlayID, was.seq, stamp.GeneratedAt); ok && k.intact(a.OverlayID, v) && v.want != "" && v.want != a.OverlayBodyHash {
			k.problem(file, "active_overlays: the text of %s was %s when the packet was built, not %s", a.OverlayID, v.want, a.OverlayBodyHash)
		}
		slots = append(slots, s)
	}
	if _, ok, tooMany := k.recompute(x.SessionKey, slots, was.seq, stamp.GeneratedAt, x.PromptPacketHash); ok {
		k.out.Recomputed++
	} else {
		k.whyNot(file, "the present packet", slots, was.seq, stamp.GeneratedAt, x.PromptPacketHash, tooMany)
	}
}

// checkReceipt holds one receipt against the audit and the texts of then.
func (k *sessionCheck) checkReceipt(file string, t contracts.OverlayRuntimeTruthSummary) {
	name := "the receipt of turn " + cmp.Or(t.TurnID, "without a name")
	k.out.Receipts++
	hash := contracts.HashJSON(t)
	switch {
	case k.anchored[hash]:
	case k.unknown > 0:
		k.note(file, "%s cannot be compared with what was recorded: earlier versions noted no hash of a receipt", name)
	default:
		k.problem(file, "%s is not the one that was recorded: its hash is %s, and the audit knows none like it", name, hash)
	}
	if t.SessionKey.FileName() != k.file {
		k.problem(file, "%s is of another session: %s", name, t.SessionKey.JSON())
	}
	if err := checkTruth(t); err != nil {
		k.problem(file, "%s contradicts itself: %v", name, err)
	}
	if t.PacketHash == "" {
		return
	}
	was, issued := k.issued[t.PacketHash]
	own := t.OverrideMode == "" || t.OverrideMode == contracts.OverrideNone // what is for one turn is not stored
	switch {
	case !own || len(k.issued) == 0:
	case !issued:
		k.problem(file, "%s names the packet %s, which was never built for this session", name, t.PacketHash)
		return
	case was.revision != t.Revision && !k.builtAt(t):
		k.problem(file, "%s says revision %d; its packet was built for revision %d", name, t.Revision, was.revision)
	}
	at := t.GeneratedAt
	if at == nil {
		at = t.AppliedAt
	}
	if at == nil {
		at = &contracts.Time{}
	}
	slots := k.slotsOf(t)
	blocks, ok, tooMany := k.recompute(t.SessionKey, slots, was.seq, *at, t.PacketHash)
	if !ok {
		k.whyNot(file, name, slots, was.seq, *at, t.PacketHash, tooMany)
		return
	}
	k.out.Recomputed++
	if t.AppliedPacketHash == "" {
		return
	}
	applied := slices.DeleteFunc(blocks, func(b contracts.OverlayPromptBlock) bool { return !slices.Contains(t.AppliedOverlayIDs, b.OverlayID) })
	if got := packetOf(t.SessionKey, applied).Hash(); got != t.AppliedPacketHash {
		k.problem(file, "%s: applied_packet_hash is %s; what it says was applied gives %s", name, t.AppliedPacketHash, got)
	}
}

// builtAt says whether the same packet was built again for the receipt's
// revision: the hash leaves the revision out.
func (k *sessionCheck) builtAt(t contracts.OverlayRuntimeTruthSummary) bool {
	return slices.Contains(k.revisions[t.PacketHash], t.Revision)
}

// slotsOf gives what a receipt knows of its packet's blocks. What was dropped may
// have been dropped before the packet was built, or after.
func (k *sessionCheck) slotsOf(t contracts.OverlayRuntimeTruthSummary) []slot {
	var out []slot
	for _, id := range t.RequestedOverlayIDs {
		s := slot{id: id, candidates: t.CandidateIDs}
		why, dropped := t.DropReasonsByOverlay[string(id)]
		s.absent = dropped && why != contracts.DropSeam
		known := contracts.OverlayActivationSource(t.SourcesByOverlay[string(id)])
		for _, source := range known.Values() {
			if candidate := contracts.OverlayActivationSource(source); known == candidate {
				s.sources = []contracts.OverlayActivationSource{candidate}
				break
			} else {
				s.sources = append(s.sources, candidate)
			}
		}
		out = append(out, s)
	}
	return out
}

// checkPlan holds a re-answer's packet and receipt against each other.
func (k *sessionCheck) checkPlan(p *Plan) {
	file := dirPlans + string(p.Plan.PlanID) + ".json"
	if p.Packet == nil {
		return
	}
	for _, b := range p.Packet.OverlayBlocks {
		if got := contracts.Hash(b.Body); got != b.BodyHash {
			k.problem(file, "the block of %s: body_hash is %s; its body gives %s", b.OverlayID, b.BodyHash, got)
		}
	}
	got := p.Packet.Hash()
	if got != p.Packet.PacketHash {
		k.problem(file, "packet_hash is %s; the packet gives %s", p.Packet.PacketHash, got)
	} else {
		k.out.Recomputed++
	}
	if issued, known := k.planUsed[string(p.Plan.PlanID)]; known && issued != p.Packet.PacketHash {
		k.problem(file, "packet_hash is %s; the audit says that %s was used", p.Packet.PacketHash, issued)
	}
	if p.Truth == nil {
		return
	}
	name := "the receipt of turn " + cmp.Or(p.Truth.TurnID, "without a name")
	k.out.Receipts++
	if hash := contracts.HashJSON(p.Truth); !k.anchored[hash] && k.unknown == 0 {
		k.problem(file, "%s is not the one that was recorded: its hash is %s, and the audit knows none like it", name, hash)
	}
	if p.Truth.PacketHash != "" && p.Truth.PacketHash != p.Packet.PacketHash {
		k.problem(file, "%s names the packet %s; the plan's is %s", name, p.Truth.PacketHash, p.Packet.PacketHash)
	}
}

// packetOf is as much of a packet as its hash covers.
func packetOf(key contracts.OverlaySessionKey, blocks []contracts.OverlayPromptBlock) contracts.OverlayPromptPacket {
	return contracts.OverlayPromptPacket{SessionKey: key, OverlayBlocks: blocks, SoftBudget: contracts.SoftBudget, HardBudget: contracts.HardBudget}
}

func nonEmpty(id contracts.UUID) []contracts.UUID {
	if id == "" {
		return nil
	}
	return []contracts.UUID{id}
}
