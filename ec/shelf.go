package ec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// shelved is an overlay in its place on the shelf, with what a search asks of every
// overlay: a large library does not fit into the processor's memory.
type shelved struct {
	overlay *Overlay
	marks   trigrams
}

// setOverlay puts an overlay into the library and onto the shelf.
func (s *State) setOverlay(o *Overlay) {
	if old, ok := s.overlays.Set(string(o.Record.Frontmatter.ID), o); ok && old.place != o.place {
		s.shelf.Delete(old.place)
	}
	s.shelf.Set(o.place, shelved{o, marksOf(o.found)})
	s.edition++
}

// shelfPlace orders overlays as lists show them: presets first, in their order, then
// by title, those with one title by id. Each has a place of its own.
func shelfPlace(fm contracts.OverlayTemplateFrontmatter) string {
	order := presetOrder()
	rank := len(order)
	if i := slices.Index(order, fm.ID); i >= 0 && fm.Preset {
		rank = i
	}
	return fmt.Sprintf("%03d%s\x00%s", rank, fm.Title, fm.ID)
}

// foundBy is the text that a search looks through.
func foundBy(fm contracts.OverlayTemplateFrontmatter) string {
	return strings.ToLower(strings.Join([]string{
		string(fm.ID), fm.Title, fm.Description, strings.Join(fm.ResearchTags, "\n"), strings.Join(fm.SuggestedUseCases, "\n"),
	}, "\n"))
}

// trigrams has a bit for every three bytes in a row of a text, several of which may
// share one: a word can only be in a text that has all of its bits.
type trigrams [4]uint64

func marksOf(texts ...string) trigrams {
	var out trigrams
	for _, t := range texts {
		for i := range len(t) - 2 {
			h := (uint32(t[i])<<16 | uint32(t[i+1])<<8 | uint32(t[i+2])) * 2654435761 >> 24
			out[h>>6] |= 1 << (h & 63)
		}
	}
	return out
}

func (t *trigrams) mayHave(words trigrams) bool {
	return words[0]&^t[0]|words[1]&^t[1]|words[2]&^t[2]|words[3]&^t[3] == 0
}

// Overlays lists the library: presets in canonical order, then the others by title.
func (v *View) Overlays(f OverlayFilter) contracts.OverlayListResponse {
	out := contracts.OverlayListResponse{EvidenceState: "available"}
	words := strings.Fields(strings.ToLower(f.Query))
	marks := marksOf(words...)
	from := max(f.Offset, 0)
	v.s.shelf.Scan(func(_ string, at shelved) bool {
		if !at.marks.mayHave(marks) || !f.matches(at.overlay, words) {
			return true
		}
		if out.Total >= from && (f.Limit <= 0 || len(out.Items) < f.Limit) {
			out.Items = append(out.Items, indexEntry(at.overlay))
		}
		out.Total++
		return true
	})
	return out
}
