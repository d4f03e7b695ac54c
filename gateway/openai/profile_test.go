package openai_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
)

func targetOf(t *testing.T, f *fake, profile string) gateway.Target {
	t.Helper()
	got, err := gateway.Targets([]gateway.ModelConfig{{Name: "one", Protocol: gateway.ProtocolOpenAI, BaseURL: f.URL + "/v1",
		Model: "m1", Profile: profile, Routes: gateway.Roles()}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func TestAzureTakesTheKeyInItsOwnHeader(t *testing.T) {
	f := serve(t, 200, completion(said, `"stop"`, ""))
	c := call(f)
	c.Target = targetOf(t, f, "azure")
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if h := f.last.Load().header; h.Get("Api-Key") != "sk-"+canary || h.Get("Authorization") != "" {
		t.Errorf("R-GWB-06 key in Api-Key: %t, in Authorization: %t", h.Get("Api-Key") != "", h.Get("Authorization") != "")
	}
}

// R-GWP-04, R-GWO-04: strict JSON goes out under the schema's name, with the
// keywords that every strict mode takes.
func TestStrictJSONOnTheWire(t *testing.T) {
	f := serve(t, 200, completion(`{"content":"{\"score\":1}"}`, `"stop"`, ""))
	c := call(f)
	var err error
	c.Request.Schema, err = gateway.NewSchema("judge/1", `{"type":"object","required":["score","maximum"],"additionalProperties":false,
		"properties":{"score":{"type":"number","minimum":0,"maximum":1},"maximum":{"type":"array","maxItems":3,"items":{"type":"string","maxLength":9}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openai.New(openai.Config{}).Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "judge_1", "strict": true, "schema": map[string]any{
		"type": "object", "required": []any{"score", "maximum"}, "additionalProperties": false,
		"properties": map[string]any{"score": map[string]any{"type": "number"},
			"maximum": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}}}}
	if diff := cmp.Diff(want, f.last.Load().body["response_format"]); diff != "" {
		t.Errorf("response_format (-want +got):\n%s", diff)
	}
}

// A router answers 200 and tells inside of the choice that the server behind it
// failed.
func TestAnErrorInsideOfAChoice(t *testing.T) {
	for _, c := range []struct {
		profile, body string
		want          gateway.ErrorClass
	}{
		{"openrouter", `{"error":{"code":502,"message":"Provider returned error"}`, gateway.ClassServer},
		{"openrouter", `{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"` + canary + `"}}`, gateway.ClassRateLimit},
		{"openrouter", `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"prompt is too long"}}`, gateway.ClassContextOverflow},
		{"", `{"error":{"code":503,"message":"busy"}`, gateway.ClassOverloaded},
		{"", `{"error":null`, ""},
	} {
		f := serve(t, 200, `{"model":"m1","usage":{"prompt_tokens":9,"completion_tokens":3},"choices":[`+c.body+`,"message":`+said+`,"finish_reason":"stop"}]}`)
		in := call(f)
		in.Target = targetOf(t, f, c.profile)
		reply, err := openai.New(openai.Config{}).Complete(t.Context(), in)
		e := as(err)
		if gateway.ClassOf(err) != c.want || reply.Usage.Output != 3 {
			t.Errorf("%s: class %q, usage %+v; want %q and what was told", c.body, gateway.ClassOf(err), reply.Usage, c.want)
		}
		if e != nil && (!e.Envelope || e.NotBilled) {
			t.Errorf("R-GWB-11 %s: %+v, want an error inside of a 2xx that may be billed", c.body, e)
		}
	}
}
