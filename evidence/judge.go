package evidence

import (
	"fmt"

	"github.com/elnor/promptlab/internal/fault"
)

// Finalist is one candidate of a job with its scores on the holdout, paired
// against the source.
type Finalist struct {
	ID             string
	Pairs          Pairs
	MustPassFailed []string // ids of must-pass cases that the candidate fails
	FlipShare      float64  // share of a comparing judge's verdicts that flip with the order; 0 without such a judge
}

// Measurement is everything a job measured on its sealed holdout.
type Measurement struct {
	CriteriaHash string // of the criteria frozen into the job
	HoldoutSize  int    // examples of the holdout; 0: only what the pairs show
	HoldoutUses  int    // how often this holdout has been used, this time included
	Tried        int    // variants the search tried
	Control      *Pairs // the source's second run (arm) against its first; nil: it did not run
	Finalists    []Finalist
}

// Gate is one condition of a label and whether it holds.
type Gate struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail"` // one plain sentence
}

// The gates, in the order in which they are reported.
const (
	GatePairs       = "pairs"
	GateMissing     = "missing"
	GateCalibration = "calibration"
	GateMustPass    = "must_pass"
	GateRegression  = "regression"
	GateSlices      = "slices"
	GateEffect      = "effect"
	GateHoldoutUses = "holdout_uses"
	GateOrder       = "order"
)

// SliceResult is the comparison within one slice, with plain bounds.
type SliceResult struct {
	Comparison
	Counted   bool `json:"counted"`   // has enough pairs to be a floor
	Regresses bool `json:"regresses"` // also after Holm over the slices
}

// Judgement is what the evidence says about one finalist.
type Judgement struct {
	ID            string        `json:"id"`
	Label         Label         `json:"label"`
	Reasons       []string      `json:"reasons"` // plain sentences, the deciding one first
	Gates         []Gate        `json:"gates"`
	Comparison    Comparison    `json:"comparison"`     // at the level of the criteria
	AdjustedLevel float64       `json:"adjusted_level"` // after Holm over the finalists
	AdjustedLower float64       `json:"adjusted_lower"` // the bound that the label rests on
	Slices        []SliceResult `json:"slices"`         // empty when there is only one
	MorePairs     int           `json:"more_pairs"`     // how many an inconclusive result lacks; 0: not known or none
	MissingShare  float64       `json:"missing_share"`
	Tried         int           `json:"tried"` // variants the search tried
}

// Report is the result of a job's measurement.
type Report struct {
	CriteriaHash string      `json:"criteria_hash"`
	Calibrated   bool        `json:"calibrated"`
	Control      *Comparison `json:"control,omitempty"`
	Finalists    []Judgement `json:"finalists"` // in the order given
}

// Judge labels every finalist of a job. It is the only place where a label is
// made.
//
// It refuses (and judges nothing) when the criteria are weaker than the policy
// or are not those the job was created with (conflict, criteria_mismatch), and
// when the measurement contradicts itself (validation_failed).
func Judge(c Criteria, m Measurement) (Report, error) {
	if err := c.Check(); err != nil {
		return Report{}, err
	}
	if m.CriteriaHash != c.Hash() {
		return Report{}, fault.New(fault.Conflict, "criteria_mismatch",
			"the criteria are not those frozen into the job; measure again under the job's own")
	}
	if err := m.check(); err != nil {
		return Report{}, err
	}
	report := Report{CriteriaHash: m.CriteriaHash, Finalists: make([]Judgement, len(m.Finalists))}
	var calibration Gate
	report.Control, calibration = judgeControl(c, m)
	report.Calibrated = calibration.Passed

	samples, ps := make([]sample, len(m.Finalists)), make([]float64, len(m.Finalists))
	for i, f := range m.Finalists {
		samples[i] = newSample(f.Pairs)
		ps[i] = normalUpper(samples[i].statistic(c.MinEffect))
	}
	for i, step := range holm(ps, 1-c.Level) {
		report.Finalists[i] = judgeOne(c, m, m.Finalists[i], samples[i], step, calibration)
	}
	return report, nil
}

func (m Measurement) check() error {
	var bad []fault.Detail
	reject := func(field, rule, message string) {
		bad = append(bad, fault.Detail{Field: "measurement." + field, Rule: rule, Message: message})
	}
	if m.HoldoutSize < 0 {
		reject("holdout_size", "minimum", "must not be negative")
	}
	if m.HoldoutUses < 1 {
		reject("holdout_uses", "minimum", "must be at least 1: this measurement is a use")
	}
	if m.Tried < len(m.Finalists) {
		reject("tried", "minimum", "must not be below the number of finalists")
	}
	seen := map[string]bool{}
	for i, f := range m.Finalists {
		if seen[f.ID] {
			reject(fmt.Sprintf("finalists[%d].id", i), "unique", "appears twice")
		}
		seen[f.ID] = true
		if m.HoldoutSize > 0 && f.Pairs.N()+f.Pairs.Missing() > m.HoldoutSize {
			reject(fmt.Sprintf("finalists[%d].pairs", i), "maximum", "has more examples than the holdout")
		}
		if !(f.FlipShare >= 0 && f.FlipShare <= 1) {
			reject(fmt.Sprintf("finalists[%d].flip_share", i), "range", "must be between 0 and 1")
		}
	}
	if m.Control != nil && m.HoldoutSize > 0 && m.Control.N()+m.Control.Missing() > m.HoldoutSize {
		reject("control", "maximum", "has more examples than the holdout")
	}
	if len(bad) > 0 {
		return fault.Validation(bad)
	}
	return nil
}

// missingShare is the share of the holdout that is not a scored pair.
func missingShare(p Pairs, holdout int) float64 {
	total := max(holdout, p.N()+p.Missing())
	if total == 0 {
		return 0
	}
	return float64(total-p.N()) / float64(total)
}

// judgeControl says whether the source agrees with itself.
func judgeControl(c Criteria, m Measurement) (*Comparison, Gate) {
	gate := Gate{Name: GateCalibration}
	if m.Control == nil {
		gate.Detail = "The run is not calibrated: the source was not measured a second time."
		return nil, gate
	}
	control := Difference(*m.Control, 1-c.Level)
	share := missingShare(*m.Control, m.HoldoutSize)
	switch {
	case control.N < c.MinPairs:
		gate.Detail = fmt.Sprintf("The run is not calibrated: the source's second run has %s with its first and needs %d.",
			count(control.N, "scored pair"), c.MinPairs)
	case share > c.MaxMissing:
		gate.Detail = fmt.Sprintf("The run is not calibrated: %s of the source's second run has no score; %s is allowed.",
			percent(share), percent(c.MaxMissing))
	case control.Verdict != Inconclusive:
		gate.Detail = fmt.Sprintf("The run is not calibrated: the source differs from itself by %s (bounds %s to %s), so the measure drifts.",
			signed(control.Difference), signed(control.LowerBound), signed(control.UpperBound))
	default:
		gate.Passed = true
		gate.Detail = fmt.Sprintf("The source agrees with its own second run: %s (bounds %s to %s).",
			signed(control.Difference), signed(control.LowerBound), signed(control.UpperBound))
	}
	return &control, gate
}
