package worker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// R-GWM-10: a worker goes by what EC says with the task; a job that names the
// model tries it, in its search as in its examples.
func TestATaskIsDoneByActiveModelsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		models  *contracts.ActiveModels
		route   string
		refused bool
	}{
		"an EC without a registry":  {nil, "", false},
		"another version is active": {&contracts.ActiveModels{Items: contracts.List[contracts.ActiveModel]{{Name: "m", Fingerprint: "f"}}}, "", true},
		"the name is not known":     {&contracts.ActiveModels{Items: contracts.List[contracts.ActiveModel]{{Name: "n", Fingerprint: "f"}}}, "", true},
		"the job tries it":          {&contracts.ActiveModels{Items: contracts.List[contracts.ActiveModel]{{Name: "m", Fingerprint: "f"}}}, "m", false},
	} {
		for mode, role := range map[string]gateway.Role{"search": gateway.RoleTask, "meta": gateway.RoleMeta} {
			t.Run(name+" "+mode, func(t *testing.T) {
				task := optimizeTask(mode)
				task.Models, task.Request.ModelRoute = c.models, c.route
				var heard gateway.Active
				p := &provider{answer: good}
				d := do(t, task, p, func(cfg *Config) {
					cfg.Ruling = heard.Set
					cfg.Models = func(rows gateway.Rows) (Models, error) { return p.ruled(rows, &heard) }
				})
				if len(d.finishes) != 1 {
					t.Fatalf("%d results, want 1", len(d.finishes))
				}
				r := d.finishes[0].Result
				if !c.refused {
					if r.Status != contracts.JobCompleted || p.count() == 0 || p.calls[0].Request.Role != role {
						t.Errorf("R-GWM-10 %s %q after %d calls, want calls of role %s", r.Status, r.FailureMessage, p.count(), role)
					}
					return
				}
				if p.count() != 0 || r.Status != contracts.JobFailed || r.FailureCode != contracts.FailPolicyRefused || !strings.Contains(r.FailureMessage, "nobody has activated") {
					t.Errorf("R-GWM-10 %d calls, then %s %s %q; want none, and why", p.count(), r.Status, r.FailureCode, r.FailureMessage)
				}
			})
		}
	}
}

// ruled is the gateway of the tests, under EC's word.
func (p *provider) ruled(rows gateway.Rows, heard *gateway.Active) (Models, error) {
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{{
			Name: "m", Protocol: gateway.ProtocolOpenAI, BaseURL: "http://127.0.0.1:1", Model: "model-1", Routes: gateway.Roles(), Prices: free(),
		}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: p}, Rows: rows, Rand: func() float64 { return 0 },
		Active: func(_ context.Context, name, fingerprint string) bool { return heard.Allows(name, fingerprint) },
	})
	return g, err
}

func free() *gateway.Prices {
	prices := slices.Repeat([]float64{0}, 2)
	return &gateway.Prices{Input: &prices[0], Output: &prices[1]}
}
