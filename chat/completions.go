package chat

import (
	"github.com/elnor/promptlab/gateway"
)

// completions is the dialect of chat completions.
type completions struct{}

func (completions) parse(body []byte) (*request, error) { return parseRequest(body) }

func (completions) failure(e *apiError, requestID string) any { return e.body(requestID) }

func (completions) answer(s *Server, x *exchange, t *turn, r gateway.Response, n *note) any {
	return completion{
		ID: "chatcmpl-" + x.id, Object: "chat.completion", Created: s.cfg.Now().Unix(), Model: t.target.Name,
		Choices: []choice{{Message: answer(r), FinishReason: finish(r)}}, Usage: usageOf(r.Usage), PromptLab: n,
	}
}

func (completions) pieces(s *Server, x *exchange, t *turn) pieces {
	return &chunks{eventStream: newEventStream(x, t), base: chunk{
		ID: "chatcmpl-" + x.id, Object: "chat.completion.chunk", Created: s.cfg.Now().Unix(), Model: t.target.Name,
	}}
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

// chunks writes a streamed completion.
type chunks struct {
	eventStream
	base chunk
}

func (p *chunks) begin() error {
	if !p.open() {
		return nil
	}
	empty := ""
	return p.delta(delta{Role: "assistant", Content: &empty})
}

func (p *chunks) event(e gateway.Event) error {
	if err := p.begin(); err != nil {
		return err
	}
	switch e.Kind {
	case gateway.EventDelta:
		return p.delta(delta{Content: &e.Text})
	case gateway.EventRefusal:
		return p.delta(delta{Refusal: e.Text})
	case gateway.EventReasoning:
		return p.delta(delta{ReasoningContent: e.Text})
	case gateway.EventToolCall:
		call := answerToolCall{Index: &e.Tool.Index, ID: e.Tool.ID, Function: answerToCall{Name: e.Tool.Name, Arguments: e.Tool.Arguments}}
		if e.Tool.ID != "" {
			call.Type = "function"
		}
		return p.delta(delta{ToolCalls: []answerToolCall{call}})
	}
	return nil
}

func (p *chunks) delta(d delta) error {
	c := p.base
	c.Choices = []chunkChoice{{Delta: d}}
	return p.send("", c)
}

func (p *chunks) fail(e *apiError) { _ = p.send("", e.body(p.x.id)) }

func (p *chunks) end(r gateway.Response, n *note) error {
	why := finish(r)
	last := p.base
	last.Choices, last.PromptLab = []chunkChoice{{FinishReason: &why}}, n
	if err := p.send("", last); err != nil {
		return err
	}
	if u := usageOf(r.Usage); u != nil && p.t.req.usage {
		c := p.base
		c.Choices, c.Usage = []chunkChoice{}, u
		if err := p.send("", c); err != nil {
			return err
		}
	}
	return p.line("", []byte("[DONE]"))
}
