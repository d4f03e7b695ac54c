package gateway_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// pinned is a model with everything set.
func pinned() gateway.ModelConfig {
	m := model("cloud", gateway.RoleChat, gateway.RoleTask)
	m.BaseURL, m.Model, m.Profile, m.APIKeyEnv = "https://models.example/v1", "gpt-x-2026-01-01", "openai", "KEY"
	m.Reasoning = reasons(gateway.ReasoningLow, m.Model)
	return m
}

// material says of each field of a model's configuration whether a change of it
// can change answers, with one such change.
func material() map[string]struct {
	material bool
	change   func(*gateway.ModelConfig)
} {
	type c = struct {
		material bool
		change   func(*gateway.ModelConfig)
	}
	return map[string]c{
		"Name":           {false, func(m *gateway.ModelConfig) { m.Name = "other" }},
		"Protocol":       {true, func(m *gateway.ModelConfig) { m.Protocol = gateway.ProtocolResponses }},
		"BaseURL":        {true, func(m *gateway.ModelConfig) { m.BaseURL = "https://models.example/deployments/two" }},
		"Model":          {true, func(m *gateway.ModelConfig) { m.Model = "gpt-x-2026-02-02" }},
		"APIKeyEnv":      {false, func(m *gateway.ModelConfig) { m.APIKeyEnv = "OTHER" }},
		"Prices":         {false, func(m *gateway.ModelConfig) { m.Prices = nil }},
		"Limits":         {true, func(m *gateway.ModelConfig) { m.Limits.MaxOutputTokens = 77 }},
		"Routes":         {false, func(m *gateway.ModelConfig) { m.Routes = gateway.Roles() }},
		"Profile":        {true, func(m *gateway.ModelConfig) { m.Profile = "azure" }},
		"MaxTokensField": {true, func(m *gateway.ModelConfig) { m.MaxTokensField = "max_tokens" }},
		"DropSampling":   {true, func(m *gateway.ModelConfig) { m.DropSampling = true }},
		"DropParameters": {true, func(m *gateway.ModelConfig) { m.DropParameters = []gateway.Parameter{gateway.ParamSeed} }},
		"Reasoning":      {true, func(m *gateway.ModelConfig) { m.Reasoning = reasons(gateway.ReasoningHigh, m.Model) }},
		"DisplayName":    {false, func(m *gateway.ModelConfig) { m.DisplayName = "Another" }},
		"DocsPage":       {false, func(m *gateway.ModelConfig) { m.DocsPage = "https://example.com" }},
		"DocsChecked":    {false, func(m *gateway.ModelConfig) { m.DocsChecked = "2026-01-31" }},
	}
}

// R-GWM-10, R-GWB-20: the fingerprint moves with the model string, the surface
// and every default parameter, and with nothing else.
func TestTheFingerprintCoversTheMaterial(t *testing.T) {
	own := pinned().Fingerprint()
	for f := range reflect.TypeFor[gateway.ModelConfig]().Fields() {
		c, ok := material()[f.Name]
		if !ok {
			t.Errorf("R-GWM-10 nobody says whether %s is material", f.Name)
			continue
		}
		m := pinned()
		c.change(&m)
		if changed := m.Fingerprint() != own; changed != c.material {
			t.Errorf("R-GWM-10 another %s changes the fingerprint: %t, want %t", f.Name, changed, c.material)
		}
	}
	for name, change := range map[string]func(*gateway.ModelConfig){
		"patience":              func(m *gateway.ModelConfig) { m.Limits.AttemptTimeoutSeconds = 7 },
		"rate":                  func(m *gateway.ModelConfig) { m.Limits.RequestsPerMinute, m.Limits.Concurrency = 7, 7 },
		"ceiling of cost":       func(m *gateway.ModelConfig) { m.Reasoning.MaxCostUSD++ },
		"the profile's field":   func(m *gateway.ModelConfig) { m.MaxTokensField = "max_completion_tokens" },
		"the default cap":       func(m *gateway.ModelConfig) { m.Limits.MaxOutputTokens = 4096 },
		"spelling of the host":  func(m *gateway.ModelConfig) { m.BaseURL = "https://Models.Example/v1/" },
		"the evaluation's name": func(m *gateway.ModelConfig) { m.Reasoning.Evaluation = "another" },
	} {
		m := pinned()
		change(&m)
		if m.Fingerprint() != own {
			t.Errorf("another %s changes the fingerprint", name)
		}
	}
	one, all := pinned(), pinned()
	one.DropSampling = true
	all.DropParameters = []gateway.Parameter{
		gateway.ParamFrequencyPenalty, gateway.ParamTemperature, gateway.ParamSeed, gateway.ParamStop, gateway.ParamTopP, gateway.ParamPresencePenalty,
	}
	if one.Fingerprint() != all.Fingerprint() {
		t.Error("two ways to say the same have two fingerprints")
	}
}

// R-GWM-01, R-GWM-03, R-GWM-04, R-GWM-12: what the registry takes note of.
func TestWhatTheRegistrySees(t *testing.T) {
	m := pinned()
	m.DisplayName, m.DocsPage, m.DocsChecked = "Cloud", "https://example.com/models", "2026-01-31"
	m.DropParameters = []gateway.Parameter{gateway.ParamStop, gateway.ParamSeed}
	want := contracts.ObservedModel{
		Name: "cloud", DisplayName: "Cloud", Type: contracts.ModelChat, Adapter: "openai", BaseModel: "gpt-x", Model: "gpt-x-2026-01-01",
		Routes: contracts.List[contracts.ModelRole]{"chat", "task"}, Fingerprint: m.Fingerprint(), DocsPage: m.DocsPage, DocsChecked: m.DocsChecked,
		Parameters: contracts.Map[string]{
			"protocol": "openai", "model": "gpt-x-2026-01-01", "base_url": "https://models.example/v1", "profile": "openai",
			"max_tokens_field": "max_completion_tokens", "max_output_tokens": "4096", "drop": "seed,stop", "reasoning": "low",
			"reasoning_max_tokens": m.Observed().Parameters["reasoning_max_tokens"],
		},
	}
	if d := cmp.Diff(want, m.Observed()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := contracts.Check(m.Observed(), contracts.Client); err != nil {
		t.Errorf("what is seen is not valid: %v", err)
	}
	for exact, base := range map[string]string{
		"gpt-4o-mini-2024-07-18": "gpt-4o-mini", "claude-sonnet-4-5-20250929": "claude-sonnet-4-5", "gemini-1.5-pro-002": "gemini-1.5-pro", "qwen2.5:7b": "qwen2.5:7b",
	} {
		m.Model = exact
		if got := m.Observed().BaseModel; got != base {
			t.Errorf("R-GWM-01 the base model of %s is %s, want %s", exact, got, base)
		}
	}
}

func TestTheDocumentationOfAPinIsChecked(t *testing.T) { // R-GWM-12
	for name, change := range map[string]func(*gateway.ModelConfig){
		"docs_page":             func(m *gateway.ModelConfig) { m.DocsPage, m.DocsChecked = "not an address", "2026-01-31" },
		"docs_checked_on":       func(m *gateway.ModelConfig) { m.DocsPage, m.DocsChecked = "https://example.com", "2026-02-31" },
		"docs_checked_on alone": func(m *gateway.ModelConfig) { m.DocsChecked = "2026-01-31" },
	} {
		m := localModel()
		change(&m)
		if _, err := gateway.Targets([]gateway.ModelConfig{m}); err == nil {
			t.Errorf("R-GWM-12 a wrong %s is accepted", name)
		}
	}
}

// ruled is a gateway whose registry knows these versions as active.
func ruled(t *testing.T, a gateway.Adapter, active func(name string) bool, models ...gateway.ModelConfig) (*gateway.Gateway, gateway.RowChan) {
	t.Helper()
	rows := make(gateway.RowChan, 10)
	g, err := gateway.New(gateway.Config{
		Models: models, Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: a}, Rows: rows, Rand: func() float64 { return 0 },
		Active: func(_ context.Context, name, fingerprint string) bool {
			i := slices.IndexFunc(models, func(m gateway.ModelConfig) bool { return m.Name == name })
			if i < 0 || models[i].Fingerprint() != fingerprint {
				t.Errorf("the registry is asked for %s with a fingerprint that is not the model's", name)
			}
			return active(name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, rows
}

// R-GWM-10: a version that nobody has activated answers nobody but the job that
// tries it.
func TestAModelThatIsNotActive(t *testing.T) {
	never := func(string) bool { return false }
	trial := func(change func(*gateway.Request)) gateway.Request {
		req := ask(gateway.RoleTask)
		req.Model, req.Trial = "one", "one"
		change(&req)
		return req
	}
	for name, c := range map[string]struct {
		req  gateway.Request
		sent bool
	}{
		"a turn":                    {ask(gateway.RoleChat), false},
		"a turn that says trial":    {trial(func(r *gateway.Request) { r.Role = gateway.RoleChat }), false},
		"a rewrite that says trial": {trial(func(r *gateway.Request) { r.Role = gateway.RoleRewrite }), false},
		"a critic that says trial":  {trial(func(r *gateway.Request) { r.Role = gateway.RoleCritic }), false},
		"a job's example":           {ask(gateway.RoleTask), false},
		"a trial of another model":  {trial(func(r *gateway.Request) { r.Trial = "two" }), false},
		"a trial outside of a job":  {trial(func(r *gateway.Request) { r.JobID = "" }), false},
		"a trial":                   {trial(func(*gateway.Request) {}), true},
		"a trial's judge":           {trial(func(r *gateway.Request) { r.Role, r.Model = gateway.RoleJudge, "" }), true},
		"a trial's search":          {trial(func(r *gateway.Request) { r.Role, r.Model = gateway.RoleMeta, "" }), true},
	} {
		a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
		m := model("one", gateway.Roles()...)
		g, rows := ruled(t, a, never, m)
		_, err := g.Do(t.Context(), c.req, gateway.Unlimited())
		if c.sent {
			if err != nil || a.n != 1 {
				t.Errorf("R-GWM-10 %s: error %v after %d calls, want it answered", name, err, a.n)
			} else if row := <-rows; row.Fingerprint != m.Fingerprint() || row.UsageRow().Fingerprint != m.Fingerprint() {
				t.Errorf("R-GWL-04 %s: the row does not name model and parameters: %q", name, row.Fingerprint)
			}
			continue
		}
		var refusal *gateway.Error
		if !errors.As(err, &refusal) || refusal.Class != gateway.ClassPolicy || refusal.Reason != gateway.ReasonNotActive || a.n != 0 || len(rows) != 0 {
			t.Errorf("R-GWM-10 %s: error %v after %d calls, want it refused before any", name, err, a.n)
		}
	}
}

// R-GWM-10, R-GWR-13: nobody is answered by another model in its place, and no
// fallback leads to one that is not active.
func TestWhatStandsInForAModel(t *testing.T) {
	two := []gateway.ModelConfig{model("one", gateway.RoleChat), model("two", gateway.RoleChat)}
	two[1].Model = "m2"
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) { return ok("hi"), nil }}
	g, _ := ruled(t, a, func(name string) bool { return name == "two" }, two...)
	if _, err := g.Do(t.Context(), ask(gateway.RoleChat), gateway.Unlimited()); gateway.ClassOf(err) != gateway.ClassPolicy || a.n != 0 {
		t.Errorf("the first model waits: error %v after %d calls, want a refusal and no other model", err, a.n)
	}
	broken := &stub{do: always(gateway.ClassModelNotFound)}
	g, _ = ruled(t, broken, func(name string) bool { return name == "one" }, two...)
	if _, err := g.Do(t.Context(), ask(gateway.RoleChat), gateway.Unlimited()); gateway.ClassOf(err) != gateway.ClassModelNotFound || broken.n != 1 {
		t.Errorf("the fallback waits: error %v after %d calls, want the first model's own error", err, broken.n)
	}
}

// What a process far from EC goes by.
func TestWhatWasHeardOfTheRegistry(t *testing.T) { // R-GWM-10
	var a gateway.Active
	if !a.Allows("one", "f1") {
		t.Error("nothing was heard, and a model is refused")
	}
	a.Set(contracts.ActiveModels{})
	if !a.Allows("one", "f1") {
		t.Error("an empty registry refuses a model")
	}
	a.Set(contracts.ActiveModels{Items: contracts.List[contracts.ActiveModel]{{Name: "one", Fingerprint: "f1"}}})
	for _, c := range []struct {
		name, fingerprint string
		want              bool
	}{{"one", "f1", true}, {"one", "f2", false}, {"two", "f1", false}, {"two", "", false}} {
		if got := a.Allows(c.name, c.fingerprint); got != c.want {
			t.Errorf("R-GWM-10 %s with %q: allowed %t, want %t", c.name, c.fingerprint, got, c.want)
		}
	}
	a.Set(contracts.ActiveModels{})
	if a.Allows("one", "f2") {
		t.Error("R-GWM-10 an empty word takes back what was heard")
	}
}
