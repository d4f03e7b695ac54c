package evidence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func rowsOf(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{ID: fmt.Sprintf("ex-%03d", i), Input: fmt.Sprintf("question %d", i)}
	}
	return rows
}

// anyRows draws rows in which inputs repeat in several spellings and, rarely,
// ids repeat as well.
func anyRows(t *rapid.T) []Row {
	n := rapid.IntRange(0, 120).Draw(t, "n")
	spellings := []string{"Question %d", "question  %d", "QUESTION\u00a0%d ", "ｑuestion %d", "ques\u200btion\t%d"}
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{
			ID:    fmt.Sprintf("ex-%d", rapid.IntRange(0, 4*n).Draw(t, "id")),
			Input: fmt.Sprintf(rapid.SampledFrom(spellings).Draw(t, "spelling"), rapid.IntRange(0, n).Draw(t, "input")),
		}
	}
	return rows
}

func TestSplitSizes(t *testing.T) {
	t.Run("R-EVD-01 R-GWA-02 every size from 0 to 200 follows the rule", func(t *testing.T) {
		for n := 0; n <= 200; n++ {
			s := Split(rowsOf(n), "key")
			want := 0
			switch {
			case n > 38:
				want = 30 + (n-38)*60/100
			case n > 8:
				want = n - 8
			}
			if len(s.Holdout) != want || len(s.Dev) != n-want || s.Distinct != n {
				t.Fatalf("split %d rows: got dev %d, holdout %d, distinct %d; want dev %d, holdout %d",
					n, len(s.Dev), len(s.Holdout), s.Distinct, n-want, want)
			}
		}
	})
	t.Run("28 distinct reach a label and 38 established", func(t *testing.T) {
		for n, want := range map[int]int{27: 19, 28: 20, 37: 29, 38: 30} {
			if got := HoldoutSize(n); got != want {
				t.Errorf("holdout of %d: got %d, want %d", n, got, want)
			}
		}
	})
}

func TestSplitNeverGoesByOrder(t *testing.T) {
	t.Run("R-GWA-01 the same rows in any order split the same", rapid.MakeCheck(func(t *rapid.T) {
		rows := anyRows(t)
		shuffled := rapid.Permutation(rows).Draw(t, "order")
		if diff := cmp.Diff(Split(rows, "key"), Split(shuffled, "key")); diff != "" {
			t.Fatalf("split of shuffled rows differs (-first +shuffled):\n%s", diff)
		}
	}))
	t.Run("another key gives another split and hash", func(t *testing.T) {
		a, b := Split(rowsOf(60), "one"), Split(rowsOf(60), "two")
		if a.Hash == b.Hash || cmp.Equal(a.Holdout, b.Holdout) {
			t.Errorf("two keys: got the same split, want different ones")
		}
	})
	t.Run("a changed input moves the hash", func(t *testing.T) {
		rows := rowsOf(60)
		before := Split(rows, "key").Hash
		rows[7].Input += " changed"
		if after := Split(rows, "key").Hash; after == before {
			t.Errorf("hash after a changed row: got %s again, want another", after)
		}
	})
	t.Run("neighbours in the file land on both sides", func(t *testing.T) {
		sealed := Split(rowsOf(200), "key").Sealed()
		first := 0
		for _, r := range rowsOf(200)[:100] {
			if sealed[r.ID] {
				first++
			}
		}
		if first < 40 || first > 90 {
			t.Errorf("first half of the file: got %d of 100 on the holdout, want a mixture (about 63)", first)
		}
	})
}

func TestSplitKeepsCopiesTogether(t *testing.T) {
	t.Run("R-GWA-01 rows with one input stand on one side and every row has a place", rapid.MakeCheck(func(t *rapid.T) {
		rows := anyRows(t)
		s := Split(rows, "key")
		side := map[string]string{}
		place := func(id, where string) {
			if before, twice := side[id]; twice {
				t.Fatalf("id %s: placed on %s and %s", id, before, where)
			}
			side[id] = where
		}
		for _, id := range s.Dev {
			place(id, "dev")
		}
		for _, id := range s.Holdout {
			place(id, "holdout")
		}
		for _, c := range s.Copies {
			place(c.ID, side[c.Of])
		}
		for _, id := range s.Ambiguous {
			place(id, "neither")
		}
		sealed, inputSide := s.Sealed(), map[string]string{}
		for _, r := range rows {
			where, ok := side[r.ID]
			if !ok {
				t.Fatalf("row %q: has no place", r.ID)
			}
			if sealed[r.ID] == (where == "dev") {
				t.Fatalf("row %q on %s: sealed is %v", r.ID, where, sealed[r.ID])
			}
			if where == "neither" {
				continue
			}
			input := NormaliseInput(r.Input)
			if before, seen := inputSide[input]; seen && before != where {
				t.Fatalf("input %q: on %s and %s", input, before, where)
			}
			inputSide[input] = where
		}
		if s.Distinct != len(inputSide) || s.Distinct != Distinct(rows) || s.Distinct != len(s.Dev)+len(s.Holdout) {
			t.Fatalf("distinct: got %d (Distinct %d, sides %d), want %d", s.Distinct, Distinct(rows), len(s.Dev)+len(s.Holdout), len(inputSide))
		}
	}))
	t.Run("an id with two inputs is on neither side", func(t *testing.T) {
		rows := append(rowsOf(40), Row{ID: "ex-000", Input: "something else"})
		s := Split(rows, "key")
		if !slices.Equal(s.Ambiguous, []string{"ex-000"}) || s.Distinct != 39 || !s.Sealed()["ex-000"] {
			t.Errorf("id with two inputs: got ambiguous %v, distinct %d; want [ex-000], 39, sealed", s.Ambiguous, s.Distinct)
		}
	})
}

func TestSplitGrows(t *testing.T) {
	t.Run("adding rows one by one never fails and never shrinks a side", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 1))
		var rows []Row
		dev, holdout := 0, 0
		for i := range 250 {
			rows = append(rows, Row{ID: fmt.Sprint(i), Input: fmt.Sprint(r.IntN(200))})
			s := Split(rows, "key")
			if len(s.Dev) < dev || len(s.Holdout) < holdout {
				t.Fatalf("row %d: sides went from %d/%d to %d/%d", i, dev, holdout, len(s.Dev), len(s.Holdout))
			}
			dev, holdout = len(s.Dev), len(s.Holdout)
		}
	})
}

func TestNormaliseInput(t *testing.T) {
	same := map[string][]string{
		"what is 2 + 2?": {"What is 2 + 2?", "  what\tis\n2 + 2? ", "WHAT IS ２ ＋ ２？", "what is\u00a02 + 2?", "wh\u00adat is 2 + 2?", "\ufeffwhat is 2 + 2?"},
		"strasse café":   {"Straße café", "STRASSE CAFE\u0301"},
		"":               {" ", "\u200b"},
	}
	for want, inputs := range same {
		for _, in := range inputs {
			if got := NormaliseInput(in); got != want {
				t.Errorf("normalise %q: got %q, want %q", in, got, want)
			}
		}
	}
	if NormaliseInput("a b") == NormaliseInput("ab") {
		t.Errorf("a b and ab: got the same, want different inputs")
	}
}
