package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
)

// A client of the responses protocol gets overlays, receipts and tools like any other.
func TestResponsesDialect(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	body := `{"model":"fast","instructions":"S","max_output_tokens":90,"reasoning":{"effort":"low","summary":null},"user":"u","input":[
		{"role":"user","content":"first"},
		{"role":"assistant","content":"let me look"},
		{"type":"reasoning","summary":[]},
		{"type":"function_call","call_id":"c1","name":"look","arguments":"{\"b\":1}"},
		{"type":"function_call","call_id":"c3","name":"look","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":"found"},
		{"type":"function_call_output","call_id":"c3","output":"too"},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"and now?"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}],
		"tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{"z":{},"a":{}}}}],"tool_choice":{"type":"function","name":"look"},
		"text":{"format":{"type":"json_schema","name":"out","schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}}},
		"promptlab":{"message_ids":["1","2","3","4","5","6","7","8"]}}`
	r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
		return gateway.Reply{ToolCalls: []gateway.ToolCall{{ID: "c2", Name: "look", Arguments: `{"a":1}`}}, Finish: gateway.FinishToolCalls, Usage: gateway.Usage{Known: true, Input: 5, Output: 2, CacheRead: 3, Reasoning: 1}}, nil
	})
	a := r.do("POST", "/v1/responses", body, "X-PromptLab-Session", key("t").Token())
	if a.status != 200 || a.header.Get("X-PromptLab-Applied") != "o-a" || a.header.Get("X-PromptLab-Ignored") != "user" {
		t.Fatalf("got %d %v %s", a.status, a.header, a.body)
	}
	sent := r.model.last(t)
	if got := roles(sent.Messages); got != "system user assistant tool tool user" {
		t.Errorf("roles %q", got)
	}
	if m := sent.Messages; !strings.HasPrefix(m[0].Content, "S\n\n") || m[2].Content != "let me look" || len(m[2].ToolCalls) != 2 || m[2].ToolCalls[0].Arguments != `{"b":1}` || m[3].Content != "found" || m[5].Parts[1].ImageURL == "" {
		t.Errorf("messages %+v", m)
	}
	if sent.ToolChoice != "look" || string(sent.Tools[0].Parameters) != `{"type":"object","properties":{"z":{},"a":{}}}` || sent.MaxTokens != 90 || !strings.Contains(string(sent.Schema.Wire()), `"z":{"type":"string"},"a"`) {
		t.Errorf("parameters %+v", sent)
	}
	var out struct {
		Object, Status string
		Output         []struct {
			Type, Arguments string
			CallID          string `json:"call_id"`
		}
		Usage struct {
			In    int `json:"input_tokens"`
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		t.Fatal(err)
	}
	if out.Object != "response" || out.Status != "completed" || len(out.Output) != 1 || out.Output[0].CallID != "c2" || out.Usage.In != 8 || out.Usage.Total != 10 {
		t.Errorf("answer %s", a.body)
	}
	for body, want := range map[string]string{
		`{"input":5}`:                              "input",
		`{"input":"q","store":true}`:               "store",
		`{"input":"q","previous_response_id":"r"}`: "previous_response_id",
		`{"input":[{"type":"file_search_call"},{"role":"robot","content":1},{"role":"user","content":[{"type":"input_file"}]}]}`: "input[0].type input[1].role input[1].content input[2].content[0].type",
		`{"input":"q","tools":[{"type":"function","name":"x","parameters":[]}],"tool_choice":"some"}`:                            "tools[0].parameters tool_choice",
		`{"input":"q","text":{"format":{"type":"json_schema"}}}`:                                                                 "text.format.schema",
		`{"input":"q","promptlab":{"message_ids":["a","b"]}}`:                                                                    "promptlab.message_ids",
	} {
		c := r.read(r.do("POST", "/v1/responses", body), 400)
		var fields []string
		for _, d := range c.Error.Details {
			fields = append(fields, d.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s\nnamed %q, want %q", body, got, want)
		}
	}
}

func TestResponsesStream(t *testing.T) {
	r := newRig(t)
	r.model.says(func(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		for _, e := range []gateway.Event{{Kind: gateway.EventReasoning, Text: "hm"}, {Kind: gateway.EventDelta, Text: "Fi"}, {Kind: gateway.EventDelta, Text: "ne."}, {Kind: gateway.EventFinish}} {
			if err := emit(e); err != nil {
				return gateway.Reply{}, err
			}
		}
		return gateway.Reply{Text: "Fine.", ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "a", Arguments: `{}`}}, Finish: gateway.FinishToolCalls, Usage: gateway.Usage{Known: true, Input: 5, Output: 2}}, nil
	})
	a := r.do("POST", "/v1/responses", `{"stream":true,"input":"q","tools":[{"type":"function","name":"a"}]}`)
	var got []string
	for i, d := range events(a.body) {
		var e struct {
			Type  string
			Delta string
			Seq   int `json:"sequence_number"`
			Index int `json:"output_index"`
			Item  struct{ Type string }
		}
		if err := json.Unmarshal([]byte(d), &e); err != nil || e.Seq != i {
			t.Fatalf("%s: %v", d, err)
		}
		got = append(got, strings.TrimSpace(fmt.Sprint(strings.TrimPrefix(e.Type, "response."), " ", e.Delta, e.Item.Type)))
	}
	want := []string{
		"created", "in_progress", "output_item.added message", "content_part.added", "output_text.delta Fi", "output_text.delta ne.", "output_text.done", "content_part.done",
		"output_item.done message", "output_item.added function_call", "function_call_arguments.done", "output_item.done function_call", "completed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	r.model.says(func(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		if err := emit(gateway.Event{Kind: gateway.EventDelta, Text: "ha"}); err != nil {
			return gateway.Reply{}, err
		}
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassStreamTruncated}
	})
	a = r.do("POST", "/v1/responses", `{"stream":true,"input":"q"}`)
	if list := events(a.body); !strings.Contains(list[len(list)-1], `"type":"error"`) || strings.Contains(string(a.body), "response.completed") {
		t.Errorf("R-GWS-20 a stream that broke off: %s", a.body)
	}
}
