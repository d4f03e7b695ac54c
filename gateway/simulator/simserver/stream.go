package simserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator"
)

// chatRequest is what is read of a request.
type chatRequest struct {
	Messages            []chatMessage `json:"messages"`
	MaxTokens           int           `json:"max_tokens"`
	MaxCompletionTokens int           `json:"max_completion_tokens"`
	Seed                *int64        `json:"seed"`
	Stream              bool          `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, a list of parts, or null
}

func (r chatRequest) messages() []gateway.Message {
	out := make([]gateway.Message, 0, len(r.Messages))
	for _, m := range r.Messages {
		msg := gateway.Message{Role: m.Role}
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(m.Content, &msg.Content) != nil && json.Unmarshal(m.Content, &parts) == nil {
			for _, p := range parts {
				if p.Type == gateway.PartText {
					msg.Content += p.Text
				}
			}
		}
		out = append(out, msg)
	}
	return out
}

// stream answers word by word.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a simulator.Answer, f Fault, withUsage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	id := "chatcmpl-" + strconv.Itoa(s.Calls())
	chunk := func(choices []any, more map[string]any) {
		out := map[string]any{"id": id, "object": "chat.completion.chunk", "created": 0, "model": s.c.Model, "choices": choices}
		for k, v := range more {
			out[k] = v
		}
		event(w, out)
	}
	delta := func(d map[string]any, finish any) []any {
		return []any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}
	}
	chunk(delta(map[string]any{"role": "assistant", "content": ""}, nil), nil)
	for i, word := range simulator.Words(a.Text) {
		chunk(delta(map[string]any{"content": word}, nil), nil)
		if i > 0 {
			continue
		}
		switch {
		case f.Stall:
			<-r.Context().Done()
			s.change(func() { s.gone++ })
			return
		case f.ErrorIn200:
			event(w, errorBody("server_error"))
			return
		case f.BadJSON:
			_, _ = io.WriteString(w, `data: {"id":"chatcmpl-1","choices":[{"delta":{"con`) // the client is gone at worst
			return
		}
	}
	chunk(delta(map[string]any{}, string(a.Finish)), nil)
	if withUsage && !f.NoUsage {
		chunk([]any{}, map[string]any{"usage": usage(a)})
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n") // the client is gone at worst
}

func event(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // of our own making: strings and numbers
	}
	_, _ = io.WriteString(w, "data: "+string(b)+"\n\n") // the client is gone at worst
	_ = http.NewResponseController(w).Flush()
}
