package evidence

import (
	"fmt"
	"math"

	"github.com/elnor/promptlab/internal/fault"
)

// method names the statistics of this package in every criteria hash: another
// interval or correction is another method.
const method = "tango-or-score/holm/1"

// The floors of the policy. Criteria may ask for more, never for less.
const (
	minPairs         = 20
	establishedPairs = 30
	maxMissing       = 0.10
	maxHoldoutUses   = 10
	maxFlipShare     = 0.20
	minSlicePairs    = 10
	level            = 0.95
)

// Criteria are the rules of a comparison, frozen before its first call. The
// JSON names are in alphabetical order: the encoding is what Hash covers.
type Criteria struct {
	EstablishedPairs int     `json:"established_pairs"` // scored pairs for established, >= 30
	Level            float64 `json:"level"`             // of each one-sided bound, 0.95 to 0.9999
	MaxFlipShare     float64 `json:"max_flip_share"`    // of order-flipped judgements; above: at most promising
	MaxHoldoutUses   int     `json:"max_holdout_uses"`  // above: at most promising
	MaxMissing       float64 `json:"max_missing"`       // share of pairs without a score; above: no label
	MinEffect        float64 `json:"min_effect"`        // the lower bound must exceed it, [0, 1)
	MinPairs         int     `json:"min_pairs"`         // scored pairs for any label, >= 20
	MinSlicePairs    int     `json:"min_slice_pairs"`   // scored pairs for a slice to count, 1 to 10
}

// DefaultCriteria gives the rules that hold where a job asks for nothing else.
func DefaultCriteria() Criteria {
	return Criteria{
		EstablishedPairs: establishedPairs,
		Level:            level,
		MaxFlipShare:     maxFlipShare,
		MaxHoldoutUses:   maxHoldoutUses,
		MaxMissing:       maxMissing,
		MinEffect:        0,
		MinPairs:         minPairs,
		MinSlicePairs:    minSlicePairs,
	}
}

// Check refuses criteria that are weaker than the policy or make no sense. The
// fault names every bad field.
func (c Criteria) Check() error {
	var bad []fault.Detail
	require := func(ok bool, field, rule string) {
		if !ok {
			bad = append(bad, fault.Detail{Field: "criteria." + field, Rule: "range", Message: "must be " + rule})
		}
	}
	require(c.MinPairs >= minPairs && c.MinPairs <= math.MaxInt32, "min_pairs", fmt.Sprintf("at least %d", minPairs))
	require(c.EstablishedPairs >= max(establishedPairs, c.MinPairs) && c.EstablishedPairs <= math.MaxInt32,
		"established_pairs", fmt.Sprintf("at least %d and not below min_pairs", establishedPairs))
	require(c.Level >= level && c.Level <= 0.9999, "level", "between 0.95 and 0.9999")
	require(c.MaxMissing >= 0 && c.MaxMissing <= maxMissing, "max_missing", "between 0 and 0.1")
	require(c.MinEffect >= 0 && c.MinEffect < 1, "min_effect", "at least 0 and below 1")
	require(c.MaxHoldoutUses >= 1 && c.MaxHoldoutUses <= maxHoldoutUses, "max_holdout_uses", "between 1 and 10")
	require(c.MaxFlipShare >= 0 && c.MaxFlipShare <= maxFlipShare, "max_flip_share", "between 0 and 0.2")
	require(c.MinSlicePairs >= 1 && c.MinSlicePairs <= minSlicePairs, "min_slice_pairs", "between 1 and 10")
	if len(bad) > 0 {
		return fault.Validation(bad)
	}
	return nil
}

// Hash is the lower-case hex SHA-256 of the criteria's canonical JSON together
// with the names of the statistics and of the split rule. It is empty for
// criteria that Check refuses because a number is not finite.
func (c Criteria) Hash() string {
	return hashJSON(struct {
		Criteria Criteria `json:"criteria"`
		Method   string   `json:"method"`
		Split    string   `json:"split"`
	}{c, method, splitRule})
}

// Shortage says what a dataset lacks for one purpose.
type Shortage struct {
	Label   Label  `json:"label,omitempty"` // the label out of reach; empty: the job's own minimum
	Need    int    `json:"need"`            // distinct examples
	Have    int    `json:"have"`
	Message string `json:"message"` // one plain sentence
}

// Preflight says what is missing under the default criteria; see
// [Criteria.Preflight].
func Preflight(distinct, minExamples int) []Shortage {
	return DefaultCriteria().Preflight(distinct, minExamples)
}

// Preflight says in plain words what a dataset with so many distinct examples
// is too small for: the job's own minimum (0: none) and each label. Nothing
// missing gives an empty list.
func (c Criteria) Preflight(distinct, minExamples int) []Shortage {
	missing := []Shortage{}
	if distinct < minExamples {
		missing = append(missing, Shortage{Need: minExamples, Have: distinct, Message: fmt.Sprintf(
			"The job asks for at least %s and the dataset has %d: add %d.",
			count(minExamples, "distinct example"), distinct, minExamples-distinct)})
	}
	for _, goal := range []struct {
		label Label
		pairs int
	}{{Promising, c.MinPairs}, {Established, c.EstablishedPairs}} {
		need := distinctFor(goal.pairs)
		if distinct >= need {
			continue
		}
		missing = append(missing, Shortage{Label: goal.label, Need: need, Have: distinct, Message: fmt.Sprintf(
			"The label %s needs %d scored pairs on the holdout, which takes at least %s; the dataset has %d: add %d, and a few more where answers may stay unscored.",
			goal.label, goal.pairs, count(need, "distinct example"), distinct, need-distinct)})
	}
	return missing
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
