package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/internal/fault"
)

// measured is a sound measurement of one finalist: a calm control, a fresh
// holdout, the default criteria.
func measured(p Pairs) Measurement {
	control := binaryPairs(40, 2, 2)
	return Measurement{
		CriteriaHash: DefaultCriteria().Hash(), HoldoutUses: 1, Tried: 12,
		Control: &control, Finalists: []Finalist{{ID: "c1", Pairs: p}},
	}
}

// judged judges under the default criteria; the first finalist is what most
// tests look at.
func judged(t *testing.T, m Measurement) Judgement {
	t.Helper()
	report, err := Judge(DefaultCriteria(), m)
	if err != nil {
		t.Fatalf("judge: got %v, want a report", err)
	}
	return report.Finalists[0]
}

func reasonsOf(j Judgement) string { return strings.Join(j.Reasons, "\n") }

// better gives pairs of which most favour the candidate clearly.
func better(n int) Pairs { return binaryPairs(n, n*6/10, n/20) }

func TestLabelTable(t *testing.T) {
	t.Run("by the number of scored pairs", func(t *testing.T) {
		for _, c := range []struct {
			id   string
			n    int
			want Label
		}{
			{"R-EVD-01", 0, NoLocalEvidence}, {"R-EVD-01", 1, NoLocalEvidence}, {"R-EVD-01", 19, NoLocalEvidence},
			{"R-EVD-02", 20, Promising}, {"R-EVD-02", 29, Promising},
			{"R-EVD-03", 30, Established}, {"R-EVD-03", 127, Established},
		} {
			t.Run(fmt.Sprintf("%s n=%d", c.id, c.n), func(t *testing.T) {
				if got := judged(t, measured(better(c.n))); got.Label != c.want {
					t.Errorf("a clear gain on %d pairs: got %s (%v), want %s", c.n, got.Label, got.Reasons, c.want)
				}
			})
		}
	})
	t.Run("R-EVD-07 forty rows of the source against twelve are twelve pairs", func(t *testing.T) {
		p := Pair(runs(make([]float64, 40)...), runs(slices.Repeat([]float64{1}, 12)...))
		got := judged(t, measured(p))
		if got.Label != NoLocalEvidence || got.Comparison.N != 12 || !strings.Contains(reasonsOf(got), "12 scored pairs; a label needs 20: 8 more") {
			t.Errorf("40 against 12: got %s, n %d, %v", got.Label, got.Comparison.N, got.Reasons)
		}
	})
	t.Run("R-EVD-05 a higher mean with a bound below zero is inconclusive, with what is lacking", func(t *testing.T) {
		got := judged(t, measured(binaryPairs(40, 10, 6)))
		if got.Label != NoLocalEvidence || got.MorePairs < 50 ||
			!strings.Contains(reasonsOf(got), fmt.Sprintf("inconclusive: %d more pairs would be needed to see an effect of 0.1.", got.MorePairs)) {
			t.Errorf("10 against 6 of 40: got %s, more %d, %v", got.Label, got.MorePairs, got.Reasons)
		}
	})
	t.Run("R-EVD-05 an identical candidate is never labelled", func(t *testing.T) {
		for _, n := range []int{20, 30, 300} {
			if got := judged(t, measured(binaryPairs(n, 0, 0))); got.Label != NoLocalEvidence || !strings.Contains(reasonsOf(got), "inconclusive") {
				t.Errorf("identical on %d: got %s, %v", n, got.Label, got.Reasons)
			}
		}
	})
	t.Run("worse is needs_tuning from 20 pairs on", func(t *testing.T) {
		got := judged(t, measured(binaryPairs(20, 1, 12)))
		if got.Label != NeedsTuning || !strings.Contains(reasonsOf(got), "Worse than the source by 0.55") {
			t.Errorf("1 against 12 of 20: got %s, %v", got.Label, got.Reasons)
		}
		if got := judged(t, measured(binaryPairs(19, 1, 12))); got.Label != NoLocalEvidence {
			t.Errorf("1 against 12 of 19: got %s, want no_local_evidence", got.Label)
		}
	})
	t.Run("R-GWA-09 a failed must-pass case beats any gain", func(t *testing.T) {
		m := measured(better(60))
		m.Finalists[0].MustPassFailed = []string{"refuse-weapons"}
		got := judged(t, m)
		if got.Label != NeedsTuning || !strings.Contains(reasonsOf(got), "1 must-pass case failed: refuse-weapons.") {
			t.Errorf("must-pass failed: got %s, %v", got.Label, got.Reasons)
		}
	})
}

func TestLabelCaps(t *testing.T) {
	control := func(p Pairs) func(*Measurement) { return func(m *Measurement) { m.Control = &p } }
	cases := []struct {
		name   string
		change func(*Measurement)
		want   Label
		reason string
	}{
		{"nothing changed", func(*Measurement) {}, Established, "Better than the source"},
		{"10 % missing is allowed", func(m *Measurement) { m.HoldoutSize = 44; m.Finalists[0].Pairs = better(40) }, Established, ""},
		{"more than 10 % missing", func(m *Measurement) { m.HoldoutSize = 45; m.Finalists[0].Pairs = better(40) }, NoLocalEvidence, "11.1 % of the holdout"},
		{"unscored pairs count as missing", func(m *Measurement) {
			m.Finalists[0].Pairs.Unscored = make([]Excluded, 5)
		}, NoLocalEvidence, "not a scored pair"},
		{"unmatched pairs count as missing", func(m *Measurement) {
			m.Finalists[0].Pairs.Unmatched = make([]Excluded, 5)
		}, NoLocalEvidence, "not a scored pair"},
		{"no control", func(m *Measurement) { m.Control = nil }, NoLocalEvidence, "not measured a second time"},
		{"control worse than itself", control(binaryPairs(40, 1, 14)), NoLocalEvidence, "differs from itself by -0.325"},
		{"control better than itself", control(binaryPairs(40, 14, 1)), NoLocalEvidence, "differs from itself by +0.325"},
		{"control too small", control(binaryPairs(19, 0, 0)), NoLocalEvidence, "19 scored pairs with its first and needs 20"},
		{"control with holes", func(m *Measurement) {
			p := binaryPairs(30, 1, 1)
			p.Unscored = make([]Excluded, 10)
			m.Control = &p
		}, NoLocalEvidence, "25 % of the source's second run"},
		{"R-GWA-03 tenth use of the holdout", func(m *Measurement) { m.HoldoutUses = 10 }, Established, ""},
		{"R-GWA-03 eleventh use of the holdout", func(m *Measurement) { m.HoldoutUses = 11 }, Promising, "fresh examples"},
		{"R-GWE-35 a fifth of the verdicts flip", func(m *Measurement) { m.Finalists[0].FlipShare = 0.2 }, Established, ""},
		{"R-GWE-35 more flip", func(m *Measurement) { m.Finalists[0].FlipShare = 0.25 }, Promising, "25 % of the judge's verdicts flip"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := measured(better(40))
			c.change(&m)
			got := judged(t, m)
			if got.Label != c.want || !strings.Contains(reasonsOf(got), c.reason) {
				t.Errorf("label: got %s with %q, want %s with %q", got.Label, got.Reasons, c.want, c.reason)
			}
			if len(got.Reasons) == 0 || len(got.Gates) != 9 {
				t.Errorf("got %d reasons and %d gates, want at least 1 and all 9", len(got.Reasons), len(got.Gates))
			}
		})
	}
	t.Run("R-GWA-04 the number of variants tried stands beside the gain", func(t *testing.T) {
		got := judged(t, measured(better(40)))
		if got.Tried != 12 || !strings.Contains(got.Reasons[0], "best of 12 variants tried") {
			t.Errorf("tried: got %d, %q", got.Tried, got.Reasons[0])
		}
	})
	t.Run("a minimum effect raises the bar", func(t *testing.T) {
		c := DefaultCriteria()
		c.MinEffect = 0.5
		m := measured(better(40))
		m.CriteriaHash = c.Hash()
		report, err := Judge(c, m)
		if err != nil || report.Finalists[0].Label != NoLocalEvidence {
			t.Errorf("gain of 0.55 under a minimum of 0.5: got %+v, %v; want no_local_evidence", report.Finalists, err)
		}
	})
}

// sliced gives both arms the slices in turn.
func sliced(parts ...Pairs) Pairs {
	var all Pairs
	for i, p := range parts {
		for _, e := range p.Examples {
			e.Slice = string(rune('a' + i))
			all.Examples = append(all.Examples, e)
		}
	}
	return all
}

func TestLabelSlices(t *testing.T) {
	t.Run("R-GWA-11 a slice that regresses takes the label", func(t *testing.T) {
		got := judged(t, measured(sliced(better(80), binaryPairs(20, 0, 10))))
		if got.Label != NoLocalEvidence || !strings.Contains(reasonsOf(got), `Worse than the source in "b" by 0.5 on 20 pairs.`) {
			t.Errorf("one bad slice: got %s, %v", got.Label, got.Reasons)
		}
		if got.Comparison.Verdict != Improves || got.Slices[0].Regresses || !got.Slices[1].Regresses {
			t.Errorf("one bad slice: got pooled %s and slices %+v", got.Comparison.Verdict, got.Slices)
		}
	})
	t.Run("R-GWA-11 nine pairs are no slice, ten are", func(t *testing.T) {
		nine := judged(t, measured(sliced(better(80), binaryPairs(9, 0, 9))))
		ten := judged(t, measured(sliced(better(80), binaryPairs(10, 0, 10))))
		if nine.Label != Established || nine.Slices[1].Counted || ten.Label != NoLocalEvidence {
			t.Errorf("slices of 9 and 10: got %s and %s, want established and no_local_evidence", nine.Label, ten.Label)
		}
	})
	t.Run("Holm over the slices: one of many is held to more", func(t *testing.T) {
		bad := binaryPairs(30, 3, 11) // below 0 on its own, not among ten
		if Difference(bad, 0.05).Verdict != Regresses {
			t.Fatalf("the slice alone: got %+v, want regresses", Difference(bad, 0.05))
		}
		alone := judged(t, measured(sliced(better(300), bad)))
		parts := []Pairs{bad}
		for range 9 {
			parts = append(parts, better(40))
		}
		among := judged(t, measured(sliced(parts...)))
		if alone.Label != NoLocalEvidence || among.Label != Established || among.Slices[0].Verdict != Regresses {
			t.Errorf("beside one and beside nine: got %s and %s, want no_local_evidence and established", alone.Label, among.Label)
		}
	})
}

func TestJudgeRefuses(t *testing.T) {
	c := DefaultCriteria()
	t.Run("R-GWE-22 a run under other criteria than its job's", func(t *testing.T) {
		other := c
		other.MinEffect = 0.05
		_, err := Judge(other, measured(better(40)))
		if fault.Of(err) != fault.Conflict || fault.Code(err) != "criteria_mismatch" {
			t.Errorf("other criteria: got %v, want conflict criteria_mismatch", err)
		}
	})
	t.Run("R-EVD-01 criteria weaker than the policy", func(t *testing.T) {
		weak := c
		weak.MinPairs = 5
		m := measured(better(40))
		m.CriteriaHash = weak.Hash()
		if _, err := Judge(weak, m); fault.Of(err) != fault.Invalid {
			t.Errorf("weak criteria: got %v, want a validation fault", err)
		}
	})
	t.Run("a measurement that contradicts itself, every field named", func(t *testing.T) {
		m := measured(better(40))
		m.HoldoutSize, m.HoldoutUses, m.Tried = 39, 0, 0
		m.Finalists = append(m.Finalists, m.Finalists[0])
		m.Finalists[1].FlipShare = math.NaN()
		_, err := Judge(c, m)
		if fault.Of(err) != fault.Invalid {
			t.Fatalf("contradictions: got %v, want a validation fault", err)
		}
		for _, field := range []string{"holdout_uses", "tried", "finalists[0].pairs", "finalists[1].id", "finalists[1].flip_share", "measurement.control"} {
			if !strings.Contains(err.Error(), field) {
				t.Errorf("contradictions: %q does not name %s", err, field)
			}
		}
	})
}

func TestHolm(t *testing.T) {
	got := holm([]float64{0.030, 0.001, 0.020, 0.9}, 0.05)
	want := []holmStep{{false, 0.05 / 3}, {true, 0.05 / 4}, {false, 0.05 / 3}, {false, 0.05 / 3}}
	if !slices.Equal(got, want) {
		t.Errorf("holm: got %v, want %v", got, want)
	}
	if len(holm(nil, 0.05)) != 0 {
		t.Errorf("holm of nothing: got something")
	}
}

func TestFinalistsAreCorrected(t *testing.T) {
	t.Run("R-EVD-05 a gain that is enough alone is not among eight", func(t *testing.T) {
		edge := binaryPairs(40, 11, 4)
		if got := judged(t, measured(edge)); got.Label != Established || got.AdjustedLower != got.Comparison.LowerBound {
			t.Fatalf("alone: got %s %v, want established", got.Label, got.Reasons)
		}
		m := measured(edge)
		for i := range 7 {
			m.Finalists = append(m.Finalists, Finalist{ID: fmt.Sprint("other", i), Pairs: binaryPairs(40, 5, 5)})
		}
		got := judged(t, m)
		if got.Label != NoLocalEvidence || got.AdjustedLower >= 0 || got.Comparison.LowerBound <= 0 || got.AdjustedLevel < 0.993 {
			t.Errorf("among eight: got %s, bound %v (plain %v) at %v", got.Label, got.AdjustedLower, got.Comparison.LowerBound, got.AdjustedLevel)
		}
	})
	t.Run("R-EVD-05 the best of eight identical candidates passes in at most 6 % of jobs", func(t *testing.T) {
		r := rand.New(rand.NewPCG(20, 22))
		const jobs = 2000
		passed := 0
		for range jobs {
			m := measured(Pairs{})
			m.Finalists = nil
			source := make([]PairedExample, 40)
			for i := range source {
				source[i].Against = float64(r.IntN(2))
			}
			for k := range 8 {
				examples := slices.Clone(source)
				for i, e := range examples {
					examples[i].Arm = e.Against
					if r.IntN(5) == 0 {
						examples[i].Arm = 1 - e.Against
					}
				}
				m.Finalists = append(m.Finalists, Finalist{ID: fmt.Sprint(k), Pairs: Pairs{Examples: examples}})
			}
			report, err := Judge(DefaultCriteria(), m)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(report.Finalists, func(j Judgement) bool { return j.Label == Promising || j.Label == Established }) {
				passed++
			}
		}
		if rate := float64(passed) / jobs; rate > 0.06 {
			t.Errorf("jobs with a labelled null candidate: %.4f, want at most 0.06", rate)
		}
	})
}

func TestLabelsAsText(t *testing.T) {
	t.Run("R-EVD-09 four labels, four texts", func(t *testing.T) {
		want := map[Label]string{
			NoLocalEvidence: "No local evidence", Promising: "Promising", Established: "Established", NeedsTuning: "Needs tuning",
		}
		for l, text := range want {
			if l.Words() != text {
				t.Errorf("label %s: got %q, want %q", l, l.Words(), text)
			}
		}
		if Label("excellent").Words() != "No local evidence" {
			t.Errorf("unknown label: got %q, want the weakest", Label("excellent").Words())
		}
	})
}
