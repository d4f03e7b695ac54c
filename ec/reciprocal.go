package ec

import (
	"maps"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// inForce gives an overlay's header with the hard conflicts that were declared
// for a preset in this library only: its file stays as it was shipped.
func (s *State) inForce(fm contracts.OverlayTemplateFrontmatter) contracts.OverlayTemplateFrontmatter {
	for _, other := range s.install.Presets[string(fm.ID)].LocalConflicts {
		if !slices.Contains(fm.ConflictsWith, other) {
			fm.ConflictsWith = append(slices.Clone(fm.ConflictsWith), other)
		}
	}
	return fm
}

// reciprocal brings the other ends of an overlay's hard conflicts in line with
// what it declares. It gives the library as it will be, the changes of other
// overlays, and the change of local conflicts where presets are concerned.
func (s *State) reciprocal(c Command, fm contracts.OverlayTemplateFrontmatter) (then *State, puts, install []Event, err error) {
	then = s.Copy()
	next := then.install
	next.Presets = maps.Clone(next.Presets)
	var changes []*Overlay
	s.overlays.Scan(func(_ string, o *Overlay) bool {
		wants := slices.Contains(fm.ConflictsWith, o.Record.Frontmatter.ID)
		if has := slices.Contains(s.inForce(o.Record.Frontmatter).ConflictsWith, fm.ID); o.Record.Frontmatter.ID != fm.ID && wants != has {
			changes = append(changes, o)
		}
		return true
	})
	for _, o := range changes {
		id := string(o.Record.Frontmatter.ID)
		wants := slices.Contains(fm.ConflictsWith, o.Record.Frontmatter.ID)
		if preset, ok := next.Presets[id]; ok {
			preset.LocalConflicts = edges(preset.LocalConflicts, fm.ID, wants)
			next.Presets[id] = preset
			install = []Event{InstallPut{next}}
			continue
		}
		header := o.Record.Frontmatter
		header.ConflictsWith = edges(header.ConflictsWith, fm.ID, wants)
		file, err := frontmatter.Update([]byte(o.File), header, o.Record.Body)
		if err != nil {
			return nil, nil, nil, err
		}
		d, err := s.putOverlay(c, o, header, o.Record.Body, string(file))
		if err != nil {
			return nil, nil, nil, err
		}
		puts = append(puts, d.events...)
	}
	for _, e := range append(slices.Clone(puts), install...) {
		then.Apply(e)
	}
	return then, puts, install, nil
}

func edges(list contracts.List[contracts.OverlayID], id contracts.OverlayID, want bool) contracts.List[contracts.OverlayID] {
	out := slices.DeleteFunc(slices.Clone(list), func(x contracts.OverlayID) bool { return x == id })
	if want {
		out = append(out, id)
	}
	return out
}

// weave puts the changes of other overlays before an overlay's own, and those of
// the install state behind them: the audit's hashes follow its effects.
func weave(d decision, puts, install []Event) decision {
	if len(puts)+len(install) == 0 {
		return d
	}
	own := min(1, len(d.events))
	d.events = slices.Concat(puts, d.events[:own], install, d.events[own:])
	d.receipt.Changed = true
	return d
}
