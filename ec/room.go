package ec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// Reasons for which an overlay of a room is out, beside the drop reasons.
const (
	outDuplicate = "duplicate"
	outClass     = "not_live"
)

// PutRoom replaces what the stand-in of the rooms' system has of a room: role
// prompts, and who takes part with which overlays. The overlays that are on in
// the room are its session's, and are not touched.
type PutRoom struct {
	Key  contracts.OverlaySessionKey
	Room contracts.Room
}

// Type names the command in the audit.
func (PutRoom) Type() string { return "rooms.put" }

// RoomPut says that a room was set up or changed.
type RoomPut struct{ Room *contracts.Room }

func (RoomPut) event() {}

func roomKey(r *contracts.Room) contracts.OverlaySessionKey {
	return contracts.OverlaySessionKey{WorkspaceID: r.WorkspaceID, SurfaceKind: contracts.SurfaceRoom, SurfaceID: r.RoomID, RoomID: r.RoomID}
}

func roomPath(r *contracts.Room) string { return dirRooms + roomKey(r).FileName() + ".json" }

func (s *State) putRoom(c Command, b PutRoom) (decision, error) {
	key, err := b.Key.Canonical("session_key")
	if err != nil {
		return decision{}, err
	}
	r, err := contracts.Check(b.Room, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if err := checkRoom(key, r); err != nil {
		return decision{}, err
	}
	if err := s.roomsOff(); err != nil {
		return decision{}, err
	}
	for i, p := range r.Participants {
		if err := s.checkList(fmt.Sprintf("participants[%d].overlay_ids", i), p.OverlayIDs); err != nil {
			return decision{}, err
		}
	}
	r.WorkspaceID, r.RoomID = key.WorkspaceID, key.SurfaceID
	old, known := s.rooms.Get(key.FileName())
	if known {
		r.UpdatedAt, r.UpdatedBy = old.UpdatedAt, old.UpdatedBy
		if contracts.HashJSON(r) == contracts.HashJSON(old) {
			return unchanged(key.FileName(), "")
		}
	}
	r.UpdatedAt, r.UpdatedBy = c.At, who(c)
	return changed(key.FileName(), RoomPut{&r})
}

// checkRoom checks what a room says about itself.
func checkRoom(key contracts.OverlaySessionKey, r contracts.Room) error {
	var details []fault.Detail
	bad := func(field, rule, message string) {
		details = append(details, fault.Detail{Field: field, Rule: rule, Message: message})
	}
	if key.SurfaceKind != contracts.SurfaceRoom {
		bad("session_key", "room_only", "is not a room's")
	}
	if r.WorkspaceID != "" && r.WorkspaceID != key.WorkspaceID {
		bad("workspace_id", "mismatch", "is not the room's workspace")
	}
	if r.RoomID != "" && r.RoomID != key.SurfaceID {
		bad("room_id", "mismatch", "is not the room's id")
	}
	seen := map[string]bool{}
	for i, p := range r.Participants {
		if seen[p.ParticipantID] {
			bad(fmt.Sprintf("participants[%d].participant_id", i), "duplicate", "is named twice")
		}
		seen[p.ParticipantID] = true
	}
	if details != nil {
		return fault.Validation(details)
	}
	return nil
}

// roomOf gives a room as its system has it.
func (s *State) roomOf(key contracts.OverlaySessionKey) (contracts.Room, bool) {
	if !s.policy.Rooms.Available() {
		return contracts.Room{}, false
	}
	return s.policy.Rooms.Room(Kept{s}, key)
}

// Rooms lists the rooms of a workspace, or of all, that something is set up for.
func (v *View) Rooms(workspace string) (contracts.List[contracts.Room], error) {
	if err := v.s.roomsOff(); err != nil {
		return nil, err
	}
	var out contracts.List[contracts.Room]
	v.s.rooms.Scan(func(_ string, r *contracts.Room) bool {
		if workspace == "" || r.WorkspaceID == workspace {
			out = append(out, *r)
		}
		return true
	})
	slices.SortFunc(out, func(a, b contracts.Room) int {
		return cmp.Or(cmp.Compare(a.WorkspaceID, b.WorkspaceID), cmp.Compare(a.RoomID, b.RoomID))
	})
	return out, nil
}

// Room gives what is set up for a room; one that nothing is set up for has
// neither roles nor participants.
func (v *View) Room(key contracts.OverlaySessionKey) (contracts.Room, error) {
	if key.SurfaceKind != contracts.SurfaceRoom {
		return contracts.Room{}, fault.New(fault.NotFound, "not_found", "the session is not a room's")
	}
	if err := v.s.roomsOff(); err != nil {
		return contracts.Room{}, err
	}
	if r, ok := v.s.roomOf(key); ok {
		return r, nil
	}
	return contracts.Room{WorkspaceID: key.WorkspaceID, RoomID: key.SurfaceID, UpdatedBy: "system"}, nil
}

// RoomState gives the overlays of a room by layer, and apart from them those of
// each who takes part. The room's session has been started.
func (v *View) RoomState(key contracts.OverlaySessionKey) (contracts.RoomState, error) {
	if key.SurfaceKind != contracts.SurfaceRoom {
		return contracts.RoomState{}, fault.New(fault.NotFound, "not_found", "the session is not a room's")
	}
	x, ok := v.s.session(key.FileName())
	if !ok {
		return contracts.RoomState{}, fault.New(fault.NotFound, "not_found", "there is no such session yet")
	}
	out := contracts.RoomState{SessionKey: x.SessionKey, Revision: x.Revision, RoomsState: contracts.AdviceUnavailable, Overlays: v.s.roomOverlays(x)}
	if !v.s.policy.Rooms.Available() {
		return out, nil
	}
	out.RoomsState = contracts.AdviceAvailable
	r, _ := v.s.roomOf(key)
	out.RolePrompt = r.RolePrompt
	for _, p := range r.Participants {
		out.Participants = append(out.Participants, contracts.RoomParticipantState{
			ParticipantID: p.ParticipantID, RolePrompt: p.RolePrompt, Overlays: v.s.participantOverlays(p, out.Overlays),
		})
	}
	return out, nil
}

// roomOverlays lists a session's overlays in the order of its packet, each with
// the layer that it came from: the room's own before those of a person.
func (s *State) roomOverlays(x *Session) contracts.List[contracts.RoomOverlay] {
	var out contracts.List[contracts.RoomOverlay]
	p := s.buildPacket(x, x.UpdatedAt)
	for _, id := range p.RequestedOverlayIDs {
		i, _ := x.entry(id)
		a := x.ActiveOverlays[i]
		o := contracts.RoomOverlay{OverlayID: id, Layer: contracts.LayerSessionOverlay, Source: a.Source, BodyHash: a.OverlayBodyHash}
		if a.Source == contracts.FromRoom || a.Source == contracts.FromModerator {
			o.Layer = contracts.LayerRoomOverlay
		}
		why, dropped := p.Dropped[string(id)]
		o.In, o.Reason = !dropped, string(why)
		if why == contracts.DropConflict {
			rival, _ := s.inTheWay(x, id)
			o.LostTo = rival.OverlayID
		}
		s.describe(&o)
		out = append(out, o)
	}
	return out
}

// participantOverlays puts a participant's role overlays before those of the
// room: an earlier layer wins against a later one that it excludes.
func (s *State) participantOverlays(p contracts.RoomParticipant, room []contracts.RoomOverlay) contracts.List[contracts.RoomOverlay] {
	var out contracts.List[contracts.RoomOverlay]
	for _, id := range p.OverlayIDs {
		r := contracts.RoomOverlay{OverlayID: id, Layer: contracts.LayerParticipantRole}
		o, ok := s.overlays.Get(string(id))
		switch {
		case !ok:
			r.Reason = noteUnknown
		case o.Archived():
			r.Reason = string(contracts.DropArchived)
		case o.Record.Frontmatter.ArtifactClass != contracts.ClassLive || o.Record.Frontmatter.RequiresExplicitInvocation:
			r.Reason = outClass
		case !supports(o, contracts.SurfaceRoom):
			r.Reason = string(contracts.DropSurface)
		default:
			r.In, r.Body, r.BodyHash = true, o.Record.Body, o.Record.BodyHash
		}
		s.outrank(&r, out)
		if !r.In {
			r.Body = ""
		}
		s.describe(&r)
		out = append(out, r)
	}
	for _, r := range room {
		s.outrank(&r, out)
		out = append(out, r)
	}
	return out
}

// outrank takes an overlay out that an earlier one excludes, or is.
func (s *State) outrank(r *contracts.RoomOverlay, earlier []contracts.RoomOverlay) {
	i := slices.IndexFunc(earlier, func(e contracts.RoomOverlay) bool {
		return e.In && (e.OverlayID == r.OverlayID || s.excludes(e.OverlayID, r.OverlayID))
	})
	if !r.In || i < 0 {
		return
	}
	r.In, r.LostTo, r.Reason = false, earlier[i].OverlayID, string(contracts.DropConflict)
	if earlier[i].OverlayID == r.OverlayID {
		r.Reason = outDuplicate
	}
}

func (s *State) describe(r *contracts.RoomOverlay) {
	if o, ok := s.overlays.Get(string(r.OverlayID)); ok {
		r.Title, r.Tokens = o.Record.Frontmatter.Title, contracts.EstimateTokens(o.Record.Body)
	}
}
