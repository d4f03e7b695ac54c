package evidence

import (
	"fmt"
	"math"
	"strings"
)

// judgeOne applies the label table to one finalist: gates first, then the label
// that they leave, then the reasons in its order.
func judgeOne(c Criteria, m Measurement, f Finalist, s sample, step holmStep, calibration Gate) Judgement {
	j := Judgement{
		ID: f.ID, Tried: m.Tried,
		Comparison:    s.compare(f.Pairs, 1-c.Level),
		AdjustedLevel: 1 - step.alpha,
		AdjustedLower: s.lower(step.alpha),
		Slices:        judgeSlices(c, f.Pairs),
		MissingShare:  missingShare(f.Pairs, m.HoldoutSize),
	}
	// Bound and step agree but for rounding; both must say yes.
	better := step.rejected && j.AdjustedLower > c.MinEffect
	j.Gates = []Gate{
		pairsGate(c, s.n), missingGate(c, j.MissingShare), calibration,
		mustPassGate(f.MustPassFailed), regressionGate(j.Comparison), slicesGate(c, j.Slices),
		effectGate(c, j, better), usesGate(c, m.HoldoutUses), orderGate(c, f.FlipShare),
	}
	failed := map[string]bool{}
	for _, g := range j.Gates {
		failed[g.Name] = !g.Passed
	}
	j.Label = labelOf(c, s.n, failed)
	j.explain(c, s, step.alpha, failed)
	return j
}

// labelOf is the label table.
func labelOf(c Criteria, n int, failed map[string]bool) Label {
	switch {
	case failed[GatePairs] || failed[GateMissing] || failed[GateCalibration]:
		return NoLocalEvidence
	case failed[GateMustPass] || failed[GateRegression]:
		return NeedsTuning
	case failed[GateSlices] || failed[GateEffect]:
		return NoLocalEvidence
	case n < c.EstablishedPairs || failed[GateHoldoutUses] || failed[GateOrder]:
		return Promising
	default:
		return Established
	}
}

// explain writes the reasons: what holds the label down, in the order of the
// gates, and what the comparison itself says.
func (j *Judgement) explain(c Criteria, s sample, alpha float64, failed map[string]bool) {
	if j.Label == Promising || j.Label == Established {
		j.Reasons = append(j.Reasons, fmt.Sprintf(
			"Better than the source by %s on %s of the holdout (lower bound %s), best of %s tried.",
			number(j.Comparison.Difference), count(s.n, "scored pair"), signed(j.AdjustedLower), count(j.Tried, "variant")))
	}
	for _, g := range j.Gates {
		if !g.Passed && g.Name != GateEffect {
			j.Reasons = append(j.Reasons, g.Detail)
		}
	}
	switch {
	case j.Label == Promising && s.n < c.EstablishedPairs:
		j.Reasons = append(j.Reasons, fmt.Sprintf("Established needs %d scored pairs: %d more.",
			c.EstablishedPairs, c.EstablishedPairs-s.n))
	case failed[GateEffect] && !failed[GatePairs] && !failed[GateRegression]:
		j.MorePairs = j.inconclusive(c, s, alpha)
	}
}

// inconclusive adds the sentence about a difference that the bound does not
// confirm and gives how many more pairs would be needed (0: none would help).
func (j *Judgement) inconclusive(c Criteria, s sample, alpha float64) int {
	effect := s.mean()
	if effect < c.MinEffect+0.01 {
		effect = min(c.MinEffect+0.05, 1) // nothing to go by: an effect worth having
	}
	need := pairsFor(s, effect, c.MinEffect, alpha)
	more := need - s.n
	switch {
	case more <= 0:
		j.Reasons = append(j.Reasons, fmt.Sprintf(
			"inconclusive: %s would most likely have shown an effect of %s.", count(s.n, "pair"), number(effect)))
		return 0
	case more == 1:
		j.Reasons = append(j.Reasons, fmt.Sprintf(
			"inconclusive: 1 more pair would be needed to see an effect of %s.", number(effect)))
	default:
		j.Reasons = append(j.Reasons, fmt.Sprintf(
			"inconclusive: %d more pairs would be needed to see an effect of %s.", more, number(effect)))
	}
	return more
}

// pairsFor estimates the pairs at which an effect is seen in four of five runs,
// from the spread of this sample; without spread, from the least that such an
// effect can have on zeros and ones.
func pairsFor(s sample, effect, above, alpha float64) int {
	deviation := s.deviation()
	if deviation == 0 {
		deviation = math.Sqrt(effect * max(1-effect, 0.01))
	}
	const power = 0.80
	z := (normalQuantile(1-alpha) + normalQuantile(power)) * deviation / (effect - above)
	return int(math.Ceil(min(z*z, 1e9)))
}

func pairsGate(c Criteria, n int) Gate {
	g := Gate{Name: GatePairs, Passed: n >= c.MinPairs, Detail: fmt.Sprintf("%s; a label needs %d.", count(n, "scored pair"), c.MinPairs)}
	if !g.Passed {
		g.Detail = fmt.Sprintf("%s; a label needs %d: %d more.", count(n, "scored pair"), c.MinPairs, c.MinPairs-n)
	}
	return g
}

func missingGate(c Criteria, share float64) Gate {
	return Gate{GateMissing, share <= c.MaxMissing, fmt.Sprintf(
		"%s of the holdout is not a scored pair; up to %s is allowed.", percent(share), percent(c.MaxMissing))}
}

func mustPassGate(ids []string) Gate {
	if len(ids) == 0 {
		return Gate{GateMustPass, true, "No must-pass case fails."}
	}
	const shown = 5
	list := strings.Join(ids[:min(len(ids), shown)], ", ")
	if len(ids) > shown {
		list += fmt.Sprintf(" and %d more", len(ids)-shown)
	}
	return Gate{GateMustPass, false, fmt.Sprintf("%s: %s.", count(len(ids), "must-pass case")+" failed", list)}
}

func regressionGate(cmp Comparison) Gate {
	if cmp.Verdict == Regresses {
		return Gate{GateRegression, false, fmt.Sprintf("Worse than the source by %s on %s (upper bound %s).",
			number(-cmp.Difference), count(cmp.N, "scored pair"), signed(cmp.UpperBound))}
	}
	return Gate{GateRegression, true, fmt.Sprintf("Not shown to be worse than the source (upper bound %s).", signed(cmp.UpperBound))}
}

func effectGate(c Criteria, j Judgement, better bool) Gate {
	relation := "exceeds"
	if !better {
		relation = "does not exceed"
	}
	return Gate{GateEffect, better, fmt.Sprintf("The lower bound %s %s %s (level %s after correction for the number of finalists).",
		signed(j.AdjustedLower), relation, number(c.MinEffect), number(j.AdjustedLevel))}
}

func usesGate(c Criteria, uses int) Gate {
	g := Gate{GateHoldoutUses, uses <= c.MaxHoldoutUses, fmt.Sprintf("Use %d of this holdout; up to %d count fully.", uses, c.MaxHoldoutUses)}
	if !g.Passed {
		g.Detail = fmt.Sprintf("This holdout has been used %d times, more than %d: no label above promising until there are fresh examples.",
			uses, c.MaxHoldoutUses)
	}
	return g
}

func orderGate(c Criteria, share float64) Gate {
	return Gate{GateOrder, share <= c.MaxFlipShare, fmt.Sprintf(
		"%s of the judge's verdicts flip with the order; up to %s is allowed for established.", percent(share), percent(c.MaxFlipShare))}
}

// judgeSlices compares within slices; a slice with enough pairs regresses when
// Holm over the finalist's slices finds it below zero.
func judgeSlices(c Criteria, p Pairs) []SliceResult {
	named := p.Slices()
	if len(named) < 2 {
		return []SliceResult{}
	}
	out := make([]SliceResult, len(named))
	var counted []int
	var ps []float64
	for i, slice := range named {
		s := newSample(slice.Pairs)
		out[i].Comparison = s.compare(slice.Pairs, 1-c.Level)
		out[i].Slice = slice.Slice
		if s.n < c.MinSlicePairs {
			continue
		}
		out[i].Counted = true
		counted = append(counted, i)
		ps = append(ps, normalUpper(-s.statistic(0)))
	}
	for k, step := range holm(ps, 1-c.Level) {
		out[counted[k]].Regresses = step.rejected
	}
	return out
}

func slicesGate(c Criteria, results []SliceResult) Gate {
	counted := 0
	var worse []string
	for _, r := range results {
		if r.Counted {
			counted++
		}
		if r.Regresses {
			worse = append(worse, fmt.Sprintf("%q by %s on %s", r.Slice, number(-r.Difference), count(r.N, "pair")))
		}
	}
	if len(worse) > 0 {
		return Gate{GateSlices, false, "Worse than the source in " + strings.Join(worse, ", ") + "."}
	}
	return Gate{GateSlices, true, fmt.Sprintf("No regression in %s of at least %s.",
		count(counted, "slice"), count(c.MinSlicePairs, "pair"))}
}

// number writes a share with at most four digits, signed with its sign.
func number(v float64) string { return fmt.Sprintf("%.3g", v) }

func signed(v float64) string {
	if math.Abs(v) < 5e-4 {
		v = 0
	}
	return fmt.Sprintf("%+.3f", v)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
