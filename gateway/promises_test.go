package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/gateway"
)

// counted is a rig whose metrics can be read.
func counted(t *testing.T, a gateway.Adapter, rows gateway.Rows, models ...gateway.ModelConfig) (*gateway.Gateway, func(name string, labels ...string) float64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	g, err := gateway.New(gateway.Config{
		Models: models, Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: a, gateway.ProtocolSimulator: a},
		Rows: rows, Metrics: reg, Rand: func() float64 { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, func(name string, labels ...string) float64 { return sumOf(t, reg, name, labels) }
}

// sumOf adds up a metric's series that have all the labels' values.
func sumOf(t *testing.T, reg *prometheus.Registry, name string, labels []string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != "promptlab_gateway_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			values := map[string]bool{}
			for _, l := range m.GetLabel() {
				values[l.GetValue()] = true
			}
			match := true
			for _, l := range labels {
				match = match && values[l]
			}
			if match {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return total
}

// R-GWB-17, R-GWR-01: every role has its own longest time, and an attempt has a
// deadline of its own within it.
func TestEveryRoleHasItsOwnTime(t *testing.T) {
	want := map[gateway.Role]time.Duration{
		gateway.RoleChat: 10 * time.Minute, gateway.RoleRewrite: 90 * time.Second, gateway.RoleCritic: 3 * time.Minute,
		gateway.RoleJudge: 90 * time.Second, gateway.RoleTask: 2 * time.Minute, gateway.RoleMeta: 4 * time.Minute,
	}
	for _, role := range gateway.Roles() {
		t.Run("R-GWB-17 "+string(role), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := time.Duration(0)
				a := &stub{do: func(ctx context.Context, _ int, _ gateway.Call) (gateway.Reply, error) {
					deadline, ok := ctx.Deadline()
					if !ok {
						t.Error("R-GWR-01 an attempt without a deadline")
					}
					left = time.Until(deadline)
					<-ctx.Done()
					return gateway.Reply{}, ctx.Err()
				}}
				m := model("one", role)
				m.Limits.AttemptTimeoutSeconds = 3600
				r := newRig(t, a, m)
				began := time.Now()
				_, err := r.Do(t.Context(), ask(role), gateway.Unlimited())
				if took := time.Since(began); class(err) != gateway.ClassAttemptTimeout || took != want[role] || left != want[role] {
					t.Errorf("class %s after %s with %s at first, want attempt_timeout after %s", class(err), took, left, want[role])
				}
			})
		})
	}
}

// R-GWR-01: the retries and the fallbacks of one call are counted together.
func TestBudgetOfAttempts(t *testing.T) {
	for _, role := range gateway.Roles() {
		synctest.Test(t, func(t *testing.T) {
			a := &stub{do: always(gateway.ClassServer)}
			r := newRig(t, a, model("first", role), model("second", role), model("third", role))
			_, err := r.Do(t.Context(), ask(role), gateway.Unlimited())
			targets := map[string]int{}
			for _, row := range r.taken() {
				targets[row.Target]++
			}
			want := map[string]int{"first": 2, "second": 1}
			if role == gateway.RoleJudge || role == gateway.RoleTask {
				want = map[string]int{"first": 3}
			}
			if diff := cmp.Diff(want, targets); diff != "" || err == nil {
				t.Errorf("R-GWR-01 %s: attempts by target (-want +got), error %v:\n%s", role, err, diff)
			}
		})
	}
}

// R-GWB-02, R-GWB-03, R-GWV-01: what is asked for arrives as it was typed, what
// is answered comes back in its own fields, and the row has both sides' names.
func TestRequestAndResponseAreTyped(t *testing.T) {
	reply := gateway.Reply{Text: "yes", Reasoning: "because " + canary, Finish: gateway.FinishStop, ServedModel: "m1-0001", ProviderRequestID: "p-1",
		Usage: gateway.Usage{Known: true, Input: 4, Output: 5, Reasoning: 3, CacheRead: 2, CacheWrite: 1}}
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return reply, nil }}
	m := model("one", gateway.RoleTask)
	m.Profile = "vllm"
	r := newRig(t, a, m)
	req := ask(gateway.RoleTask)
	req.Model, req.Temperature, req.Seed, req.Stop = "one", usd(0.5), new(int64), []string{"END"}
	req.Workspace, req.Feature, req.PromptKey, req.PromptVersion = "w", "measure", "replay", "v7"
	resp, err := r.Do(t.Context(), req, gateway.Unlimited())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(req, a.calls[0].Request, cmp.AllowUnexported(gateway.Schema{})); diff != "" {
		t.Errorf("R-GWB-02 the adapter's request (-asked +got):\n%s", diff)
	}
	want := gateway.Response{Text: "yes", Reasoning: reply.Reasoning, Finish: gateway.FinishStop, Usage: reply.Usage, RequestID: "req-1", Target: "one",
		Provider: "127.0.0.1:1", Model: "m1", ServedModel: "m1-0001", ProviderRequestID: "p-1", Attempts: 1, Cost: resp.Cost, CostKnown: true}
	if diff := cmp.Diff(want, resp); diff != "" {
		t.Errorf("R-GWB-03 response (-want +got):\n%s", diff)
	}
	row := r.taken()[0]
	if row.RequestID != "req-1" || row.Workspace != "w" || row.Feature != "measure" || row.PromptKey != "replay" || row.PromptVersion != "v7" ||
		row.Model != "m1" || row.Protocol != gateway.ProtocolOpenAI || row.Usage != reply.Usage || row.Finish != gateway.FinishStop || row.ProviderRequestID != "p-1" {
		t.Errorf("R-GWL-04 R-GWV-01 row %+v", row)
	}
	// R-GWL-09: and none of it is a prompt, an answer or a thought.
	if b, err := json.Marshal(row); err != nil || bytes.Contains(b, []byte("CANARY")) || bytes.Contains(b, []byte("be kind")) || bytes.Contains(b, []byte("yes")) {
		t.Errorf("R-GWL-09 the row holds text: %s (%v)", b, err)
	}
	// The digest moves with everything that was asked.
	other := req
	other.Seed = new(int64)
	*other.Seed = 1
	_, _ = r.Do(t.Context(), other, gateway.Unlimited())
	if again := r.taken()[0]; again.RequestDigest == row.RequestDigest {
		t.Error("R-GWL-04 another seed has the same digest")
	}
}

// R-GWL-03: however an attempt ends, and whoever leaves meanwhile, it has one row
// and its hold is settled once.
func TestOneRowForEveryAttempt(t *testing.T) {
	var sent sync.Map // request id and number: calls
	a := &stub{do: func(ctx context.Context, n int, c gateway.Call) (gateway.Reply, error) {
		sent.Store(n, c.Request.RequestID)
		select {
		case <-time.After(time.Duration(n%5) * time.Millisecond):
		case <-ctx.Done():
		}
		if n%3 == 0 {
			return gateway.Reply{Usage: gateway.Usage{Known: true, Input: 1, Output: 1}}, &gateway.Error{Class: gateway.ClassMalformedResponse, Status: 200}
		}
		return ok("hi"), nil
	}}
	m := model("one", gateway.RoleTask)
	m.Limits.Concurrency = 64
	rows := make(gateway.RowChan, 1000)
	g, _ := counted(t, a, rows, m)
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e12}})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(6))*time.Millisecond)
			defer cancel()
			req := ask(gateway.RoleTask)
			req.RequestID = "req-" + string(rune('A'+i))
			_, _ = g.Do(ctx, req, p)
		})
	}
	wg.Wait()
	seen, booked := map[string]int{}, int64(0)
	for len(rows) > 0 {
		row := <-rows
		seen[row.AttemptID]++
		booked += row.CostNanoUSD
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("R-GWL-03 attempt %s has %d rows", id, n)
		}
	}
	if s := p.State(); len(seen) != a.n || s.Held != 0 || s.Spent != booked {
		t.Errorf("R-GWL-03 %d rows for %d attempts; purse %+v, rows say %d", len(seen), a.n, s, booked)
	}
}

// R-GWL-05: a sink that takes nothing costs nobody an answer, and is counted.
// R-GWL-06: the hold does not depend on it: what is spent is spent.
func TestLostRowsAreCounted(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
	g, metric := counted(t, a, gateway.RowFunc(func(gateway.Attempt) bool { return false }), model("one", gateway.RoleTask))
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1_000_000}})
	answered := 0
	for range 100 {
		_, err := g.Do(t.Context(), ask(gateway.RoleTask), p)
		if err == nil {
			answered++
		} else if class(err) != gateway.ClassJobBudget {
			t.Fatal(err)
		}
	}
	if lost := metric("ledger_write_failures_total"); answered == 0 || lost != float64(answered) {
		t.Errorf("R-GWL-05 %d answers, %g lost rows are counted", answered, lost)
	}
	if s := p.State(); a.n != answered || answered == 100 || s.Spent != 20_000*int64(answered) || s.Spent > 1_000_000 {
		t.Errorf("R-GWL-06 %d provider calls for %d answers, purse %+v", a.n, answered, s)
	}
}

type refusing struct{ err error }

func (r refusing) Reserve(context.Context, int64) (gateway.Hold, error) { return nil, r.err }

// R-GWR-23, R-GWL-06: where it is not certain that a call is allowed, it is not
// made; nothing is retried and nobody stands in.
func TestWhatIsNotAllowedIsNotSent(t *testing.T) {
	key := model("one", gateway.RoleChat)
	key.APIKeyEnv = "A_KEY"
	for _, c := range []struct {
		name   string
		model  gateway.ModelConfig
		budget gateway.Budget
		answer gateway.ErrorClass // of the provider, where it is asked
		calls  int
		want   gateway.ErrorClass
	}{
		{"a budget that cannot be asked", model("one", gateway.RoleChat), refusing{errors.New("away")}, "", 0, gateway.ClassSaturated},
		{"a budget that refuses", model("one", gateway.RoleChat), refusing{&gateway.Error{Class: gateway.ClassJobBudget}}, "", 0, gateway.ClassJobBudget},
		{"no budget", model("one", gateway.RoleChat), nil, "", 0, gateway.ClassPolicy},
		{"no key", key, gateway.Unlimited(), "", 0, gateway.ClassAuth},
		{"a key that is refused", model("one", gateway.RoleChat), gateway.Unlimited(), gateway.ClassAuth, 1, gateway.ClassAuth},
		{"a filter that says no", model("one", gateway.RoleChat), gateway.Unlimited(), gateway.ClassContentFilter, 1, gateway.ClassContentFilter},
	} {
		t.Run("R-GWR-23 "+c.name, func(t *testing.T) {
			a := &stub{do: always(c.answer)}
			g, _ := counted(t, a, nil, c.model, model("second", gateway.RoleChat))
			if _, err := g.Do(t.Context(), ask(gateway.RoleChat), c.budget); class(err) != c.want || a.n != c.calls {
				t.Errorf("class %s after %d calls, want %s after %d", class(err), a.n, c.want, c.calls)
			}
		})
	}
}

// R-GWR-20: a fallback is a call of its own: shaped, priced, held and written
// down for its own target.
func TestAFallbackIsAnAttemptOfItsOwn(t *testing.T) {
	first, second := model("first", gateway.RoleMeta), model("second", gateway.RoleMeta)
	second.Model, second.Limits.MaxOutputTokens, second.Prices = "m2", 50, &gateway.Prices{Input: usd(10), Output: usd(20)}
	second.DropSampling = true
	answer := func(_ context.Context, _ int, c gateway.Call) (gateway.Reply, error) {
		if c.Target.Name == "first" {
			return gateway.Reply{}, &gateway.Error{Class: gateway.ClassProviderQuota, NotBilled: true, Status: 402}
		}
		return ok("hi"), nil
	}
	a := &stub{do: answer}
	r := newRig(t, a, first, second)
	req := ask(gateway.RoleMeta)
	req.Temperature = usd(1)
	if _, err := r.Do(t.Context(), req, gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e12}})); err != nil {
		t.Fatal(err)
	}
	rows := r.taken()
	if len(rows) != 2 || rows[0].Target != "first" || rows[1].Target != "second" || rows[1].Model != "m2" || rows[0].AttemptID == rows[1].AttemptID {
		t.Fatalf("R-GWR-20 rows %+v", rows)
	}
	if diff := cmp.Diff([]string{"max_tokens", "temperature"}, rows[1].Adjusted); diff != "" || len(rows[0].Adjusted) != 0 {
		t.Errorf("R-GWR-20 changes for the first %v, for the second (-want +got):\n%s", rows[0].Adjusted, diff)
	}
	if rows[1].RequestDigest == rows[0].RequestDigest || rows[1].HoldNanoUSD <= rows[0].HoldNanoUSD || rows[1].CostNanoUSD != 200_000 || rows[0].CostNanoUSD != 0 {
		t.Errorf("R-GWR-20 digests equal: %t; holds %d and %d, costs %d and %d", rows[1].RequestDigest == rows[0].RequestDigest,
			rows[0].HoldNanoUSD, rows[1].HoldNanoUSD, rows[0].CostNanoUSD, rows[1].CostNanoUSD)
	}
	second.Prices = nil // not allowed for a job: nobody knows what it costs
	a = &stub{do: answer}
	r = newRig(t, a, first, second)
	if _, err := r.Do(t.Context(), req, gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e12}})); class(err) != gateway.ClassPriceUnknown || a.n != 1 {
		t.Errorf("R-GWR-20 a fallback of unknown price: class %s after %d calls, want price_unknown after 1", class(err), a.n)
	}
}

// R-GWB-09, R-GWR-21: only a target of the same protocol stands in; a model is
// never replaced by the simulator.
func TestProtocolsDoNotMix(t *testing.T) {
	sim := gateway.ModelConfig{Name: "sim", Protocol: gateway.ProtocolSimulator, Model: "helpful", Routes: gateway.Roles()}
	for name, c := range map[string]struct {
		models []gateway.ModelConfig
		want   []string
	}{
		"a model and the simulator":         {[]gateway.ModelConfig{model("first", gateway.RoleChat), sim}, []string{"first"}},
		"the simulator and a model":         {[]gateway.ModelConfig{sim, model("first", gateway.RoleChat)}, []string{"sim"}},
		"a model behind the simulator's":    {[]gateway.ModelConfig{model("first", gateway.RoleChat), sim, model("second", gateway.RoleChat)}, []string{"first", "second"}},
		"R-GWM-04 a route of another model": {[]gateway.ModelConfig{model("first", gateway.RoleChat), model("other", gateway.RoleJudge)}, []string{"first"}},
	} {
		a := &stub{do: always(gateway.ClassProviderQuota)}
		g, _ := counted(t, a, nil, c.models...)
		_, _ = g.Do(t.Context(), ask(gateway.RoleChat), gateway.Unlimited())
		var got []string
		for _, call := range a.calls {
			got = append(got, call.Target.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("R-GWB-09 %s: asked (-want +got):\n%s", name, diff)
		}
	}
}

// R-GWL-11, R-GWL-09: what an answer that can be used costs stands beside what an
// attempt costs, by model and role.
func TestCostByAttemptAndByOutput(t *testing.T) {
	replies := []gateway.Reply{ok("a"), ok("b"), ok("c"), ok("d")}
	replies[1].Finish = gateway.FinishLength // paid and useless
	replies[2].Text = "no JSON"
	a := &stub{do: func(_ context.Context, n int, _ gateway.Call) (gateway.Reply, error) { return replies[n-1], nil }}
	g, metric := counted(t, a, nil, model("one", gateway.RoleTask, gateway.RoleJudge))
	for i := range replies {
		req := ask(gateway.RoleTask)
		if i == 2 {
			req.Schema = shape(t)
		}
		if _, err := g.Do(t.Context(), req, gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
	}
	// Four attempts at 0.00002 USD, two of them of use.
	near := func(got, want float64) bool { return got > want*0.999 && got < want*1.001 }
	if attempt, output := metric("cost_per_attempt_usd", "one", "task"), metric("cost_per_output_usd", "one", "task"); !near(attempt, 0.00002) || !near(output, 0.00004) {
		t.Errorf("R-GWL-11 %g USD an attempt and %g an output, want 0.00002 and 0.00004", attempt, output)
	}
	if total := metric("cost_usd_total", "one", "task"); !near(total, 0.00008) || metric("cost_usd_total", "one", "judge") != 0 {
		t.Errorf("R-GWL-09 %g USD by model and role, want 0.00008", total)
	}
}

// R-GWV-07: answers without usage and callers who leave have counters.
func TestUnknownUsageAndLeaversAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &stub{do: func(ctx context.Context, n int, _ gateway.Call) (gateway.Reply, error) {
			if n == 1 {
				return gateway.Reply{Text: "hi", Finish: gateway.FinishStop}, nil
			}
			<-ctx.Done()
			return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport}
		}}
		g, metric := counted(t, a, nil, model("one", gateway.RoleTask))
		if _, err := g.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = g.Do(ctx, ask(gateway.RoleTask), gateway.Unlimited())
		if unknown, gone := metric("usage_unknown_total"), metric("caller_gone_total"); unknown != 2 || gone != 1 {
			t.Errorf("R-GWV-07 %g of unknown usage, %g callers gone; want 2 (the cut one as well) and 1", unknown, gone)
		}
	})
}

// R-GWM-09: which model is asked, and where, is in the configuration alone.
func TestTheEnvironmentChangesNoModel(t *testing.T) {
	before := target(t, func(*gateway.ModelConfig) {})
	for _, name := range []string{"MODEL", "OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "PROMPTLAB_MODEL", "LOCAL", "LOCAL_MODEL"} {
		t.Setenv(name, "http://"+strings.ToLower(canary)+".example/v1")
	}
	after := target(t, func(*gateway.ModelConfig) {})
	if before.Model != after.Model || before.BaseURL != after.BaseURL || before.KeyName != after.KeyName {
		t.Errorf("with the environment %+v, without %+v", after, before)
	}
}
