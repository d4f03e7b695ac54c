package gateway

import (
	"math"
	"math/bits"
)

// NanoUSD is the unit of money: one billionth of a US dollar, an integer.
const NanoUSD int64 = 1_000_000_000

// FromUSD turns an amount a person typed into nanoUSD, rounded down. Negative,
// infinite and absurd amounts give 0.
func FromUSD(usd float64) int64 {
	v := usd * float64(NanoUSD)
	if !(v > 0) || v >= math.MaxInt64 {
		return 0
	}
	return int64(v)
}

// USD gives nanoUSD as dollars, for display and metrics only.
func USD(nano int64) float64 { return float64(nano) / float64(NanoUSD) }

// Price is what a target costs, in nanoUSD per million tokens.
type Price struct {
	Known      bool
	Input      int64
	Output     int64
	CacheRead  int64
	CacheWrite int64
}

// Free tells whether calls certainly cost nothing.
func (p Price) Free() bool {
	return p.Known && p.Input == 0 && p.Output == 0 && p.CacheRead == 0 && p.CacheWrite == 0
}

// Cost gives what usage costs, every kind rounded up.
func (p Price) Cost(u Usage) int64 {
	sum := tokens(u.Input, p.Input)
	sum = add(sum, tokens(u.Output, p.Output))
	sum = add(sum, tokens(u.CacheRead, p.CacheRead))
	return add(sum, tokens(u.CacheWrite, p.CacheWrite))
}

// The allowances for what a provider wraps around one message, and around one
// part, tool or tool call.
const (
	perMessage = 16
	perPart    = 16
)

// Bound gives the most that a request can cost. One byte is counted as one
// token: byte-level encoders never make more, and no vocabulary is needed.
// Messages, tools and the shape of the answer are counted; an image counts as
// imageTokens, whatever its bytes.
func (p Price) Bound(r Request, imageTokens int) int64 {
	n := int64(perMessage)
	for _, m := range r.Messages {
		bytes, images := m.size()
		n = add(n, int64(bytes)+perMessage)
		n = add(n, int64(images)*int64(imageTokens))
	}
	for _, t := range r.Tools {
		n = add(n, int64(t.size()))
	}
	if r.Schema != nil {
		n = add(n, int64(len(r.Schema.id)+len(r.Schema.keywords)))
	}
	in := tokens(n, max(p.Input, p.CacheRead, p.CacheWrite))
	if in > 0 {
		in = add(in, 2) // Cost rounds up three kinds of input, not one
	}
	return add(in, tokens(int64(r.MaxTokens), p.Output))
}

// bound gives the most that a request can cost at the target.
func (t Target) bound(r Request) int64 {
	n := t.Price.Bound(r, t.ImageTokens)
	if len(r.Tools) > 0 || r.Schema != nil {
		n = add(n, tokens(t.Profile.Preamble, max(t.Price.Input, t.Price.CacheRead, t.Price.CacheWrite)))
	}
	return n
}

// tokens multiplies n tokens by a price per million, rounded up and saturating:
// both factors may come from outside.
func tokens(n, perMillion int64) int64 {
	if n <= 0 || perMillion <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(perMillion))
	lo, carry := bits.Add64(lo, 999_999, 0)
	hi += carry
	if hi >= 1_000_000 {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(q)
}

// add saturates.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
