package evidence

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTango is both bounds of 1,319 binary pairs from their counts.
func BenchmarkTango(b *testing.B) {
	z := normalQuantile(0.95)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = tangoLower(412, 287, 1319, z), -tangoLower(287, 412, 1319, z)
	}
}

// BenchmarkDifference is the whole comparison of 1,319 pairs.
func BenchmarkDifference(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(one func() float64) Pairs {
		p := Pairs{Examples: make([]PairedExample, 1319)}
		for i := range p.Examples {
			p.Examples[i] = PairedExample{Arm: one(), Against: one()}
		}
		return p
	}
	for name, p := range map[string]Pairs{
		"binary":   draw(func() float64 { return float64(r.IntN(2)) }),
		"quarters": draw(func() float64 { return quarters(r) }),
		"anything": draw(r.Float64),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Difference(p, 0.05)
			}
		})
	}
}
