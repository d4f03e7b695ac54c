package ec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// Session gives a session as the API shows it, with its ETag. An unknown key is
// not found: the caller sends BootstrapSession first.
func (v *View) Session(key contracts.OverlaySessionKey, truthAvailable bool) (contracts.OverlaySessionResponse, string, error) {
	x, ok := v.s.session(key.FileName())
	if !ok {
		return contracts.OverlaySessionResponse{}, "", fault.New(fault.NotFound, "not_found", "there is no such session yet")
	}
	out, etag := v.SessionAnswer(x.OverlaySessionState, truthAvailable)
	return out, etag, nil
}

// SessionAnswer gives the response for a state that a command has produced, and
// its ETag. Scopes are shown as the pin stores say.
func (v *View) SessionAnswer(st contracts.OverlaySessionState, truthAvailable bool) (contracts.OverlaySessionResponse, string) {
	x := Session{OverlaySessionState: st}.clone()
	for i := range x.ActiveOverlays {
		a := &x.ActiveOverlays[i]
		setScopes(a, v.s.scopesOf(*a, st.SessionKey.WorkspaceID))
	}
	x.HardBlockedPairs, x.Warnings = slices.Clone(x.HardBlockedPairs), slices.Clone(x.Warnings)
	return contracts.OverlaySessionResponse{
		SessionState: x.OverlaySessionState, PromptTruthAvailable: truthAvailable, RuntimeTruth: v.lastTruth(st.SessionKey.FileName()),
		PostTaskOffers: v.PostTaskOffers(st.SessionKey, false),
	}, `"` + strconv.Itoa(st.Revision) + `"`
}

// scopesOf gives the pins in force for an entry: the stores know of the wider
// ones, the entry of its own.
func (s *State) scopesOf(a contracts.ActiveOverlay, workspace string) contracts.List[contracts.OverlayPinScope] {
	var out contracts.List[contracts.OverlayPinScope]
	if slices.Contains(a.PinScopes, contracts.PinThread) {
		out = append(out, contracts.PinThread)
	}
	for _, scope := range []contracts.OverlayPinScope{contracts.PinWorkspace, contracts.PinUntilOff} {
		if s.pinned(scope, workspace, a.OverlayID) {
			out = append(out, scope)
		}
	}
	return out
}

// Pins gives a pin store: that of a workspace, or the one for all.
func (v *View) Pins(scope contracts.OverlayPinScope, workspace string) contracts.PinnedOverlayStore {
	return v.s.pinStore(scope, workspace)
}

// Moderator gives what a moderator brings along; one that nothing is set for
// brings nothing. It is the same whoever keeps it.
func (v *View) Moderator(id string) (contracts.ModeratorDefaults, error) {
	if err := v.s.moderatorsOff(); err != nil {
		return contracts.ModeratorDefaults{}, err
	}
	if m, ok := v.s.moderator(id); ok {
		return m, nil
	}
	return contracts.ModeratorDefaults{ModeratorID: id, AppliesTo: "both", UpdatedBy: "system"}, nil
}

// SurfaceDefaults lists what rooms, panels and tasks start with.
func (v *View) SurfaceDefaults() contracts.List[contracts.SurfaceDefaults] {
	return slices.Clone(v.s.defaults.Surfaces)
}

// Brief gives what a running brief or a handoff says of a session.
func (v *View) Brief(key contracts.OverlaySessionKey) (contracts.OverlayBriefFacts, error) {
	x, ok := v.s.session(key.FileName())
	if !ok {
		return contracts.OverlayBriefFacts{}, fault.New(fault.NotFound, "not_found", "there is no such session yet")
	}
	out := contracts.OverlayBriefFacts{SessionKey: x.SessionKey, Revision: x.Revision, EvidenceLabels: contracts.Map[contracts.EvidenceLabel]{}}
	for _, a := range x.ActiveOverlays {
		if !a.ActiveForSurface {
			continue
		}
		out.ActiveOverlayIDs = append(out.ActiveOverlayIDs, a.OverlayID)
		if a.CandidateID == "" {
			continue
		}
		out.CandidateIDs = append(out.CandidateIDs, a.CandidateID)
		out.EvidenceLabels[string(a.OverlayID)] = contracts.LabelNone
		if c, ok := v.s.candidates.Get(string(a.CandidateID)); ok {
			out.EvidenceLabels[string(a.OverlayID)] = c.EvidenceLabel
		}
	}
	return out, nil
}

// leftOut says why an overlay that the session does not hold is out.
func leftOut(n SessionNote) string {
	why, about := strings.CutPrefix(n.Text, string(n.Subject)+" ")
	if rest, ok := strings.CutPrefix(why, "was left out: "); ok {
		why = rest
	} else if about {
		why = "it " + why
	}
	return fmt.Sprintf("%s is out: %s.", n.Subject, why)
}

// Explain says for each overlay that concerns a session why it is in the next
// packet or out of it.
func (v *View) Explain(key contracts.OverlaySessionKey) (contracts.OverlayExplanations, error) {
	x, ok := v.s.session(key.FileName())
	if !ok {
		return contracts.OverlayExplanations{}, fault.New(fault.NotFound, "not_found", "there is no such session yet")
	}
	p := v.s.buildPacket(x, x.UpdatedAt)
	out := contracts.OverlayExplanations{
		SessionKey: x.SessionKey, Revision: x.Revision, PacketHash: p.PacketHash, TotalTokens: p.EstimatedTotalTokens,
		SoftBudget: p.SoftBudget, HardBudget: p.HardBudget, Warnings: slices.Clone(x.Warnings),
	}
	for _, id := range p.RequestedOverlayIDs { // in the order of the packet
		i, _ := x.entry(id)
		a := x.ActiveOverlays[i]
		item := contracts.OverlayExplanation{OverlayID: id, Source: a.Source, PinScopes: v.s.scopesOf(a, x.SessionKey.WorkspaceID), BodyHash: a.OverlayBodyHash, Code: "active"}
		why, dropped := p.Dropped[string(id)]
		if item.In = !dropped; item.In {
			item.Sentence = fmt.Sprintf("%s is in: %s%s, rank %d.", id, becauseOf(a), pinnedToo(a, item.PinScopes), a.PriorityRank)
		} else {
			item.Code = string(why)
			item.Sentence = fmt.Sprintf("%s is out: %s.", id, v.s.outBecause(x, a))
		}
		out.Items = append(out.Items, item)
	}
	for _, n := range x.Kept.Notes {
		if _, held := x.entry(n.Subject); !held {
			out.Items = append(out.Items, contracts.OverlayExplanation{OverlayID: n.Subject, Code: n.Code, Sentence: leftOut(n)})
		}
	}
	last := v.lastTruth(key.FileName())
	for i := range out.Items {
		item := &out.Items[i]
		if o, ok := v.s.overlays.Get(string(item.OverlayID)); ok {
			item.Title, item.Tokens = o.Record.Frontmatter.Title, contracts.EstimateTokens(o.Record.Body)
		}
		switch {
		case last == nil:
		case slices.Contains(last.AppliedOverlayIDs, item.OverlayID):
			item.LastTurn = "applied"
			item.Sentence += " The last turn applied it."
		case slices.Contains(last.DroppedOverlayIDs, item.OverlayID):
			item.LastTurn = "dropped"
			item.Sentence += fmt.Sprintf(" The last turn dropped it: %s.", last.DropReasonsByOverlay[string(item.OverlayID)])
		}
	}
	return out, nil
}

// pinnedToo names the pins in force beside the reason why an overlay is in.
func pinnedToo(a contracts.ActiveOverlay, scopes []contracts.OverlayPinScope) string {
	var out string
	for _, scope := range scopes {
		switch {
		case scope == contracts.PinThread:
			out += ", pinned here"
		case scope == contracts.PinWorkspace && a.Source != contracts.FromWorkspacePin:
			out += ", pinned in the workspace"
		case scope == contracts.PinUntilOff && a.Source != contracts.FromGlobalPin:
			out += ", pinned everywhere"
		}
	}
	return out
}

func becauseOf(a contracts.ActiveOverlay) string {
	switch a.Source {
	case contracts.FromManual:
		if a.OneDispatch {
			return "asked for by " + a.ActivatedBy + " for one dispatch"
		}
		return "turned on by " + a.ActivatedBy
	case contracts.FromRecommended:
		return "a recommendation that " + a.ActivatedBy + " took"
	case contracts.FromWorkspacePin:
		return "pinned in the workspace"
	case contracts.FromGlobalPin:
		return "pinned everywhere"
	case contracts.FromRoom:
		return "a default of the room"
	case contracts.FromModerator:
		return "a default of the moderator"
	case contracts.FromTask:
		return "a default of the task"
	default:
		return "a trial of candidate " + string(a.CandidateID)
	}
}

func (s *State) outBecause(x *Session, a contracts.ActiveOverlay) string {
	switch a.InertReason {
	case inertSurface:
		return fmt.Sprintf("it does not support the surface %s", x.SessionKey.SurfaceKind)
	case inertConflict:
		rival, _ := s.inTheWay(x, a.OverlayID)
		return fmt.Sprintf("it and %s exclude each other, and %s was on first", rival.OverlayID, rival.OverlayID)
	case inertBudget:
		return fmt.Sprintf("with it the overlays would pass the budget of %d tokens", contracts.HardBudget)
	case inertLimit:
		return fmt.Sprintf("%d live overlays are on already", s.load(x).count)
	default:
		return "it is archived"
	}
}
