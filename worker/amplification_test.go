package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/worker/pyrun"
)

// R-GWR-13, R-WRK-06: the installed optimizer asks a provider that fails for
// good. Whatever its library repeats (20 times), its client (3 times), the
// loopback and the chain (3 attempts): one logical call is three provider calls
// in a try, and those that were on their way together are all that a try makes.
// That there are four tries is TestRetriesAreECsAndBounded's to say.
func TestTheRealOptimizerIsBoundedUnderPermanentFailure(t *testing.T) {
	python, err := filepath.Abs("../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("SKIPPED: the optimizer is not installed; run make setup")
	}
	p := &provider{answer: func(n int, c gateway.Call) (gateway.Reply, error) {
		if c.Request.Role == gateway.RoleMeta {
			return fails(gateway.ClassOverloaded, 503)(n, c)
		}
		return good(n, c)
	}}
	l := newLab(t, func(c *Config) {
		c.Models = p.models
		c.Python = pyrun.Config{Python: python, Dir: t.TempDir()}
	})
	job := l.Job(l.Lab(40), `{"per_job_budget_usd":1,"max_steps":3}`)
	for try := 1; try <= 2; try++ {
		for {
			changed := l.Changed()
			j, err := l.View().Job(job.JobID)
			if err != nil {
				t.Fatal(err)
			}
			if j.Status.Terminal() || l.Open(job.JobID).Failures == try {
				break
			}
			select {
			case <-changed:
			case <-time.After(60 * time.Second):
				t.Fatalf("try %d: no news of the job for 60 s: %+v", try, j.Detail)
			}
		}
		logical := p.metaCalls()
		if len(logical) == 0 || len(logical) > try*atOnce {
			t.Errorf("R-GWR-13 after %d tries %d logical calls were made, want at most the %d of each try that were on their way together", try, len(logical), atOnce)
		}
		for id, n := range logical {
			if n > 3 {
				t.Errorf("R-GWR-13 the logical call %s was %d provider calls, want 3", id, n)
			}
		}
		l.Clock.Add(3 * time.Minute) // past the pause before the next try
	}
}

// atOnce is how many requests a search may have on their way.
const atOnce = 16

// metaCalls counts the provider calls of each logical call for a new text.
func (p *provider) metaCalls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for _, c := range p.calls {
		if c.Request.Role == gateway.RoleMeta {
			out[c.Request.RequestID]++
		}
	}
	return out
}
