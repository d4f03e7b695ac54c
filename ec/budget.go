package ec

import (
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
)

// Reasons for which an entry is in no packet.
const (
	inertSurface  = "surface_unsupported"
	inertConflict = "hard_conflict"
	inertBudget   = "hard_budget"
	inertLimit    = "overlay_limit"
)

// load is what a set of overlays costs: only live ones count.
type load struct{ count, tokens int }

func (l load) with(o *Overlay) load {
	if o.Record.Frontmatter.ArtifactClass != contracts.ClassLive {
		return l
	}
	return load{l.count + 1, l.tokens + contracts.EstimateTokens(o.Record.Body)}
}

// load sums the entries that are on for the surface.
func (s *State) load(x *Session) load {
	var l load
	for _, a := range x.ActiveOverlays {
		if o, ok := s.overlays.Get(string(a.OverlayID)); ok && a.ActiveForSurface {
			l = l.with(o)
		}
	}
	return l
}

// inTheWay finds an entry that is on and excludes id.
func (s *State) inTheWay(x *Session, id contracts.OverlayID) (contracts.ActiveOverlay, bool) {
	for _, a := range x.ActiveOverlays {
		if a.ActiveForSurface && s.excludes(a.OverlayID, id) {
			return a, true
		}
	}
	return contracts.ActiveOverlay{}, false
}

func supports(o *Overlay, kind contracts.SupportedSurface) bool {
	return slices.Contains(o.Record.Frontmatter.SupportedSurfaces, kind)
}

// settle brings a session's entries, notes, blocked pairs and warnings to what
// the library says now. An entry is inert exactly while its cause holds. Among
// entries that cannot all be on, those that were on come first, then the older
// ones: the newest gives way.
func (s *State) settle(x *Session) {
	order := make([]int, len(x.ActiveOverlays))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := x.ActiveOverlays[i], x.ActiveOverlays[j]
		if a.ActiveForSurface != b.ActiveForSurface {
			if a.ActiveForSurface {
				return -1
			}
			return 1
		}
		return a.ActivatedAt.Compare(b.ActivatedAt.Time)
	})
	var on Session // those admitted so far
	var sum load
	blockers := map[contracts.OverlayID]contracts.OverlayID{}
	for _, i := range order {
		a := &x.ActiveOverlays[i]
		o, ok := s.overlays.Get(string(a.OverlayID))
		if !ok {
			continue // Load has warned of a file that is gone; the packet leaves it out
		}
		was := a.ActiveForSurface
		a.OverlayBodyHash = o.Record.BodyHash
		a.InertReason = ""
		rival, blocked := s.inTheWay(&on, a.OverlayID)
		switch {
		case !supports(o, x.SessionKey.SurfaceKind):
			a.InertReason = inertSurface
		case blocked:
			a.InertReason = inertConflict
			blockers[a.OverlayID] = rival.OverlayID
		case sum.with(o).tokens > contracts.HardBudget:
			a.InertReason = inertBudget
		case !was && a.Note != overrideNote && sum.with(o).count > contracts.MaxOverlays:
			a.InertReason = inertLimit
		}
		if a.ActiveForSurface = a.InertReason == ""; a.ActiveForSurface {
			on.ActiveOverlays = append(on.ActiveOverlays, *a)
			sum = sum.with(o)
		}
	}
	x.Kept.Notes = slices.DeleteFunc(x.Kept.Notes, func(n SessionNote) bool { return s.over(x, n, sum) })
	x.HardBlockedPairs = nil
	for _, a := range x.ActiveOverlays {
		if rival, ok := blockers[a.OverlayID]; ok {
			x.HardBlockedPairs = append(x.HardBlockedPairs, pairOf(a.OverlayID, rival))
		}
	}
	for _, n := range x.Kept.Notes {
		if n.Code == noteConflict {
			x.HardBlockedPairs = append(x.HardBlockedPairs, pairOf(n.Subject, n.Other))
		}
	}
	slices.SortFunc(x.HardBlockedPairs, slices.Compare)
	x.HardBlockedPairs = slices.CompactFunc(x.HardBlockedPairs, slices.Equal)
	x.Warnings = s.warnings(x, sum, blockers)
}

// over says whether the cause of a note has ended.
func (s *State) over(x *Session, n SessionNote, sum load) bool {
	o, known := s.overlays.Get(string(n.Subject))
	_, held := x.entry(n.Subject)
	switch n.Code {
	case noteEdited:
		return !held
	case noteArchived:
		return known && !o.Archived()
	case noteUnknown:
		return known
	case noteModerators:
		return held || s.moderatorsOff() == nil
	case noteRooms:
		return held || s.roomsOff() == nil
	case noteConflict:
		i, ok := x.entry(n.Other)
		return held || !ok || !x.ActiveOverlays[i].ActiveForSurface || !s.excludes(n.Subject, n.Other)
	case noteLimit:
		return held || sum.count < contracts.MaxOverlays
	case noteBudget:
		return held || !known || sum.with(o).tokens <= contracts.HardBudget
	default:
		return held
	}
}

// warnings writes down what is worth knowing, each thing once.
func (s *State) warnings(x *Session, sum load, blockers map[contracts.OverlayID]contracts.OverlayID) contracts.List[string] {
	var out contracts.List[string]
	say := func(code, format string, args ...any) {
		if w := code + ": " + fmt.Sprintf(format, args...); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	for _, n := range x.Kept.Notes {
		say(n.Code, "%s", n.Text)
	}
	for i, a := range x.ActiveOverlays {
		switch a.InertReason {
		case inertSurface:
			say(warnSurface, "%s does not work on the surface %s and stays out of the prompt", a.OverlayID, x.SessionKey.SurfaceKind)
		case inertConflict:
			say(noteConflict, "%s stays out of the prompt: it and %s exclude each other", a.OverlayID, blockers[a.OverlayID])
		case inertBudget:
			say(noteBudget, "%s stays out of the prompt: with it the overlays would pass the budget of %d tokens", a.OverlayID, contracts.HardBudget)
		case inertLimit:
			say(noteLimit, "%s stays out of the prompt: %d live overlays are on already", a.OverlayID, sum.count)
		}
		for _, b := range x.ActiveOverlays[i+1:] {
			if a.ActiveForSurface && b.ActiveForSurface && s.strains(a.OverlayID, b.OverlayID) {
				p := pairOf(a.OverlayID, b.OverlayID)
				say(warnSoftPair, "%s and %s pull in different directions", p[0], p[1])
			}
		}
	}
	if sum.count > contracts.RecommendedOverlays {
		say(warnCount, "%d live overlays are on; one or two are recommended", sum.count)
	}
	if sum.tokens > contracts.SoftBudget {
		say(warnBudget, "the live overlays come to %d tokens; up to %d is recommended, %d is the limit", sum.tokens, contracts.SoftBudget, contracts.HardBudget)
	}
	return out
}

// noteOf gives the code of the note about an overlay that was refused with a code.
func noteOf(code string) string {
	switch code {
	case codeLimit:
		return noteLimit
	case codeBudget:
		return noteBudget
	}
	return code
}
