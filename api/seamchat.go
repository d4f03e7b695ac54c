package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// chatSeamRoutes serve the side that holds conversations: what it needs to
// answer selected turns again, and where it books its model calls.
func (s *Server) chatSeamRoutes() {
	const base = "/internal/doc17/"
	add(s, op{
		id: "get-plan-for-dispatch", method: http.MethodGet, path: base + "reanswer-plans/{plan_id}", only: ec.RoleSeam, peer: true,
		summary: "A re-answer plan, for the side that dispatches it",
	}, s.planForDispatch)
	add(s, op{
		id: "record-chat-usage", method: http.MethodPost, path: base + "usage", only: ec.RoleSeam, peer: true, limit: smallBody,
		summary: "Book model calls that were made for conversations: one row an attempt, a row that is known is not booked again",
	}, s.chatUsage)
}

func (s *Server) planForDispatch(_ context.Context, c call[none]) (reply[contracts.OverlayReanswerPlan], error) {
	plan, err := s.cfg.Service.View().Plan(uuidOf(c.path("plan_id")))
	return reply[contracts.OverlayReanswerPlan]{body: plan}, err
}

func (s *Server) chatUsage(ctx context.Context, c call[contracts.SeamUsage]) (reply[contracts.SeamUsageAck], error) {
	receipt, err := s.cfg.Service.Do(ctx, c.command(ec.BookUsage{Rows: c.body.Rows}, "usage"))
	return reply[contracts.SeamUsageAck]{body: contracts.SeamUsageAck{Recorded: receipt.Changed}}, err
}

// overrideOf reads the overlays that one dispatch uses instead of its session's.
func overrideOf(q values) *contracts.OverlayDispatchOverride {
	mode := contracts.OverlayDispatchOverrideMode(q.str("override_mode"))
	if mode == "" || mode == contracts.OverrideNone {
		return nil
	}
	o := contracts.OverlayDispatchOverride{Mode: mode, ClearAfterDispatch: true}
	for id := range strings.SplitSeq(q.str("overlay_ids"), ",") {
		if id != "" {
			o.OverlayIDs = append(o.OverlayIDs, contracts.OverlayID(id))
		}
	}
	return &o
}
