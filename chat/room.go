package chat

import (
	"context"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/prompt"
)

// enter gets a room's turn its roles.
func (s *Server) enter(ctx context.Context, t *turn) error {
	if t.key.SurfaceKind != contracts.SurfaceRoom {
		return nil
	}
	room, err := s.cfg.Seam.Room(ctx, t.key)
	if err != nil {
		if isAway(err) {
			return nil // the turn goes on without roles, as it does where rooms are not kept
		}
		return err
	}
	t.room = &room
	if who := t.req.ext.Participant; who != "" && t.participant() == nil && room.RoomsState == contracts.AdviceAvailable {
		return badRequest(fault.Detail{Field: "promptlab.participant_id", Rule: "unknown", Message: "does not take part in the room"})
	}
	return nil
}

// participant gives the state of whose turn it is.
func (t *turn) participant() *contracts.RoomParticipantState {
	if t.room == nil || t.req.ext.Participant == "" {
		return nil
	}
	for i, p := range t.room.Participants {
		if p.ParticipantID == t.req.ext.Participant {
			return &t.room.Participants[i]
		}
	}
	return nil
}

// background gives the text around the overlays: what the client handed along,
// and of a room the roles that are kept for it.
func (t *turn) background(native string) prompt.Background {
	b := t.req.layers(native)
	if t.room != nil && b.RoomRole == "" {
		b.RoomRole = t.room.RolePrompt
	}
	p := t.participant()
	if p == nil {
		return b
	}
	if b.ParticipantRole == "" {
		b.ParticipantRole = p.RolePrompt
	}
	for _, o := range p.Overlays {
		if o.In && o.Layer == contracts.LayerParticipantRole && o.Body != "" {
			b.RoleOverlays = append(b.RoleOverlays, prompt.RoleOverlay{ID: o.OverlayID, Hash: o.BodyHash, Body: o.Body})
		}
	}
	return b
}
