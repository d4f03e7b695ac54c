package openai

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/elnor/promptlab/gateway"
)

// answer is what is read of a chat completion; everything else is ignored.
type answer struct {
	Model   json.RawMessage `json:"model"`
	Choices []choice        `json:"choices"`
}

type choice struct {
	Message      *message `json:"message"`
	FinishReason string   `json:"finish_reason"`

	Error json.RawMessage `json:"error"` // a router's, about the server behind it
}

type message struct {
	Content json.RawMessage `json:"content"` // a string, a list of parts, or null
	Refusal *string         `json:"refusal"`

	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
}

// usage keeps numbers as they came: a missing one is not zero, and a server may
// send anything.
type usage struct {
	Prompt        *float64 `json:"prompt_tokens"`
	Completion    *float64 `json:"completion_tokens"`
	PromptDetails *struct {
		Cached *float64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning *float64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func malformed(reason string) error {
	return &gateway.Error{Class: gateway.ClassMalformedResponse, Reason: reason}
}

// decode reads a 2xx body. Usage is filled in as far as it was told, also when
// an error comes back, because a useless answer is paid for too. inside is the
// error document of an answer that failed, to be classified.
func decode(body []byte, maxTokens int) (_ gateway.Reply, inside []byte, _ error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return gateway.Reply{Usage: usageOf(body)}, nil, malformed("not_a_completion")
	}
	if len(a.Choices) > 0 && gateway.HasError(errorOf(a.Choices[0])) {
		return gateway.Reply{Usage: usageOf(body)}, errorOf(a.Choices[0]), nil
	}
	reply, err := a.read(usageOf(body), maxTokens)
	return reply, nil, err
}

// errorOf makes an error document of the error in a choice.
func errorOf(c choice) []byte {
	if len(c.Error) == 0 {
		return nil
	}
	return append(append([]byte(`{"error":`), c.Error...), '}')
}

func (a answer) read(u gateway.Usage, maxTokens int) (gateway.Reply, error) {
	reply := gateway.Reply{Usage: u}
	_ = json.Unmarshal(a.Model, &reply.ServedModel) // only for the record
	if len(a.Choices) == 0 || a.Choices[0].Message == nil {
		return reply, malformed("no_choice")
	}
	c := a.Choices[0]
	text, ok := textOf(c.Message.Content)
	text, reply.Reasoning = withoutReasoning(text)
	for _, raw := range []json.RawMessage{c.Message.ReasoningContent, c.Message.Reasoning} {
		if r, ok := textOf(raw); ok && reply.Reasoning == "" {
			reply.Reasoning = r
		}
	}
	if reply.Usage.Output == 0 && text != "" {
		reply.Usage = gateway.Usage{} // words without tokens: the count is not to be trusted
	}
	reply.Text = text
	switch strings.ToLower(c.FinishReason) {
	case "stop", "end_turn", "stop_sequence", "eos", "eos_token":
		reply.Finish = gateway.FinishStop
	case "length", "max_tokens", "model_length":
		reply.Finish = gateway.FinishLength
	case "content_filter", "safety":
		return reply, &gateway.Error{Class: gateway.ClassContentFilter}
	case "tool_calls", "function_call":
		return reply, malformed("tool_call") // none was offered
	case "":
		reply.Finish = unsaid(reply.Usage, maxTokens)
	default: // "abort", "error" and the like: something else than the model ended it
		reply.Finish = gateway.FinishUnknown
	}
	if c.Message.Refusal != nil && *c.Message.Refusal != "" {
		reply.Text, reply.Refusal, reply.Finish = "", *c.Message.Refusal, gateway.FinishRefusal
		return reply, nil
	}
	if !ok && reply.Finish != gateway.FinishLength { // a cap reached while reasoning leaves no text
		return reply, malformed("no_content")
	}
	return reply, nil
}

// unsaid decides about an answer without a known finish reason: fewer tokens
// than the cap cannot have been cut by it.
func unsaid(u gateway.Usage, maxTokens int) gateway.Finish {
	switch {
	case !u.Known:
		return gateway.FinishUnknown
	case u.Output >= int64(maxTokens):
		return gateway.FinishLength
	default:
		return gateway.FinishStop
	}
}

func textOf(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) == nil {
		if s == nil {
			return "", false
		}
		return *s, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" || p.Type == "output_text" {
			b.WriteString(p.Text)
		}
	}
	return b.String(), len(parts) > 0
}

// withoutReasoning parts a leading <think> block from the text, which some
// servers leave there. Reasoning is never part of an answer; a block that was
// cut before its end leaves none.
func withoutReasoning(s string) (text, reasoning string) {
	rest, found := strings.CutPrefix(strings.TrimLeft(s, " \t\r\n"), "<think>")
	if !found {
		return s, ""
	}
	reasoning, answer, _ := strings.Cut(rest, "</think>")
	return strings.TrimLeft(answer, " \t\r\n"), strings.TrimSpace(reasoning)
}

func usageOf(body []byte) gateway.Usage {
	var a struct {
		Usage *usage `json:"usage"`
	}
	if json.Unmarshal(body, &a) != nil {
		return gateway.Usage{}
	}
	return a.Usage.read()
}

// read turns what was told into tokens. A count that is missing, negative,
// broken or absurd makes the whole unknown, and so does a prompt of no tokens.
func (u *usage) read() gateway.Usage {
	if u == nil {
		return gateway.Usage{}
	}
	prompt, ok1 := count(u.Prompt)
	completion, ok2 := count(u.Completion)
	if !ok1 || !ok2 || prompt == 0 {
		return gateway.Usage{}
	}
	out := gateway.Usage{Known: true, Input: prompt, Output: completion}
	if d := u.PromptDetails; d != nil {
		if cached, ok := count(d.Cached); ok && cached <= prompt {
			out.CacheRead, out.Input = cached, prompt-cached
		}
	}
	if d := u.CompletionDetails; d != nil {
		if r, ok := count(d.Reasoning); ok && r <= completion {
			out.Reasoning = r
		}
	}
	return out
}

func count(v *float64) (int64, bool) {
	const most = 1 << 40
	if v == nil || *v < 0 || *v > most || *v != math.Trunc(*v) {
		return 0, false
	}
	return int64(*v), true
}
