package evidence

import "math"

// Verdict is what one comparison says, each side at its own level.
type Verdict string

// The verdicts.
const (
	Improves     Verdict = "improves"     // the lower bound is above 0
	Inconclusive Verdict = "inconclusive" // 0 lies between the bounds
	Regresses    Verdict = "regresses"    // the upper bound is below 0
)

// Comparison is a paired comparison of two arms. Difference is arm minus
// against; each bound is one-sided at the level asked for.
type Comparison struct {
	Slice       string  `json:"slice,omitempty"`
	N           int     `json:"n"` // scored pairs
	MeanArm     float64 `json:"mean_arm"`
	MeanAgainst float64 `json:"mean_against"`
	Difference  float64 `json:"difference"`
	LowerBound  float64 `json:"lower_bound"`
	UpperBound  float64 `json:"upper_bound"`
	Verdict     Verdict `json:"verdict"`
	Unscored    int     `json:"unscored"` // pairs without a score in one arm or both
	Wins        int     `json:"wins"`
	Losses      int     `json:"losses"`
}

// Difference compares the arms of p with one-sided bounds at level 1-alpha.
//
// Pairs of zeros and ones get Tango's score interval for paired proportions,
// other scores the studentised one of this package; see [spread.lower].
// Without pairs the bounds are -1 and 1.
func Difference(p Pairs, alpha float64) Comparison {
	return newSample(p).compare(p, alpha)
}

// sample is the differences of a comparison, ready for tests and bounds.
type sample struct {
	n            int
	wins, losses int
	binary       bool
	down, up     spread // the differences and their negatives; unused when binary
}

func newSample(p Pairs) sample {
	s := sample{n: p.N(), binary: true}
	for _, e := range p.Examples {
		switch d := e.difference(); {
		case d > 0:
			s.wins++
		case d < 0:
			s.losses++
		}
		s.binary = s.binary && isBinary(e.Arm) && isBinary(e.Against)
	}
	if s.binary {
		return s
	}
	differences := make([]float64, s.n)
	for i, e := range p.Examples {
		differences[i] = e.difference()
	}
	s.down = spreadOf(differences)
	s.up = s.down.negated()
	return s
}

func isBinary(v float64) bool { return v == 0 || v == 1 }

func (s sample) mean() float64 {
	switch {
	case s.n == 0:
		return 0
	case s.binary:
		return float64(s.wins-s.losses) / float64(s.n)
	default:
		return s.down.mean
	}
}

// deviation is the standard deviation of the differences, 0 below two.
func (s sample) deviation() float64 {
	switch {
	case s.n < 2:
		return 0
	case s.binary:
		n, m := float64(s.n), s.mean()
		return math.Sqrt(max(0, float64(s.wins+s.losses)-n*m*m) / (n - 1))
	default:
		return s.down.deviation()
	}
}

// statistic is the signed distance of the difference from d, as a value of the
// standard normal.
func (s sample) statistic(d float64) float64 {
	switch {
	case s.n == 0:
		return 0
	case s.binary:
		return tango(s.wins, s.losses, s.n, d)
	case s.down.mean >= d:
		return s.down.distance(d, -1)
	default:
		return -s.up.distance(-d, -1)
	}
}

// lower and upper are one-sided bounds at level 1-alpha.
func (s sample) lower(alpha float64) float64 {
	z := normalQuantile(1 - alpha)
	switch {
	case s.n == 0:
		return -1
	case s.binary:
		return tangoLower(s.wins, s.losses, s.n, z)
	default:
		return s.down.lower(-1, z)
	}
}

func (s sample) upper(alpha float64) float64 {
	z := normalQuantile(1 - alpha)
	switch {
	case s.n == 0:
		return 1
	case s.binary:
		return -tangoLower(s.losses, s.wins, s.n, z)
	default:
		return -s.up.lower(-1, z)
	}
}

func (s sample) compare(p Pairs, alpha float64) Comparison {
	c := Comparison{
		N: s.n, Wins: s.wins, Losses: s.losses, Unscored: len(p.Unscored),
		Difference: s.mean(), LowerBound: s.lower(alpha), UpperBound: s.upper(alpha), Verdict: Inconclusive,
	}
	for _, e := range p.Examples {
		c.MeanArm += e.Arm
		c.MeanAgainst += e.Against
	}
	if s.n > 0 {
		c.MeanArm /= float64(s.n)
		c.MeanAgainst /= float64(s.n)
	}
	switch {
	case c.LowerBound > 0:
		c.Verdict = Improves
	case c.UpperBound < 0:
		c.Verdict = Regresses
	}
	return c
}

// DifferenceBySlice compares the arms within each slice, by name, with plain
// bounds: nothing is corrected for the number of slices.
func DifferenceBySlice(p Pairs, alpha float64) []Comparison {
	named := p.Slices()
	out := make([]Comparison, len(named))
	for i, s := range named {
		out[i] = Difference(s.Pairs, alpha)
		out[i].Slice = s.Slice
	}
	return out
}

// LowerMean is the one-sided 95 % lower bound of an arm's own mean score, in
// [0,1]: Wilson's for zeros and ones, the same kind of interval otherwise.
// Repeats are averaged within the example and unscored examples left out;
// without any score the bound is 0.
func LowerMean(scores []Score) float64 {
	var left Pairs
	means, hits, binary := []float64{}, 0, true
	for _, e := range left.collapse(scores, SideArm) {
		if e.scored == 0 {
			continue
		}
		m := e.mean()
		means = append(means, m)
		binary = binary && isBinary(m)
		if m == 1 {
			hits++
		}
	}
	z := normalQuantile(level)
	switch {
	case len(means) == 0:
		return 0
	case binary:
		return wilsonLower(hits, len(means), z)
	default:
		return min(max(spreadOf(means).lower(0, z), 0), 1)
	}
}
