package worddiff_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elnor/promptlab/cmd/promptlab/internal/worddiff"
)

func TestDiffShowsWhatChanged(t *testing.T) {
	type p = worddiff.Piece
	for _, tc := range []struct {
		name, from, to string
		want           []p
	}{
		{"nothing", "", "", nil},
		{"equal texts", "Check the sources.", "Check the sources.", []p{{worddiff.Same, "Check the sources."}}},
		{"a word replaced", "Check the sources.", "Check all sources.",
			[]p{{worddiff.Same, "Check "}, {worddiff.Deleted, "the"}, {worddiff.Added, "all"}, {worddiff.Same, " sources."}}},
		{"neighbours read as one replacement", "one two.", "three four.",
			[]p{{worddiff.Deleted, "one two"}, {worddiff.Added, "three four"}, {worddiff.Same, "."}}},
		{"a line added at the end", "a\nb\n", "a\nb\n- new\n",
			[]p{{worddiff.Same, "a\nb\n"}, {worddiff.Added, "- new\n"}}},
		{"everything gone", "all of it", "", []p{{worddiff.Deleted, "all of it"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, worddiff.Diff(tc.from, tc.to)); d != "" {
				t.Errorf("Diff(%q, %q) (-want +got):\n%s", tc.from, tc.to, d)
			}
		})
	}
}

// The pieces rebuild both texts, never touch in vain, and keep as many words in
// common as the textbook table finds.
func TestDiffIsALongestCommonSequence(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		// letters and signs only: a space between changes is told as changed on purpose
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", ",", "b", ".", "c", ";", "\n", "ü"}), 0, 40).Draw(t, "words"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		from, to := text.Draw(t, "from"), text.Draw(t, "to")
		var old, now strings.Builder
		common := 0
		last := worddiff.Op(-1)
		for _, p := range worddiff.Diff(from, to) {
			if p.Text == "" || p.Op == last {
				t.Fatalf("Diff(%q, %q): piece %+v is empty or continues the one before", from, to, p)
			}
			last = p.Op
			if p.Op != worddiff.Added {
				old.WriteString(p.Text)
			}
			if p.Op != worddiff.Deleted {
				now.WriteString(p.Text)
			}
			if p.Op == worddiff.Same {
				common += len(worddiff.Words(p.Text))
			}
		}
		if old.String() != from || now.String() != to {
			t.Fatalf("Diff(%q, %q) rebuilds %q and %q", from, to, old.String(), now.String())
		}
		if want := table(worddiff.Words(from), worddiff.Words(to)); common != want {
			t.Fatalf("Diff(%q, %q) keeps %d words in common, want %d", from, to, common, want)
		}
	})
}

func table(a, b []string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			if a[i] == b[j] {
				rows[i+1][j+1] = rows[i][j] + 1
			} else {
				rows[i+1][j+1] = max(rows[i][j+1], rows[i+1][j])
			}
		}
	}
	return rows[len(a)][len(b)]
}

// Texts of the largest allowed size that have nothing in common must not stop a terminal.
func TestDiffOfLargeTextsEnds(t *testing.T) {
	from, to := strings.Repeat("alpha beta ", 1500), strings.Repeat("gamma\tdelta\t", 1500)
	if got := worddiff.Diff(from, to); len(got) != 2 {
		t.Errorf("Diff of texts without a common word gave %d pieces, want a deletion and an addition", len(got))
	}
}
