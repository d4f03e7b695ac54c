package evidence

import (
	"cmp"
	"slices"
)

// holmStep is what Holm's procedure says about one of several tests.
type holmStep struct {
	rejected bool
	alpha    float64 // the level this test was held to
}

// holm tests hypotheses with these p values so that the chance of even one
// false rejection stays at alpha: the smallest against alpha/k, the next
// against alpha/(k-1), until one fails. All after it fail at its level.
func holm(ps []float64, alpha float64) []holmStep {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out, open, at := make([]holmStep, len(ps)), true, 0.0
	for rank, i := range order {
		if open {
			at = alpha / float64(len(ps)-rank)
			open = ps[i] < at
		}
		out[i] = holmStep{open, at}
	}
	return out
}
