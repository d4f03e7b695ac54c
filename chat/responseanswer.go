package chat

import (
	"fmt"

	"github.com/elnor/promptlab/gateway"
)

// responseBody is an answer of the Responses dialect.
type responseBody struct {
	ID                string         `json:"id"`
	Object            string         `json:"object"`
	CreatedAt         int64          `json:"created_at"`
	Status            string         `json:"status"`
	Model             string         `json:"model"`
	Output            []outputItem   `json:"output"`
	ParallelToolCalls bool           `json:"parallel_tool_calls"`
	ToolChoice        string         `json:"tool_choice"`
	Tools             []any          `json:"tools"`
	Error             any            `json:"error"`
	IncompleteDetails any            `json:"incomplete_details"`
	Instructions      any            `json:"instructions"`
	Metadata          map[string]any `json:"metadata"`
	Store             bool           `json:"store"`
	Usage             *responseUsage `json:"usage"`
	PromptLab         *note          `json:"promptlab,omitempty"`
}

type outputItem struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	Status    string        `json:"status"`
	Role      string        `json:"role,omitempty"`
	Content   *[]outputPart `json:"content,omitempty"`
	CallID    string        `json:"call_id,omitempty"`
	Name      string        `json:"name,omitempty"`
	Arguments *string       `json:"arguments,omitempty"`
}

type outputPart struct {
	Type        string  `json:"type"`
	Text        *string `json:"text,omitempty"`
	Annotations *[]any  `json:"annotations,omitempty"`
	Refusal     *string `json:"refusal,omitempty"`
}

type responseUsage struct {
	Input   int64         `json:"input_tokens"`
	Details promptDetails `json:"input_tokens_details"`
	Output  int64         `json:"output_tokens"`
	Reason  outputDetails `json:"output_tokens_details"`
	Total   int64         `json:"total_tokens"`
}

func textPart(text string) outputPart {
	return outputPart{Type: "output_text", Text: &text, Annotations: &[]any{}}
}

func (p *responseParts) body(status string) responseBody {
	return responseBody{
		ID: "resp_" + p.x.id, Object: "response", CreatedAt: p.created, Status: status, Model: p.t.target.Name, Output: []outputItem{},
		ParallelToolCalls: p.t.ask.ParallelToolCalls == nil || *p.t.ask.ParallelToolCalls, ToolChoice: "auto", Tools: []any{}, Metadata: map[string]any{},
	}
}

// whole gives the finished body.
func (p *responseParts) whole(r gateway.Response, n *note) responseBody {
	out := p.body("completed")
	if r.Finish == gateway.FinishLength || r.Finish == gateway.FinishUnknown {
		out.Status, out.IncompleteDetails = "incomplete", map[string]string{"reason": "max_output_tokens"}
	}
	parts := []outputPart{}
	if r.Text != "" {
		parts = append(parts, textPart(r.Text))
	}
	if r.Refusal != "" {
		parts = append(parts, outputPart{Type: "refusal", Refusal: &r.Refusal})
	}
	if len(parts) > 0 || len(r.ToolCalls) == 0 {
		out.Output = append(out.Output, outputItem{Type: "message", ID: "msg_" + p.x.id, Status: out.Status, Role: "assistant", Content: &parts})
	}
	for i, c := range r.ToolCalls {
		out.Output = append(out.Output, outputItem{Type: "function_call", ID: fmt.Sprintf("fc_%s_%d", p.x.id, i), Status: "completed", CallID: c.ID, Name: c.Name, Arguments: &c.Arguments})
	}
	if u := r.Usage; u.Known {
		in := u.Input + u.CacheRead + u.CacheWrite
		out.Usage = &responseUsage{Input: in, Details: promptDetails{u.CacheRead}, Output: u.Output, Reason: outputDetails{u.Reasoning}, Total: in + u.Output}
	}
	out.PromptLab = n
	return out
}

func (responses) answer(s *Server, x *exchange, t *turn, r gateway.Response, n *note) any {
	p := &responseParts{eventStream: newEventStream(x, t), created: s.cfg.Now().Unix()}
	return p.whole(r, n)
}

func (responses) pieces(s *Server, x *exchange, t *turn) pieces {
	return &responseParts{eventStream: newEventStream(x, t), created: s.cfg.Now().Unix()}
}

// responseParts writes a streamed answer. Its text grows as it comes; tool calls
// are written when they are whole.
type responseParts struct {
	eventStream
	created int64
	seq     int
	text    string
	opened  bool // the message with its text part is open
}

// tell sends one numbered event.
func (p *responseParts) tell(kind string, fields map[string]any) error {
	fields["type"], fields["sequence_number"] = kind, p.seq
	p.seq++
	return p.send(kind, fields)
}

func (p *responseParts) begin() error {
	if !p.open() {
		return nil
	}
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := p.tell(kind, map[string]any{"response": p.body("in_progress")}); err != nil {
			return err
		}
	}
	return nil
}

func (p *responseParts) event(e gateway.Event) error {
	if err := p.begin(); err != nil {
		return err
	}
	if e.Kind != gateway.EventDelta { // the whole of the rest comes at the end
		return nil
	}
	if err := p.message(); err != nil {
		return err
	}
	p.text += e.Text
	return p.tell("response.output_text.delta", map[string]any{"item_id": "msg_" + p.x.id, "output_index": 0, "content_index": 0, "delta": e.Text, "logprobs": []any{}})
}

// message opens the message with its text part, once.
func (p *responseParts) message() error {
	if p.opened {
		return nil
	}
	p.opened = true
	item := outputItem{Type: "message", ID: "msg_" + p.x.id, Status: "in_progress", Role: "assistant", Content: &[]outputPart{}}
	if err := p.tell("response.output_item.added", map[string]any{"output_index": 0, "item": item}); err != nil {
		return err
	}
	return p.tell("response.content_part.added", map[string]any{"item_id": item.ID, "output_index": 0, "content_index": 0, "part": textPart("")})
}

func (p *responseParts) fail(e *apiError) {
	_ = p.tell("error", map[string]any{
		"code": e.code, "message": e.message, "param": nil,
		"error": map[string]any{"code": e.code, "message": e.message, "type": e.kind}, // which some clients look for alone
	})
}

func (p *responseParts) end(r gateway.Response, n *note) error {
	body := p.whole(r, n)
	if p.opened {
		id := "msg_" + p.x.id
		if err := p.tell("response.output_text.done", map[string]any{"item_id": id, "output_index": 0, "content_index": 0, "text": p.text, "logprobs": []any{}}); err != nil {
			return err
		}
		if err := p.tell("response.content_part.done", map[string]any{"item_id": id, "output_index": 0, "content_index": 0, "part": textPart(p.text)}); err != nil {
			return err
		}
	}
	for i, item := range body.Output {
		if !p.opened || i > 0 {
			if err := p.tell("response.output_item.added", map[string]any{"output_index": i, "item": item}); err != nil {
				return err
			}
			if item.Type == "function_call" {
				if err := p.tell("response.function_call_arguments.done", map[string]any{"item_id": item.ID, "output_index": i, "arguments": item.Arguments, "name": item.Name}); err != nil {
					return err
				}
			}
		}
		if err := p.tell("response.output_item.done", map[string]any{"output_index": i, "item": item}); err != nil {
			return err
		}
	}
	last := "response.completed"
	if body.Status == "incomplete" {
		last = "response.incomplete"
	}
	return p.tell(last, map[string]any{"response": body})
}
