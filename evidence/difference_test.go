package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestDifference(t *testing.T) {
	t.Run("names what decision needs: n, means, difference, wins, losses, unscored", func(t *testing.T) {
		p := Pair(runs(1, 0, 0, 0, math.NaN()), runs(0, 1, 1, 0, 1))
		got := Difference(p, 0.05)
		if got.N != 4 || got.MeanArm != 0.5 || got.MeanAgainst != 0.25 || got.Difference != 0.25 ||
			got.Wins != 2 || got.Losses != 1 || got.Unscored != 1 || got.Verdict != Inconclusive {
			t.Errorf("difference: got %+v", got)
		}
	})
	t.Run("without pairs everything is possible", func(t *testing.T) {
		got := Difference(Pairs{}, 0.05)
		if got.LowerBound != -1 || got.UpperBound != 1 || got.Verdict != Inconclusive || got.N != 0 {
			t.Errorf("no pairs: got %+v, want -1 to 1, inconclusive", got)
		}
	})
	t.Run("R-EVD-05 all pairs equal give 0 and inconclusive, for binary and other scores", func(t *testing.T) {
		for _, score := range []float64{0, 0.25, 1} {
			for _, n := range []int{1, 2, 20, 30, 1000} {
				values := make([]float64, n)
				for i := range values {
					values[i] = score
				}
				got := Difference(pairsOf(values, values), 0.05)
				if got.Difference != 0 || got.Verdict != Inconclusive || !(got.LowerBound < 0 && got.UpperBound > 0) {
					t.Errorf("%d equal pairs of %v: got %+v, want 0, inconclusive, bounds around 0", n, score, got)
				}
			}
		}
	})
	t.Run("R-EVD-05 equal gains are never infinitely sure", func(t *testing.T) {
		gain := func(n int, d float64) Comparison {
			arm, against := make([]float64, n), make([]float64, n)
			for i := range arm {
				arm[i], against[i] = 0.25+d, 0.25
			}
			return Difference(pairsOf(arm, against), 0.05)
		}
		if got := gain(5, 0.25); got.Verdict != Inconclusive || got.Difference != 0.25 {
			t.Errorf("5 gains of 0.25: got %+v, want inconclusive", got)
		}
		if got := gain(20, 0.25); got.Verdict != Improves || got.LowerBound > 0.15 {
			t.Errorf("20 gains of 0.25: got %+v, want improves with a bound well below 0.25", got)
		}
		if few, more := gain(5, 0.5), gain(8, 0.5); few.Verdict != Inconclusive || more.Verdict != Improves {
			t.Errorf("5 and 8 gains of 0.5: got %s and %s, want inconclusive and improves", few.Verdict, more.Verdict)
		}
	})
	t.Run("one lucky pair proves nothing", func(t *testing.T) {
		if got := Difference(pairsOf([]float64{1}, []float64{0}), 0.05); got.Verdict != Inconclusive {
			t.Errorf("1 win of 1: got %+v, want inconclusive", got)
		}
	})
	t.Run("R-EVD-05 a higher mean can be inconclusive", func(t *testing.T) {
		if got := Difference(binaryPairs(250, 66, 51), 0.05); got.Difference != 0.06 || got.Verdict != Inconclusive {
			t.Errorf("66 against 51 of 250: got %+v, want 0.06 and inconclusive", got)
		}
	})
	t.Run("slices are compared apart", func(t *testing.T) {
		source, candidate := runs(0, 0, 1, 1), runs(1, 1, 0, 0)
		for i := range source {
			source[i].Slice, candidate[i].Slice = "ab"[i/2:i/2+1], "ab"[i/2:i/2+1]
		}
		got := DifferenceBySlice(Pair(source, candidate), 0.05)
		if len(got) != 2 || got[0].Slice != "a" || got[0].Difference != 1 || got[1].Difference != -1 {
			t.Errorf("slices: got %+v, want a +1 and b -1", got)
		}
	})
}

// anyScores draws two arms on the same examples in steps of 1/4 or anywhere.
func anyScores(t *rapid.T) Pairs {
	n := rapid.IntRange(1, 60).Draw(t, "n")
	one := rapid.Float64Range(0, 1)
	if rapid.Bool().Draw(t, "steps") {
		one = rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 4).Draw(t, "quarters")) / 4 })
	}
	return pairsOf(rapid.SliceOfN(one, n, n).Draw(t, "arm"), rapid.SliceOfN(one, n, n).Draw(t, "against"))
}

func TestDifferenceProperties(t *testing.T) {
	t.Run("bounds enclose the difference, stay in range, mirror, and agree with the test", rapid.MakeCheck(func(t *rapid.T) {
		p := anyScores(t)
		alpha := rapid.SampledFrom([]float64{0.05, 0.01, 0.0003}).Draw(t, "alpha")
		got := Difference(p, alpha)
		if !(got.LowerBound >= -1 && got.LowerBound <= got.Difference+1e-12 && got.UpperBound >= got.Difference-1e-12 && got.UpperBound <= 1) {
			t.Fatalf("bounds [%v, %v] around %v", got.LowerBound, got.UpperBound, got.Difference)
		}
		swapped := Pairs{Examples: make([]PairedExample, p.N())}
		for i, e := range p.Examples {
			swapped.Examples[i] = PairedExample{e.Slice, e.ExampleID, e.Against, e.Arm}
		}
		back := Difference(swapped, alpha)
		if math.Abs(back.LowerBound+got.UpperBound) > 1e-9 || math.Abs(back.UpperBound+got.LowerBound) > 1e-9 {
			t.Fatalf("arms swapped: got [%v, %v], want the mirror of [%v, %v]", back.LowerBound, back.UpperBound, got.LowerBound, got.UpperBound)
		}
		statistic, z := newSample(p).statistic(0), normalQuantile(1-alpha)
		if math.Abs(got.LowerBound) > 1e-9 && (statistic > z) != (got.LowerBound > 0) {
			t.Fatalf("statistic %v at z %v, lower bound %v: they disagree", statistic, z, got.LowerBound)
		}
		if wider := Difference(p, alpha/2); wider.LowerBound > got.LowerBound || wider.UpperBound < got.UpperBound {
			t.Fatalf("level %v: [%v, %v] is narrower than [%v, %v] at %v", 1-alpha/2, wider.LowerBound, wider.UpperBound, got.LowerBound, got.UpperBound, 1-alpha)
		}
	}))
	t.Run("the score statistic falls as the hypothesis rises", rapid.MakeCheck(func(t *rapid.T) {
		p := anyScores(t)
		differences := make([]float64, p.N())
		for i, e := range p.Examples {
			differences[i] = e.difference()
		}
		s, before := spreadOf(differences), math.Inf(1)
		for d := -0.99; d < s.mean; d += 0.02 {
			now := s.statistic(d, -1)
			if now > before+1e-9 {
				t.Fatalf("statistic at %v: %v after %v", d, now, before)
			}
			before = now
		}
	}))
	t.Run("with -1, 0 and 1 the general statistic is Tango's", func(t *testing.T) {
		z := normalQuantile(0.95)
		for n := 1; n <= 30; n++ {
			for b := 0; b <= n; b++ {
				for c := 0; b+c <= n; c++ {
					values := make([]float64, n)
					for i := range b {
						values[i] = 1
					}
					for i := range c {
						values[b+i] = -1
					}
					if got, want := spreadOf(values).scoreLower(-1, z), tangoLower(b, c, n, z); math.Abs(got-want) > 1e-12 {
						t.Fatalf("%d against %d of %d: general bound %v, Tango %v", b, c, n, got, want)
					}
				}
			}
		}
	})
}

// world draws the two scores of one example.
type world struct {
	name string
	draw func(*rand.Rand) (arm, against float64)
}

func quarters(r *rand.Rand) float64 { return float64(r.IntN(5)) / 4 }

// shift draws the source anywhere and moves the candidate by one of the steps
// with these chances, wherever there is room for all of them.
func shift(steps, chances []float64) func(*rand.Rand) (float64, float64) {
	low, high := 0.0, 0.0
	for _, s := range steps {
		low, high = min(low, s), max(high, s)
	}
	return func(r *rand.Rand) (float64, float64) {
		against := -low + float64(r.IntN(int(4*(1-high+low))+1))/4
		u := r.Float64()
		for i, c := range chances {
			if u < c {
				return against + steps[i], against
			}
			u -= c
		}
		return against, against
	}
}

func TestStudentisedIntervalHoldsItsLevel(t *testing.T) {
	worlds := []world{
		{"independent", func(r *rand.Rand) (float64, float64) { return quarters(r), quarters(r) }},
		{"three of four tie", func(r *rand.Rand) (float64, float64) {
			x := quarters(r)
			if r.IntN(4) > 0 {
				return x, x
			}
			return quarters(r), x
		}},
		{"nineteen of twenty tie", func(r *rand.Rand) (float64, float64) {
			x := quarters(r)
			if r.IntN(20) > 0 {
				return x, x
			}
			return quarters(r), x
		}},
		{"steps of a quarter", shift([]float64{0.25, -0.25}, []float64{0.3, 0.3})},
		{"small gains and rare large losses", shift([]float64{0.25, -0.75}, []float64{0.3, 0.1})},
		{"steady gains and rarer larger losses", shift([]float64{0.25, -0.5}, []float64{0.6, 0.3})},
		{"rare large gains and small losses", shift([]float64{0.75, -0.25}, []float64{0.2, 0.6})},
		{"three repeats", func(r *rand.Rand) (float64, float64) {
			p := []float64{0.2, 0.5, 0.9}[r.IntN(3)]
			mean := func() float64 {
				hits := 0.0
				for range 3 {
					if r.Float64() < p {
						hits++
					}
				}
				return hits / 3
			}
			return mean(), mean()
		}},
	}
	const times = 2500
	for _, w := range worlds {
		for _, n := range []int{20, 30, 50} {
			t.Run(fmt.Sprintf("R-EVD-05 %s n=%d", w.name, n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1998, uint64(n)))
				improves, regresses := 0, 0
				p := Pairs{Examples: make([]PairedExample, n)}
				for range times {
					for i := range p.Examples {
						arm, against := w.draw(r)
						p.Examples[i] = PairedExample{Arm: arm, Against: against}
					}
					switch Difference(p, 0.05).Verdict {
					case Improves:
						improves++
					case Regresses:
						regresses++
					}
				}
				better, worse := float64(improves)/times, float64(regresses)/times
				if better > 0.06 || worse > 0.065 {
					t.Errorf("null world, %d runs: improves %.4f, regresses %.4f; want at most 0.06 and 0.065", times, better, worse)
				}
			})
		}
	}
}

func TestStudentisedIntervalExactly(t *testing.T) {
	// Every null world of one gain, one loss (in quarters) and ties, computed
	// exactly over all samples: the worst rate of false improvement.
	for _, n := range []int{20, 30, 50} {
		t.Run(fmt.Sprintf("R-EVD-05 worst three-point null world at n=%d stays below 6 %%", n), func(t *testing.T) {
			worst, where := 0.0, ""
			for gain := 1; gain <= 4; gain++ {
				for loss := 1; loss <= 4; loss++ {
					rejected := rejectedSamples(n, float64(gain)/4, float64(loss)/4)
					for p := 0.02; p < 1; p += 0.02 {
						q := p * float64(gain) / float64(loss)
						if p+q > 1+1e-9 {
							break
						}
						rate := 0.0
						for _, s := range rejected {
							ties := n - s[0] - s[1]
							rest := float64(ties) * math.Log1p(-min(p+q, 1))
							if ties == 0 {
								rest = 0
							}
							rate += math.Exp(logChoose(n, s[0]) + logChoose(n-s[0], s[1]) +
								float64(s[0])*math.Log(p) + float64(s[1])*math.Log(q) + rest)
						}
						if rate > worst {
							worst, where = rate, fmt.Sprintf("+%d/4 at %.2f, -%d/4 at %.2f", gain, p, loss, q)
						}
					}
				}
			}
			if worst > 0.06 {
				t.Errorf("false-improvement rate %.4f in world %s, want at most 0.06", worst, where)
			}
			t.Logf("worst rate %.4f in world %s", worst, where)
		})
	}
}

// rejectedSamples lists the samples (gains, losses) of n pairs that the
// studentised interval calls an improvement.
func rejectedSamples(n int, gain, loss float64) [][2]int {
	var out [][2]int
	z := normalQuantile(0.95)
	values := make([]float64, n)
	for a := 1; a <= n; a++ {
		for b := 0; a+b <= n; b++ {
			for i := range values {
				values[i] = 0
				if i < a {
					values[i] = gain
				} else if i < a+b {
					values[i] = -loss
				}
			}
			if s := spreadOf(values); s.mean > 1e-12 && s.distance(0, -1) > z {
				out = append(out, [2]int{a, b})
			}
		}
	}
	return out
}

func TestStudentisedIntervalFindsEffects(t *testing.T) {
	// A bound that never rises holds every level; this one must also see.
	r := rand.New(rand.NewPCG(7, 7))
	draw := shift([]float64{0.5, 0.25, -0.25, -0.5}, []float64{0.25, 0.3, 0.1, 0.05})
	const times = 1000
	seen := 0
	p := Pairs{Examples: make([]PairedExample, 30)}
	for range times {
		for i := range p.Examples {
			arm, against := draw(r)
			p.Examples[i] = PairedExample{Arm: arm, Against: against}
		}
		if Difference(p, 0.05).Verdict == Improves {
			seen++
		}
	}
	if seen < 750 {
		t.Errorf("effect of 0.15 at n 30: seen in %d of %d runs, want at least 750", seen, times)
	}
}

func TestLowerMean(t *testing.T) {
	t.Run("Wilson for zeros and ones", func(t *testing.T) {
		// Hand check: 15 of 20 at one-sided 95 %.
		values := make([]float64, 20)
		for i := range 15 {
			values[i] = 1
		}
		z := 1.6448536269514722
		want := (0.75 + z*z/40 - z*math.Sqrt(0.75*0.25/20+z*z/1600)) / (1 + z*z/20)
		if got := LowerMean(runs(values...)); math.Abs(got-want) > 1e-9 {
			t.Errorf("15 of 20: got %v, want %v", got, want)
		}
		if got := spreadOf(values).scoreLower(0, z); math.Abs(got-want) > 1e-9 {
			t.Errorf("15 of 20 by the general statistic: got %v, want Wilson's %v", got, want)
		}
	})
	t.Run("nothing scored gives 0", func(t *testing.T) {
		if got := LowerMean(runs(math.NaN(), math.NaN())); got != 0 {
			t.Errorf("no score: got %v, want 0", got)
		}
	})
	t.Run("R-RES-08 the bound stays in 0 to 1 and below the mean", rapid.MakeCheck(func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 40).Draw(t, "scores")
		sum := 0.0
		for _, x := range values {
			sum += x
		}
		if got := LowerMean(runs(values...)); !(got >= 0 && got <= sum/float64(len(values))+1e-12) {
			t.Fatalf("lower bound %v of mean %v", got, sum/float64(len(values)))
		}
	}))
	t.Run("repeats count once", func(t *testing.T) {
		once := []Score{{"a", "", 1, v(1)}, {"b", "", 1, v(0)}}
		repeated := []Score{{"a", "", 1, v(1)}, {"a", "", 2, v(1)}, {"b", "", 1, v(0)}, {"b", "", 2, v(0)}}
		if got, want := LowerMean(repeated), LowerMean(once); got != want {
			t.Errorf("with repeats: got %v, want %v as without", got, want)
		}
	})
	t.Run("equal scores are not infinitely sure", func(t *testing.T) {
		if got := LowerMean(runs(0.5, 0.5, 0.5, 0.5, 0.5)); !(got > 0 && got < 0.45) {
			t.Errorf("five times 0.5: got %v, want well below 0.5", got)
		}
	})
}
