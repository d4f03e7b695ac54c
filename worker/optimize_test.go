package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/loopback"
)

func TestASearchDeliversWhatItFound(t *testing.T) {
	p := &provider{answer: good}
	d := do(t, optimizeTask("search"), p, nil)
	r := d.result(t)
	better := source + "- Name the Owner.\n"
	if r.Status != contracts.JobCompleted || r.EndedBy != contracts.EndedBySteps || r.JobID != d.task.JobID || r.SourceHash != contracts.Hash(source) {
		t.Fatalf("result: %+v", r)
	}
	if len(r.Candidates) != 1 || r.Candidates[0].CandidateText != better || r.Candidates[0].CandidateHash != contracts.Hash(better) ||
		*r.Candidates[0].SearchScore != 1 || r.Candidates[0].CandidateID == "" {
		t.Errorf("candidates: got %+v, want the better text alone: the source itself is none", r.Candidates)
	}
	want := &contracts.OptimizerInfo{Name: "promptolution", Version: "2.3.0", Python: "3.11.0", Engine: "evoprompt_ga", Steps: 2, Tried: 2}
	if diff := cmp.Diff(want, r.Optimizer); diff != "" {
		t.Errorf("optimizer (-want +got):\n%s", diff)
	}
	if n := p.count(); n != 12 {
		t.Errorf("two texts on six examples, one of them measured twice: %d calls, want 12", n)
	}
	if len(d.usage) != 12 || d.finishes[0].Unspent <= 0 {
		t.Errorf("delivered %d usage rows and %d unspent, want 12 rows and the rest of the borrowed money", len(d.usage), d.finishes[0].Unspent)
	}
	spent := contracts.NanoUSD(0)
	for _, u := range d.usage {
		spent += u.Cost
		if u.JobID != d.task.JobID || u.Feature != contracts.RoleTask || !u.Success {
			t.Errorf("usage row: %+v", u)
		}
	}
	if spent+d.finishes[0].Unspent != d.lent {
		t.Errorf("R-WRK-04 spent %d and gave back %d of %d", spent, d.finishes[0].Unspent, d.lent)
	}
	if _, err := contracts.Check(d.finishes[0], contracts.Peer); err != nil {
		t.Errorf("R-WRK-02 the result is not a valid document: %v", err)
	}
	told := false
	for _, pr := range d.progress {
		told = told || pr.Step == 1 && pr.Best != nil && *pr.Best == 1 && pr.Phase == contracts.PhaseOptimizing
	}
	if !told {
		t.Errorf("progress: %+v, want step 1 with the best score", d.progress)
	}
}

// R-WRK-01: the process learns ids and nothing of an example; R-WRK-11: the
// source travels as a field of data.
func TestTheProcessIsToldNoExample(t *testing.T) {
	task := optimizeTask("the goal")
	task.Request.Rubric = "secret rubric"
	s := newSession(newTestWorker(t, newFakeDoor(task), &provider{answer: good}, nil), message(task), task, nil, nil)
	b, err := newEngineRun(s).request(loopback.Door{BaseURL: "http://127.0.0.1:4711/v1", Token: "door-token", Model: "meta"})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret input", "contains: Owner", "secret rubric", testToken, "per_job_budget"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("the request holds %q: %s", secret, b)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got["base_url"] != "http://127.0.0.1:4711" || got["source_text"] != source || got["protocol"] != 1.0 || len(got["example_ids"].([]any)) != 6 {
		t.Errorf("request: %s", b)
	}
}

func TestCheckRunsTheGates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "verdicts")
	task := optimizeTask("check " + file)
	task.Request.ReplayExamples[1].InputText = strings.Repeat("secret input 1 ", 9)
	task.Request.Constraints.BannedPhrases = contracts.List[string]{"quarterly plan"}
	do(t, task, &provider{answer: good}, nil)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var verdicts [][]string
	if err := json.Unmarshal(b, &verdicts); err != nil {
		t.Fatal(err)
	}
	has := func(i int, rule string) bool {
		return strings.Contains(" "+strings.Join(verdicts[i], " ")+" ", " "+rule+" ")
	}
	if len(verdicts[0]) != 0 || !has(1, lint.RuleBanned) || !has(2, lint.RuleLeak) {
		t.Errorf("verdicts: %v, want none, a banned phrase, a leaked example", verdicts)
	}
}

// R-WRK-06, R-WRK-07, R-WRK-09: what a search can die of, and the code that
// EC is told.
func TestFailureCodesOfASearch(t *testing.T) {
	type change = func(*contracts.Task, *Config)
	for name, c := range map[string]struct {
		mode   string
		answer func(int, gateway.Call) (gateway.Reply, error)
		change change
		code   string
		calls  int    // at most, at the provider
		says   string // part of the message; empty: whatever
	}{
		"R-WRK-09 crash":            {mode: "crash", code: contracts.FailTemporary},
		"R-WRK-09 no output":        {mode: "silent", code: contracts.FailTemporary},
		"R-WRK-09 malformed output": {mode: "malformed", code: contracts.FailTemporary},
		"R-WRK-09 forged result":    {mode: "forged", code: contracts.FailTemporary},
		"R-WRK-09 output flood":     {mode: "flood", code: contracts.FailTemporary},
		"R-WRK-09 stops by itself":  {mode: "cancelled", code: contracts.FailTemporary},
		"R-WRK-09 timeout":          {mode: "hang", code: contracts.FailTemporary, change: func(t *contracts.Task, _ *Config) { t.LimitSeconds = 1 }},
		"R-WRK-09 missing binary":   {mode: "search", code: contracts.FailWorkerUnavailable, change: func(_ *contracts.Task, c *Config) { c.Python.Python = "/nowhere/python3" }},
		"R-WRK-09 adapter missing": {mode: "search", code: contracts.FailWorkerUnavailable, change: func(_ *contracts.Task, c *Config) {
			c.Python.Args = []string{"-I", "-m", "promptlab_adapter_is_not_here"}
		}},
		"R-WRK-08 unknown code":      {mode: "error weird_thing", code: "weird_thing"},
		"R-WRK-06 lock contention":   {mode: "error dataset_lock_contention", code: contracts.FailDatasetLock},
		"R-WRK-06 rate limit, task":  {mode: "search", answer: fails(gateway.ClassRateLimit, 429), code: contracts.FailRateLimited, calls: 6 * 3},
		"R-WRK-06 rate limit, meta":  {mode: "meta", answer: fails(gateway.ClassRateLimit, 429), code: contracts.FailRateLimited, calls: 3},
		"R-WRK-06 server error":      {mode: "search", answer: fails(gateway.ClassServer, 500), code: contracts.FailTemporary, calls: 6 * 3},
		"provider says 401":          {mode: "search", answer: fails(gateway.ClassAuth, 401), code: contracts.FailProviderTerminal, calls: 6},
		"provider says 402":          {mode: "meta", answer: fails(gateway.ClassProviderQuota, 402), code: contracts.FailProviderTerminal, calls: 1},
		"no model for the route":     {mode: "search", code: contracts.FailPolicyRefused, says: "options.model_route", change: func(t *contracts.Task, _ *Config) { t.Request.ModelRoute = "nobody" }},
		"R-WRK-07 empty source":      {mode: "search", code: contracts.FailInvalidSource, change: func(t *contracts.Task, _ *Config) { t.Request.SourceText = " \n" }},
		"R-WRK-07 large source":      {mode: "search", code: contracts.FailInvalidSource, change: func(t *contracts.Task, _ *Config) { t.Request.SourceText = strings.Repeat("x", 70<<10) }},
		"R-WRK-07 stale source":      {mode: "search", code: contracts.FailStaleSource, change: func(t *contracts.Task, _ *Config) { t.Request.SourceText += "x" }},
		"R-WRK-07 too few examples":  {mode: "search", code: contracts.FailTooFewExamples, change: func(t *contracts.Task, _ *Config) { t.Request.ReplayExamples = nil }},
		"R-WRK-07 unsupported kind":  {mode: "search", code: contracts.FailUnsupportedKind, change: func(t *contracts.Task, _ *Config) { t.Request.ArtifactKind = contracts.KindRoomRolePrompt }},
		"R-WRK-07 unsupported task":  {mode: "search", code: contracts.FailUnsupportedKind, change: func(t *contracts.Task, _ *Config) { t.Kind = contracts.TaskCritique }},
		"R-WRK-07 unknown backend":   {mode: "search", code: contracts.FailUnsupportedKind, change: func(t *contracts.Task, _ *Config) { t.Request.Backend = contracts.BackendDSPy }},
		"R-WRK-07 safety lint, said": {mode: "error safety_lint_failure", code: contracts.FailSafetyLint},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{answer: c.answer}
			if p.answer == nil {
				p.answer = good
			}
			task := optimizeTask(c.mode)
			cfg := func(*Config) {}
			if c.change != nil {
				c.change(&task, &Config{})
				cfg = func(w *Config) { c.change(&contracts.Task{}, w) }
			}
			d := do(t, task, p, cfg)
			r := d.result(t)
			if r.Status != contracts.JobFailed || r.FailureCode != c.code || r.FailureMessage == "" && c.code != "weird_thing" {
				t.Errorf("got %s, %q (%s), want failed with %q", r.Status, r.FailureCode, r.FailureMessage, c.code)
			}
			if !strings.Contains(r.FailureMessage, c.says) {
				t.Errorf("the message is %q, want it to name %q", r.FailureMessage, c.says)
			}
			if n := p.count(); n > c.calls {
				t.Errorf("%d provider calls, want at most %d: 3 for one logical call", n, c.calls)
			}
		})
	}
}

// R-WRK-04: a budget that runs out ends the search and is no failure; 0 means
// that nobody is asked.
func TestBudgetEndsTheSearch(t *testing.T) {
	for name, c := range map[string]struct {
		budget contracts.TaskBudget
		most   int
	}{
		"R-WRK-04 budget 0":    {contracts.TaskBudget{}, 0},
		"R-WRK-04 budget 0.01": {contracts.TaskBudget{PaidCalls: true, Left: contracts.FromUSD(0.01)}, 90},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := optimizeTask("spend")
			task.Budget = c.budget
			p := &provider{answer: good}
			d := do(t, task, p, nil)
			r := d.result(t)
			if r.Status != contracts.JobCompleted || r.EndedBy != contracts.EndedByBudget {
				t.Errorf("got %s, ended by %q (%s), want completed, ended by budget", r.Status, r.EndedBy, r.FailureMessage)
			}
			spent := contracts.NanoUSD(0)
			for _, u := range d.usage {
				spent += u.Cost
			}
			if spent > c.budget.Left || d.lent > c.budget.Left || p.count() > c.most || c.most > 0 && p.count() == 0 {
				t.Errorf("spent %d in %d calls, borrowed %d; the budget is %d", spent, p.count(), d.lent, c.budget.Left)
			}
		})
	}
}

func TestTimeLimitKeepsTheBestSoFar(t *testing.T) {
	task := optimizeTask("best " + filepath.Join(t.TempDir(), "ready"))
	task.LimitSeconds = 2
	r := do(t, task, &provider{answer: good}, nil).result(t)
	if r.Status != contracts.JobCompleted || r.EndedBy != contracts.EndedByTimeLimit || len(r.Candidates) != 1 {
		t.Errorf("got %s, ended by %q with %d candidates (%s), want completed, time_limit, 1", r.Status, r.EndedBy, len(r.Candidates), r.FailureMessage)
	}
}

// R-LAB-10: cancel while Python runs: dead within 3 s, tree and all.
func TestCancelKillsTheTree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	task := optimizeTask("tree " + file)
	d := newFakeDoor(task)
	w := newTestWorker(t, d, &provider{answer: good}, nil)
	ended := make(chan struct{})
	go func() { defer close(ended); w.handle(t.Context(), message(task)) }()
	tree := pids(t, file, 3)
	began := time.Now()
	close(d.cancelled)
	<-ended
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the cancel took %s, want at most 3 s", took)
	}
	for _, pid := range tree {
		if alive(pid) {
			t.Errorf("process %d of the tree %v is alive after the cancel", pid, tree)
		}
	}
	if len(d.finishes) != 0 {
		t.Errorf("a cancelled task delivered %+v", d.finishes)
	}
	if left, err := os.ReadDir(w.c.Python.Dir); err != nil || len(left) != 0 {
		t.Errorf("R-LAB-16 left behind: %v, %v", left, err)
	}
}
