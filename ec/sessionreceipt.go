package ec

import (
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// Receipt gives what a turn of a session did with the overlays, of a re-answer
// too. Only the last receipts are kept; one that is gone is told apart from a
// session that nobody has reported anything of.
func (v *View) Receipt(key contracts.OverlaySessionKey, turn string) (contracts.OverlayRuntimeTruthSummary, error) {
	file := key.FileName()
	list := v.TruthHistory(key)
	for _, t := range slices.Backward(list) {
		if t.TurnID == turn {
			return t, nil
		}
	}
	var found *contracts.OverlayRuntimeTruthSummary
	v.s.plans.Scan(func(_ string, p *Plan) bool { // there are few: they are kept for a day
		if p.Truth != nil && (p.Truth.TurnID == turn || p.TurnID == turn) && p.Plan.SessionKey.FileName() == file {
			found = p.Truth
		}
		return found == nil
	})
	switch {
	case found != nil:
		return *found, nil
	case len(list) == 0:
		return contracts.OverlayRuntimeTruthSummary{}, fault.New(fault.NotFound, "truth_not_recorded", "no turn of this session has been reported yet")
	}
	return contracts.OverlayRuntimeTruthSummary{}, fault.New(fault.NotFound, "truth_not_kept",
		"no receipt of the turn %q is kept: it was not reported, or it is older than the last %d of its session", turn, truthHistory+1)
}
