package config_test

import (
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
)

// R-GWS-07: the limits of silence are keys of a model, and of a route of it.
// R-GWP-06: so is reasoning.
func TestLimitsOfStreamsAreRead(t *testing.T) {
	c, _, err := given{file: `models:
  - name: m
    protocol: openai
    base_url: http://127.0.0.1:1/v1
    model: m1
    routes: [chat, rewrite]
    limits:
      image_tokens: 1500
      first_token_timeout_seconds: 100
      idle_timeout_seconds: 70
      by_route:
        chat: {idle_timeout_seconds: 80}
    reasoning: {effort: low, max_tokens: 100, latency_seconds: 60, max_cost_usd: 0.5, evaluation: e1, evaluated_model: m1, evaluated_effort: low}
`}.load()
	if err != nil {
		t.Fatal(err)
	}
	targets, err := gateway.Targets(c.Models)
	if err != nil {
		t.Fatal(err)
	}
	got := targets[0]
	for role, want := range map[gateway.Role]time.Duration{gateway.RoleChat: 80 * time.Second, gateway.RoleRewrite: 70 * time.Second} {
		if first, idle := got.Silence(role); first != 100*time.Second || idle != want {
			t.Errorf("R-GWS-07 %s: first piece within %s, silence of %s; want 1m40s, %s", role, first, idle, want)
		}
	}
	if got.ImageTokens != 1500 || got.Reasoning.Effort != gateway.ReasoningLow || got.Reasoning.MaxCost != 500_000_000 {
		t.Errorf("R-GWP-06 target %+v", got)
	}
}
