package api

import (
	"context"
	"net/http"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

func (s *Server) signalRoutes() {
	const moderator = "/api/moderator-defaults/{moderator_id}"
	add(s, op{id: "submit-overlay-feedback", method: http.MethodPost, path: "/api/overlay-feedback", summary: "Say what an overlay's work was like; the same id again answers 200", success: http.StatusCreated, repeat: true}, s.feedback)
	add(s, op{id: "append-overlay-signal", method: http.MethodPost, path: "/api/overlay-signals", summary: "Report what a person did, from which an opinion may follow; the same id again answers 200", success: http.StatusCreated, repeat: true}, s.signal)
	add(s, op{id: "get-moderator-defaults", method: http.MethodGet, path: moderator, summary: "Read what a moderator brings along"}, s.moderator)
	add(s, op{id: "put-moderator-defaults", method: http.MethodPut, path: moderator, summary: "Set what a moderator brings along, for sessions that start later"}, s.putModerator)
}

func (s *Server) feedback(ctx context.Context, c call[contracts.OverlayFeedback]) (reply[contracts.SignalAck], error) {
	return s.record(ctx, c.command(ec.SubmitFeedback{Feedback: c.body}, ""), c.body.FeedbackID)
}

func (s *Server) signal(ctx context.Context, c call[contracts.OverlaySignal]) (reply[contracts.SignalAck], error) {
	return s.record(ctx, c.command(ec.AppendSignal{Signal: c.body}, ""), c.body.SignalID)
}

// record sends a signal. One that was there already is no failure and made nothing.
func (s *Server) record(ctx context.Context, cmd ec.Command, id contracts.UUID) (reply[contracts.SignalAck], error) {
	before := s.cfg.Service.View().Seq()
	receipt, err := s.cfg.Service.Do(ctx, cmd)
	if err != nil {
		return reply[contracts.SignalAck]{}, err
	}
	out := reply[contracts.SignalAck]{body: contracts.SignalAck{ID: id, Recorded: receipt.Changed && receipt.Seq > before}}
	if !out.body.Recorded {
		out.status = http.StatusOK
	}
	return out, nil
}

func (s *Server) moderator(_ context.Context, c call[none]) (reply[contracts.ModeratorDefaults], error) {
	d, err := s.cfg.Service.View().Moderator(c.path("moderator_id"))
	return reply[contracts.ModeratorDefaults]{body: d}, err
}

func (s *Server) putModerator(ctx context.Context, c call[contracts.ModeratorDefaults]) (reply[contracts.ModeratorDefaults], error) {
	id := c.path("moderator_id")
	if c.body.ModeratorID != id {
		return reply[contracts.ModeratorDefaults]{}, fault.Validation([]fault.Detail{{Field: "moderator_id", Rule: "mismatch", Message: "must be the moderator of the address"}})
	}
	if _, err := s.cfg.Service.Do(ctx, c.command(ec.PutModeratorDefaults{Defaults: c.body}, id)); err != nil {
		return reply[contracts.ModeratorDefaults]{}, err
	}
	d, err := s.cfg.Service.View().Moderator(id)
	return reply[contracts.ModeratorDefaults]{body: d}, err
}
