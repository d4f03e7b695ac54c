package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// completions answers POST /v1/chat/completions.
func (s *Server) completions(x *exchange) error {
	body, err := x.body()
	if err != nil {
		return err
	}
	req, err := parseRequest(body)
	if err != nil {
		return err
	}
	ctx := x.r.Context()
	release, err := s.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	t, err := s.prepare(ctx, x, req)
	if err != nil {
		return err
	}
	if req.stream {
		return s.stream(ctx, x, t)
	}
	resp, err := s.cfg.Models.Do(ctx, t.ask, gateway.Unlimited())
	if err != nil {
		return err
	}
	truth := s.truth(t, served(resp))
	t.headers(x.Header())
	if t.ask.Schema != nil && resp.Malformed && resp.Finish == gateway.FinishStop {
		s.told(ctx, t, truth)
		return &apiError{status: http.StatusBadGateway, kind: kindServer, code: "schema_mismatch", message: "the model answered, but not in the shape that response_format asks for"}
	}
	x.Header().Set("X-PromptLab-Truth", recorded(s.told(ctx, t, truth)))
	return x.json(completion{
		ID: "chatcmpl-" + x.id, Object: "chat.completion", Created: s.cfg.Now().Unix(), Model: t.target.Name,
		Choices:   []choice{{Message: answer(resp), FinishReason: finish(resp)}},
		Usage:     usageOf(resp.Usage),
		PromptLab: noteOf(t, truth),
	})
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

// completion is an answer in the shape that clients of this kind read.
type completion struct {
	ID        string   `json:"id"`
	Object    string   `json:"object"`
	Created   int64    `json:"created"`
	Model     string   `json:"model"`
	Choices   []choice `json:"choices"`
	Usage     *usage   `json:"usage"`
	PromptLab *note    `json:"promptlab,omitempty"`
}

type choice struct {
	Index        int           `json:"index"`
	Message      answerMessage `json:"message"`
	Logprobs     any           `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

type answerMessage struct {
	Role      string           `json:"role"`
	Content   *string          `json:"content"`
	Refusal   *string          `json:"refusal"`
	ToolCalls []answerToolCall `json:"tool_calls,omitempty"`
}

type answerToolCall struct {
	Index    *int         `json:"index,omitempty"` // of a stream's pieces
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function answerToCall `json:"function"`
}

type answerToCall struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	PromptTokens     int64         `json:"prompt_tokens"`
	CompletionTokens int64         `json:"completion_tokens"`
	TotalTokens      int64         `json:"total_tokens"`
	PromptDetails    promptDetails `json:"prompt_tokens_details"`
	OutputDetails    outputDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
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

func answer(r gateway.Response) answerMessage {
	m := answerMessage{Role: "assistant"}
	if r.Text != "" || len(r.ToolCalls) == 0 && r.Refusal == "" {
		m.Content = &r.Text
	}
	if r.Refusal != "" {
		m.Refusal = &r.Refusal
	}
	for _, c := range r.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, answerToolCall{ID: c.ID, Type: "function", Function: answerToCall{Name: c.Name, Arguments: c.Arguments}})
	}
	return m
}

// finish never calls an answer whole that may not be.
func finish(r gateway.Response) string {
	switch r.Finish {
	case gateway.FinishLength, gateway.FinishUnknown:
		return "length"
	case gateway.FinishToolCalls:
		return "tool_calls"
	default:
		return "stop" // a refusal has its own field
	}
}

// usageOf gives nothing when the provider did not say: that is not zero.
func usageOf(u gateway.Usage) *usage {
	if !u.Known {
		return nil
	}
	in := u.Input + u.CacheRead + u.CacheWrite
	return &usage{
		PromptTokens: in, CompletionTokens: u.Output, TotalTokens: in + u.Output,
		PromptDetails: promptDetails{u.CacheRead}, OutputDetails: outputDetails{u.Reasoning},
	}
}

// chunk is one piece of a streamed answer.
type chunk struct {
	ID        string        `json:"id"`
	Object    string        `json:"object"`
	Created   int64         `json:"created"`
	Model     string        `json:"model"`
	Choices   []chunkChoice `json:"choices"`
	Usage     *usage        `json:"usage,omitempty"`
	PromptLab *note         `json:"promptlab,omitempty"`
}

type chunkChoice struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	Logprobs     any     `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role             string           `json:"role,omitempty"`
	Content          *string          `json:"content,omitempty"`
	Refusal          string           `json:"refusal,omitempty"`
	ReasoningContent string           `json:"reasoning_content,omitempty"`
	ToolCalls        []answerToolCall `json:"tool_calls,omitempty"`
}

// writeWait is how long one piece may take to be sent to a slow client.
const writeWait = 30 * time.Second

// pieces writes a streamed answer. Nothing is sent before the first piece, so
// that a failure until then is an answer of its own.
type pieces struct {
	x    *exchange
	t    *turn
	base chunk
	rc   *http.ResponseController
}

func (p *pieces) begin() error {
	if p.x.begun {
		return nil
	}
	p.t.headers(p.x.Header())
	p.x.Header().Set("Content-Type", "text/event-stream")
	p.x.Header().Set("X-Accel-Buffering", "no")
	p.x.WriteHeader(http.StatusOK)
	empty := ""
	return p.send(delta{Role: "assistant", Content: &empty})
}

func (p *pieces) event(e gateway.Event) error {
	if err := p.begin(); err != nil {
		return err
	}
	switch e.Kind {
	case gateway.EventDelta:
		return p.send(delta{Content: &e.Text})
	case gateway.EventRefusal:
		return p.send(delta{Refusal: e.Text})
	case gateway.EventReasoning:
		return p.send(delta{ReasoningContent: e.Text})
	case gateway.EventToolCall:
		call := answerToolCall{Index: &e.Tool.Index, ID: e.Tool.ID, Function: answerToCall{Name: e.Tool.Name, Arguments: e.Tool.Arguments}}
		if e.Tool.ID != "" {
			call.Type = "function"
		}
		return p.send(delta{ToolCalls: []answerToolCall{call}})
	}
	return nil
}

func (p *pieces) send(d delta) error {
	c := p.base
	c.Choices = []chunkChoice{{Delta: d}}
	return p.write(c)
}

func (p *pieces) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err //nolint:wrapcheck // of our own types
	}
	return p.line(b)
}

func (p *pieces) line(b []byte) error {
	_ = p.rc.SetWriteDeadline(time.Now().Add(writeWait)) // where there is one; the real clock of the socket
	if _, err := p.x.Write(append(append([]byte("data: "), b...), "\n\n"...)); err != nil {
		return err //nolint:wrapcheck // the client is gone; nobody reads it
	}
	return p.rc.Flush() //nolint:wrapcheck // likewise
}

// stream answers piece by piece. The receipt is handed over before the last
// piece, so that who has read the answer finds it.
func (s *Server) stream(ctx context.Context, x *exchange, t *turn) error {
	p := &pieces{x: x, t: t, rc: http.NewResponseController(x.w), base: chunk{
		ID: "chatcmpl-" + x.id, Object: "chat.completion.chunk", Created: s.cfg.Now().Unix(), Model: t.target.Name,
	}}
	defer func() { _ = p.rc.SetWriteDeadline(time.Time{}) }() // the connection may carry on
	resp, err := s.cfg.Models.Stream(ctx, t.ask, gateway.Unlimited(), p.event)
	if err != nil {
		if !x.begun {
			return err
		}
		s.told(ctx, t, s.truth(t, t.target.Model)) // the prompt was used, though its answer broke off
		_ = p.write(errorOf(err).body(x.id))       // no end mark follows: it is not whole
		return err
	}
	if err := p.begin(); err != nil { // an answer without a piece
		return err
	}
	truth := s.truth(t, served(resp))
	s.told(ctx, t, truth)
	why := finish(resp)
	last := p.base
	last.Choices = []chunkChoice{{FinishReason: &why}}
	last.PromptLab = noteOf(t, truth)
	if err := p.write(last); err != nil {
		return err
	}
	if t.req.usage {
		c := p.base
		c.Choices, c.Usage = []chunkChoice{}, usageOf(resp.Usage)
		if c.Usage != nil {
			if err := p.write(c); err != nil {
				return err
			}
		}
	}
	return p.line([]byte("[DONE]"))
}
