package evidence

import (
	"cmp"
	"math"
	"slices"
)

// Score is one verdict on one answer.
type Score struct {
	ExampleID string   `json:"example_id"`
	Slice     string   `json:"slice,omitempty"`
	Run       int      `json:"run,omitempty"` // numbers repeats of an arm
	Value     *float64 `json:"score"`         // in [0,1]; nil: unscored
}

// The arms of a comparison. A difference is arm minus against.
const (
	SideArm     = "arm"     // the candidate
	SideAgainst = "against" // the source
)

// PairedExample is one example that both arms have a score for, repeats
// averaged within each arm.
type PairedExample struct {
	Slice     string
	ExampleID string
	Arm       float64
	Against   float64
}

// Excluded names rows that stay out of a comparison.
type Excluded struct {
	Slice     string `json:"slice,omitempty"`
	ExampleID string `json:"example_id"`
	Run       int    `json:"run,omitempty"`
	Side      string `json:"side,omitempty"` // the arm concerned: whose row it is, or who lacks the score; empty: both
}

// Pairs are the scores of two arms, matched by slice and example.
type Pairs struct {
	Examples   []PairedExample // by slice, then example
	Unscored   []Excluded      // examples without any score in one arm or both
	Unmatched  []Excluded      // examples that only one arm has
	Duplicates []Excluded      // (slice, example, run) more than once in an arm: all its rows are left out
	Invalid    []Excluded      // rows outside [0,1] or not a number; they count as unscored
	Dropped    int             // examples of which duplicates are all that one arm has
}

// N counts the scored pairs.
func (p *Pairs) N() int { return len(p.Examples) }

// Missing counts the examples that appear somewhere and are not a scored pair.
func (p *Pairs) Missing() int { return len(p.Unscored) + len(p.Unmatched) + p.Dropped }

// Slices gives the pairs of each slice, by name. What is left out goes with its
// slice.
func (p *Pairs) Slices() []NamedPairs {
	bySlice := map[string]*Pairs{}
	of := func(name string) *Pairs {
		if bySlice[name] == nil {
			bySlice[name] = &Pairs{}
		}
		return bySlice[name]
	}
	for _, e := range p.Examples {
		s := of(e.Slice)
		s.Examples = append(s.Examples, e)
	}
	for _, e := range p.Unscored {
		s := of(e.Slice)
		s.Unscored = append(s.Unscored, e)
	}
	for _, e := range p.Unmatched {
		s := of(e.Slice)
		s.Unmatched = append(s.Unmatched, e)
	}
	named := make([]NamedPairs, 0, len(bySlice))
	for name, pairs := range bySlice {
		named = append(named, NamedPairs{name, *pairs})
	}
	slices.SortFunc(named, func(a, b NamedPairs) int { return cmp.Compare(a.Slice, b.Slice) })
	return named
}

// NamedPairs are the pairs of one slice.
type NamedPairs struct {
	Slice string
	Pairs Pairs
}

// Pair matches the scores of the source with those of the candidate. Only the
// same example in the same slice makes a pair. Repeats are averaged over the
// runs that have a score; an example none of whose runs has one is unscored.
func Pair(source, candidate []Score) Pairs {
	var p Pairs
	against, arm := p.collapse(source, SideAgainst), p.collapse(candidate, SideArm)
	for len(against) > 0 || len(arm) > 0 {
		order := 0
		switch {
		case len(against) == 0:
			order = -1
		case len(arm) == 0:
			order = 1
		default:
			order = arm[0].compare(against[0])
		}
		switch {
		case order < 0:
			p.single(arm[0], SideArm)
			arm = arm[1:]
		case order > 0:
			p.single(against[0], SideAgainst)
			against = against[1:]
		default:
			p.join(arm[0], against[0])
			arm, against = arm[1:], against[1:]
		}
	}
	return p
}

// example is all that one arm has on one example.
type example struct {
	slice, id string
	rows      int // without duplicates
	scored    int
	sum       float64
}

func (e example) compare(o example) int {
	return cmp.Or(cmp.Compare(e.slice, o.slice), cmp.Compare(e.id, o.id))
}

func (e example) mean() float64 { return e.sum / float64(e.scored) }

// collapse gathers the rows of one arm by example, in order, and lists what it
// leaves out.
func (p *Pairs) collapse(scores []Score, side string) []example {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b Score) int {
		return cmp.Or(cmp.Compare(a.Slice, b.Slice), cmp.Compare(a.ExampleID, b.ExampleID), cmp.Compare(a.Run, b.Run))
	})
	var out []example
	for i := 0; i < len(sorted); {
		s, same := sorted[i], 1
		for i+same < len(sorted) && sorted[i+same].key() == s.key() {
			same++
		}
		i += same
		if len(out) == 0 || out[len(out)-1].slice != s.Slice || out[len(out)-1].id != s.ExampleID {
			out = append(out, example{slice: s.Slice, id: s.ExampleID})
		}
		e, row := &out[len(out)-1], Excluded{s.Slice, s.ExampleID, s.Run, side}
		if same > 1 {
			p.Duplicates = append(p.Duplicates, row)
			continue
		}
		e.rows++
		switch {
		case s.Value == nil:
		case !(*s.Value >= 0 && *s.Value <= 1): // also NaN
			p.Invalid = append(p.Invalid, row)
		default:
			e.scored++
			e.sum += *s.Value
		}
	}
	return out
}

func (s Score) key() Excluded { return Excluded{Slice: s.Slice, ExampleID: s.ExampleID, Run: s.Run} }

func (p *Pairs) single(e example, side string) {
	if e.rows == 0 {
		p.Dropped++
		return
	}
	p.Unmatched = append(p.Unmatched, Excluded{Slice: e.slice, ExampleID: e.id, Side: side})
}

func (p *Pairs) join(arm, against example) {
	switch {
	case arm.rows == 0 || against.rows == 0:
		p.Dropped++
	case arm.scored == 0 && against.scored == 0:
		p.Unscored = append(p.Unscored, Excluded{Slice: arm.slice, ExampleID: arm.id})
	case arm.scored == 0:
		p.Unscored = append(p.Unscored, Excluded{Slice: arm.slice, ExampleID: arm.id, Side: SideArm})
	case against.scored == 0:
		p.Unscored = append(p.Unscored, Excluded{Slice: arm.slice, ExampleID: arm.id, Side: SideAgainst})
	default:
		p.Examples = append(p.Examples, PairedExample{arm.slice, arm.id, arm.mean(), against.mean()})
	}
}

// near is the distance below which two averages count as equal: the order of a
// sum must not make a win.
const near = 1e-12

// difference is arm minus against.
func (e PairedExample) difference() float64 {
	d := e.Arm - e.Against
	if math.Abs(d) < near {
		return 0
	}
	return d
}
