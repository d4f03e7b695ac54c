package conformance_test

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/gateway"
)

// scenarios gives every scenario there is.
func scenarios() []scenario {
	return slices.Concat(answers(), forms(), refusals(), quotas(), waits(), inside(), shapes(), silences(), cuts(), recoveries())
}

// well answers as it should.
func well(c *conn) {
	document, stream := c.d.good()
	c.reply(document, stream...)
}

func ending(finish gateway.Finish, usage func(dialect) string) func(*conn) {
	return func(c *conn) {
		document, stream := c.d.ended(finish, usage(c.d))
		c.reply(document, stream...)
	}
}

func usual(d dialect) string { return d.told() }

func offering(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "f"}, {Name: "g"}} }

func wanting(r *gateway.Request) {
	s, err := gateway.NewSchema("verdict/1", `{"type":"object","properties":{"score":{"type":"number","maximum":1}},"required":["score"],"additionalProperties":false}`)
	if err != nil {
		panic(err) // the test's own words
	}
	r.Schema = s
}

// content answers with a content of one's own, per dialect, whole or in events.
func content(finish gateway.Finish, whole, stream map[string]string) func(*conn) {
	return func(c *conn) {
		how := c.d.ends[finish]
		c.reply(c.d.whole(whole[c.d.name], how, c.d.told()), stream[c.d.name], c.d.end(how, c.d.told()))
	}
}

func saying(text string) func(*conn) {
	return func(c *conn) {
		how := c.d.ends[gateway.FinishStop]
		c.reply(c.d.whole(c.d.text(text), how, c.d.told()), c.d.open, c.d.piece(text), c.d.end(how, c.d.told()))
	}
}

// answers are those that are some.
func answers() []scenario {
	const a, b = `{"a":1}`, `{"b":2}`
	calls := map[string]string{
		"openai":    `{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":` + quoted(a) + `}},{"id":"c2","type":"function","function":{"name":"g","arguments":` + quoted(b) + `}}]}`,
		"anthropic": `{"type":"tool_use","id":"c1","name":"f","input":` + a + `},{"type":"tool_use","id":"c2","name":"g","input":` + b + `}`,
		"responses": `{"type":"function_call","call_id":"c1","name":"f","arguments":` + quoted(a) + `},{"type":"function_call","call_id":"c2","name":"g","arguments":` + quoted(b) + `}`,
	}
	piece := map[string]func(i, arguments string) string{
		"openai": func(i, s string) string {
			return data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":` + i + `,"function":{"arguments":` + quoted(s) + `}}]}}]}`)
		},
		"anthropic": func(i, s string) string {
			return data(`{"type":"content_block_delta","index":` + i + `,"delta":{"type":"input_json_delta","partial_json":` + quoted(s) + `}}`)
		},
		"responses": func(i, s string) string {
			return data(`{"type":"response.function_call_arguments.delta","output_index":` + i + `,"delta":` + quoted(s) + `}`)
		},
	}
	opened := map[string]string{
		"openai": data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}},{"index":1,"id":"c2","function":{"name":"g","arguments":""}}]}}]}`),
		"anthropic": data(`{"type":"message_start","message":{"usage":{"input_tokens":9}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c2","name":"g","input":{}}}`),
		"responses": data(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c1","name":"f"}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c2","name":"g"}}`),
	}
	inOrder, mixed := map[string]string{}, map[string]string{}
	for name, p := range piece {
		inOrder[name] = opened[name] + p("0", a) + p("1", b)
		mixed[name] = opened[name] + p("0", a[:3]) + p("1", b[:4]) + p("0", a[3:]) + p("1", b[4:])
	}
	two := func(t *testing.T, o outcome) {
		want := []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: a}, {ID: "c2", Name: "g", Arguments: b}}
		if !slices.Equal(o.resp.ToolCalls, want) || o.rows[0].ToolCalls != 2 || o.resp.Malformed {
			t.Errorf("R-GWB-03 calls %+v, in the row %d; want %+v", o.resp.ToolCalls, o.rows[0].ToolCalls, want)
		}
	}
	return []scenario{
		{id: "answer-plain", script: well, see: seeHead},
		{id: "answer-cut-by-the-cap", script: ending(gateway.FinishLength, usual), finish: gateway.FinishLength},
		{id: "answer-refused-by-the-model", finish: gateway.FinishRefusal, script: refusal, see: func(t *testing.T, o outcome) {
			if o.resp.Refusal != "no" || o.resp.Complete() {
				t.Errorf("R-GWT-09 refusal %q, complete %t", o.resp.Refusal, o.resp.Complete())
			}
		}},
		{id: "answer-tool-calls", change: offering, script: content(gateway.FinishToolCalls, calls, inOrder), finish: gateway.FinishToolCalls, see: two},
		{id: "answer-tool-calls-interleaved", only: streamOnly, change: offering, script: content(gateway.FinishToolCalls, nil, mixed), finish: gateway.FinishToolCalls, see: two},
		{id: "answer-tool-calls-unasked", script: content(gateway.FinishToolCalls, calls, inOrder), class: gateway.ClassMalformedResponse, reason: "tool_call", cost: guess},
		{id: "answer-reasoning-apart", script: thinking, see: func(t *testing.T, o outcome) {
			if o.resp.Reasoning != "hm" {
				t.Errorf("R-GWS-27 reasoning %q", o.resp.Reasoning)
			}
		}},
		{id: "answer-structured", change: wanting, script: saying("```json\n{\"score\":0.5}\n```"), text: "```json\n{\"score\":0.5}\n```"},
		{id: "answer-structured-of-another-shape", change: wanting, script: saying(`{"score":7}`), text: `{"score":7}`, see: seeMalformed},
		{id: "answer-structured-and-cut", change: wanting, script: ending(gateway.FinishLength, usual), finish: gateway.FinishLength, see: seeMalformed},
		{id: "usage-missing", script: ending(gateway.FinishStop, func(dialect) string { return "" }), cost: bound},
		{id: "usage-absurd", script: ending(gateway.FinishStop, func(d dialect) string { return d.usage(-9, 3) }), cost: bound},
		{id: "usage-of-no-words", script: ending(gateway.FinishStop, func(d dialect) string { return d.usage(9, 0) }), cost: bound},
		{id: "usage-with-choices", on: []string{"openai"}, only: streamOnly, script: func(c *conn) {
			c.events(c.d.open, c.d.piece(said), data(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`+c.d.told()+`}`, "[DONE]"))
		}},
		{id: "usage-twice", on: []string{"openai", "anthropic"}, only: streamOnly, script: func(c *conn) {
			early := data(`{"choices":[]` + c.d.usage(7, 1) + `}`)
			if c.d.name == "anthropic" {
				early = data(`{"type":"message_delta","delta":{}` + c.d.usage(7, 1) + `}`)
			}
			c.events(c.d.open, c.d.piece(said), early, c.d.end(c.d.ends[gateway.FinishStop], c.d.told()))
		}},
		{id: "another-model-served", script: func(c *conn) {
			document, stream := c.d.good()
			for i := range stream {
				stream[i] = strings.ReplaceAll(stream[i], "m1-0001", "m2-0001")
			}
			c.reply(strings.ReplaceAll(document, "m1-0001", "m2-0001"), stream...)
		}, see: func(t *testing.T, o outcome) {
			if o.resp.ServedModel != "m2-0001" || o.rows[0].ServedModel != "m2-0001" {
				t.Errorf("R-GWM-04 served %q, in the row %q", o.resp.ServedModel, o.rows[0].ServedModel)
			}
		}},
		{id: "our-budget-is-spent", script: well, budget: gateway.NoMoney(), class: gateway.ClassJobBudget, none: true},
	}
}

// seeHead looks at what was asked and what the row says of it.
func seeHead(t *testing.T, o outcome) {
	r := o.asked[0]
	paths := []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"}
	if r.method != "POST" || !slices.Contains(paths, r.path) || !strings.Contains(r.body, canary) || !strings.Contains(r.body, "100") {
		t.Errorf("asked %s %s with %s", r.method, r.path, r.body)
	}
	if key := r.header.Get("Authorization") + r.header.Get("X-Api-Key"); strings.Count(key, "sk-"+canary) != 1 {
		t.Error("R-GWB-04 the key is not in the one header that needs it")
	}
	if o.rows[0].ProviderRequestID != "req-1" || o.resp.ProviderRequestID != "req-1" || o.rows[0].ServedModel != "m1-0001" {
		t.Errorf("R-GWB-12 row %+v", o.rows[0])
	}
}

func seeMalformed(t *testing.T, o outcome) {
	if !o.resp.Malformed || o.resp.Complete() || !o.rows[0].Malformed {
		t.Errorf("R-GWO-01 R-GWO-06 malformed %t, in the row %t", o.resp.Malformed, o.rows[0].Malformed)
	}
}

func refusal(c *conn) {
	switch usage := c.d.told(); c.d.name {
	case "openai":
		c.reply(c.d.whole(`{"content":null,"refusal":"no"}`, "stop", usage), c.d.open, data(`{"choices":[{"index":0,"delta":{"refusal":"no"}}]}`), c.d.end("stop", usage))
	case "anthropic":
		details := `,"stop_details":{"explanation":"no"}`
		c.reply(c.d.whole("", "refusal", details+usage), c.d.open, data(`{"type":"message_delta","delta":{"stop_reason":"refusal"`+details+`}`+usage+`}`, `{"type":"message_stop"}`))
	default:
		c.reply(c.d.whole(`{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`, "completed", usage), c.d.open, data(`{"type":"response.refusal.delta","output_index":0,"delta":"no"}`), c.d.end("completed", usage))
	}
}

func thinking(c *conn) {
	how, usage := c.d.ends[gateway.FinishStop], c.d.told()
	switch c.d.name {
	case "openai":
		c.reply(c.d.whole(`{"content":`+quoted(said)+`,"reasoning_content":"hm"}`, how, usage), c.d.open, data(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`), c.d.piece(said), c.d.end(how, usage))
	case "anthropic":
		c.reply(c.d.whole(`{"type":"thinking","thinking":"hm"},`+c.d.text(said), how, usage), c.d.open,
			data(`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"h"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"m"}}`),
			c.d.piece(said), c.d.end(how, usage))
	default:
		c.reply(c.d.whole(`{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},`+c.d.text(said), how, usage), c.d.open,
			data(`{"type":"response.reasoning_summary_text.delta","output_index":7,"delta":"hm"}`), c.d.piece(said), c.d.end(how, usage))
	}
}

// forms are the ways in which the bytes of a good answer may come.
func forms() []scenario {
	// inEvents sends the good stream, changed as a whole.
	inEvents := func(change func(string) string) func(*conn) {
		return func(c *conn) {
			_, stream := c.d.good()
			c.events(change(strings.Join(stream, "")))
		}
	}
	return []scenario{
		{id: "stream-crlf", only: streamOnly, script: inEvents(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") })},
		{id: "stream-cr", only: streamOnly, script: inEvents(func(s string) string { return strings.ReplaceAll(s, "\n", "\r") })},
		{id: "stream-byte-order-mark", only: streamOnly, script: inEvents(func(s string) string { return "\ufeff" + s })},
		{id: "stream-several-data-lines", only: streamOnly, script: inEvents(func(s string) string { return strings.ReplaceAll(s, `,"`, ",\ndata: \"") })},
		{id: "stream-comments-between", only: streamOnly, script: inEvents(func(s string) string { return ": hello\n\n" + strings.ReplaceAll(s, "\n\n", "\n\n: alive\n\n\n") })},
		{id: "stream-keep-alives-that-are-no-json", only: streamOnly, script: inEvents(func(s string) string { return "data: ping\n\n" + s }), see: func(t *testing.T, o outcome) {
			if o.rows[0].MalformedChunks != 1 {
				t.Errorf("R-GWS-02 %d malformed chunks are counted, want 1", o.rows[0].MalformedChunks)
			}
		}},
		{id: "stream-unknown-fields-and-events", only: streamOnly, script: inEvents(func(s string) string {
			return "id: 7\nretry: 10\nevent: news\ndata: {\"type\":\"news\",\"new\":1}\n\n" + s
		})},
		{id: "bytes-one-by-one", script: func(c *conn) {
			document, stream := c.d.good()
			kind, all := "application/json", document
			if c.stream {
				kind, all = "text/event-stream", strings.Join(stream, "")
			}
			var parts []string
			for i := range len(all) { // bytes: every character and delimiter of several is split
				parts = append(parts, all[i:i+1])
			}
			c.chunks(kind, parts...)
		}},
		{id: "stream-of-unclaimed-type", only: streamOnly, script: func(c *conn) {
			_, stream := c.d.good()
			c.head(200)
			c.write(stream...)
		}},
		{id: "stream-type-with-parameters", only: streamOnly, script: func(c *conn) {
			_, stream := c.d.good()
			c.head(200, `content-type: Text/Event-Stream; charset="UTF-8"`)
			c.write(stream...)
		}},
		{id: "document-of-another-type", only: wholeOnly, script: func(c *conn) {
			document, _ := c.d.good()
			c.head(200, "Content-Type: text/plain")
			c.write(document)
		}},
		{id: "document-compressed", only: wholeOnly, script: func(c *conn) {
			document, _ := c.d.good()
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write([]byte(document))
			_ = w.Close()
			c.document(200, b.String(), "Content-Encoding: gzip")
		}},
		{id: "status-on-the-way", script: func(c *conn) {
			c.write("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
			well(c)
		}},
		{id: "stream-open-after-its-end", only: streamOnly, script: func(c *conn) {
			well(c)
			c.wait()
		}},
		{id: "stream-garbage-after-its-end", only: streamOnly, script: func(c *conn) {
			_, stream := c.d.good()
			c.events(append(stream, "data: {\"error\":{\"message\":\"late\"}}\n\ndata: {{{\n\n")...)
		}},
		{id: "stream-cut-between-end-and-mark", on: []string{"openai"}, only: streamOnly, cost: bound, script: func(c *conn) {
			c.events(c.d.open, c.d.piece(said), data(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
		}},
	}
}
