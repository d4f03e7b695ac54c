package evidence

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTangoAgainstPublishedIntervals(t *testing.T) {
	// Two-sided intervals as published: Fagerland, Lydersen and Laake (2014),
	// airway reactivity before and after transplantation; values of the
	// established R implementation; the closed form z2/(n+z2) without
	// disagreement.
	z95 := normalQuantile(0.975)
	cases := []struct {
		b, c, n      int
		level        float64
		lower, upper float64
		within       float64
	}{
		{1, 7, 21, 0.95, -0.517, -0.026, 5e-4},
		{7, 0, 14, 0.95, 0.177034, 0.732008, 5e-7},
		{28, 25, 618, 0.90, -0.0148, 0.0247, 5e-5},
		{48, 41, 549, 0.90, -0.0157, 0.0414, 5e-5},
		{0, 0, 44, 0.95, -z95 * z95 / (44 + z95*z95), z95 * z95 / (44 + z95*z95), 1e-12},
	}
	for _, c := range cases {
		z := normalQuantile(1 - (1-c.level)/2)
		lower, upper := tangoLower(c.b, c.c, c.n, z), -tangoLower(c.c, c.b, c.n, z)
		if math.Abs(lower-c.lower) > c.within || math.Abs(upper-c.upper) > c.within {
			t.Errorf("%d against %d of %d at %v: got [%.6f, %.6f], want [%.6f, %.6f]",
				c.b, c.c, c.n, c.level, lower, upper, c.lower, c.upper)
		}
	}
}

func TestTangoEverywhere(t *testing.T) {
	// Every table up to 40 pairs: the bound solves the statistic, is ordered,
	// never leaves [-1,1], and mirrors.
	z := normalQuantile(0.95)
	for n := 1; n <= 40; n++ {
		for b := 0; b <= n; b++ {
			for c := 0; b+c <= n; c++ {
				d := float64(b-c) / float64(n)
				lower, upper := tangoLower(b, c, n, z), -tangoLower(c, b, n, z)
				if !(lower >= -1 && lower <= d && upper >= d && upper <= 1) {
					t.Fatalf("%d against %d of %d: got [%v, %v] around %v", b, c, n, lower, upper, d)
				}
				if c < n && math.Abs(tango(b, c, n, lower)-z) > 1e-6 {
					t.Fatalf("%d against %d of %d: statistic at the lower bound is %v, want %v", b, c, n, tango(b, c, n, lower), z)
				}
				if b == c && math.Abs(lower+upper) > 1e-12 {
					t.Fatalf("%d against %d of %d: got [%v, %v], want it symmetric", b, c, n, lower, upper)
				}
			}
		}
	}
}

func TestTangoHoldsItsLevel(t *testing.T) {
	// Computed, not simulated: the chance that the lower bound exceeds 0 when
	// nothing differs, for every share of disagreeing pairs.
	t.Run("R-EVD-05 false improvement stays at or below 6 % at nominal 5 %", func(t *testing.T) {
		z := normalQuantile(0.95)
		for _, n := range []int{20, 30, 50, 100, 300} {
			rejectGiven := make([]float64, n+1) // by the number of disagreeing pairs
			for m := 1; m <= n; m++ {
				for b := m/2 + 1; b <= m; b++ {
					if tango(b, m-b, n, 0) > z {
						rejectGiven[m] += math.Exp(logChoose(m, b) - float64(m)*math.Ln2)
					}
				}
			}
			worst := 0.0
			for share := 0.01; share < 1; share += 0.01 {
				rate := 0.0
				for m, p := range rejectGiven {
					rate += p * math.Exp(logChoose(n, m)+float64(m)*math.Log(share)+float64(n-m)*math.Log1p(-share))
				}
				worst = max(worst, rate)
			}
			if worst > 0.06 || worst < 0.045 {
				t.Errorf("n %d: worst false-improvement rate %.4f, want between 0.045 and 0.06", n, worst)
			}
		}
	})
	t.Run("R-EVD-05 the bound covers a true effect about as often as it says", func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 98))
		for _, world := range []struct{ win, loss float64 }{{0.3, 0.1}, {0.15, 0.05}, {0.05, 0.25}, {0.6, 0.2}} {
			for _, n := range []int{20, 50} {
				const times = 4000
				above := 0
				z := normalQuantile(0.95)
				for range times {
					b, c := 0, 0
					for range n {
						switch u := r.Float64(); {
						case u < world.win:
							b++
						case u < world.win+world.loss:
							c++
						}
					}
					if tangoLower(b, c, n, z) > world.win-world.loss {
						above++
					}
				}
				if rate := float64(above) / times; rate > 0.085 { // the score interval itself reaches 0.08 away from 0 at n 20
					t.Errorf("effect %.2f, n %d: bound above the truth in %.4f of the runs, want at most 0.085", world.win-world.loss, n, rate)
				}
			}
		}
	})
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
