package evidence

import (
	"math"
	"strings"
	"testing"

	"github.com/elnor/promptlab/internal/fault"
)

func TestPreflight(t *testing.T) {
	t.Run("R-EVD-01 R-EVD-02 R-EVD-03 says what each label lacks", func(t *testing.T) {
		cases := []struct {
			distinct, min int
			labels        []Label // "" is the job's own minimum
		}{
			{0, 1, []Label{"", Promising, Established}},
			{27, 0, []Label{Promising, Established}},
			{28, 0, []Label{Established}},
			{37, 40, []Label{"", Established}},
			{38, 38, nil},
			{38, 39, []Label{""}},
		}
		for _, c := range cases {
			got := Preflight(c.distinct, c.min)
			if len(got) != len(c.labels) {
				t.Errorf("preflight %d/%d: got %v, want shortages for %q", c.distinct, c.min, got, c.labels)
				continue
			}
			for i, s := range got {
				if s.Label != c.labels[i] || s.Have != c.distinct || s.Need <= c.distinct || s.Message == "" {
					t.Errorf("preflight %d/%d shortage %d: got %+v, want label %q", c.distinct, c.min, i, s, c.labels[i])
				}
			}
		}
	})
	t.Run("the sentence names label, need and lack", func(t *testing.T) {
		got := Preflight(26, 0)[0].Message
		for _, part := range []string{"promising", "28 distinct examples", "has 26", "add 2"} {
			if !strings.Contains(got, part) {
				t.Errorf("message %q: lacks %q", got, part)
			}
		}
	})
	t.Run("stricter criteria ask for more", func(t *testing.T) {
		c := DefaultCriteria()
		c.EstablishedPairs = 60
		got := c.Preflight(87, 0)
		if len(got) != 1 || got[0].Need != 88 || HoldoutSize(87) >= 60 || HoldoutSize(88) < 60 {
			t.Errorf("60 pairs with 87 distinct: got %+v, want a need of 88", got)
		}
	})
}

func TestCriteriaHash(t *testing.T) {
	t.Run("R-GWE-22 the hash of the defaults is pinned", func(t *testing.T) {
		const want = "71c61a7e7f16e50566d0daf568035b607f7c1596815eb787e4230c6b70a890dc"
		if got := DefaultCriteria().Hash(); got != want {
			t.Errorf("hash of the default criteria: got %s, want %s; a new rule needs a new method name", got, want)
		}
	})
	t.Run("R-GWE-22 every field moves the hash", func(t *testing.T) {
		seen := map[string]string{DefaultCriteria().Hash(): "the defaults"}
		for name, change := range criteriaChanges() {
			c := DefaultCriteria()
			change(&c)
			if before, twice := seen[c.Hash()]; twice {
				t.Errorf("change of %s: same hash as %s", name, before)
			}
			seen[c.Hash()] = name
		}
	})
}

// criteriaChanges makes each field stricter in turn.
func criteriaChanges() map[string]func(*Criteria) {
	return map[string]func(*Criteria){
		"established_pairs": func(c *Criteria) { c.EstablishedPairs = 40 },
		"level":             func(c *Criteria) { c.Level = 0.99 },
		"max_flip_share":    func(c *Criteria) { c.MaxFlipShare = 0.1 },
		"max_holdout_uses":  func(c *Criteria) { c.MaxHoldoutUses = 5 },
		"max_missing":       func(c *Criteria) { c.MaxMissing = 0.05 },
		"min_effect":        func(c *Criteria) { c.MinEffect = 0.02 },
		"min_pairs":         func(c *Criteria) { c.MinPairs = 25 },
		"min_slice_pairs":   func(c *Criteria) { c.MinSlicePairs = 5 },
	}
}

func TestCriteriaCheck(t *testing.T) {
	if err := DefaultCriteria().Check(); err != nil {
		t.Fatalf("check of the defaults: got %v, want nil", err)
	}
	for name, change := range criteriaChanges() {
		c := DefaultCriteria()
		if change(&c); c.Check() != nil {
			t.Errorf("stricter %s: got %v, want nil", name, c.Check())
		}
	}
	t.Run("R-EVD-01 R-EVD-03 weaker than the policy is refused, by field", func(t *testing.T) {
		bad := Criteria{
			EstablishedPairs: 29, Level: 0.949, MaxFlipShare: 0.21, MaxHoldoutUses: 11,
			MaxMissing: 0.11, MinEffect: -0.01, MinPairs: 19, MinSlicePairs: 11,
		}
		err := bad.Check()
		if fault.Of(err) != fault.Invalid {
			t.Fatalf("check of weak criteria: got %v, want a validation fault", err)
		}
		for name := range criteriaChanges() {
			if !strings.Contains(err.Error(), "criteria."+name+" ") {
				t.Errorf("check of weak criteria: %q does not name %s", err, name)
			}
		}
	})
	t.Run("numbers that are none are refused", func(t *testing.T) {
		c := DefaultCriteria()
		c.Level, c.MinEffect, c.MaxMissing, c.MaxFlipShare = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		if c.Check() == nil {
			t.Errorf("check of NaN: got nil, want a fault")
		}
	})
}
