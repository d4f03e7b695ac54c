package evidence

import "math"

// steps of bisection bring any bound in [-1,1] below the precision of a float.
const steps = 60

// tango is the score statistic for "the difference of two paired proportions is
// lambda", where of n pairs b favour the arm and c the other. Under that
// hypothesis the share of the pairs that favour the other arm is estimated by
// maximum likelihood, the positive root of
//
//	2n q^2 + (-(b+c) + (2n-b+c) lambda) q - c lambda (1-lambda) = 0
//
// and the variance follows from it, so that no disagreement among few pairs
// still leaves room for a difference. The statistic falls as lambda rises.
func tango(b, c, n int, lambda float64) float64 {
	if lambda < 0 { // the mirror image keeps the roots well conditioned
		return -tango(c, b, n, -lambda)
	}
	fb, fc, fn := float64(b), float64(c), float64(n)
	gap := fb - fc - fn*lambda
	if gap == 0 {
		return 0
	}
	square, linear, constant := 2*fn, (2*fn-fb+fc)*lambda-fb-fc, fc*lambda*(1-lambda)
	root := math.Sqrt(linear*linear + 4*square*constant)
	q := 0.0
	switch {
	case linear <= 0:
		q = (root - linear) / (2 * square)
	case constant > 0:
		q = 2 * constant / (root + linear) // the same root without cancellation
	}
	variance := fn * (2*q + lambda*(1-lambda))
	if variance <= 0 {
		return math.Copysign(math.Inf(1), gap)
	}
	return gap / math.Sqrt(variance)
}

// tangoLower is the smallest difference that b against c of n pairs do not
// reject at z, rounded outwards.
func tangoLower(b, c, n int, z float64) float64 {
	reject, keep := -1.0, float64(b-c)/float64(n)
	for range steps {
		middle := (reject + keep) / 2
		if tango(b, c, n, middle) > z {
			reject = middle
		} else {
			keep = middle
		}
	}
	return reject
}
