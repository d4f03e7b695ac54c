package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func v(x float64) *float64 { return &x }

// runs makes scores of one slice, one run each, ids by position; NaN is unscored.
func runs(values ...float64) []Score {
	out := make([]Score, len(values))
	for i, x := range values {
		out[i] = Score{ExampleID: fmt.Sprintf("e%04d", i)}
		if !math.IsNaN(x) {
			out[i].Value = v(x)
		}
	}
	return out
}

// pairsOf makes pairs with these candidate and source scores.
func pairsOf(arm, against []float64) Pairs { return Pair(runs(against...), runs(arm...)) }

// binaryPairs makes n pairs of which wins favour the candidate and losses the
// source.
func binaryPairs(n, wins, losses int) Pairs {
	arm, against := make([]float64, n), make([]float64, n)
	for i := range n {
		switch {
		case i < wins:
			arm[i] = 1
		case i < wins+losses:
			against[i] = 1
		case i%2 == 0:
			arm[i], against[i] = 1, 1
		}
	}
	return pairsOf(arm, against)
}

func TestPair(t *testing.T) {
	t.Run("R-GWE-19 only the same example in the same slice makes a pair", func(t *testing.T) {
		source := []Score{{"a", "x", 0, v(1)}, {"b", "x", 0, v(0)}, {"c", "x", 0, v(1)}, {"d", "x", 0, v(1)}}
		candidate := []Score{{"d", "y", 0, v(0)}, {"b", "x", 0, v(1)}, {"a", "x", 0, v(0.5)}, {"e", "x", 0, v(1)}}
		got := Pair(source, candidate)
		want := Pairs{
			Examples: []PairedExample{{"x", "a", 0.5, 1}, {"x", "b", 1, 0}},
			Unmatched: []Excluded{
				{"x", "c", 0, SideAgainst}, {"x", "d", 0, SideAgainst}, {"x", "e", 0, SideArm}, {"y", "d", 0, SideArm},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pairs (-want +got):\n%s", diff)
		}
	})
	t.Run("R-EVD-07 n is counted after matching: 40 against 12 gives 12", func(t *testing.T) {
		p := Pair(runs(make([]float64, 40)...), runs(make([]float64, 12)...))
		if p.N() != 12 || len(p.Unmatched) != 28 || p.Missing() != 28 {
			t.Errorf("40 against 12: got n %d, unmatched %d, missing %d; want 12, 28, 28", p.N(), len(p.Unmatched), p.Missing())
		}
	})
	t.Run("R-EVD-06 examples of another stratum are not pooled", func(t *testing.T) {
		source, candidate := runs(1, 1, 1), runs(0, 0, 0)
		candidate[1].Slice = "other model"
		if p := Pair(source, candidate); p.N() != 2 || len(p.Unmatched) != 2 {
			t.Errorf("one example of another slice: got n %d, unmatched %v; want 2 and both sides listed", p.N(), p.Unmatched)
		}
	})
	t.Run("repeats are averaged within the example", func(t *testing.T) {
		source := []Score{{"a", "", 1, v(0)}, {"a", "", 2, v(1)}, {"a", "", 3, nil}}
		candidate := []Score{{"a", "", 1, v(1)}}
		if got := Pair(source, candidate).Examples; len(got) != 1 || got[0].Against != 0.5 || got[0].Arm != 1 {
			t.Errorf("runs 0, 1, unscored against 1: got %+v, want one pair 1 against 0.5", got)
		}
	})
	t.Run("R-GWE-19 an example unscored in either arm leaves the pair and is counted", func(t *testing.T) {
		p := Pair(runs(1, math.NaN(), 1, math.NaN()), runs(1, 1, math.NaN(), math.NaN()))
		want := []Excluded{{ExampleID: "e0001", Side: SideAgainst}, {ExampleID: "e0002", Side: SideArm}, {ExampleID: "e0003"}}
		if diff := cmp.Diff(want, p.Unscored); diff != "" || p.N() != 1 {
			t.Errorf("n %d, unscored (-want +got):\n%s", p.N(), diff)
		}
	})
	t.Run("duplicate keys are left out and listed, never merged", func(t *testing.T) {
		source := []Score{{"a", "", 1, v(1)}, {"a", "", 1, v(0)}, {"b", "", 1, v(1)}, {"b", "", 2, v(0)}, {"b", "", 2, v(0)}}
		candidate := []Score{{"a", "", 1, v(1)}, {"b", "", 1, v(1)}}
		p := Pair(source, candidate)
		want := []Excluded{{"", "a", 1, SideAgainst}, {"", "b", 2, SideAgainst}}
		if diff := cmp.Diff(want, p.Duplicates); diff != "" {
			t.Errorf("duplicates (-want +got):\n%s", diff)
		}
		if p.N() != 1 || p.Examples[0].Against != 1 || p.Dropped != 1 || p.Missing() != 1 || len(p.Unmatched) != 0 {
			t.Errorf("pairs beside duplicates: got %+v, want b alone with 1 and a dropped", p)
		}
	})
	t.Run("a score outside 0 to 1 counts as unscored and is listed", func(t *testing.T) {
		for _, bad := range []float64{-0.01, 1.01, math.Inf(1), math.Inf(-1), math.NaN()} {
			p := Pair([]Score{{"a", "", 0, v(bad)}}, runs(1)[:0])
			if len(p.Invalid) != 1 {
				t.Errorf("score %v: got invalid %v, want it listed", bad, p.Invalid)
			}
			p = Pair([]Score{{"a", "", 0, v(bad)}}, []Score{{"a", "", 0, v(1)}})
			if p.N() != 0 || len(p.Unscored) != 1 {
				t.Errorf("score %v: got n %d, unscored %v; want 0 and one", bad, p.N(), p.Unscored)
			}
		}
	})
	t.Run("the order of the rows does not matter", func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 5))
		var source, candidate []Score
		for i := range 400 {
			s := Score{ExampleID: fmt.Sprint(r.IntN(60)), Slice: fmt.Sprint(r.IntN(2)), Run: r.IntN(6)}
			if r.IntN(8) > 0 {
				s.Value = v(float64(r.IntN(11)) / 10)
			}
			if i%2 == 0 {
				source = append(source, s)
			} else {
				candidate = append(candidate, s)
			}
		}
		want := Pair(source, candidate)
		r.Shuffle(len(source), func(i, j int) { source[i], source[j] = source[j], source[i] })
		r.Shuffle(len(candidate), func(i, j int) { candidate[i], candidate[j] = candidate[j], candidate[i] })
		if diff := cmp.Diff(want, Pair(source, candidate)); diff != "" {
			t.Errorf("pairs of shuffled rows (-before +after):\n%s", diff)
		}
	})
	t.Run("the order of a sum makes no win", func(t *testing.T) {
		source := []Score{{"a", "", 1, v(0.1)}, {"a", "", 2, v(0.2)}, {"a", "", 3, v(0.3)}}
		candidate := []Score{{"a", "", 1, v(0.3)}, {"a", "", 2, v(0.2)}, {"a", "", 3, v(0.1)}}
		if c := Difference(Pair(source, candidate), 0.05); c.Wins+c.Losses != 0 || c.Difference != 0 {
			t.Errorf("equal averages: got %+v, want no win and no loss", c)
		}
	})
}
