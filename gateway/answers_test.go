package gateway_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
)

// R-GWT-04, R-GWT-08, R-GWT-13: every role declares what it does about a cut
// answer. Whole or in pieces, no end but trouble makes another attempt, and what
// is missing is told beside the text.
func TestEveryEndIsSurfaced(t *testing.T) {
	for _, role := range gateway.Roles() {
		if role.Truncation() != gateway.TruncationSurface {
			t.Errorf("R-GWT-04 %s declares %q", role, role.Truncation())
		}
		for finish, complete := range map[gateway.Finish]bool{
			gateway.FinishStop: true, gateway.FinishLength: false, gateway.FinishRefusal: false, gateway.FinishUnknown: false, gateway.FinishToolCalls: false,
		} {
			a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
				reply := ok("the beginning of")
				reply.Finish = finish
				return reply, nil
			}}
			r := newRig(t, a, model("one", role))
			whole, err1 := r.Do(t.Context(), ask(role), gateway.Unlimited())
			pieces, err2 := r.Stream(t.Context(), ask(role), gateway.Unlimited(), nil)
			if a.n != 2 || err1 != nil || err2 != nil || whole.Finish != finish || whole.Complete() != complete || whole.Text != "the beginning of" {
				t.Errorf("R-GWT-08 %s, %s: %d calls, errors %v and %v, response %+v", role, finish, a.n, err1, err2, whole)
			}
			if diff := cmp.Diff(whole, pieces); diff != "" {
				t.Errorf("R-GWT-13 %s, %s: whole and in pieces differ:\n%s", role, finish, diff)
			}
		}
	}
	if gateway.Role("dream").Truncation() != "" {
		t.Error("R-GWT-04 a role that nobody has declares something")
	}
}

// R-GWO-07, R-GWR-10: an attempt after a useless answer is made from the request
// as it was, byte by byte, and a malformed answer comes as it was said: nothing
// half-read is passed on.
func TestRetriesStartFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const raw = "```json\n{\"score\": 2}\n``` hm"
		a := &stub{do: func(_ context.Context, n int, c gateway.Call) (gateway.Reply, error) {
			if n < 3 {
				c.Request.Messages[0] = gateway.Message{Role: "user", Content: "half an answer"} // an adapter that does not behave
				return gateway.Reply{Text: `{"sco`}, &gateway.Error{Class: gateway.ClassMalformedResponse, Status: 200}
			}
			return ok(raw), nil
		}}
		r := newRig(t, a, model("one", gateway.RoleJudge))
		req := ask(gateway.RoleJudge)
		req.Schema = shape(t)
		want := ask(gateway.RoleJudge).Messages
		resp, err := r.Do(t.Context(), req, gateway.Unlimited())
		if err != nil || !resp.Malformed || resp.Complete() || resp.Text != raw {
			t.Errorf("R-GWO-07 response %+v, error %v; want the raw text, marked", resp, err)
		}
		rows := r.taken()
		if diff := cmp.Diff(want, a.calls[2].Request.Messages); diff != "" || rows[0].RequestDigest != rows[2].RequestDigest {
			t.Errorf("R-GWO-07 the third attempt's messages (-asked +sent):\n%s", diff)
		}
	})
}

// R-GWO-06, R-GWO-01: what was asked for as JSON and is none is marked, and so
// are a tool's arguments.
func TestAnswersOfAnotherShapeAreMarked(t *testing.T) {
	object := func(r *gateway.Request) { r.JSONObject = true }
	tools := func(r *gateway.Request) { r.Tools = []gateway.Tool{{Name: "f"}} }
	called := func(arguments string) gateway.Reply {
		reply := ok("")
		reply.Finish, reply.ToolCalls = gateway.FinishToolCalls, []gateway.ToolCall{{ID: "c1", Name: "f", Arguments: arguments}}
		return reply
	}
	cut := ok(`{"a":1}`)
	cut.Finish = gateway.FinishLength
	for _, c := range []struct {
		name      string
		ask       func(*gateway.Request)
		reply     gateway.Reply
		malformed bool
	}{
		{"an object", object, ok(`{"a":1}`), false},
		{"a list", object, ok(`[1]`), true},
		{"null", object, ok(`null`), true},
		{"words", object, ok(`hello`), true},
		{"R-GWO-06 a cut object that happens to parse", object, cut, true},
		{"a call", tools, called(`{"a":1}`), false},
		{"a call with broken arguments", tools, called(`{"a":`), true},
		{"words where tools were offered", tools, ok("hello"), false},
	} {
		a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return c.reply, nil }}
		m := model("one", gateway.RoleChat)
		m.Profile = "openai"
		r, req := newRig(t, a, m), ask(gateway.RoleChat)
		c.ask(&req)
		resp, err := r.Do(t.Context(), req, gateway.Unlimited())
		row := r.taken()[0]
		if err != nil || resp.Malformed != c.malformed || row.Malformed != c.malformed || row.ToolCalls != len(c.reply.ToolCalls) {
			t.Errorf("R-GWO-01 %s: response %+v, error %v, row says %t and %d calls", c.name, resp, err, row.Malformed, row.ToolCalls)
		}
	}
}

// R-GWP-07: a call that may be reasoned about has the latency budget of that.
func TestReasoningHasItsOwnTime(t *testing.T) {
	for effort, want := range map[gateway.Reasoning]time.Duration{"": 30 * time.Second, gateway.ReasoningOff: 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			m := model("one", gateway.RoleChat)
			m.Reasoning = reasons(gateway.ReasoningLow, m.Model)
			m.Limits.AttemptTimeoutSeconds = 3600
			r := newRig(t, &stub{do: func(ctx context.Context, _ int, _ gateway.Call) (gateway.Reply, error) {
				<-ctx.Done()
				return gateway.Reply{}, ctx.Err()
			}}, m)
			req := ask(gateway.RoleChat)
			req.Reasoning = effort
			began := time.Now()
			if _, _ = r.Do(t.Context(), req, gateway.Unlimited()); time.Since(began) != want {
				t.Errorf("R-GWP-07 effort %q ended after %s, want %s", effort, time.Since(began), want)
			}
		})
	}
}

// R-GWR-15: a call that waits for its next attempt ends with its caller, and
// every attempt is told as it is made.
func TestAWaitBetweenAttemptsCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
			return gateway.Reply{}, &gateway.Error{Class: gateway.ClassRateLimit, RetryAfter: 50 * time.Second, NotBilled: true, Status: 429}
		}}
		r := newRig(t, a, model("one", gateway.RoleChat))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, func() {
			if n := len(r.rows); n != 1 {
				t.Errorf("R-GWR-15 %d rows while the call waits, want 1", n)
			}
			cancel()
		})
		began := time.Now()
		_, err := r.Stream(ctx, ask(gateway.RoleChat), gateway.Unlimited(), nil)
		var e *gateway.Error
		if took := time.Since(began); !errors.As(err, &e) || e.Class != gateway.ClassRateLimit && e.Class != gateway.ClassCallerGone || took != 3*time.Second || a.n != 1 {
			t.Errorf("R-GWR-15 error %v after %s and %d calls, want the end with the caller", err, took, a.n)
		}
	})
}

// R-GWC-05: what a provider's cache had is counted by model and role.
func TestCachedTokensAreCounted(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
		reply := ok("hi")
		reply.Usage = gateway.Usage{Known: true, Input: 10, CacheRead: 30, CacheWrite: 5, Output: 1}
		return reply, nil
	}}
	g, metric := counted(t, a, nil, model("one", gateway.RoleChat))
	for range 2 {
		if _, err := g.Do(t.Context(), ask(gateway.RoleChat), gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
	}
	for cache, want := range map[string]float64{"none": 20, "read": 60, "write": 10} {
		if got := metric("input_tokens_total", "one", "chat", cache); got != want {
			t.Errorf("R-GWC-05 %g tokens of %s, want %g", got, cache, want)
		}
	}
}
