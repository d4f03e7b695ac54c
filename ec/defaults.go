package ec

import (
	"cmp"
	"slices"

	"github.com/elnor/promptlab/contracts"
)

// Defaults is the document of what moderators, rooms, panels and tasks bring
// along when a session starts.
type Defaults struct {
	SchemaVersion int                                         `json:"schema_version"`
	Moderators    contracts.List[contracts.ModeratorDefaults] `json:"moderators" default:"[]"`
	Surfaces      contracts.List[contracts.SurfaceDefaults]   `json:"surfaces" default:"[]"`
}

func (s *State) putModerator(c Command, b PutModeratorDefaults) (decision, error) {
	d, err := contracts.Check(b.Defaults, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if err := s.checkList("overlay_ids", d.OverlayIDs); err != nil {
		return decision{}, err
	}
	d.UpdatedAt, d.UpdatedBy = c.At, who(c)
	next := s.defaults
	i := slices.IndexFunc(next.Moderators, func(o contracts.ModeratorDefaults) bool { return o.ModeratorID == d.ModeratorID })
	if i >= 0 && next.Moderators[i].AppliesTo == d.AppliesTo && slices.Equal(next.Moderators[i].OverlayIDs, d.OverlayIDs) {
		return unchanged(d.ModeratorID, "")
	}
	next.Moderators = replace(next.Moderators, i, d)
	slices.SortFunc(next.Moderators, func(a, b contracts.ModeratorDefaults) int { return cmp.Compare(a.ModeratorID, b.ModeratorID) })
	return changed(d.ModeratorID, DefaultsPut{next})
}

func (s *State) putSurface(c Command, b PutSurfaceDefaults) (decision, error) {
	d, err := contracts.Check(b.Defaults, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if err := s.checkList("overlay_ids", d.OverlayIDs); err != nil {
		return decision{}, err
	}
	d.UpdatedAt, d.UpdatedBy = c.At, who(c)
	next := s.defaults
	i := slices.IndexFunc(next.Surfaces, func(o contracts.SurfaceDefaults) bool {
		return o.WorkspaceID == d.WorkspaceID && o.SurfaceKind == d.SurfaceKind && o.SurfaceID == d.SurfaceID
	})
	if i >= 0 && slices.Equal(next.Surfaces[i].OverlayIDs, d.OverlayIDs) && slices.Equal(next.Surfaces[i].ModeratorIDs, d.ModeratorIDs) {
		return unchanged(string(d.SurfaceKind), "")
	}
	next.Surfaces = replace(next.Surfaces, i, d)
	slices.SortFunc(next.Surfaces, func(a, b contracts.SurfaceDefaults) int {
		return cmp.Or(cmp.Compare(a.WorkspaceID, b.WorkspaceID), cmp.Compare(a.SurfaceKind, b.SurfaceKind), cmp.Compare(a.SurfaceID, b.SurfaceID))
	})
	return changed(string(d.SurfaceKind), DefaultsPut{next})
}

// replace gives a copy of a list with v at i, or behind it for i < 0.
func replace[T any](list contracts.List[T], i int, v T) contracts.List[T] {
	out := slices.Clone(list)
	if i < 0 {
		return append(out, v)
	}
	out[i] = v
	return out
}

// surfaceDefaults gives what is set for this very surface, else what is set for
// all of its kind in the workspace.
func (s *State) surfaceDefaults(key contracts.OverlaySessionKey) (out contracts.SurfaceDefaults) {
	for _, d := range s.defaults.Surfaces {
		if d.WorkspaceID != key.WorkspaceID || d.SurfaceKind != key.SurfaceKind {
			continue
		}
		if d.SurfaceID == key.SurfaceID {
			return d
		}
		if d.SurfaceID == "" {
			out = d
		}
	}
	return out
}

// moderatorDefaults gives what the adopted moderators bring to a surface.
func (s *State) moderatorDefaults(key contracts.OverlaySessionKey) []contracts.OverlayID {
	var out []contracts.OverlayID
	for _, id := range s.surfaceDefaults(key).ModeratorIDs {
		for _, m := range s.defaults.Moderators {
			room := m.AppliesTo != "panels" && key.SurfaceKind == contracts.SurfaceRoom
			panel := m.AppliesTo != "rooms" && key.SurfaceKind == contracts.SurfacePanel
			if m.ModeratorID == id && (room || panel) {
				out = append(out, m.OverlayIDs...)
			}
		}
	}
	return out
}
