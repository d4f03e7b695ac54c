package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// dialect is one way of asking and answering. The turn between the two is the same.
type dialect interface {
	parse(body []byte) (*request, error)
	// answer gives the body of a whole answer.
	answer(s *Server, x *exchange, t *turn, r gateway.Response, n *note) any
	// pieces gives what writes a streamed answer.
	pieces(s *Server, x *exchange, t *turn) pieces
	// failure gives the body of an error.
	failure(e *apiError, requestID string) any
}

// pieces writes a streamed answer. Nothing is sent before the first piece, so
// that a failure until then is an answer of its own.
type pieces interface {
	begin() error
	event(e gateway.Event) error
	end(r gateway.Response, n *note) error
	fail(e *apiError)
}

// turning answers a turn in a dialect.
func (s *Server) turning(d dialect) func(*exchange) error {
	return func(x *exchange) error {
		ctx := x.r.Context()
		room, err := s.admit(x.r.ContentLength)
		if err != nil {
			return err
		}
		defer room.leave()
		body, err := x.body()
		if err != nil {
			return err
		}
		room.shrink(int64(len(body)))
		req, err := d.parse(body)
		if err != nil {
			return err
		}
		t, err := s.prepare(ctx, x, req)
		if err != nil {
			return err
		}
		if req.stream {
			return s.stream(ctx, x, t, d.pieces(s, x, t))
		}
		return s.whole(ctx, x, t, d)
	}
}

// whole answers in one piece.
func (s *Server) whole(ctx context.Context, x *exchange, t *turn, d dialect) error {
	resp, err := s.cfg.Models.Do(ctx, t.ask, gateway.Unlimited())
	if err != nil {
		return err
	}
	truth := s.truth(t, served(resp))
	there := s.told(ctx, t, truth)
	t.headers(x.Header())
	x.Header().Set("X-PromptLab-Truth", recorded(there))
	if t.ask.Schema != nil && resp.Malformed && resp.Finish == gateway.FinishStop {
		return &apiError{status: http.StatusBadGateway, kind: kindServer, code: "schema_mismatch", message: "the model answered, but not in the shape that was asked for"}
	}
	return x.json(d.answer(s, x, t, resp, noteOf(t, truth)))
}

// stream answers piece by piece. The receipt is handed over before the last
// piece, so that who has read the answer finds it.
func (s *Server) stream(ctx context.Context, x *exchange, t *turn, p pieces) error {
	defer func() { _ = http.NewResponseController(x.w).SetWriteDeadline(time.Time{}) }() // the connection may carry on
	resp, err := s.cfg.Models.Stream(ctx, t.ask, gateway.Unlimited(), p.event)
	if err != nil {
		if !x.begun {
			return err
		}
		s.told(ctx, t, s.truth(t, t.target.Model)) // the prompt was used, though its answer broke off
		p.fail(errorOf(err))                       // no end mark follows: it is not whole
		return err
	}
	err = p.begin() // of an answer without a piece
	truth := s.truth(t, served(resp))
	s.told(ctx, t, truth)
	if err != nil {
		return err
	}
	return p.end(resp, noteOf(t, truth))
}

// writeWait is how long one piece may take to be sent to a slow client.
const writeWait = 30 * time.Second

// eventStream writes server-sent events.
type eventStream struct {
	x  *exchange
	t  *turn
	rc *http.ResponseController
}

func newEventStream(x *exchange, t *turn) eventStream {
	return eventStream{x, t, http.NewResponseController(x.w)}
}

// open sends the headers, once. It says whether it did.
func (e eventStream) open() bool {
	if e.x.begun {
		return false
	}
	e.t.headers(e.x.Header())
	e.x.Header().Set("Content-Type", "text/event-stream")
	e.x.Header().Set("X-Accel-Buffering", "no")
	e.x.WriteHeader(http.StatusOK)
	return true
}

// send writes one event; the name may be empty.
func (e eventStream) send(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err //nolint:wrapcheck // of our own types
	}
	return e.line(name, b)
}

func (e eventStream) line(name string, data []byte) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeWait)) // where there is one; the real clock of the socket
	var b []byte
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	if _, err := e.x.Write(b); err != nil {
		return err //nolint:wrapcheck // the client is gone; nobody reads it
	}
	return e.rc.Flush() //nolint:wrapcheck // likewise
}

// served names the model that answered, as exactly as it is known.
func served(r gateway.Response) string {
	if r.ServedModel != "" {
		return r.ServedModel
	}
	return r.Model
}

func recorded(there bool) string {
	if there {
		return "recorded"
	}
	return "waiting"
}

// note is what Prompt Lab says of a turn, beside the answer.
type note struct {
	Receipt       string                                     `json:"receipt"`
	Overlays      string                                     `json:"overlays"` // available, unavailable
	Revision      *int                                       `json:"revision,omitempty"`
	Applied       contracts.List[contracts.OverlayID]        `json:"applied"`
	Dropped       contracts.Map[contracts.OverlayDropReason] `json:"dropped"`
	RefreshReason contracts.OverlayRefreshReason             `json:"refresh_reason,omitempty"`
	PacketHash    string                                     `json:"packet_hash,omitempty"`
	AppliedHash   string                                     `json:"applied_packet_hash,omitempty"`
	OverlayTokens int                                        `json:"overlay_tokens"`
	PromptTokens  int                                        `json:"prompt_tokens"` // estimated, before it was sent
	OverrideMode  contracts.OverlayDispatchOverrideMode      `json:"override_mode,omitempty"`
	PlanID        contracts.UUID                             `json:"plan_id,omitempty"`
	Path          string                                     `json:"path"`
}

func noteOf(t *turn, truth contracts.OverlayRuntimeTruthSummary) *note {
	n := &note{
		Receipt: t.receiptID(), Overlays: "available", Applied: truth.AppliedOverlayIDs, Dropped: truth.DropReasonsByOverlay,
		RefreshReason: truth.RefreshReason, PacketHash: truth.PacketHash, AppliedHash: truth.AppliedPacketHash,
		OverlayTokens: truth.TotalOverlayTokens, PromptTokens: truth.TotalPromptTokens, OverrideMode: truth.OverrideMode, PlanID: truth.ReanswerPlanID, Path: truth.PathID,
	}
	if t.packet == nil {
		n.Overlays = "unavailable"
	} else {
		n.Revision = &t.packet.Revision
	}
	return n
}
