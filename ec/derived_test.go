package ec

import (
	"fmt"
	"testing"

	"github.com/elnor/promptlab/contracts"
)

// R-STO-12: index and metadata are written like every other document, however many
// overlays there are, and are due when an overlay has changed and only then.
func TestDerivedDocumentsAreLikeOthers(t *testing.T) {
	s := New(DefaultPolicy())
	index, meta := contracts.List[contracts.OverlayIndexEntry]{}, contracts.List[contracts.OverlayMetadata]{}
	editions := map[uint64]bool{}
	for i := range 70 {
		v := NewView(s.Copy())
		got := v.Derived()
		if string(got[0].Body) != string(mustJSON(index)) || string(got[1].Body) != string(mustJSON(meta)) {
			t.Fatalf("of %d overlays:\n%s%s", i, got[0].Body, got[1].Body)
		}
		if v.Edition() == 0 || editions[v.Edition()] {
			t.Fatalf("with %d overlays the edition is %d as before", i, v.Edition())
		}
		editions[v.Edition()] = true
		s.Apply(FlagsPut{contracts.Flags{PromptLab: true}})
		if NewView(s).Edition() != v.Edition() {
			t.Fatal("a change of something else made another edition")
		}
		o := s.makeOverlay(contracts.OverlayTemplateFrontmatter{
			ID: contracts.OverlayID(fmt.Sprintf("own-%02d", i)), Title: `<"Title">` + "\u2028", SupportedSurfaces: contracts.List[contracts.SupportedSurface]{"chat"},
		}, "Break it down.\n", "file")
		s.Apply(OverlayPut{Overlay: o})
		index, meta = append(index, indexEntry(o)), append(meta, o.Meta)
	}
}
