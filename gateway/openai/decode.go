package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

// answer is what is read of a chat completion; everything else is ignored.
type answer struct {
	Model   json.RawMessage `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
}

type choice struct {
	Message      *message `json:"message"`
	FinishReason string   `json:"finish_reason"`

	Error json.RawMessage `json:"error"` // a router's, about the server behind it
}

// message is a whole answer or a piece of one.
type message struct {
	Content json.RawMessage `json:"content"` // a string, a list of parts, or null
	Refusal *string         `json:"refusal"`

	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`

	ToolCalls []callPiece `json:"tool_calls"`
}

// callPiece is a tool call or a piece of one.
type callPiece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // JSON in a string; some servers send it bare
	} `json:"function"`
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

// decode reads a 2xx body. Usage is filled in as far as it was told, also when
// an error comes back, because a useless answer is paid for too. inside is the
// error document of an answer that failed, to be classified.
func decode(body []byte, a *assembly) (_ gateway.Reply, inside []byte, _ error) {
	var in answer
	if err := json.Unmarshal(body, &in); err != nil {
		return gateway.Reply{Usage: usageOf(body)}, nil, wire.Malformed("not_a_completion")
	}
	_ = json.Unmarshal(in.Model, &a.model) // only for the record
	told := gateway.Reply{Usage: readUsage(in.Usage), ServedModel: a.model}
	if len(in.Choices) == 0 {
		return told, nil, wire.Malformed("no_choice")
	}
	c := in.Choices[0]
	if document := errorOf(c.Error); gateway.HasError(document) {
		return told, document, nil
	}
	if c.Message == nil {
		return told, nil, wire.Malformed("no_choice")
	}
	if err := a.piece(*c.Message); err != nil {
		return told, nil, err
	}
	a.count(in.Usage)
	_ = a.end(c.FinishReason) // nobody listens who could break it off
	reply, err := a.reply()
	return reply, nil, err
}

// errorOf makes an error document of the error in a choice.
func errorOf(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return append(append([]byte(`{"error":`), raw...), '}')
}

// says tells whether a raw value is more than nothing, null or an empty list.
func says(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && !bytes.Equal(trimmed, []byte("null")) && !bytes.Equal(trimmed, []byte("[]"))
}

func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
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

// argumentsOf reads a tool call's arguments: JSON in a string, or bare.
func argumentsOf(raw json.RawMessage) string {
	var s string
	switch trimmed := bytes.TrimSpace(raw); {
	case len(trimmed) == 0, bytes.Equal(trimmed, []byte("null")):
		return ""
	case json.Unmarshal(trimmed, &s) == nil:
		return s
	default:
		return string(trimmed)
	}
}

func usageOf(body []byte) gateway.Usage {
	var a struct {
		Usage json.RawMessage `json:"usage"`
	}
	if json.Unmarshal(body, &a) != nil {
		return gateway.Usage{}
	}
	return readUsage(a.Usage)
}

func readUsage(raw json.RawMessage) gateway.Usage {
	var u *usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
		return gateway.Usage{}
	}
	return u.read()
}

// read turns what was told into tokens. A count that is missing, negative,
// broken or absurd makes the whole unknown, and so does a prompt of no tokens.
func (u *usage) read() gateway.Usage {
	if u == nil {
		return gateway.Usage{}
	}
	c := wire.Counts{Input: u.Prompt, Output: u.Completion}
	if u.PromptDetails != nil {
		c.Cached = u.PromptDetails.Cached
	}
	if u.CompletionDetails != nil {
		c.Reasoning = u.CompletionDetails.Reasoning
	}
	return c.Usage()
}
