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
	// Profiles is what the stand-in of the moderators' system keeps itself.
	Profiles contracts.List[contracts.ModeratorDefaults] `json:"profiles" default:"[]"`
}

func findModerator(list []contracts.ModeratorDefaults, id string) (contracts.ModeratorDefaults, bool) {
	i := slices.IndexFunc(list, func(m contracts.ModeratorDefaults) bool { return m.ModeratorID == id })
	if i < 0 {
		return contracts.ModeratorDefaults{}, false
	}
	return list[i], true
}

// moderator gives what a moderator brings along: from the profile where that is
// kept, else from the extension store, which their system reads by reference.
func (s *State) moderator(id string) (contracts.ModeratorDefaults, bool) {
	switch s.policy.Moderators.Keeper() {
	case KeptByNobody:
		return contracts.ModeratorDefaults{}, false
	case KeptByProfiles:
		if m, ok := s.policy.Moderators.Profile(Kept{s}, id); ok {
			return m, true
		}
	}
	return findModerator(s.defaults.Moderators, id)
}

func (s *State) putModerator(c Command, b PutModeratorDefaults) (decision, error) {
	d, err := contracts.Check(b.Defaults, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if err := s.moderatorsOff(); err != nil {
		return decision{}, err
	}
	if err := s.checkList("overlay_ids", d.OverlayIDs); err != nil {
		return decision{}, err
	}
	if now, ok := s.moderator(d.ModeratorID); ok && now.AppliesTo == d.AppliesTo && slices.Equal(now.OverlayIDs, d.OverlayIDs) {
		return unchanged(d.ModeratorID, "")
	}
	d.UpdatedAt, d.UpdatedBy = c.At, who(c)
	next := s.defaults
	list := &next.Moderators
	if s.policy.Moderators.Keeper() == KeptByProfiles {
		list = &next.Profiles
	}
	i := slices.IndexFunc(*list, func(o contracts.ModeratorDefaults) bool { return o.ModeratorID == d.ModeratorID })
	*list = replace(*list, i, d)
	slices.SortFunc(*list, func(a, b contracts.ModeratorDefaults) int { return cmp.Compare(a.ModeratorID, b.ModeratorID) })
	return changed(d.ModeratorID, DefaultsPut{next})
}

func (s *State) putSurface(c Command, b PutSurfaceDefaults) (decision, error) {
	d, err := contracts.Check(b.Defaults, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if d.SurfaceKind == contracts.SurfaceRoom { // a room's defaults are the rooms' system's
		if err := s.roomsOff(); err != nil {
			return decision{}, err
		}
	}
	if len(d.ModeratorIDs) > 0 {
		if err := s.moderatorsOff(); err != nil {
			return decision{}, err
		}
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
func (s *State) moderatorDefaults(key contracts.OverlaySessionKey, of func(id string) (contracts.ModeratorDefaults, bool)) []contracts.OverlayID {
	var out []contracts.OverlayID
	for _, id := range s.surfaceDefaults(key).ModeratorIDs {
		m, ok := of(id)
		room := m.AppliesTo != "panels" && key.SurfaceKind == contracts.SurfaceRoom
		panel := m.AppliesTo != "rooms" && key.SurfaceKind == contracts.SurfacePanel
		if ok && (room || panel) {
			out = append(out, m.OverlayIDs...)
		}
	}
	return out
}

// surfaceLayers are the first two layers of a session: what its surface starts
// with, and what the surface's moderators bring along. Where the system that
// keeps a layer is away, the layer stays out, and each overlay of it says so.
func (s *State) surfaceLayers(key contracts.OverlaySessionKey) []layer {
	var out []layer
	room := key.SurfaceKind == contracts.SurfaceRoom
	away := ""
	if room && s.roomsOff() != nil {
		away = noteRooms
	}
	switch {
	case room:
		out = append(out, layer{source: contracts.FromRoom, ids: s.surfaceDefaults(key).OverlayIDs, away: away})
	case key.SurfaceKind == contracts.SurfaceTask:
		out = append(out, layer{source: contracts.FromTask, ids: s.surfaceDefaults(key).OverlayIDs})
	}
	mods := layer{source: contracts.FromModerator, ids: s.moderatorDefaults(key, s.moderator), away: away}
	if s.moderatorsOff() != nil { // what they would have brought, had it been kept on
		mods.away = noteModerators
		mods.ids = s.moderatorDefaults(key, func(id string) (contracts.ModeratorDefaults, bool) {
			return findModerator(slices.Concat(s.defaults.Profiles, s.defaults.Moderators), id)
		})
	}
	return append(out, mods)
}
