package worker

import (
	"slices"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

func keys(rows []contracts.MeasurementRow) map[contracts.MeasurementKey]contracts.MeasurementRow {
	out := map[contracts.MeasurementKey]contracts.MeasurementRow{}
	for _, r := range rows {
		out[r.Key()] = r
	}
	return out
}

func TestAMeasurementAsksEveryCellOnce(t *testing.T) {
	p := &provider{answer: good}
	d := do(t, measureTask(), p, nil)
	if r := d.result(t); r.Status != contracts.JobCompleted || r.EndedBy != "" {
		t.Fatalf("result: %+v", r)
	}
	got := keys(d.rows)
	if len(got) != 18 || len(d.rows) != 18 || p.count() != 18 {
		t.Fatalf("%d rows for %d cells by %d calls, want 18 of each: the source runs twice and is really asked twice", len(d.rows), len(got), p.count())
	}
	for k, r := range got {
		want := 0.0
		if k.Arm != "source" {
			want = 1
		}
		if r.Score == nil || *r.Score != want || r.Model != "model-1" || r.Simulated {
			t.Errorf("cell %+v: got %+v, want score %v by model-1", k, r, want)
		}
	}
	seeds := map[int64]int{}
	for _, c := range p.calls {
		seeds[*c.Request.Seed]++
	}
	if seeds[42] != 12 || seeds[43] != 6 {
		t.Errorf("seeds: %v, want 42 for run 0 and 43 for run 1", seeds)
	}
	if len(d.usage) != 18 {
		t.Errorf("%d usage rows, want 18", len(d.usage))
	}
}

// R-SYS-04: what EC has is not asked again after a kill.
func TestAMeasurementGoesOnWhereItWas(t *testing.T) {
	task := measureTask()
	todo, total := cells(task.Measure)
	if total != 18 || len(todo) != 18 {
		t.Fatalf("cells: %d of %d, want 18", len(todo), total)
	}
	for _, c := range todo[:11] {
		task.Measure.Done = append(task.Measure.Done, c.key)
	}
	p := &provider{answer: good}
	d := do(t, task, p, nil)
	if p.count() != 7 || len(d.rows) != 7 {
		t.Errorf("11 of 18 cells were done: %d calls, %d rows, want 7", p.count(), len(d.rows))
	}
	for _, r := range d.rows {
		if slices.Contains(task.Measure.Done, r.Key()) {
			t.Errorf("cell %+v was measured again", r.Key())
		}
	}
}

func TestUnscoredHasAReason(t *testing.T) {
	rubric := func(task *contracts.Task) {
		task.Request.Rubric = "names an owner"
		for i := range task.Measure.Examples {
			task.Measure.Examples[i].ExpectedSignal = ""
		}
	}
	judged := func(text string, finish gateway.Finish) func(int, gateway.Call) (gateway.Reply, error) {
		return func(n int, c gateway.Call) (gateway.Reply, error) {
			if c.Request.Role == gateway.RoleJudge {
				return gateway.Reply{Text: text, Finish: finish}, nil
			}
			return good(n, c)
		}
	}
	for name, c := range map[string]struct {
		answer func(int, gateway.Call) (gateway.Reply, error)
		change func(*contracts.Task)
		reason string
	}{
		"a truncated answer": {func(int, gateway.Call) (gateway.Reply, error) {
			return gateway.Reply{Text: "Owner", Finish: gateway.FinishLength}, nil
		}, nil, "answer: length"},
		"a refused answer": {func(int, gateway.Call) (gateway.Reply, error) {
			return gateway.Reply{Refusal: "no", Finish: gateway.FinishRefusal}, nil
		}, nil, "answer: refusal"},
		"a filtered request":                       {fails(gateway.ClassContentFilter, 400), nil, "answer: content_filter"},
		"R-GWO-06 a truncated verdict":             {judged(`{"score":1`, gateway.FinishLength), rubric, "judge: length"},
		"a verdict of prose":                       {judged(`I would say 4/5`, gateway.FinishStop), rubric, "judge: verdict cannot be read"},
		"a verdict out of 0-1":                     {judged(`{"score":5,"feedback":"great"}`, gateway.FinishStop), rubric, "judge: verdict cannot be read"},
		"R-GWO-06 a truncated verdict that parses": {judged(`{"score":1,"feedback":"x"}`, gateway.FinishLength), rubric, "judge: length"},
		"R-GWO-01 a verdict without its feedback":  {judged(`{"score":1}`, gateway.FinishStop), rubric, "judge: verdict cannot be read"},
		"nothing to go by": {good, func(task *contracts.Task) {
			for i := range task.Measure.Examples {
				task.Measure.Examples[i].ExpectedSignal = ""
			}
		}, "neither expected_signal nor rubric"},
		"an unreadable signal": {good, func(task *contracts.Task) {
			for i := range task.Measure.Examples {
				task.Measure.Examples[i].ExpectedSignal = "regex: ("
			}
		}, "expected_signal cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			task := measureTask()
			if c.change != nil {
				c.change(&task)
			}
			d := do(t, task, &provider{answer: c.answer}, nil)
			if r := d.result(t); r.Status != contracts.JobCompleted || len(d.rows) != 18 {
				t.Fatalf("got %s (%s) with %d rows, want completed with 18", r.Status, r.FailureMessage, len(d.rows))
			}
			for _, r := range d.rows {
				if r.Score != nil || r.Reason != c.reason {
					t.Fatalf("row: score %v, reason %q, want none and %q", r.Score, r.Reason, c.reason)
				}
			}
		})
	}
	t.Run("a verdict counts", func(t *testing.T) {
		task := measureTask()
		rubric(&task)
		d := do(t, task, &provider{answer: judged(`{"score":0.5,"feedback":"half"}`, gateway.FinishStop)}, nil)
		for _, r := range d.rows {
			if r.Score == nil || *r.Score != 0.5 {
				t.Fatalf("row: %+v, want score 0.5", r)
			}
		}
	})
	t.Run("a must check that fails", func(t *testing.T) {
		task := measureTask()
		for i := range task.Measure.Examples {
			task.Measure.Examples[i].ExpectedSignal = "must: contains: Owner"
		}
		for k, r := range keys(do(t, task, &provider{answer: good}, nil).rows) {
			if r.MustFailed != (k.Arm == "source") {
				t.Errorf("cell %+v: must_failed %v", k, r.MustFailed)
			}
		}
	})
}

func TestFailureCodesOfAMeasurement(t *testing.T) {
	afterTen := func(class gateway.ErrorClass) func(int, gateway.Call) (gateway.Reply, error) {
		return func(n int, c gateway.Call) (gateway.Reply, error) {
			if n > 10 {
				return gateway.Reply{}, &gateway.Error{Class: class, NotBilled: true}
			}
			return good(n, c)
		}
	}
	for name, c := range map[string]struct {
		answer func(int, gateway.Call) (gateway.Reply, error)
		code   string
		rows   int // at least
	}{
		"R-WRK-06 429 from the first call": {fails(gateway.ClassRateLimit, 429), contracts.FailRateLimited, 0},
		"R-WRK-06 500 from the first call": {fails(gateway.ClassServer, 500), contracts.FailTemporary, 0},
		"401 from the first call":          {fails(gateway.ClassAuth, 401), contracts.FailProviderTerminal, 0},
		"402 half way":                     {afterTen(gateway.ClassProviderQuota), contracts.FailProviderTerminal, 5},
		"500 from half way on":             {afterTen(gateway.ClassServer), contracts.FailTemporary, 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := do(t, measureTask(), &provider{answer: c.answer}, nil)
			if r := d.result(t); r.Status != contracts.JobFailed || r.FailureCode != c.code {
				t.Errorf("got %s %q (%s), want failed with %q", r.Status, r.FailureCode, r.FailureMessage, c.code)
			}
			if len(d.rows) < c.rows {
				t.Errorf("%d rows were handed over before the end, want at least %d: they are paid for", len(d.rows), c.rows)
			}
		})
	}
	t.Run("a hiccup is survived", func(t *testing.T) {
		d := do(t, measureTask(), &provider{answer: func(n int, c gateway.Call) (gateway.Reply, error) {
			if n == 9 || n == 10 { // the gateway repeats these
				return gateway.Reply{}, &gateway.Error{Class: gateway.ClassServer, Status: 500, NotBilled: true}
			}
			return good(n, c)
		}}, nil)
		if r := d.result(t); r.Status != contracts.JobCompleted || len(d.rows) != 18 {
			t.Errorf("got %s (%s) with %d rows, want completed with 18", r.Status, r.FailureMessage, len(d.rows))
		}
	})
	t.Run("R-WRK-04 the budget ends it", func(t *testing.T) {
		task := measureTask()
		task.Budget.Left = contracts.FromUSD(0.003)
		d := do(t, task, &provider{answer: good}, nil)
		if r := d.result(t); r.Status != contracts.JobCompleted || r.EndedBy != contracts.EndedByBudget || len(d.rows) == 18 {
			t.Errorf("got %s, ended by %q with %d rows, want completed, by budget, some rows", r.Status, r.EndedBy, len(d.rows))
		}
	})
	t.Run("an empty plan", func(t *testing.T) {
		task := measureTask()
		task.Measure = nil
		if r := do(t, task, &provider{answer: good}, nil).result(t); r.FailureCode != contracts.FailTooFewExamples {
			t.Errorf("got %q, want insufficient_replay_examples", r.FailureCode)
		}
	})
}

func TestToleranceIsATenthOfAllCalls(t *testing.T) {
	never := &tolerance{cells: 100}
	if never.tolerates() {
		t.Error("a provider that has never answered is tolerated")
	}
	some := &tolerance{cells: 100}
	some.answered()
	n := 0
	for some.tolerates() {
		n++
	}
	if n != 10 {
		t.Errorf("of 100 calls %d may fail, want 10", n)
	}
}
