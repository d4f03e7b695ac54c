package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/elnor/promptlab/evidence"
)

// evidenceRow: the whole comparison of two arms on 1,319 examples: matching,
// pooled bounds, bounds of four slices. The slowest kind of scores counts.
func evidenceRow(_ *testing.T, b *board) {
	const n, runs = 1319, 30
	r := rand.New(rand.NewPCG(1, 1))
	arm := func(one func() float64) []evidence.Score {
		out := make([]evidence.Score, n)
		for i := range out {
			v := one()
			out[i] = evidence.Score{ExampleID: fmt.Sprintf("ex-%04d", i), Slice: fmt.Sprintf("slice-%d", i%4), Value: &v}
		}
		return out
	}
	worst := 0.0 // of the medians
	for _, kind := range []struct {
		name string
		one  func() float64
	}{
		{"binary", func() float64 { return float64(r.IntN(2)) }},
		{"quarters", func() float64 { return float64(r.IntN(5)) / 4 }},
		{"anything", r.Float64},
	} {
		source, candidate := arm(kind.one), arm(kind.one)
		var took []float64
		for range runs {
			began := time.Now()
			pairs := evidence.Pair(source, candidate)
			evidence.Difference(pairs, 0.05)
			evidence.DifferenceBySlice(pairs, 0.05)
			took = append(took, float64(time.Since(began))/float64(time.Millisecond))
		}
		worst = max(worst, median(took))
		b.note("evidence: %s scores, pair + pooled + 4 slices, min/median/max of %d: %s ms.", kind.name, runs, spread(took, "%.2f"))
	}
	b.add(line{"evidence", fmt.Sprintf("%.2f ms", worst), "-", "-", "<= 50 ms", verdict(worst <= 50)})
}
