package ec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elnor/promptlab/contracts"
)

// naive lists a library the long way.
func naive(all map[contracts.OverlayID]*Overlay, f OverlayFilter) (ids []contracts.OverlayID, total int) {
	var found []*Overlay
	for _, o := range all {
		fm := o.Record.Frontmatter
		shown := fm.VisibilityTier == f.Tier || f.Tier == "" && (fm.VisibilityTier != contracts.TierHidden || f.Class != "")
		ok := shown && (f.IncludeArchived || o.Record.ArchivedAt == nil) && (f.Class == "" || f.Class == fm.ArtifactClass) && (f.Category == "" || f.Category == fm.Category)
		text := strings.ToLower(strings.Join(slices.Concat([]string{string(fm.ID), fm.Title, fm.Description}, fm.ResearchTags, fm.SuggestedUseCases), "\n"))
		for _, w := range strings.Fields(strings.ToLower(f.Query)) {
			ok = ok && strings.Contains(text, w)
		}
		if ok {
			found = append(found, o)
		}
	}
	rank := func(o *Overlay) int {
		if i := slices.Index(presetOrder(), o.Record.Frontmatter.ID); i >= 0 && o.Record.Frontmatter.Preset {
			return i
		}
		return 1000
	}
	slices.SortFunc(found, func(a, b *Overlay) int {
		x, y := a.Record.Frontmatter, b.Record.Frontmatter
		return cmp.Or(rank(a)-rank(b), strings.Compare(x.Title, y.Title), strings.Compare(string(x.ID), string(y.ID)))
	})
	for i, o := range found {
		if i >= f.Offset && (f.Limit == 0 || i < f.Offset+f.Limit) {
			ids = append(ids, o.Record.Frontmatter.ID)
		}
	}
	return ids, len(found)
}

// R-LIB-02 and R-PRE-03: a list, and every page of it, holds what its filter and its words let
// through and nothing else, in one order, whatever has been renamed, archived or
// spoken of before.
func TestListsHoldWhatTheyShould(t *testing.T) {
	syllables := rapid.SampledFrom([]string{"a", "ab", "abc", "note", "Notes", "é", "legal", "L", " ", "-", "release"})
	phrase := rapid.Custom(func(t *rapid.T) string {
		return "x" + strings.Join(rapid.SliceOfN(syllables, 0, 4).Draw(t, "phrase"), "")
	})
	ids := rapid.SampledFrom(append(presetOrder()[:3], "own-a", "own-ab", "own-b", "own-c"))
	at := contracts.At(time.UnixMilli(1_700_000_000_000))
	rapid.Check(t, func(t *rapid.T) {
		s, all := New(DefaultPolicy()), map[contracts.OverlayID]*Overlay{}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			fm := contracts.OverlayTemplateFrontmatter{
				ID: ids.Draw(t, "id"), Title: phrase.Draw(t, "title"), Description: phrase.Draw(t, "description"), Preset: rapid.Bool().Draw(t, "preset"),
				ResearchTags:   rapid.SliceOfN(phrase, 0, 2).Draw(t, "tags"),
				VisibilityTier: rapid.SampledFrom([]contracts.OverlayVisibilityTier{contracts.TierHidden, "core", "advanced"}).Draw(t, "tier"),
				Category:       rapid.SampledFrom([]contracts.OverlayCategory{"quality", "legal"}).Draw(t, "category"),
				ArtifactClass:  rapid.SampledFrom([]contracts.OverlayArtifactClass{"live_overlay", "post_task_template"}).Draw(t, "class"),
			}
			o := s.makeOverlay(fm, "body", "file body")
			if rapid.Bool().Draw(t, "archived") {
				o.Record.ArchivedAt = &at
			}
			all[fm.ID] = o
			s.Apply(OverlayPut{Overlay: o})
		}
		f := OverlayFilter{
			Query:           strings.Join(rapid.SliceOfN(syllables, 0, 3).Draw(t, "query"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between")),
			Tier:            rapid.SampledFrom([]contracts.OverlayVisibilityTier{"", "", contracts.TierHidden, "core"}).Draw(t, "of tier"),
			Category:        rapid.SampledFrom([]contracts.OverlayCategory{"", "", "legal"}).Draw(t, "of category"),
			Class:           rapid.SampledFrom([]contracts.OverlayArtifactClass{"", "", "live_overlay"}).Draw(t, "of class"),
			IncludeArchived: rapid.Bool().Draw(t, "with archived"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Offset: rapid.IntRange(0, 4).Draw(t, "offset"),
		}
		list := NewView(s).Overlays(f)
		var got []contracts.OverlayID
		for _, e := range list.Items {
			got = append(got, e.OverlayID)
		}
		want, total := naive(all, f)
		if d := gocmp.Diff(want, got); d != "" || list.Total != total {
			t.Fatalf("list by %+v: %d in all, want %d (-want +got):\n%s", f, list.Total, total, d)
		}
		if s.shelf.Len() != s.overlays.Len() {
			t.Fatalf("%d overlays have %d places", s.overlays.Len(), s.shelf.Len())
		}
	})
}

// An opinion changes what is kept of an overlay; a list shows it where it was.
func TestTheShelfFollowsWhatIsKeptOfAnOverlay(t *testing.T) {
	s := New(DefaultPolicy())
	o := s.makeOverlay(contracts.OverlayTemplateFrontmatter{ID: "own-a", Title: "A"}, "body", "file body")
	s.Apply(OverlayPut{Overlay: o})
	s.applySignal(SignalLine{RecordKind: "feedback", Feedback: &contracts.OverlayFeedback{OverlayID: "own-a", CreatedAt: contracts.At(time.UnixMilli(5))}})
	at, _ := s.shelf.Get(o.place)
	if now, _ := s.overlays.Get("own-a"); at.overlay != now || now.Meta.LastFeedbackAt == nil {
		t.Errorf("the shelf holds %p, the library %p with %v", at.overlay, now, now.Meta.LastFeedbackAt)
	}
}

// The marks let most of what is not meant pass by; were they all set, a search would
// look through every text.
func TestMarksTellTextsApart(t *testing.T) {
	text := marksOf(foundBy(contracts.OverlayTemplateFrontmatter{
		ID: "style-00017", Title: "Style for release and legal, 17", Description: "How the legal team wants a release note number 17",
	}))
	passed := 0
	for i := range 1000 {
		if m := marksOf(fmt.Sprintf("w%dq%dz", i, i*7)); text.mayHave(m) {
			passed++
		}
	}
	if passed > 100 {
		t.Errorf("%d of 1000 words that are not in a text seem to be, want next to none", passed)
	}
}

// R-SRC-14: what is worth knowing about an overlay follows the library and the overlay's
// text; the text itself is looked at once, not for each answer.
func TestWarningsAreFoundOnceAndFollowTheLibrary(t *testing.T) {
	s := New(DefaultPolicy())
	put := func(id contracts.OverlayID, body string, warns ...contracts.OverlayID) {
		s.Apply(OverlayPut{Overlay: s.makeOverlay(contracts.OverlayTemplateFrontmatter{ID: id, Title: "T", LiveTokenTarget: 400, WarnsWith: warns}, body, body)})
	}
	codes := func() string {
		var out []string
		for _, w := range NewView(s).Warnings("own-a") {
			out = append(out, w.Code)
		}
		return strings.Join(out, " ")
	}
	long := strings.Repeat("Say plainly what has changed and why. ", 30)
	put("own-a", "You are a senior editor. "+long, "own-b")
	first := testing.AllocsPerRun(1, func() {
		s.overlays.Scan(func(_ string, o *Overlay) bool { o.advised = &advised{}; codes(); return false })
	})
	if got, want := codes(), "unknown_reference persona_opening"; got != want {
		t.Errorf("warnings: got %s, want %s", got, want)
	}
	if again := testing.AllocsPerRun(10, func() { codes() }); again > first/5 {
		t.Errorf("asked again the answer takes %.0f allocations, the first time %.0f: the text was looked at again", again, first)
	}
	put("own-b", "Other words.")
	if got, want := codes(), "persona_opening"; got != want {
		t.Errorf("when what it names is there: got %s, want %s", got, want)
	}
	put("own-a", "Plain words. "+long, "own-c")
	if got, want := codes(), "unknown_reference"; got != want {
		t.Errorf("with another text: got %s, want %s", got, want)
	}
}
