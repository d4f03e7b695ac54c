package ec

import (
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// Keeper says who keeps the overlays that moderators bring along.
type Keeper string

// The keepers. The names are the values of the setting SettingModerators.
const (
	KeptByProfiles Keeper = "profiles" // the moderators' own system, which has adopted default_overlay_ids
	KeptByStore    Keeper = "store"    // EC's extension store; their system reads it by reference
	KeptByNobody   Keeper = "off"
)

// Settings that switch the systems beside this one.
const (
	SettingModerators = "companions.moderators"
	SettingRooms      = "companions.rooms"
)

// Moderators is the system that has moderators' profiles. EC knows of a profile
// no more than which overlays it brings along.
type Moderators interface {
	Keeper() Keeper
	// Profile gives what the system itself keeps; it is asked while it is the keeper.
	Profile(kept Kept, id string) (contracts.ModeratorDefaults, bool)
}

// Rooms is the system that has rooms and who takes part in them.
type Rooms interface {
	Available() bool
	// Room gives a room; it is asked while it is available.
	Room(kept Kept, key contracts.OverlaySessionKey) (contracts.Room, bool)
}

// Kept is what EC keeps on the disk for a local stand-in.
type Kept struct{ s *State }

// LocalModerators stands in for the moderators' system on this machine.
type LocalModerators struct{ By Keeper }

// Keeper says who keeps the defaults.
func (m LocalModerators) Keeper() Keeper { return m.By }

// Profile gives the profile that was written here.
func (LocalModerators) Profile(kept Kept, id string) (contracts.ModeratorDefaults, bool) {
	return findModerator(kept.s.defaults.Profiles, id)
}

// LocalRooms stands in for the rooms' system on this machine.
type LocalRooms struct{ Off bool }

// Available says whether the stand-in answers.
func (r LocalRooms) Available() bool { return !r.Off }

// Room gives the room that was written here.
func (LocalRooms) Room(kept Kept, key contracts.OverlaySessionKey) (contracts.Room, bool) {
	r, ok := kept.s.rooms.Get(key.FileName())
	if !ok {
		return contracts.Room{}, false
	}
	return *r, true
}

// gateClosed refuses what needs something that is not there, and names it.
func gateClosed(gate, format string, args ...any) error {
	return fault.New(fault.Gate, "gate_closed", format, args...).With(fault.Detail{Field: gate, Rule: "gate_closed", Message: "is not open"})
}

func (s *State) moderatorsOff() error {
	if s.policy.Moderators.Keeper() == KeptByNobody {
		return gateClosed(SettingModerators, "nobody keeps defaults of moderators; set %s to %s or %s", SettingModerators, KeptByStore, KeptByProfiles)
	}
	return nil
}

func (s *State) roomsOff() error {
	if !s.policy.Rooms.Available() {
		return gateClosed(SettingRooms, "the system that keeps rooms is not there; set %s to on", SettingRooms)
	}
	return nil
}

// companionGates says which of the systems beside this one can be used.
func (v *View) companionGates() []contracts.Gate {
	gate := func(name string, err error) contracts.Gate {
		g := contracts.Gate{Name: name, Open: err == nil}
		if err != nil {
			g.Reason = err.Error()
		}
		return g
	}
	return []contracts.Gate{gate("moderator_defaults", v.s.moderatorsOff()), gate("rooms", v.s.roomsOff())}
}
