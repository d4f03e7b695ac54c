package conformance_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/anthropic"
	"github.com/elnor/promptlab/gateway/openai"
	"github.com/elnor/promptlab/gateway/responses"
)

// canary must never be seen outside of requests and answers.
const canary = "CANARY-9a8b-do-not-tell"

// said is the text of every good answer.
const said = "hi there, 世界 " + canary

// dialect is how one protocol says things.
type dialect struct {
	name     string
	protocol gateway.Protocol
	adapter  func(most int64) gateway.Adapter

	whole func(content, finish, usage string) string // a document
	text  func(s string) string                      // content of a whole answer
	open  string                                     // events before the first piece
	piece func(s string) string                      // an event with a piece of text
	empty string                                     // an event that says nothing
	end   func(finish, usage string) string          // events that end an answer
	usage func(in, out int) string
	ends  map[gateway.Finish]string // how an end is called
}

func data(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("data: " + p + "\n\n")
	}
	return b.String()
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func dialects() []dialect { return []dialect{openaiDialect(), anthropicDialect(), responsesDialect()} }

func openaiDialect() dialect {
	chunk := func(delta, finish string) string {
		return `{"model":"m1-0001","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	return dialect{
		name: "openai", protocol: gateway.ProtocolOpenAI,
		adapter: func(most int64) gateway.Adapter { return openai.New(openai.Config{MaxResponse: most}) },
		whole: func(content, finish, usage string) string {
			return `{"id":"c1","model":"m1-0001","choices":[{"index":0,"message":` + content + `,"finish_reason":"` + finish + `"}]` + usage + `}`
		},
		text:  func(s string) string { return `{"role":"assistant","content":` + quoted(s) + `}` },
		open:  data(chunk(`{"role":"assistant","content":""}`, "null")),
		piece: func(s string) string { return data(chunk(`{"content":`+quoted(s)+`}`, "null")) },
		empty: data(chunk(`{"content":""}`, "null")),
		end: func(finish, usage string) string {
			return data(chunk("{}", `"`+finish+`"`), `{"choices":[]`+usage+`}`, "[DONE]")
		},
		usage: func(in, out int) string {
			return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, in, out)
		},
		ends: map[gateway.Finish]string{gateway.FinishStop: "stop", gateway.FinishLength: "length", gateway.FinishToolCalls: "tool_calls"},
	}
}

func anthropicDialect() dialect {
	return dialect{
		name: "anthropic", protocol: gateway.ProtocolAnthropic,
		adapter: func(most int64) gateway.Adapter { return anthropic.New(anthropic.Config{MaxResponse: most}) },
		whole: func(content, finish, usage string) string {
			return `{"id":"m","type":"message","model":"m1-0001","content":[` + content + `],"stop_reason":"` + finish + `"` + usage + `}`
		},
		text: func(s string) string { return `{"type":"text","text":` + quoted(s) + `}` },
		open: data(`{"type":"message_start","message":{"type":"message","model":"m1-0001","usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		piece: func(s string) string {
			return data(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + quoted(s) + `}}`)
		},
		empty: data(`{"type":"ping"}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}`),
		end: func(finish, usage string) string {
			return data(`{"type":"message_delta","delta":{"stop_reason":"`+finish+`"}`+usage+`}`, `{"type":"message_stop"}`)
		},
		usage: func(in, out int) string {
			return fmt.Sprintf(`,"usage":{"input_tokens":%d,"output_tokens":%d}`, in, out)
		},
		ends: map[gateway.Finish]string{gateway.FinishStop: "end_turn", gateway.FinishLength: "max_tokens", gateway.FinishToolCalls: "tool_use"},
	}
}

func responsesDialect() dialect {
	whole := func(content, finish, usage string) string {
		status, details := "completed", ""
		if finish != status {
			status, details = "incomplete", `,"incomplete_details":{"reason":"`+finish+`"}`
		}
		return `{"object":"response","status":"` + status + `"` + details + `,"error":null,"model":"m1-0001","output":[` + content + `]` + usage + `}`
	}
	return dialect{
		name: "responses", protocol: gateway.ProtocolResponses,
		adapter: func(most int64) gateway.Adapter { return responses.New(responses.Config{MaxResponse: most}) },
		whole:   whole,
		text: func(s string) string {
			return `{"type":"message","content":[{"type":"output_text","text":` + quoted(s) + `}]}`
		},
		open: data(`{"type":"response.created","response":{"model":"m1-0001"}}`, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`),
		piece: func(s string) string {
			return data(`{"type":"response.output_text.delta","output_index":0,"delta":` + quoted(s) + `}`)
		},
		empty: data(`{"type":"response.output_text.delta","output_index":0,"delta":""}`, `{"type":"response.in_progress"}`),
		end: func(finish, usage string) string {
			event := "completed"
			if finish != event {
				event = "incomplete"
			}
			return data(`{"type":"response.` + event + `","response":` + whole("", finish, usage) + `}`)
		},
		usage: func(in, out int) string {
			return fmt.Sprintf(`,"usage":{"input_tokens":%d,"output_tokens":%d}`, in, out)
		},
		ends: map[gateway.Finish]string{gateway.FinishStop: "completed", gateway.FinishLength: "max_output_tokens", gateway.FinishToolCalls: "completed"},
	}
}

// told is the usage of every good answer.
func (d dialect) told() string { return d.usage(9, 3) }

// good gives a good answer, whole and in pieces.
func (d dialect) good() (document string, stream []string) {
	return d.ended(gateway.FinishStop, d.told())
}

// ended gives an answer with an end and a usage of its own.
func (d dialect) ended(finish gateway.Finish, usage string) (document string, stream []string) {
	how := d.ends[finish]
	return d.whole(d.text(said), how, usage), []string{d.open, d.piece(said[:3]), d.piece(said[3:]), d.end(how, usage)}
}
