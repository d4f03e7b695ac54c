package chat_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

// R-GWM-10: a turn to a version that nobody has activated is refused with what can
// be done; others are answered, also while EC is away.
func TestATurnToAModelThatWaits(t *testing.T) {
	r := &rig{t: t, env: ectest.New(t), model: &model{do: plain}, log: &buffer{}, reg: prometheus.NewRegistry()}
	r.startAPI()
	r.install()
	var seen []contracts.ObservedModel
	for _, m := range configured() {
		if m.Name == "fast" {
			m.Model = "fast-2025-01-01" // what it was before
		}
		seen = append(seen, m.Observed())
	}
	r.env.Must(ec.ObserveModels{Models: seen})
	r.startChat()

	turn := func(model string) answer {
		return r.post(`{"model":"`+model+`","messages":[{"role":"user","content":"q"}]}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t")
	}
	for _, away := range []bool{false, true} {
		r.away.Store(away)
		c := r.read(turn("fast"), 503)
		if c.Error.Code != "model_not_active" || !strings.Contains(c.Error.Message, "promptlab models list") {
			t.Errorf("R-GWM-10 EC away %t: %+v, want model_not_active and the command", away, c.Error)
		}
		r.read(turn("deep"), 200)
	}
	for _, call := range r.model.calls {
		if call.Target.Name == "fast" {
			t.Error("R-GWM-10 the model that waits was called")
		}
	}
}
