package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
)

// stub answers calls by their number, counted from 1.
type stub struct {
	mu    sync.Mutex
	n     int
	calls []gateway.Call
	do    func(ctx context.Context, n int, c gateway.Call) (gateway.Reply, error)
}

func (s *stub) Complete(ctx context.Context, c gateway.Call) (gateway.Reply, error) {
	s.mu.Lock()
	s.n++
	n := s.n
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	return s.do(ctx, n, c)
}

// Stream gives the whole answer at once.
func (s *stub) Stream(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
	reply, err := s.Complete(ctx, c)
	if err != nil {
		return reply, err
	}
	return reply, gateway.EmitReply(reply, emit)
}

func ok(text string) gateway.Reply {
	return gateway.Reply{Text: text, Finish: gateway.FinishStop, ServedModel: "m1",
		Usage: gateway.Usage{Known: true, Input: 10, Output: 5}}
}

func always(class gateway.ErrorClass) func(context.Context, int, gateway.Call) (gateway.Reply, error) {
	return func(context.Context, int, gateway.Call) (gateway.Reply, error) {
		return gateway.Reply{}, &gateway.Error{Class: class, NotBilled: true, Status: 500}
	}
}

type rig struct {
	*gateway.Gateway
	rows gateway.RowChan
	log  *bytes.Buffer
}

func model(name string, routes ...gateway.Role) gateway.ModelConfig {
	return gateway.ModelConfig{Name: name, Protocol: gateway.ProtocolOpenAI, BaseURL: "http://127.0.0.1:1/v1", Model: "m1",
		Routes: routes, Prices: &gateway.Prices{Input: usd(1), Output: usd(2)}}
}

func newRig(t *testing.T, a gateway.Adapter, models ...gateway.ModelConfig) rig {
	t.Helper()
	r := rig{rows: make(gateway.RowChan, 100), log: new(bytes.Buffer)}
	g, err := gateway.New(gateway.Config{
		Models: models, Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: a}, Rows: r.rows,
		Log: slog.New(slog.NewJSONHandler(r.log, nil)), Rand: func() float64 { return 0.5 },
		Keys: func(string) (string, error) { return "key-" + canary, nil },
	})
	if err != nil {
		t.Fatalf("new gateway: %v", err)
	}
	r.Gateway = g
	return r
}

func (r rig) taken() []gateway.Attempt {
	var out []gateway.Attempt
	for len(r.rows) > 0 {
		out = append(out, <-r.rows)
	}
	return out
}

func ask(role gateway.Role) gateway.Request {
	return gateway.Request{Role: role, MaxTokens: 100, JobID: "job-1", RequestID: "req-1",
		Messages: []gateway.Message{{Role: "system", Content: "be kind"}, {Role: "user", Content: "hello " + canary}}}
}

func TestAnAnswerIsBilledAndRowed(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
	r := newRig(t, a, model("one", gateway.RoleTask))
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e9}})
	resp, err := r.Do(t.Context(), ask(gateway.RoleTask), p)
	if err != nil {
		t.Fatal(err)
	}
	// 10 tokens at 1 USD and 5 at 2 USD per million.
	if resp.Text != "hi" || resp.Cost != 20_000 || !resp.CostKnown || !resp.Complete() || resp.Attempts != 1 {
		t.Errorf("response %+v", resp)
	}
	if s := p.State(); s.Spent != 20_000 || s.Held != 0 {
		t.Errorf("purse %+v, want 20000 spent", s)
	}
	rows := r.taken()
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	row := rows[0]
	if row.AttemptID != "req-1.1" || row.JobID != "job-1" || row.Target != "one" || row.CostNanoUSD != 20_000 || !row.CostKnown ||
		row.HoldNanoUSD <= row.CostNanoUSD || len(row.RequestDigest) != 64 || row.Class != "" {
		t.Errorf("R-GWL-01 row %+v", row)
	}
}

// R-GWR-13: one logical call under permanent failure is at most three provider
// calls, and every one of them has its row.
func TestCallsUnderPermanentFailure(t *testing.T) {
	for _, class := range gateway.Classes() {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &stub{do: always(class)}
				r := newRig(t, a, model("one", gateway.RoleTask))
				_, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
				want := 1
				if class.Retryable() {
					want = 3
				}
				if a.n != want {
					t.Errorf("%d provider calls, want %d", a.n, want)
				}
				var e *gateway.Error
				if !errors.As(err, &e) || e.Class != class || e.Attempts != want {
					t.Errorf("error %v, want class %s after %d attempts", err, class, want)
				}
				if rows := r.taken(); len(rows) != want {
					t.Errorf("%d rows, want %d", len(rows), want)
				}
			})
		})
	}
}

func TestRetryWaits(t *testing.T) {
	for _, c := range []struct {
		name       string
		retryAfter time.Duration
		calls      int
		took       time.Duration
	}{
		{"full jitter of 0.5 s and 1 s", 0, 3, 750 * time.Millisecond},
		{"R-GWR-12 a told wait is honoured", 5 * time.Second, 3, 10 * time.Second},
		{"R-GWR-12 a longer one is not waited for", 61 * time.Second, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
					return gateway.Reply{}, &gateway.Error{Class: gateway.ClassRateLimit, RetryAfter: c.retryAfter, NotBilled: true, Status: 429}
				}}
				r := newRig(t, a, model("one", gateway.RoleTask))
				began := time.Now()
				_, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
				if took := time.Since(began); class(err) != gateway.ClassRateLimit || a.n != c.calls || took != c.took {
					t.Errorf("class %s after %d calls and %s, want rate_limit, %d, %s", class(err), a.n, took, c.calls, c.took)
				}
			})
		})
	}
}

// R-GWR-02, R-GWB-16: the limits live in the chain; an adapter that only ends
// with its context cannot remove them, and the smallest one wins.
func TestTimeouts(t *testing.T) {
	block := func(ctx context.Context, _ int, _ gateway.Call) (gateway.Reply, error) {
		<-ctx.Done()
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassTransport}
	}
	for _, c := range []struct {
		name     string
		limits   gateway.Limits
		deadline time.Duration // the caller's
		class    gateway.ErrorClass
		calls    int
		took     time.Duration
	}{
		{"attempt", gateway.Limits{AttemptTimeoutSeconds: 10}, time.Hour, gateway.ClassAttemptTimeout, 3, 30*time.Second + 750*time.Millisecond},
		{"configured total", gateway.Limits{AttemptTimeoutSeconds: 10, TotalTimeoutSeconds: 15}, time.Hour, gateway.ClassAttemptTimeout, 2, 15 * time.Second},
		{"the method's total", gateway.Limits{AttemptTimeoutSeconds: 3600, TotalTimeoutSeconds: 3600}, time.Hour, gateway.ClassAttemptTimeout, 1, 2 * time.Minute},
		{"the caller's deadline", gateway.Limits{AttemptTimeoutSeconds: 10}, 4 * time.Second, gateway.ClassCallerGone, 1, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &stub{do: block}
				m := model("one", gateway.RoleTask)
				m.Limits = c.limits
				r := newRig(t, a, m)
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e9}})
				began := time.Now()
				_, err := r.Do(ctx, ask(gateway.RoleTask), p)
				if took := time.Since(began); class(err) != c.class || a.n != c.calls || took != c.took {
					t.Errorf("class %s after %d calls and %s, want %s, %d, %s", class(err), a.n, took, c.class, c.calls, c.took)
				}
				rows := r.taken()
				var booked int64
				for _, row := range rows {
					booked += row.CostNanoUSD
					if row.CostKnown || row.CostNanoUSD != row.HoldNanoUSD {
						t.Errorf("R-GWL-08 a cut attempt cost %d of %d, known %t; want the whole bound, unknown", row.CostNanoUSD, row.HoldNanoUSD, row.CostKnown)
					}
				}
				if s := p.State(); s.Spent != booked || s.Held != 0 || len(rows) != c.calls {
					t.Errorf("purse %+v, %d booked by %d rows", s, booked, len(rows))
				}
			})
		})
	}
}

func TestAnAnswerAboveItsBoundIsBookedAsOverrun(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
		return gateway.Reply{Text: "hi", Finish: gateway.FinishStop, Usage: gateway.Usage{Known: true, Input: 10, Output: 5000}}, nil
	}}
	r := newRig(t, a, model("one", gateway.RoleTask))
	p := gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e9}})
	if _, err := r.Do(t.Context(), ask(gateway.RoleTask), p); err != nil {
		t.Fatal(err)
	}
	row := r.taken()[0]
	if over := row.CostNanoUSD - row.HoldNanoUSD; over <= 0 || row.OverrunNanoUSD != over || p.State().Spent != row.CostNanoUSD {
		t.Errorf("row %+v, purse %+v", row, p.State())
	}
}

func TestMissingUsageCostsTheBound(t *testing.T) {
	// R-GWL-07: missing usage is unknown, never zero.
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
		return gateway.Reply{Text: "hi", Finish: gateway.FinishStop}, nil
	}}
	r := newRig(t, a, model("one", gateway.RoleTask))
	resp, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
	row := r.taken()[0]
	if err != nil || resp.CostKnown || resp.Cost == 0 || row.CostNanoUSD != row.HoldNanoUSD || row.Usage.Known {
		t.Errorf("response %+v, row %+v, error %v", resp, row, err)
	}
}

func TestPolicyRefusesBeforeAnyCall(t *testing.T) {
	free := model("free", gateway.RoleTask)
	free.Prices = &gateway.Prices{Input: usd(0), Output: usd(0)}
	unknown := model("unknown", gateway.RoleTask)
	unknown.Prices = nil
	paid := func() gateway.Budget { return gateway.NewPurse(gateway.PurseConfig{Lender: &bank{left: 1e12}}) }
	for _, c := range []struct {
		name   string
		model  gateway.ModelConfig
		budget gateway.Budget
		change func(*gateway.Request)
		want   gateway.ErrorClass
	}{
		{"unknown price with a budget", unknown, paid(), nil, gateway.ClassPriceUnknown},
		{"unknown price without a budget is allowed", unknown, gateway.Unlimited(), nil, ""},
		{"R-WRK-04 budget 0 and a priced model", model("paid", gateway.RoleTask), gateway.NoMoney(), nil, gateway.ClassJobBudget},
		{"R-WRK-04 budget 0 and a free model is allowed", free, gateway.NoMoney(), nil, ""},
		{"R-GWL-06 no budget at all", free, nil, nil, gateway.ClassPolicy},
		{"R-GWP-03 no token cap", free, gateway.Unlimited(), func(r *gateway.Request) { r.MaxTokens = 0 }, gateway.ClassPolicy},
		{"no messages", free, gateway.Unlimited(), func(r *gateway.Request) { r.Messages = nil }, gateway.ClassPolicy},
		{"R-GWM-04 a role of no route", free, gateway.Unlimited(), func(r *gateway.Request) { r.Role = gateway.RoleChat }, gateway.ClassPolicy},
		{"a model that is not configured", free, gateway.Unlimited(), func(r *gateway.Request) { r.Model = "other" }, gateway.ClassPolicy},
		{"a message of an unknown role", free, gateway.Unlimited(), func(r *gateway.Request) { r.Messages[0].Role = "tool" }, gateway.ClassPolicy},
		{"too many bytes", free, gateway.Unlimited(), func(r *gateway.Request) {
			r.Messages[0].Content = string(make([]byte, 1<<20+1))
		}, gateway.ClassContextOverflow},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
			r := newRig(t, a, c.model)
			req := ask(gateway.RoleTask)
			if c.change != nil {
				c.change(&req)
			}
			_, err := r.Do(t.Context(), req, c.budget)
			calls := 0
			if c.want == "" {
				calls = 1
			}
			if class(err) != c.want || a.n != calls {
				t.Errorf("class %q after %d calls, want %q after %d", class(err), a.n, c.want, calls)
			}
		})
	}
}

// R-GWP-03, R-GWP-05: what was asked for beyond the model is clamped, and told.
func TestParametersAreClampedAndRecorded(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
	m := model("one", gateway.RoleTask)
	m.DropSampling, m.Limits.MaxOutputTokens = true, 50
	r := newRig(t, a, m)
	req := ask(gateway.RoleTask)
	req.Temperature, req.Seed, req.Stop = usd(0.7), new(int64), []string{"x"}
	if _, err := r.Do(t.Context(), req, gateway.Unlimited()); err != nil {
		t.Fatal(err)
	}
	if sent := a.calls[0].Request; sent.MaxTokens != 50 || sent.Temperature != nil || sent.Seed != nil || sent.Stop != nil {
		t.Errorf("sent %+v", sent)
	}
	if diff := cmp.Diff([]string{"max_tokens", "temperature", "seed", "stop"}, r.taken()[0].Adjusted); diff != "" {
		t.Errorf("recorded changes (-want +got):\n%s", diff)
	}
}

func TestFallback(t *testing.T) {
	roles := gateway.Roles()
	second := func(want gateway.ErrorClass) *stub {
		return &stub{do: func(_ context.Context, _ int, c gateway.Call) (gateway.Reply, error) {
			if c.Target.Name == "second" {
				return ok("from second"), nil
			}
			return gateway.Reply{}, &gateway.Error{Class: want, NotBilled: true, Status: 400}
		}}
	}
	for _, c := range []struct {
		name  string
		role  gateway.Role
		model string
		class gateway.ErrorClass
		calls int
		works bool
	}{
		{"quota falls back at once", gateway.RoleRewrite, "", gateway.ClassProviderQuota, 2, true},
		{"trouble falls back with the last attempt", gateway.RoleRewrite, "", gateway.ClassServer, 3, true},
		{"R-GWR-24 a judge never falls back", gateway.RoleJudge, "", gateway.ClassProviderQuota, 1, false},
		{"R-GWR-24 an example's answer never falls back", gateway.RoleTask, "", gateway.ClassProviderQuota, 1, false},
		{"R-GWR-21 a named model is never swapped", gateway.RoleRewrite, "first", gateway.ClassProviderQuota, 1, false},
		{"a bad request is bad everywhere", gateway.RoleRewrite, "", gateway.ClassBadRequest, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := second(c.class)
				r := newRig(t, a, model("first", roles...), model("second", roles...), model("third", roles...))
				req := ask(c.role)
				req.Model = c.model
				resp, err := r.Do(t.Context(), req, gateway.Unlimited())
				if (err == nil) != c.works || a.n != c.calls {
					t.Fatalf("error %v after %d calls, want success %t after %d", err, a.n, c.works, c.calls)
				}
				rows := r.taken()
				last := rows[len(rows)-1]
				if c.works && (resp.Target != "second" || last.FallbackFrom != "first" || last.FallbackClass != c.class) {
					t.Errorf("R-GWR-19 answered by %s, row says from %q after %q", resp.Target, last.FallbackFrom, last.FallbackClass)
				}
			})
		})
	}
}

func TestAtMostOneFallback(t *testing.T) {
	roles := gateway.Roles()
	a := &stub{do: always(gateway.ClassProviderQuota)}
	r := newRig(t, a, model("first", roles...), model("second", roles...), model("third", roles...))
	if _, err := r.Do(t.Context(), ask(gateway.RoleChat), gateway.Unlimited()); class(err) != gateway.ClassProviderQuota || a.n != 2 {
		t.Errorf("class %s after %d calls, want provider_quota after 2", class(err), a.n)
	}
}

func TestAMissingKeyIsNotSent(t *testing.T) {
	a := &stub{do: always(gateway.ClassServer)}
	m := model("one", gateway.RoleTask)
	m.APIKeyEnv = "SOME_KEY"
	g, err := gateway.New(gateway.Config{Models: []gateway.ModelConfig{m},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: a},
		Keys:     func(string) (string, error) { return "", errors.New(canary) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited()); class(err) != gateway.ClassAuth || a.n != 0 {
		t.Errorf("class %s after %d calls, want auth after none", class(err), a.n)
	}
}
