package ec

import (
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/internal/fault"
)

// installPresets brings the library to the pack: new presets come in, untouched
// ones are updated, those that a person edited or archived are left alone.
func (s *State) installPresets(c Command, b InstallPresets) (decision, error) {
	res := contracts.PresetInstallResponse{PackID: b.Pack.ID}
	next := InstallState{SchemaVersion: 1, PackID: b.Pack.ID, PackVersion: b.Pack.Version, Presets: contracts.Map[InstalledPreset]{}, Migration: s.install.Migration}
	for k, v := range s.install.Presets {
		next.Presets[k] = v
	}
	var events []Event
	for _, p := range b.Pack.Overlays {
		id := string(p.Frontmatter.ID)
		file := string(frontmatter.Format(p.Frontmatter, p.Body))
		o := s.makeOverlay(p.Frontmatter, p.Body, file)
		o.Record.Source, o.Record.CreatedAt, o.Record.UpdatedAt = contracts.SourcePreset, c.At, c.At
		old, known := s.overlays.Get(id)
		was, installed := s.install.Presets[id]
		switch {
		case !known:
			events = append(events, OverlayPut{Overlay: o, What: contracts.EventOverlayInstalled})
			res.Installed = append(res.Installed, p.Frontmatter.ID)
		case old.Archived(), old.Record.Source != contracts.SourcePreset, installed && was.UserModified:
			res.Kept = append(res.Kept, p.Frontmatter.ID)
			continue
		case old.FileHash == o.FileHash:
			res.Unchanged = append(res.Unchanged, p.Frontmatter.ID)
		default:
			o.Record.CreatedAt, o.Revision = old.Record.CreatedAt, old.Revision+1
			events = append(events, OverlayPut{Overlay: o, Previous: old, What: contracts.EventOverlayUpdated})
			res.Updated = append(res.Updated, p.Frontmatter.ID)
		}
		next.Presets[id] = InstalledPreset{Version: p.Frontmatter.Version, FileHash: o.FileHash, BodyHash: o.Record.BodyHash, LocalConflicts: was.LocalConflicts}
	}
	if err := s.checkPack(b.Pack); err != nil {
		return decision{}, err
	}
	if len(events) == 0 && next.PackID == s.install.PackID {
		d, _ := unchanged("presets", "")
		d.receipt.Install = &res
		return d, nil
	}
	d, _ := changed("presets", append(events, InstallPut{next})...)
	d.receipt.Install = &res
	return d, nil
}

// checkPack runs the save-time rules over the pack as one library.
func (s *State) checkPack(p Pack) error {
	lib := packLibrary{library{s}, map[contracts.OverlayID]contracts.OverlayTemplateFrontmatter{}}
	for _, o := range p.Overlays {
		lib.pack[o.Frontmatter.ID] = s.inForce(o.Frontmatter)
	}
	var details []fault.Detail
	for _, o := range p.Overlays {
		res := lint.Validate(lint.Candidate{Frontmatter: s.inForce(o.Frontmatter), Body: o.Body}, lib, lint.Options{Operation: lint.Install, Origin: lint.Person})
		for _, d := range res.Errors {
			d.Field = string(o.Frontmatter.ID) + ": " + d.Field
			details = append(details, d)
		}
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	return nil
}

// packLibrary is the library as it will be with a pack in it.
type packLibrary struct {
	library
	pack map[contracts.OverlayID]contracts.OverlayTemplateFrontmatter
}

// Frontmatter prefers the pack's header.
func (l packLibrary) Frontmatter(id contracts.OverlayID) (contracts.OverlayTemplateFrontmatter, bool, bool) {
	if fm, ok := l.pack[id]; ok {
		return fm, false, true
	}
	return l.library.Frontmatter(id)
}

// Each gives the pack's headers first, then what the library has beside them.
func (l packLibrary) Each(fn func(contracts.OverlayTemplateFrontmatter, bool) bool) {
	for _, fm := range l.pack {
		if !fn(fm, false) {
			return
		}
	}
	l.library.Each(func(fm contracts.OverlayTemplateFrontmatter, archived bool) bool {
		if _, own := l.pack[fm.ID]; own {
			return true
		}
		return fn(fm, archived)
	})
}

// presetOrder is the canonical order of display; what is not a preset comes after.
func presetOrder() []contracts.OverlayID {
	return []contracts.OverlayID{
		"guided-verification", "concise-executive", "step-back-principles", "structured-decomposition",
		"secure-code", "legal-research", "dont-make-mistakes", "legal-strict",
		"pre-mortem-risk-analysis", "red-team-aggressive", "self-consistency-check", "spec-implementation",
		"tree-of-approaches", "creative-innovation", "counterargument-generator", "creative-flow",
		"verify-first", "diverse-sampling", "spec-architect", "elicitation", "reflexion-learning",
	}
}
