package chat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/gateway"
)

const hi = `{"messages":[{"role":"user","content":"hi"}]}`

// R-SEC-10: who may ask, from where, and with what.
func TestTheWall(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		status  int
		code    string
		headers []string
	}{
		"no key":             {401, "unauthenticated", []string{"Authorization", ""}},
		"a wrong key":        {401, "invalid_api_key", []string{"Authorization", "Bearer nobody-knows-this-0123456789"}},
		"not a bearer":       {401, "invalid_api_key", []string{"Authorization", "Basic " + userToken}},
		"the seam's token":   {403, "forbidden", []string{"Authorization", "Bearer " + seamToken}},
		"an unknown key":     {401, "invalid_api_key", []string{"Authorization", "Bearer " + contracts.NewSessionAPIKey()}},
		"another site":       {403, "forbidden", []string{"Origin", "http://evil.example"}},
		"fetched by a page":  {403, "forbidden", []string{"Sec-Fetch-Site", "cross-site"}},
		"not JSON":           {415, "unsupported_media_type", []string{"Content-Type", "text/plain"}},
		"compressed":         {415, "unsupported_media_type", []string{"Content-Encoding", "gzip"}},
		"two ways at once":   {400, "validation_failed", []string{"X-PromptLab-Session", key("t").Token(), "X-PromptLab-Thread", "t"}},
		"a bad session":      {400, "validation_failed", []string{"X-PromptLab-Session", "???"}},
		"a bad turn":         {400, "validation_failed", []string{"X-PromptLab-Turn", "a b"}},
		"an endless thread":  {400, "validation_failed", []string{"X-PromptLab-Thread", strings.Repeat("x", 201)}},
		"an endless turn":    {400, "validation_failed", []string{"X-PromptLab-Turn", strings.Repeat("x", 201)}},
		"an idempotency key": {200, "", []string{"Idempotency-Key", "stainless-1"}},
	} {
		a := r.post(hi, c.headers...)
		if got := r.read(a, c.status); got.Error.Code != c.code {
			t.Errorf("%s: got %d %s, want %s", name, a.status, a.body, c.code)
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("X-Request-ID") == "" || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: headers %v", name, a.header)
		}
		if c.status >= 400 && a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: a client of this kind would try again by itself", name)
		}
	}
	for path, anthropic := range map[string]bool{"/v1/messages": true, "/v1/responses": false} {
		if a := r.do("POST", path, hi, "Origin", "http://evil.example"); a.status != 403 || strings.Contains(string(a.body), `"type":"error"`) != anthropic || !strings.Contains(string(a.body), `"code":"forbidden"`) {
			t.Errorf("POST %s from another site: got %d %s, want 403 in the client's own shape", path, a.status, a.body)
		}
	}
	for path, status := range map[string]int{"/v1/nothing": 404, "/v1/../v1/models": 400, "//v1/models": 400, "/healthz": 200, "/readyz": 200, "/metrics": 403} {
		if a := r.do("GET", path, ""); a.status != status {
			t.Errorf("GET %s: got %d %s, want %d", path, a.status, a.body, status)
		}
	}
	if a := r.do("GET", "/metrics", "", "Authorization", "Bearer operator-token-0123456789"); a.status != 200 || !strings.Contains(string(a.body), "promptlab_chat_turns_total") {
		t.Errorf("metrics for the operator: got %d", a.status)
	}
	if a := r.do("GET", "/v1/models", "", "Host", "evil.example"); a.status != 200 {
		t.Errorf("the client sets Host by its URL: got %d", a.status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.chat.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer %s\r\n\r\n", userToken)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 421 {
		t.Errorf("another name: got %v %v, want 421", res, err)
	}
	for _, secret := range []string{userToken, seamToken, "hi\""} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// One error names every bad field, and nothing was sent.
func TestBadFields(t *testing.T) {
	r := newRig(t)
	message := `{"role":"user","content":"q"}`
	for body, want := range map[string]string{
		`{`:               "",
		`[]`:              "body",
		`{"messages":[]}`: "messages",
		`{"messages":[` + message + `],"temperature":3,"top_p":-1,"n":2}`:                                                                      "temperature top_p n",
		`{"messages":[` + message + `],"logit_bias":{},"functions":[]}`:                                                                        "logit_bias functions",
		`{"messages":[` + message + `],"stop":[1],"logprobs":true}`:                                                                            "stop[0] logprobs",
		`{"messages":[` + message + `],"modalities":["audio"]}`:                                                                                "modalities",
		`{"messages":[` + message + `],"max_tokens":1,"max_completion_tokens":2}`:                                                              "max_tokens",
		`{"messages":[{"role":"robot","content":1},{"role":"user"}]}`:                                                                          "messages[0].role",
		`{"messages":[{"role":"user","content":1},{"role":"user"}]}`:                                                                           "messages[0].content messages[1].content",
		`{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`:                                                                    "messages[0].content[0].type",
		`{"messages":[{"role":"user","content":[]}]}`:                                                                                          "messages[0].content",
		`{"messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`:                              "messages[0].content[0].image_url.url",
		`{"messages":[{"role":"tool","content":"x"}]}`:                                                                                         "messages[0].tool_call_id",
		`{"messages":[` + message + `],"tool_choice":"sideways"}`:                                                                              "tool_choice",
		`{"messages":[` + message + `],"tool_choice":{"type":"function","function":{"name":"x"}}}`:                                             "tool_choice.function.name",
		`{"messages":[` + message + `],"tools":[{"type":"function","function":{"name":"a b"}}]}`:                                               "tools[0].function.name",
		`{"messages":[` + message + `],"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]}`:                                 "tools[0].function.parameters",
		`{"messages":[` + message + `],"response_format":{"type":"json_schema"}}`:                                                              "response_format.json_schema.schema",
		`{"messages":[` + message + `],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"$ref":"http://evil/x"}}}}`: "response_format.json_schema.schema",
		`{"messages":[` + message + `],"promptlab":{"message_ids":["a","b"]}}`:                                                                 "promptlab.message_ids",
		`{"messages":[` + message + `],"promptlab":{"plan_id":"01890a5d-ac96-774b-bcce-b302099a8057"}}`:                                        "promptlab.message_ids",
		`{"messages":[` + message + `],"promptlab":{"plan_id":"x","later":1}}`:                                                                 "promptlab.plan_id promptlab.later",
		`{"messages":[` + message + `],"promptlab":{"override":{"mode":"x"}}}`:                                                                 "promptlab.override.mode",
		`{"messages":[` + message + `],"promptlab":{"documents":[{"name":"","text":"t"}]}}`:                                                    "promptlab.documents[0].name",
	} {
		a := r.post(body)
		c := r.read(a, 400)
		var fields []string
		for _, d := range c.Error.Details {
			fields = append(fields, d.Field)
		}
		if got := strings.Join(fields, " "); got != want || c.Error.Type != "invalid_request_error" {
			t.Errorf("%s\nnamed %q in %s, want %q", body, got, a.body, want)
		}
		for _, f := range fields { // clients show the message alone
			if !strings.Contains(c.Error.Message, f) {
				t.Errorf("%s\nthe message %q does not name %s", body, c.Error.Message, f)
			}
		}
	}
	if n := len(r.model.calls); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	if c := r.read(r.post(`{"model":"gpt-9","messages":[`+message+`]}`), 404); c.Error.Code != "model_not_found" || !strings.Contains(c.Error.Message, "fast deep") || *c.Error.Param != "model" {
		t.Errorf("an unknown model: %+v", c.Error)
	}
	a := r.post(`{"model":"deep-2026-01-01","user":"u","store":true,"metadata":{"a":"b"},"stop":null,"messages":[{"role":"user","content":"q","name":null}],"promptlab":null}`)
	if r.read(a, 200); a.header.Get("X-PromptLab-Ignored") != "metadata,store,user" {
		t.Errorf("what was ignored is not told: %v", a.header)
	}
}

// Decision 25: who names no session gets a fresh one in the default workspace, with
// its pins; a key names its own and no other.
func TestWhichSession(t *testing.T) {
	r := newRig(t)
	r.env.Must(ec.PinOverlay{Key: contracts.OverlaySessionKey{WorkspaceID: "default", SurfaceKind: contracts.SurfaceChat, SurfaceID: "x", ThreadID: "x"}, OverlayID: "o-a", Scope: contracts.PinWorkspace})
	a, b := r.post(hi), r.post(hi)
	for _, x := range []answer{a, b} {
		if c := r.read(x, 200); len(c.PromptLab.Applied) != 1 || c.PromptLab.Applied[0] != "o-a" {
			t.Errorf("a fresh thread: applied %v, want the workspace's pin", c.PromptLab.Applied)
		}
	}
	if a.header.Get("X-PromptLab-Session") == b.header.Get("X-PromptLab-Session") {
		t.Error("two requests without a name share a thread")
	}
	r.activate("t", "o-b")
	for _, headers := range [][]string{{"X-PromptLab-Session", key("t").Token()}, {"X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t"}} {
		if c := r.read(r.post(hi, headers...), 200); len(c.PromptLab.Applied) != 1 || c.PromptLab.Applied[0] != "o-b" {
			t.Errorf("%v: applied %v, want o-b", headers, c.PromptLab.Applied)
		}
	}
	r.env.Must(ec.EnsureKeys{SplitKey: strings.Repeat("0a", 32)})
	secret := contracts.NewSessionAPIKey()
	made := r.env.Must(ec.CreateSessionKey{Key: key("t"), Name: "n", SHA256: contracts.HashSessionAPIKey(secret)})
	bearer := []string{"Authorization", "Bearer " + secret}
	if c := r.read(r.post(hi, bearer...), 200); len(c.PromptLab.Applied) != 1 || !strings.HasPrefix(c.PromptLab.Receipt, key("t").Token()+".") {
		t.Errorf("decision 25 a session key: %+v", c.PromptLab)
	}
	if c := r.read(r.post(hi, append(bearer, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "other")...), 403); c.Error.Code != "session_mismatch" {
		t.Errorf("a key for another session: %+v", c.Error)
	}
	r.env.Must(ec.RevokeSessionKey{KeyID: contracts.UUID(made.Subject)})
	r.env.Clock.Add(time.Minute) // its word is taken for half a minute
	if c := r.read(r.post(hi, bearer...), 401); c.Error.Code != "invalid_api_key" {
		t.Errorf("a key that was taken back: %+v", c.Error)
	}
}

// R-TRU-02: the header's receipt is the one that EC keeps.
func TestReceiptHeader(t *testing.T) {
	r := newRig(t)
	a := r.post(hi, "X-PromptLab-Session", key("t").Token(), "X-PromptLab-Turn", "turn-7")
	if got, want := a.header.Get("X-PromptLab-Receipt"), key("t").Token()+".turn-7"; got != want {
		t.Errorf("receipt %q, want %q", got, want)
	}
	if a.header.Get("X-PromptLab-Truth") != "recorded" || r.truth("t").TurnID != "turn-7" {
		t.Errorf("header %v, kept %+v", a.header, r.truth("t"))
	}
}

// events reads the data of a stream until it ends.
func events(body []byte) []string {
	var out []string
	for line := range strings.SplitSeq(string(body), "\n") {
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, d)
		}
	}
	return out
}

// R-GWS-01, R-TRU-02: pieces come as they are made, the end tells usage and receipt.
func TestStream(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	r.model.says(func(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		calls := []gateway.ToolCall{{ID: "c1", Name: "look", Arguments: `{"a":1}`}}
		for _, e := range []gateway.Event{
			{Kind: gateway.EventReasoning, Text: "hm"}, {Kind: gateway.EventDelta, Text: "Fi"}, {Kind: gateway.EventDelta, Text: "ne."},
			{Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{ID: "c1", Name: "look"}}, {Kind: gateway.EventToolCall, Tool: &gateway.ToolDelta{Arguments: `{"a":1}`}},
			{Kind: gateway.EventFinish},
		} {
			if err := emit(e); err != nil {
				return gateway.Reply{}, err
			}
		}
		return gateway.Reply{Text: "Fine.", ToolCalls: calls, Finish: gateway.FinishToolCalls, ServedModel: "served-1", Usage: gateway.Usage{Known: true, Input: 5, Output: 2}}, nil
	})
	a := r.post(`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"q"}],"tools":[{"type":"function","function":{"name":"look"}}]}`,
		"X-PromptLab-Session", key("t").Token(), "X-PromptLab-Turn", "s1")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") || a.header.Get("X-PromptLab-Applied") != "o-a" {
		t.Fatalf("got %d %v %s", a.status, a.header, a.body)
	}
	var deltas []string
	list := events(a.body)
	for _, e := range list[:len(list)-1] {
		var c struct {
			Choices []struct {
				Delta        json.RawMessage
				FinishReason *string `json:"finish_reason"`
			}
			Usage *struct {
				TotalTokens int `json:"total_tokens"`
			}
			PromptLab *struct{ Applied []string } `json:"promptlab"`
		}
		if err := json.Unmarshal([]byte(e), &c); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		switch {
		case len(c.Choices) == 0:
			deltas = append(deltas, fmt.Sprint("usage ", c.Usage.TotalTokens))
		case c.Choices[0].FinishReason != nil:
			deltas = append(deltas, fmt.Sprint("finish ", *c.Choices[0].FinishReason, " ", c.PromptLab.Applied))
		default:
			deltas = append(deltas, string(c.Choices[0].Delta))
		}
	}
	want := []string{
		`{"role":"assistant","content":""}`, `{"reasoning_content":"hm"}`, `{"content":"Fi"}`, `{"content":"ne."}`,
		`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"look","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]}`,
		"finish tool_calls [o-a]", "usage 7",
	}
	if diff := cmp.Diff(want, deltas); diff != "" || list[len(list)-1] != "[DONE]" {
		t.Errorf("R-GWS-01 pieces (-want +got):\n%s\nlast %s", diff, list[len(list)-1])
	}
	if r.truth("t").TurnID != "s1" || r.truth("t").Model != "served-1" {
		t.Errorf("receipt %+v", r.truth("t"))
	}
}

// R-GWS-14, R-GWS-20: a failure before the first piece is an answer of its own; one
// after it is told in the stream, which then has no end mark.
func TestStreamsThatFail(t *testing.T) {
	r := newRig(t)
	broken := func(pieces ...string) {
		r.model.says(func(_ context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
			for _, p := range pieces {
				if err := emit(gateway.Event{Kind: gateway.EventDelta, Text: p}); err != nil {
					return gateway.Reply{}, err
				}
			}
			return gateway.Reply{}, &gateway.Error{Class: gateway.ClassBadRequest, Status: 400}
		})
	}
	broken()
	a := r.post(`{"stream":true,"messages":[{"role":"user","content":"q"}]}`)
	if c := r.read(a, 400); c.Error.Code != "bad_request" {
		t.Errorf("before the first piece: %s", a.body)
	}
	broken("Half an ")
	a = r.post(`{"stream":true,"messages":[{"role":"user","content":"q"}]}`, "X-PromptLab-Session", key("t").Token())
	list := events(a.body)
	if a.status != 200 || len(list) != 3 || !strings.Contains(list[2], `"error":`) || strings.Contains(string(a.body), "[DONE]") || strings.Contains(string(a.body), "finish_reason\":\"") {
		t.Errorf("R-GWS-20 after a piece: %d %s", a.status, a.body)
	}
	if r.truth("t").PathID != "turn" {
		t.Error("a turn that was sent has no receipt")
	}
}

// R-GWS-09: a client that leaves ends the call at the model.
func TestClientLeaves(t *testing.T) {
	r := newRig(t)
	gone := make(chan error, 1)
	r.model.says(func(ctx context.Context, _ gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		if err := emit(gateway.Event{Kind: gateway.EventDelta, Text: "a"}); err != nil {
			return gateway.Reply{}, err
		}
		<-ctx.Done()
		gone <- ctx.Err()
		return gateway.Reply{}, ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.chat.URL+"/v1/chat/completions", strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"q"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+userToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	leave()
	_ = res.Body.Close()
	select {
	case err := <-gone:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the model's call ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the model still works for a client that left")
	}
}

// What the client asked an answer to look like is asked of the model, and
// what failed is told in the client's words.
func TestShapesAndFailures(t *testing.T) {
	r := newRig(t)
	shaped := func(text string) {
		r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
			return gateway.Reply{Text: text, Finish: gateway.FinishStop}, nil
		})
	}
	shaped(`{"z":"1","a":"2"}`)
	r.read(r.post(`{"messages":[{"role":"user","content":"q"}],"response_format":{"type":"json_schema","json_schema":{"name":"out","strict":true,"schema":{"type":"object","properties":{"z":{"type":"string","description":"kept"},"a":{"type":"string"}}}}}}`), 200)
	if s := r.model.last(t).Schema; s == nil || !strings.Contains(string(s.Wire()), `"z":{"type":"string","description":"kept"},"a"`) {
		t.Errorf("the client's schema was not sent as it was given: %s", s.Wire())
	}
	shaped("words")
	asked := `{"messages":[{"role":"user","content":"q"}],"response_format":{"type":"json_schema","json_schema":{"name":"out","schema":{"type":"object","required":["z"]}}}}`
	if c := r.read(r.post(asked), 502); c.Error.Code != "schema_mismatch" {
		t.Errorf("an answer of another shape was handed on: %+v", c)
	}
	for class, want := range map[gateway.ErrorClass]string{
		gateway.ClassContextOverflow: "400 context_length_exceeded", gateway.ClassContentFilter: "400 content_filter", gateway.ClassAuth: "502 auth",
		gateway.ClassProviderQuota: "429 insufficient_quota", gateway.ClassModelNotFound: "404 model_not_found", gateway.ClassEntitlement: "403 entitlement", gateway.ClassUnknown: "502 unknown",
	} {
		r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
			return gateway.Reply{}, &gateway.Error{Class: class, NotBilled: true}
		})
		a := r.post(hi)
		var c completion
		if err := json.Unmarshal(a.body, &c); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(a.status, " ", c.Error.Code); got != want || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("class %s: got %s %v, want %s and no further try", class, got, a.header, want)
		}
	}
	r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
		return gateway.Reply{Refusal: "No.", Finish: gateway.FinishRefusal}, nil
	})
	if c := r.read(r.post(hi), 200); c.Choices[0].Message.Content != nil || *c.Choices[0].Message.Refusal != "No." || c.Usage != nil {
		t.Errorf("a refusal: %+v", c)
	}
	r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
		return gateway.Reply{Text: "half", Finish: gateway.FinishLength}, nil
	})
	if c := r.read(r.post(hi), 200); c.Choices[0].FinishReason != "length" {
		t.Errorf("a cut answer ends with %q", c.Choices[0].FinishReason)
	}
}

func TestModels(t *testing.T) {
	r := newRig(t)
	a := r.do("GET", "/v1/models", "")
	if a.status != 200 || !strings.Contains(string(a.body), `"id":"fast"`) || !strings.Contains(string(a.body), `"id":"deep"`) || strings.Contains(string(a.body), `"id":"lab"`) {
		t.Errorf("models: %d %s, want those of the route chat", a.status, a.body)
	}
	if a := r.do("GET", "/v1/models/deep", ""); a.status != 200 || !strings.Contains(string(a.body), "deep-2026-01-01") {
		t.Errorf("one model: %d %s", a.status, a.body)
	}
	if a := r.do("GET", "/v1/models/nobody", ""); a.status != 404 {
		t.Errorf("no model: %d %s", a.status, a.body)
	}
}
