package e2e

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
)

// chatModels are the models of an upstream: fast and deep, and one that each
// client may break without harm to the others.
func chatModels(url string, more ...string) string {
	var b strings.Builder
	for _, name := range append([]string{"fast", "deep"}, more...) {
		fmt.Fprintf(&b, "  - {name: %s, protocol: openai, profile: openai, base_url: %s, model: %s-2026-01-01, api_key_env: E2E_MODEL_KEY, routes: [chat], limits: {image_tokens: 1000}}\n", name, url, name)
	}
	return b.String()
}

// clientRig is a chat endpoint of its own process before a scripted upstream,
// and the official clients.
type clientRig struct {
	*system
	up   *upstream
	sdks []*sdk
	key  string
}

func newClientRig(t *testing.T, sdks ...*sdk) *clientRig {
	t.Helper()
	up := newUpstream()
	srv := httptest.NewServer(up)
	t.Cleanup(srv.Close)
	var broken []string
	for i := range sdks {
		broken = append(broken, fmt.Sprint("broken-", i))
	}
	s := newSystem(t, options{model: srv.URL + "/v1", models: chatModels(srv.URL+"/v1", broken...), chat: true, extra: "chat: {ec_timeout: 5s}\n"})
	key, err := s.home.Token("user")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.user.InstallPresets(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &clientRig{s, up, sdks, key}
}

// as makes an order of a turn in a thread of the workspace w.
func (r *clientRig) as(do, thread string, params map[string]any) order {
	return order{Do: do, BaseURL: r.chatURL, Key: r.key, Params: params, Headers: map[string]string{"X-PromptLab-Workspace": "w", "X-PromptLab-Thread": thread}}
}

func chatKey(thread string) contracts.OverlaySessionKey {
	return contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: thread, ThreadID: thread}
}

// The official clients work with the chat endpoint as they are: by another base
// URL, another key and headers.
func TestOfficialClients(t *testing.T) {
	r := newClientRig(t, startSDKs(t)...)
	for i, c := range r.sdks {
		t.Run(c.name, func(t *testing.T) {
			thread := fmt.Sprint("client-", i)
			if _, err := r.user.ChangeSession(t.Context(), chatKey(thread), "activate", contracts.OverlayActivateRequest{OverlayID: "legal-research", Source: contracts.FromManual}, ""); err != nil {
				t.Fatal(err)
			}
			for _, s := range []struct {
				name string
				run  func(*testing.T, *sdk, string)
			}{
				{"lists models", r.lists}, {"R-TRU-01 R-TRU-02 asks", r.asks}, {"R-GWS-01 R-TRU-02 streams", r.streams},
				{"calls tools", r.callsTools}, {"asks for a shape", r.asksForShape}, {"sends images", r.sendsImages},
				{"names a session by its key", r.usesSessionKey}, {"tells its errors apart", r.tellsErrors},
				{"R-GWS-20 takes no cut stream for whole", r.cutStream}, {"R-GWS-09 leaves", r.leaves},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(t, c, thread) })
			}
			t.Run("R-GWR-13 an overload costs three calls", func(t *testing.T) { r.overload(t, c, thread, fmt.Sprint("broken-", i)) })
		})
	}
}

func (r *clientRig) lists(t *testing.T, c *sdk, _ string) {
	got := c.do(t, r.as("models", "", nil)).ok(t).IDs
	if len(got) < 2 || got[0] != "fast" || got[1] != "deep" {
		t.Errorf("listed %v, want fast and deep first", got)
	}
	if got := c.do(t, r.as("model", "", map[string]any{"id": "deep"})).ok(t).IDs; !slices.Equal(got, []string{"deep"}) {
		t.Errorf("asked for deep, got %v", got)
	}
}

func (r *clientRig) asks(t *testing.T, c *sdk, thread string) {
	r.up.play("words")
	got := c.do(t, r.as("create", thread, c.params("fast", "Hello?"))).ok(t)
	if got.Text != heard || got.Finish != c.speak.end || got.Model != "fast" || got.ID == "" || !slices.Equal(got.Usage, c.speak.usage) {
		t.Errorf("understood %+v, want %q, %s, usage %v", got, heard, c.speak.end, c.speak.usage)
	}
	r.receipt(t, got, thread)
	if sent := r.up.last(); sent.Model != "fast-2026-01-01" || sent.key != "Bearer "+modelKey {
		t.Errorf("upstream got model %q with key %q; want the pinned model and the provider's key", sent.Model, sent.key)
	}
}

// receipt checks what an answer says of its overlays against what EC kept.
func (r *clientRig) receipt(t *testing.T, got said, thread string) {
	t.Helper()
	id := got.head("X-PromptLab-Receipt")
	if got.PromptLab.Receipt != id || !slices.Equal(got.PromptLab.Applied, []string{"legal-research"}) {
		t.Errorf("the field promptlab says %+v, the header's receipt is %q; want legal-research applied", got.PromptLab, id)
	}
	_, turn, _ := strings.Cut(id, ".")
	truth, err := r.user.Receipt(t.Context(), chatKey(thread), turn)
	if err != nil || !slices.Equal(truth.AppliedOverlayIDs, contracts.List[contracts.OverlayID]{"legal-research"}) || truth.Model != "served-1" {
		t.Errorf("receipt %s at EC: %+v, %v; want legal-research applied by served-1", id, truth, err)
	}
	if first := r.up.last().Messages[0]; !strings.Contains(first.text(), "[[promptlab:overlay id=legal-research") {
		t.Errorf("upstream got first %s: %s; want the overlay", first.Role, first.Content)
	}
}

func (r *clientRig) streams(t *testing.T, c *sdk, thread string) {
	r.up.play("words")
	p := c.params("fast", "Hello?")
	if c.speak.sdk == "openai" {
		p["stream_options"] = map[string]any{"include_usage": true}
	}
	got := c.do(t, r.as("stream", thread, p)).ok(t)
	if got.Text != heard || got.Pieces < 2 || got.Finish != c.speak.end || !slices.Equal(got.Usage, c.speak.streamed) {
		t.Errorf("understood %+v, want %q in several pieces, %s, usage %v", got, heard, c.speak.end, c.speak.streamed)
	}
	r.receipt(t, got, thread)
	if !r.up.last().Stream {
		t.Error("upstream was not asked for a stream")
	}
	if !c.speak.helper {
		return
	}
	if got := c.do(t, r.as("helper", thread, p)).ok(t); got.Text != heard || got.Finish != c.speak.end {
		t.Errorf("put together by the client: %+v", got)
	}
}

func (r *clientRig) callsTools(t *testing.T, c *sdk, thread string) {
	for _, stream := range []bool{false, true} {
		r.up.play("tools")
		o := r.as("tools", thread, c.params("fast", "Weather?", map[string]any{"tools": c.speak.offer, "stream": stream}))
		o.Answers = map[string]string{"look": "rain", "count": "two"}
		got := c.do(t, o).ok(t)
		var names []string
		for _, tool := range got.Tools {
			names = append(names, tool[0]+" "+tool[1]+" "+strings.ReplaceAll(tool[2], " ", ""))
		}
		if diff := cmp.Diff([]string{"call-1 look " + strings.ReplaceAll(lookArgs, " ", ""), "call-2 count " + countArgs}, names); diff != "" || got.First != c.speak.tools {
			t.Errorf("stream %t: ended with %s, calls (-want +got):\n%s", stream, got.First, diff)
		}
		if got.Text != heard || got.Finish != c.speak.end {
			t.Errorf("stream %t: after the tools: %+v", stream, got)
		}
		var seen []string
		for _, m := range r.up.last().Messages {
			line := m.Role
			for _, call := range m.ToolCalls {
				line += " " + call.ID + " " + call.Function.Name
			}
			if m.Role == "tool" {
				line += " " + m.ToolCallID + " " + m.text()
			}
			seen = append(seen, line)
		}
		want := []string{"user", "assistant call-1 look call-2 count", "tool call-1 rain", "tool call-2 two"}
		if diff := cmp.Diff(want, seen[1:]); diff != "" {
			t.Errorf("stream %t: upstream got (-want +got):\n%s", stream, diff)
		}
	}
}

func (r *clientRig) asksForShape(t *testing.T, c *sdk, thread string) {
	r.up.play("shape")
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"answer", "score"},
		"properties": map[string]any{"answer": map[string]any{"type": "string"}, "score": map[string]any{"type": "integer"}},
	}
	p := c.params("fast", "Verdict?")
	switch {
	case c.speak.sdk == "anthropic":
		p["output_config"] = map[string]any{"format": map[string]any{"type": "json_schema", "schema": schema}}
	case strings.HasPrefix(c.name, "python"): // which makes it of a type of its own
	case c.speak.sdk == "responses":
		p["text"] = map[string]any{"format": map[string]any{"type": "json_schema", "name": "verdict", "strict": true, "schema": schema}}
	default:
		p["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "verdict", "strict": true, "schema": schema}}
	}
	got := c.do(t, r.as("shaped", thread, p)).ok(t)
	var parsed map[string]any
	if err := json.Unmarshal(got.Parsed, &parsed); err != nil || parsed["answer"] != "yes" || parsed["score"] != 7.0 {
		t.Errorf("understood %s (%v), want %s", got.Parsed, err, shapedText)
	}
	if sent := string(r.up.last().ResponseFormat); !strings.Contains(sent, `"json_schema"`) || !strings.Contains(sent, `"score"`) {
		t.Errorf("upstream was asked for %s", sent)
	}
}

func (r *clientRig) sendsImages(t *testing.T, c *sdk, thread string) {
	r.up.play("words")
	c.do(t, r.as("create", thread, c.params("fast", c.speak.image))).ok(t)
	m := r.up.last().Messages
	if last := string(m[len(m)-1].Content); !strings.Contains(last, pixel) || !strings.Contains(last, "What is this?") {
		t.Errorf("upstream got %s, want text and image", last)
	}
}

func (r *clientRig) usesSessionKey(t *testing.T, c *sdk, thread string) {
	r.up.play("words")
	made, err := r.user.CreateSessionKey(t.Context(), contracts.SessionAPIKeyRequest{SessionKey: chatKey(thread), Name: c.name})
	if err != nil {
		t.Fatal(err)
	}
	got := c.do(t, order{Do: "create", BaseURL: r.chatURL, Key: made.Key, Params: c.params("fast", "Hello?")}).ok(t)
	if got.head("X-PromptLab-Session") != chatKey(thread).Token() {
		t.Errorf("the key's turn was in session %s", got.head("X-PromptLab-Session"))
	}
	r.receipt(t, got, thread)
}

// kinds are the names that the clients' own error types have.
func (c *sdk) kind(status int) string {
	if strings.HasPrefix(c.name, "go ") {
		return "Error" // one type, told apart by status
	}
	if status == 503 && c.speak.sdk == "anthropic" {
		return "ServiceUnavailableError"
	}
	return map[int]string{400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 503: "InternalServerError"}[status]
}

func (r *clientRig) tellsErrors(t *testing.T, c *sdk, thread string) {
	before := r.up.calls()
	wrongKey := r.as("create", thread, c.params("fast", "q"))
	wrongKey.Key = "nobody-knows-this-0123456789"
	for _, x := range []struct {
		name   string
		order  order
		status int
		says   []string
	}{
		{"an unknown model", r.as("create", thread, c.params("gpt-9", "q")), 404, []string{"fast"}},
		{"a model that is not listed", r.as("model", thread, map[string]any{"id": "gpt-9"}), 404, []string{"fast"}},
		{"a wrong key", wrongKey, 401, []string{"not valid"}},
		{"bad fields", r.as("create", thread, c.params("fast", "q", c.speak.bad)), 400, c.speak.names},
		{"bad fields of a stream", r.as("stream", thread, c.params("fast", "q", c.speak.bad)), 400, c.speak.names},
	} {
		got := c.do(t, x.order)
		if got.Error != c.kind(x.status) || got.Status != x.status {
			t.Errorf("%s: the client gave %s with status %d: %s; want %s with %d", x.name, got.Error, got.Status, got.Message, c.kind(x.status), x.status)
		}
		for _, want := range x.says {
			if !strings.Contains(got.Message, want) {
				t.Errorf("%s: the message %q does not say %q", x.name, got.Message, want)
			}
		}
	}
	if n := r.up.calls() - before; n != 0 {
		t.Errorf("upstream was called %d times for what could not be sent", n)
	}
}

// The clients retry by themselves unless they are told not to: then one logical
// call under permanent failure would be nine.
func (r *clientRig) overload(t *testing.T, c *sdk, thread, model string) {
	r.up.play("down")
	for _, do := range []string{"create", "stream"} {
		before := r.up.calls()
		got := c.do(t, r.as(do, thread, c.params(model, "q")))
		if n := r.up.calls() - before; n != 3 || got.Error != c.kind(503) || got.Status != 503 {
			t.Errorf("%s: upstream was called %d times and the client gave %s with %d: %s; want 3 times and %s", do, n, got.Error, got.Status, got.Message, c.kind(503))
		}
	}
}

func (r *clientRig) cutStream(t *testing.T, c *sdk, thread string) {
	r.up.play("cut")
	first := strings.SplitAfter(heard, " ")[0]
	got := c.do(t, r.as("stream", thread, c.params("fast", "q")))
	if got.Error == "" || got.Text != first || got.Finish != "" || !strings.Contains(got.Message, "stopped before its end") {
		t.Errorf("the client gave error %q (%s) after %q, finish %q; want one that says so after %q, and no end", got.Error, got.Message, got.Text, got.Finish, first)
	}
	if c.speak.helper {
		if got := c.do(t, r.as("helper", thread, c.params("fast", "q"))); got.Error == "" {
			t.Errorf("put together by the client: %+v, want an error", got)
		}
	}
}

func (r *clientRig) leaves(t *testing.T, c *sdk, thread string) {
	for len(r.up.gone) > 0 {
		<-r.up.gone // of others
	}
	r.up.play("hold")
	c.do(t, r.as("leave", thread, c.params("fast", "q"))).ok(t)
	select {
	case <-r.up.gone:
	case <-time.After(20 * time.Second):
		t.Error("upstream still works for a client that left")
	}
}
