package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

func answering(text string) *stub {
	return &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok(text), nil }}
}

// R-GWB-19, R-GWB-02: what no provider should see is refused by name before
// anything is sent or paid.
func TestRequestsThatAreNotSent(t *testing.T) {
	tool := gateway.Tool{Name: "f"}
	user := func(m gateway.Message) func(*gateway.Request) {
		return func(r *gateway.Request) { r.Messages = append(r.Messages, m) }
	}
	part := func(p gateway.Part) func(*gateway.Request) {
		return user(gateway.Message{Role: "user", Parts: []gateway.Part{p}})
	}
	for _, c := range []struct {
		reason string
		change func(*gateway.Request)
	}{
		{"message_role", user(gateway.Message{Role: "critic"})},
		{"message_not_utf8", user(gateway.Message{Role: "user", Content: "\xff"})},
		{"message_not_utf8", user(gateway.Message{Role: "user", Name: "\xff"})},
		{"message_content_twice", user(gateway.Message{Role: "user", Content: "a", Parts: []gateway.Part{{Type: "text", Text: "b"}}})},
		{"message_tool_call_id", user(gateway.Message{Role: "tool", Content: "a"})},
		{"message_tool_call_id", user(gateway.Message{Role: "user", Content: "a", ToolCallID: "c1"})},
		{"message_tool_calls", user(gateway.Message{Role: "user", ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "f"}}})},
		{"message_tool_calls", user(gateway.Message{Role: "assistant", ToolCalls: []gateway.ToolCall{{Name: "f"}}})},
		{"message_tool_calls", user(gateway.Message{Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "c1", Name: "f g"}}})},
		{"message_part", part(gateway.Part{Type: "audio", Text: "a"})},
		{"message_part", part(gateway.Part{Type: "text", Text: "a", ImageURL: "https://example.com/a.png"})},
		{"message_part", user(gateway.Message{Role: "system", Parts: []gateway.Part{{Type: "image_url", ImageURL: "https://example.com/a.png"}}})},
		{"image_detail", part(gateway.Part{Type: "image_url", ImageURL: "https://example.com/a.png", Detail: "huge"})},
		{"image_url", part(gateway.Part{Type: "image_url", ImageURL: "http://169.254.169.254/latest"})},
		{"image_url", part(gateway.Part{Type: "image_url", ImageURL: "file:///etc/passwd"})},
		{"tool_name", func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "a b"}} }},
		{"tool_name", func(r *gateway.Request) { r.Tools = []gateway.Tool{tool, tool} }},
		{"tool_name", func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "auto"}} }},
		{"tool_parameters", func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "f", Parameters: json.RawMessage(`[]`)}} }},
		{"tool_parameters", func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "f", Parameters: json.RawMessage(`{`)}} }},
		{"too_many_tools", func(r *gateway.Request) { r.Tools = make([]gateway.Tool, 129) }},
		{"tool_choice", func(r *gateway.Request) { r.ToolChoice = "auto" }},
		{"tool_choice", func(r *gateway.Request) { r.Tools, r.ToolChoice = []gateway.Tool{tool}, "g" }},
	} {
		a := answering("hi")
		m := model("one", gateway.RoleChat)
		m.Limits.ImageTokens = 1000
		req := ask(gateway.RoleChat)
		c.change(&req)
		_, err := newRig(t, a, m).Do(t.Context(), req, gateway.Unlimited())
		var e *gateway.Error
		if !errors.As(err, &e) || e.Class != gateway.ClassPolicy || e.Reason != c.reason || a.n != 0 {
			t.Errorf("error %v after %d calls, want policy (%s) after none", err, a.n, c.reason)
		}
	}
}

// An image without a declared bound could cost anything, tools that a server
// does not take would change the question: both are refused, not left out.
func TestImagesAndToolsNeedATargetThatTakesThem(t *testing.T) {
	picture := func(r *gateway.Request) {
		r.Messages = append(r.Messages, gateway.Message{Role: "user", Parts: []gateway.Part{{Type: "image_url", ImageURL: "data:image/png;base64,AAAA"}}})
	}
	tool := func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "f"}} }
	for _, c := range []struct {
		name   string
		ask    func(*gateway.Request)
		model  func(*gateway.ModelConfig)
		reason string
	}{
		{"an image and no bound", picture, func(*gateway.ModelConfig) {}, "images_not_served"},
		{"an image and a bound", picture, func(m *gateway.ModelConfig) { m.Limits.ImageTokens = 1000 }, ""},
		{"tools", tool, func(*gateway.ModelConfig) {}, ""},
		{"tools that are not taken", tool, func(m *gateway.ModelConfig) { m.DropParameters = []gateway.Parameter{gateway.ParamTools} }, "tools_not_served"},
	} {
		a, m, req := answering("hi"), model("one", gateway.RoleChat), ask(gateway.RoleChat)
		c.model(&m)
		c.ask(&req)
		_, err := newRig(t, a, m).Do(t.Context(), req, gateway.Unlimited())
		var e *gateway.Error
		if errors.As(err, &e); (err == nil) != (c.reason == "") || e != nil && e.Reason != c.reason {
			t.Errorf("%s: error %v, want reason %q", c.name, err, c.reason)
		}
	}
}

// changes gives, for every field of a request that can change its answer, a
// request that differs in it alone.
func changes() map[string]func(*gateway.Request) {
	return map[string]func(*gateway.Request){
		"Messages": func(r *gateway.Request) {
			r.Messages = append(slices.Clone(r.Messages), gateway.Message{Role: "user", Content: "x"})
		},
		"MaxTokens":         func(r *gateway.Request) { r.MaxTokens++ },
		"Temperature":       func(r *gateway.Request) { r.Temperature = usd(0.1) },
		"TopP":              func(r *gateway.Request) { r.TopP = usd(0.1) },
		"PresencePenalty":   func(r *gateway.Request) { r.PresencePenalty = usd(0.1) },
		"FrequencyPenalty":  func(r *gateway.Request) { r.FrequencyPenalty = usd(0.1) },
		"Seed":              func(r *gateway.Request) { r.Seed = new(int64) },
		"Stop":              func(r *gateway.Request) { r.Stop = []string{"x"} },
		"JSONObject":        func(r *gateway.Request) { r.JSONObject = true },
		"Tools":             func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "g"}} },
		"ToolChoice":        func(r *gateway.Request) { r.ToolChoice = gateway.ToolsNone },
		"ParallelToolCalls": func(r *gateway.Request) { r.ParallelToolCalls = new(bool) },
		"Reasoning":         func(r *gateway.Request) { r.Reasoning = gateway.ReasoningOff },
	}
}

// R-GWL-04, R-GWC-11, R-GWB-20: the digest of a request moves with everything
// that can change its answer, down to the parts of a message, and with the model
// and the surface; with nothing else.
func TestTheDigestCoversTheQuestion(t *testing.T) {
	others := []string{"Role", "Model", "Schema", "JobID", "Trial", "Workspace", "Feature", "PromptKey", "PromptVersion", "RequestID"} // Schema below
	for f := range reflect.TypeFor[gateway.Request]().Fields() {
		if changes()[f.Name] == nil && !slices.Contains(others, f.Name) {
			t.Errorf("R-GWC-11 nobody says whether Request.%s changes the answer", f.Name)
		}
	}
	digest := func(change func(*gateway.Request), protocol gateway.Protocol) string {
		m := model("one", gateway.RoleJudge)
		m.Protocol, m.Limits.ImageTokens = protocol, 100
		if protocol == gateway.ProtocolOpenAI {
			m.Profile = "openai"
		}
		m.Reasoning = reasons(gateway.ReasoningHigh, m.Model)
		rows := make(gateway.RowChan, 1)
		a := answering(`{"score":1}`)
		g, err := gateway.New(gateway.Config{Models: []gateway.ModelConfig{m}, Rows: rows,
			Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: a, gateway.ProtocolResponses: a}})
		if err != nil {
			t.Fatal(err)
		}
		req := ask(gateway.RoleJudge)
		req.Tools, req.ToolChoice = []gateway.Tool{{Name: "f"}}, gateway.ToolsAuto
		if change != nil {
			change(&req)
		}
		if _, err := g.Do(t.Context(), req, gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
		return (<-rows).RequestDigest
	}
	plain := digest(nil, gateway.ProtocolOpenAI)
	seen := map[string]string{plain: "nothing"}
	differs := func(what, d string) {
		if by := seen[d]; by != "" {
			t.Errorf("R-GWC-11 %s and %s give the same digest", what, by)
		}
		seen[d] = what
	}
	for name, change := range changes() {
		differs(name, digest(change, gateway.ProtocolOpenAI))
	}
	differs("R-GWB-20 another surface", digest(nil, gateway.ProtocolResponses))
	differs("R-GWC-11 a schema", digest(func(r *gateway.Request) { r.Schema = shape(t) }, gateway.ProtocolOpenAI))
	// R-GWO-05: a further required field makes other answers of the old ones, also
	// when its author forgot to say so by the id.
	for name, document := range map[string]string{"its version": `{"type":"object"}`, "a required field": `{"type":"object","required":["score"]}`,
		"a bound": `{"type":"object","properties":{"score":{"maximum":1}}}`} {
		s, err := gateway.NewSchema("other/1", document)
		if err != nil {
			t.Fatal(err)
		}
		differs("R-GWO-05 a schema of another "+name, digest(func(r *gateway.Request) { r.Schema = s }, gateway.ProtocolOpenAI))
	}
	for i, m := range []gateway.Message{
		{Role: "user", Parts: []gateway.Part{{Type: "text", Text: "x"}}}, {Role: "user", Content: "x", Name: "n"},
		{Role: "user", Parts: []gateway.Part{{Type: "image_url", ImageURL: "https://a"}}}, {Role: "user", Parts: []gateway.Part{{Type: "image_url", ImageURL: "https://b"}}},
		{Role: "user", Parts: []gateway.Part{{Type: "image_url", ImageURL: "https://b", Detail: "low"}}},
		{Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}}, {Role: "assistant", ToolCalls: []gateway.ToolCall{{ID: "c", Name: "f", Arguments: "[]"}}},
		{Role: "tool", ToolCallID: "c"}, {Role: "tool", ToolCallID: "d"}, {Role: "assistant", State: json.RawMessage(`[1]`)},
	} {
		differs("message "+string(rune('a'+i)), digest(func(r *gateway.Request) { r.Messages = append(slices.Clone(r.Messages), m) }, gateway.ProtocolOpenAI))
	}
	if again := digest(func(r *gateway.Request) { r.RequestID, r.JobID, r.Feature = "other", "other", "other" }, gateway.ProtocolOpenAI); again != plain {
		t.Error("R-GWC-11 the same question of another caller has another digest")
	}
}

// The bound counts whatever a provider may count: names, parts, calls, tools,
// the shape of the answer, and images by their declared tokens.
func TestTheBoundCountsEveryPart(t *testing.T) {
	p := gateway.Price{Known: true, Input: gateway.NanoUSD * 1_000_000} // one token, one dollar
	bound := func(r gateway.Request) int64 { return p.Bound(r, 1000) / gateway.NanoUSD }
	long := strings.Repeat("x", 500)
	plain := bound(gateway.Request{Messages: []gateway.Message{{Role: "user"}}})
	for name, c := range map[string]struct {
		req  gateway.Request
		more int64
	}{
		"content":        {gateway.Request{Messages: []gateway.Message{{Role: "user", Content: long}}}, 500},
		"name":           {gateway.Request{Messages: []gateway.Message{{Role: "user", Name: long}}}, 500},
		"text part":      {gateway.Request{Messages: []gateway.Message{{Role: "user", Parts: []gateway.Part{{Type: "text", Text: long}}}}}, 500},
		"image":          {gateway.Request{Messages: []gateway.Message{{Role: "user", Parts: []gateway.Part{{Type: "image_url", ImageURL: "https://a"}}}}}, 1000},
		"two images":     {gateway.Request{Messages: []gateway.Message{{Role: "user", Parts: []gateway.Part{{Type: "image_url"}, {Type: "image_url"}}}}}, 2000},
		"tool call":      {gateway.Request{Messages: []gateway.Message{{Role: "user", ToolCalls: []gateway.ToolCall{{Arguments: long}}}}}, 500},
		"tool call id":   {gateway.Request{Messages: []gateway.Message{{Role: "user", ToolCallID: long}}}, 500},
		"state":          {gateway.Request{Messages: []gateway.Message{{Role: "user", State: json.RawMessage(long)}}}, 500},
		"tool":           {gateway.Request{Messages: []gateway.Message{{Role: "user"}}, Tools: []gateway.Tool{{Description: long}}}, 500},
		"tool's shape":   {gateway.Request{Messages: []gateway.Message{{Role: "user"}}, Tools: []gateway.Tool{{Parameters: json.RawMessage(long)}}}, 500},
		"answer's shape": {gateway.Request{Messages: []gateway.Message{{Role: "user"}}, Schema: shape(t)}, 100},
	} {
		if got := bound(c.req) - plain; got < c.more || got > c.more+200 {
			t.Errorf("%s adds %d tokens to the bound, want about %d and not less", name, got, c.more)
		}
	}
}

func reasons(effort gateway.Reasoning, model string) *gateway.ReasoningConfig {
	return &gateway.ReasoningConfig{Effort: effort, MaxTokens: 1000, LatencySeconds: 30, MaxCostUSD: 1,
		Evaluation: "exp-1", EvaluatedModel: model, Evaluated: effort}
}

// R-GWP-06: the effort is declared with the model and written on every attempt;
// where nothing is declared nothing is sent. A request may ask for less.
func TestReasoningIsDeclared(t *testing.T) {
	for _, c := range []struct {
		name        string
		declared    *gateway.ReasoningConfig
		asked, sent gateway.Reasoning
		adjusted    []string
	}{
		{name: "nothing declared, nothing asked"},
		{name: "nothing declared, something asked", asked: gateway.ReasoningHigh, adjusted: []string{"reasoning"}},
		{name: "declared", declared: reasons(gateway.ReasoningMedium, "m1"), sent: gateway.ReasoningMedium},
		{name: "less is asked", declared: reasons(gateway.ReasoningMedium, "m1"), asked: gateway.ReasoningLow, sent: gateway.ReasoningLow},
		{name: "more is asked", declared: reasons(gateway.ReasoningMedium, "m1"), asked: gateway.ReasoningHigh, sent: gateway.ReasoningMedium, adjusted: []string{"reasoning"}},
		{name: "R-GWP-07 off by the caller", declared: reasons(gateway.ReasoningMedium, "m1"), asked: gateway.ReasoningOff, sent: gateway.ReasoningOff},
		{name: "R-GWP-07 off by the configuration", declared: &gateway.ReasoningConfig{Effort: gateway.ReasoningOff}, asked: gateway.ReasoningHigh,
			sent: gateway.ReasoningOff, adjusted: []string{"reasoning"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, m, req := answering("hi"), model("one", gateway.RoleChat), ask(gateway.RoleChat)
			m.Reasoning, req.Reasoning = c.declared, c.asked
			r := newRig(t, a, m)
			if _, err := r.Do(t.Context(), req, gateway.Unlimited()); err != nil {
				t.Fatal(err)
			}
			row := r.taken()[0]
			if diff := cmp.Diff(c.adjusted, row.Adjusted); diff != "" || a.calls[0].Request.Reasoning != c.sent || row.Reasoning != c.sent {
				t.Errorf("R-GWP-06 sent %q, row says %q, want %q; adjusted (-want +got):\n%s", a.calls[0].Request.Reasoning, row.Reasoning, c.sent, diff)
			}
		})
	}
}

// R-GWP-07, R-GWP-08: reasoning is not turned on without its limits, nor without
// an evaluation of this very model at this very effort.
func TestReasoningIsNotTurnedOnBlindly(t *testing.T) {
	for field, change := range map[string]func(*gateway.ReasoningConfig){
		"effort":           func(r *gateway.ReasoningConfig) { r.Effort = "extreme" },
		"max_tokens":       func(r *gateway.ReasoningConfig) { r.MaxTokens = 0 },
		"latency_seconds":  func(r *gateway.ReasoningConfig) { r.LatencySeconds = 0 },
		"max_cost_usd":     func(r *gateway.ReasoningConfig) { r.MaxCostUSD = 0 },
		"evaluation":       func(r *gateway.ReasoningConfig) { r.Evaluation = "" },
		"evaluated_model":  func(r *gateway.ReasoningConfig) { r.EvaluatedModel = "m0" },
		"evaluated_effort": func(r *gateway.ReasoningConfig) { r.Evaluated = gateway.ReasoningLow },
	} {
		m := model("one", gateway.RoleChat)
		m.Reasoning = reasons(gateway.ReasoningHigh, "m1")
		if _, err := gateway.Targets([]gateway.ModelConfig{m}); err != nil {
			t.Fatalf("a complete declaration: %v", err)
		}
		change(m.Reasoning)
		_, err := gateway.Targets([]gateway.ModelConfig{m})
		var f *fault.Error
		if !errors.As(err, &f) || !slices.ContainsFunc(f.Details, func(d fault.Detail) bool { return d.Field == "models[0].reasoning."+field }) {
			t.Errorf("R-GWP-08 a wrong %s: error %v, want one that names it", field, err)
		}
	}
	a, m := answering("hi"), model("one", gateway.RoleChat)
	m.Reasoning = reasons(gateway.ReasoningHigh, "m1")
	m.Reasoning.MaxCostUSD = 0.0001 // below what the request may cost
	req := ask(gateway.RoleChat)
	r := newRig(t, a, m)
	var e *gateway.Error
	if _, err := r.Do(t.Context(), req, gateway.Unlimited()); !errors.As(err, &e) || e.Reason != "reasoning_cost" || a.n != 0 {
		t.Errorf("R-GWP-07 above the ceiling: error %v after %d calls", err, a.n)
	}
	req.Reasoning = gateway.ReasoningOff
	if _, err := r.Do(t.Context(), req, gateway.Unlimited()); err != nil {
		t.Errorf("R-GWP-07 the ceiling is of reasoning alone: %v", err)
	}
}
