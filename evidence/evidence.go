// Package evidence decides what a measurement shows: it splits examples into
// development and holdout, pairs the scores of two arms, bounds the difference
// and turns it into one of four labels with reasons in plain words. It also
// scores an answer against checks that need no model.
//
// Everything here is a function of values. The package deliberately does not
// know where scores come from, who asked, what time it is, or what may be done
// with a label: callers bring the rows and act on the result.
package evidence

import "math"

// Label is what a measurement says about a text.
type Label string

// The labels. Nothing else may be shown as a grade of evidence.
const (
	NoLocalEvidence Label = "no_local_evidence"
	Promising       Label = "promising"
	Established     Label = "established"
	NeedsTuning     Label = "needs_tuning"
)

// Words gives the label as people read it.
func (l Label) Words() string {
	switch l {
	case Promising:
		return "Promising"
	case Established:
		return "Established"
	case NeedsTuning:
		return "Needs tuning"
	default:
		return "No local evidence"
	}
}

// normalQuantile gives the value that a standard normal stays below with
// probability p.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// normalUpper gives the probability that a standard normal exceeds z.
func normalUpper(z float64) float64 { return 0.5 * math.Erfc(z/math.Sqrt2) }
