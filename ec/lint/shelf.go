package lint

import (
	"slices"

	"github.com/elnor/promptlab/contracts"
)

// Shelf is a Library made of a list: a pack of overlays, or a test's.
type Shelf []contracts.OverlayTemplateFrontmatter

// Frontmatter finds a header by id; nothing on a shelf is archived.
func (s Shelf) Frontmatter(id contracts.OverlayID) (fm contracts.OverlayTemplateFrontmatter, archived, ok bool) {
	for _, fm := range s {
		if fm.ID == id {
			return fm, false, true
		}
	}
	return contracts.OverlayTemplateFrontmatter{}, false, false
}

// AliasOwner finds the overlay with a deprecated alias.
func (s Shelf) AliasOwner(alias string) (contracts.OverlayID, bool) {
	for _, fm := range s {
		if slices.Contains(fm.DeprecatedAliases, alias) {
			return fm.ID, true
		}
	}
	return "", false
}

// Each calls fn for every header in order.
func (s Shelf) Each(fn func(fm contracts.OverlayTemplateFrontmatter, archived bool) bool) {
	for _, fm := range s {
		if !fn(fm, false) {
			return
		}
	}
}
