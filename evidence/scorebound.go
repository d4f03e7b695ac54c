package evidence

import (
	"cmp"
	"math"
	"slices"
)

// spread is a sample as distinct values with their counts.
type spread struct {
	values []float64 // ascending
	counts []float64
	n      float64
	mean   float64
}

func spreadOf(sample []float64) spread {
	sorted := slices.Clone(sample)
	slices.SortFunc(sorted, cmp.Compare[float64])
	s := spread{n: float64(len(sorted))}
	sum := 0.0
	for _, v := range sorted {
		sum += v
		if k := len(s.values); k > 0 && s.values[k-1] == v {
			s.counts[k-1]++
			continue
		}
		s.values, s.counts = append(s.values, v), append(s.counts, 1)
	}
	s.mean = sum / s.n
	return s
}

// negated is the sample with every sign turned.
func (s spread) negated() spread {
	m := spread{n: s.n, mean: -s.mean, values: make([]float64, len(s.values)), counts: slices.Clone(s.counts)}
	for i, v := range s.values {
		m.values[len(s.values)-1-i] = -v
	}
	slices.Reverse(m.counts)
	return m
}

// statistic is the distance of the sample's mean from a smaller mean, in
// standard errors under the hypothesis that this is the true one.
//
// That standard error comes from the likeliest distribution with this mean over
// the observed values and the floor, the worst value there can be: observed
// values weigh 1/(1+tilt*(value-mean)), and where that cannot pull the mean
// down far enough, the floor takes the rest although nobody saw it. So a sample
// without spread has a standard error too: five equal gains do not exclude a
// loss that one in five would show. With values -1, 0, 1 this is Tango's
// statistic, with 0 and 1 Wilson's.
func (s spread) statistic(mean, floor float64) float64 {
	gap, room := s.mean-mean, mean-floor
	if gap == 0 {
		return 0
	}
	if room <= 0 {
		return math.Inf(1)
	}
	tilt, atFloor := s.tilt(mean, 1/room)
	variance, weight := 0.0, 0.0
	for i, v := range s.values {
		x := v - mean
		w := s.counts[i] / s.n / (1 + tilt*x)
		weight += w
		variance += w * x * x
	}
	if atFloor {
		variance += max(0, 1-weight) * room * room
	}
	if !(variance > 0) {
		return math.Inf(1)
	}
	return gap / math.Sqrt(variance/s.n)
}

// tilt solves sum of count*x/(1+tilt*x) = 0 with x = value-mean, for a mean not
// above the sample's, within [0, most). The sum falls as the tilt rises; where
// it stays above 0 up to most, the answer is most and true: the floor has to
// carry weight.
func (s spread) tilt(mean, most float64) (float64, bool) {
	lower := s.values[0] - mean
	if 1+most*lower > near { // the floor itself was not observed
		if sum, _, _ := s.pull(mean, most); sum >= 0 {
			return most, true
		}
	}
	low, high := 0.0, most
	at, before := 0.0, math.Inf(1)
	for range 100 {
		sum, slope, size := s.pull(mean, at)
		if math.Abs(sum) <= 1e-13*size || high-low <= 1e-15*most {
			break
		}
		if sum > 0 {
			low = at
		} else {
			high = at
		}
		// Newton's step, unless it leaves the bracket or creeps, as it does
		// beside the pole at most.
		next := at - sum/slope
		if !(next > low && next < high) || math.Abs(sum) > before/4 {
			next = (low + high) / 2
		}
		at, before = next, math.Abs(sum)
	}
	return at, false
}

// pull gives the sum that tilt brings to zero, its slope, and the sum of the
// terms' sizes.
func (s spread) pull(mean, tilt float64) (sum, slope, size float64) {
	for i, v := range s.values {
		x := v - mean
		r := x / (1 + tilt*x)
		term := s.counts[i] * r
		sum += term
		slope -= term * r
		size += math.Abs(term)
	}
	return sum, slope, size
}

// scoreLower is the smallest mean whose statistic does not exceed critical,
// rounded outwards. No value can be below floor.
func (s spread) scoreLower(floor, critical float64) float64 {
	reject, keep := floor, s.mean
	for range steps {
		middle := (reject + keep) / 2
		if s.statistic(middle, floor) > critical {
			reject = middle
		} else {
			keep = middle
		}
	}
	return reject
}

// wilsonLower is Wilson's lower bound of a share.
func wilsonLower(hits, n int, z float64) float64 {
	if n == 0 {
		return 0
	}
	p, m, z2 := float64(hits)/float64(n), float64(n), z*z
	bound := (p + z2/(2*m) - z*math.Sqrt(p*(1-p)/m+z2/(4*m*m))) / (1 + z2/m)
	return min(max(bound, 0), 1)
}
