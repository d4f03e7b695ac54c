package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// A server that adds words of its own to requests with tools or a schema is
// allowed for in the bound; without them it adds none.
func TestTheBoundAllowsForWhatAServerAdds(t *testing.T) {
	held := func(protocol gateway.Protocol, change func(*gateway.Request)) int64 {
		m := model("one", gateway.RoleJudge)
		m.Protocol = protocol
		rows := make(gateway.RowChan, 1)
		a := answering(`{"score":1}`)
		g, err := gateway.New(gateway.Config{Models: []gateway.ModelConfig{m}, Rows: rows, Adapters: map[gateway.Protocol]gateway.Adapter{protocol: a}})
		if err != nil {
			t.Fatal(err)
		}
		req := ask(gateway.RoleJudge)
		change(&req)
		if _, err := g.Do(t.Context(), req, gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
		return (<-rows).HoldNanoUSD
	}
	for name, c := range map[string]struct {
		change func(*gateway.Request)
		more   int64 // tokens, at one USD per million
	}{
		"nothing":  {func(*gateway.Request) {}, 0},
		"a tool":   {func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "f"}} }, 1000},
		"a schema": {func(r *gateway.Request) { r.Schema = shape(t) }, 1000},
	} {
		plain := held(gateway.ProtocolResponses, c.change)
		if got := held(gateway.ProtocolAnthropic, c.change) - plain; got != c.more*1000 {
			t.Errorf("with %s the bound at anthropic is %d nanoUSD above, want %d", name, got, c.more*1000)
		}
	}
}

// A provider that says that a repetition is of no use is not asked again; one
// that says the opposite about a mistake of ours is not either.
func TestWhatAProviderSaysOfRetrying(t *testing.T) {
	for _, c := range []struct {
		status int
		says   string
		calls  int
	}{{503, "false", 1}, {503, " False ", 1}, {503, "true", 3}, {503, "", 3}, {503, "no", 3}, {400, "true", 1}} {
		synctest.Test(t, func(t *testing.T) {
			a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
				return gateway.Reply{}, gateway.Classify(c.status, http.Header{"X-Should-Retry": {c.says}}, nil, time.Now())
			}}
			r := newRig(t, a, model("one", gateway.RoleTask))
			if _, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); err == nil || a.n != c.calls {
				t.Errorf("R-GWR-12 status %d, x-should-retry %q: error %v after %d calls, want %d", c.status, c.says, err, a.n, c.calls)
			}
		})
	}
}

// R-GWP-02, R-GWP-05: what steers the next word is not sent to a model that
// reasons first and takes it only when it does not; that it was removed is in the
// row.
func TestNoSamplingBesidesReasoning(t *testing.T) {
	for _, c := range []struct {
		protocol gateway.Protocol
		effort   gateway.Reasoning
		adjusted []string
	}{
		{gateway.ProtocolAnthropic, gateway.ReasoningHigh, []string{"temperature", "top_p"}},
		{gateway.ProtocolResponses, gateway.ReasoningHigh, []string{"temperature", "top_p"}},
		{gateway.ProtocolAnthropic, gateway.ReasoningOff, nil},
		{gateway.ProtocolOpenAI, gateway.ReasoningHigh, nil},
	} {
		m := model("one", gateway.RoleJudge)
		m.Protocol, m.Reasoning = c.protocol, reasons(c.effort, m.Model)
		a, rows := answering("hi"), make(gateway.RowChan, 1)
		g, err := gateway.New(gateway.Config{Models: []gateway.ModelConfig{m}, Rows: rows, Adapters: map[gateway.Protocol]gateway.Adapter{c.protocol: a}})
		if err != nil {
			t.Fatal(err)
		}
		req := ask(gateway.RoleJudge)
		req.Temperature, req.TopP = usd(0.5), usd(0.5)
		if _, err := g.Do(t.Context(), req, gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
		sent := a.calls[0].Request
		if row := <-rows; !slices.Equal(row.Adjusted, c.adjusted) || (sent.Temperature == nil) != (c.adjusted != nil) || (sent.TopP == nil) != (c.adjusted != nil) {
			t.Errorf("R-GWP-02 %s with effort %s: temperature sent %t, top_p sent %t, the row says %v removed; want %v", c.protocol, c.effort, sent.Temperature != nil, sent.TopP != nil, row.Adjusted, c.adjusted)
		}
	}
}

// What a model left for itself goes back only in its own turn, whole.
func TestStateOfATurn(t *testing.T) {
	for _, c := range []struct {
		m      gateway.Message
		reason string
	}{
		{gateway.Message{Role: "assistant", Content: "x", State: json.RawMessage(`[1]`)}, ""},
		{gateway.Message{Role: "user", Content: "x", State: json.RawMessage(`[1]`)}, "message_state"},
		{gateway.Message{Role: "assistant", Content: "x", State: json.RawMessage(`[1`)}, "message_state"},
		{gateway.Message{Role: "assistant", Content: "x", State: json.RawMessage("\"\xff\"")}, "message_state"},
	} {
		a := &stub{do: func(_ context.Context, _ int, in gateway.Call) (gateway.Reply, error) {
			reply := ok("hi")
			reply.State = in.Request.Messages[0].State
			return reply, nil
		}}
		r := newRig(t, a, model("one", gateway.RoleTask))
		req := ask(gateway.RoleTask)
		req.Messages = []gateway.Message{c.m}
		resp, err := r.Do(t.Context(), req, gateway.Unlimited())
		e, _ := err.(*gateway.Error) //nolint:errorlint // the chain's errors are never wrapped
		if (e == nil) != (c.reason == "") || e != nil && e.Reason != c.reason || e == nil && string(resp.State) != string(c.m.State) {
			t.Errorf("%+v: error %v, state back %s; want reason %q", c.m, err, resp.State, c.reason)
		}
	}
}
