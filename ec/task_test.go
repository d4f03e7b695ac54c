package ec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

func TestRetriesAreEC(t *testing.T) {
	for _, code := range []string{"worker_unavailable", "provider_rate_limited", "temporary_backend_error", "dataset_lock_contention"} {
		t.Run("R-WRK-06 "+code+" is tried four times", func(t *testing.T) {
			e := ectest.New(t)
			j := e.Job(e.Lab(40), `{}`)
			for i, wait := range []time.Duration{5 * time.Second, 30 * time.Second, 120 * time.Second, 0} {
				if _, err := finish(e, e.Claim(j.JobID), failure(j, code)); err != nil {
					t.Fatal(err)
				}
				now := job(t, e, j.JobID)
				if now.Detail.Attempts != i+1 {
					t.Errorf("attempts %d, want %d", now.Detail.Attempts, i+1)
				}
				if wait == 0 {
					if now.Status != contracts.JobFailed || now.Detail.FailureCode != code {
						t.Errorf("after the last try: %s, %s", now.Status, now.Detail.FailureCode)
					}
					break
				}
				if now.Status != contracts.JobQueued {
					t.Fatalf("R-LAB-08 after try %d: %s", i+1, now.Status)
				}
				if _, err := e.Send(ec.DispatchTask{JobID: j.JobID, Kind: contracts.TaskOptimize, TokenHash: "x"}); fault.Of(err) != fault.Conflict {
					t.Errorf("G-059 dispatched before %s were over: %v", wait, err)
				}
				e.Clock.Add(wait)
			}
		})
	}
	for _, code := range []string{"artifact_not_found", "unsupported_artifact_kind", "invalid_source_text", "safety_lint_failure", "stale_source_hash", "insufficient_replay_examples", "provider_terminal", "policy_refused", "sandbox_unavailable", "weird"} {
		t.Run("R-WRK-07 R-WRK-08 "+code+" is final", func(t *testing.T) {
			e := ectest.New(t)
			j := e.Job(e.Lab(40), `{}`)
			if _, err := finish(e, e.Claim(j.JobID), failure(j, code)); err != nil {
				t.Fatal(err)
			}
			if now := job(t, e, j.JobID); now.Status != contracts.JobFailed || now.Detail.FailureCode != code || now.Detail.Attempts != 1 {
				t.Errorf("job %s, %s, %d attempts", now.Status, now.Detail.FailureCode, now.Detail.Attempts)
			}
		})
	}
}

func TestFencing(t *testing.T) {
	e := ectest.New(t)
	j := e.Job(e.Lab(40), `{}`)
	first := e.Claim(j.JobID)
	t.Run("a wrong token is refused", func(t *testing.T) {
		_, err := e.Send(ec.FinishTask{TaskID: first.TaskID, In: contracts.TaskFinish{Dispatch: first.Dispatch, Token: strings.Repeat("f", 32), Result: result(j)}})
		if fault.Of(err) != fault.Forbidden {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another worker cannot claim a claimed delivery", func(t *testing.T) {
		_, err := e.Send(ec.ClaimTask{TaskID: first.TaskID, In: contracts.TaskClaim{Dispatch: first.Dispatch, Token: ectest.Token, Worker: "w2"}})
		if fault.Code(err) != ec.CodeTaskSuperseded {
			t.Errorf("got %v", err)
		}
	})
	e.Must(ec.LoseTask{JobID: j.JobID, Dispatch: first.Dispatch, Why: "lease ran out"})
	second := e.Claim(j.JobID)
	t.Run("R-SYS-03 R-WRK-10 only the current delivery's result counts", func(t *testing.T) {
		r, err := finish(e, first, result(j, candidateText("Name the owner.")))
		if err != nil || r.Note != ec.CodeTaskSuperseded || len(e.View().Candidates(ec.CandidateFilter{}).Items) != 0 {
			t.Errorf("late result: %+v, %v", r, err)
		}
		if _, err := finish(e, second, result(j, candidateText("Name the owner."))); err != nil {
			t.Fatal(err)
		}
		r, err = finish(e, second, result(j, candidateText("Give the date.")))
		if err != nil || r.Note != ec.CodeTaskEnded || len(e.View().Candidates(ec.CandidateFilter{}).Items) != 1 {
			t.Errorf("G-087 the same result again: %+v, %v", r, err)
		}
	})
	t.Run("a task that never comes back ends the job after 20 deliveries", func(t *testing.T) {
		e := ectest.New(t)
		j := e.Job(e.Lab(40), `{}`)
		for i := range 20 {
			task := e.Claim(j.JobID)
			e.Must(ec.LoseTask{JobID: j.JobID, Dispatch: task.Dispatch, Why: fmt.Sprint(i)})
		}
		e.Must(ec.DispatchTask{JobID: j.JobID, Kind: contracts.TaskOptimize, TokenHash: "x"})
		if now := job(t, e, j.JobID); now.Status != contracts.JobFailed || now.Detail.FailureCode != contracts.FailWorkerUnavailable {
			t.Errorf("job %s, %s", now.Status, now.Detail.FailureCode)
		}
	})
}

func TestCancel(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(40)
	queued, running := e.Job(ref, `{}`), e.Job(ref, `{}`)
	task := e.Claim(running.JobID)
	for _, id := range []contracts.UUID{queued.JobID, running.JobID} {
		e.Must(ec.CancelJob{JobID: id})
		if now := job(t, e, id); now.Status != contracts.JobCancelled {
			t.Errorf("R-LAB-10 job is %s", now.Status)
		}
		if e.Must(ec.CancelJob{JobID: id}).Changed {
			t.Error("R-CMD-05 a second cancel changed something")
		}
	}
	r, err := finish(e, task, result(running, candidateText("Name the owner.")))
	if err != nil || r.Note != ec.CodeTaskEnded || len(e.View().Candidates(ec.CandidateFilter{}).Items) != 0 {
		t.Errorf("R-LAB-10 late result: %+v, %v", r, err)
	}
	notes := job(t, e, running.JobID).Detail.Notes
	if len(notes) == 0 || notes[len(notes)-1].Code != "late_result" {
		t.Errorf("R-LAB-10 notes: %+v", notes)
	}
	if _, err := finish(e, task, failure(running, "temporary_backend_error")); err != nil {
		t.Fatal(err)
	}
	if now := job(t, e, running.JobID); now.Status != contracts.JobCancelled {
		t.Errorf("R-LAB-08 a terminal state changed to %s", now.Status)
	}
}

func TestBudgetIsLentAndNeverRefilled(t *testing.T) {
	e := ectest.New(t)
	j := e.Job(e.Lab(40), `{"per_job_budget_usd":0.01}`)
	borrow := func(task contracts.Task, amount contracts.NanoUSD, id int) contracts.NanoUSD {
		t.Helper()
		return e.Must(ec.DeliverUsage{TaskID: task.TaskID, In: contracts.TaskUsage{
			Dispatch: task.Dispatch, Token: ectest.Token, Borrow: amount, BorrowID: contracts.DeriveID("borrow", "b", id),
		}}).Granted
	}
	const limit = 10_000_000 // 0.01 USD
	task := e.Claim(j.JobID)
	if !task.Budget.PaidCalls || task.Budget.Left != limit*3/4 {
		t.Fatalf("a quarter is kept for measuring: %+v", task.Budget)
	}
	if got := borrow(task, 5_000_000, 1); got != 5_000_000 {
		t.Errorf("lent %d", got)
	}
	if got := borrow(task, 5_000_000, 1); got != 5_000_000 {
		t.Errorf("R-CMD-05 the repeated borrow: %d", got)
	}
	e.Must(ec.LoseTask{JobID: j.JobID, Dispatch: task.Dispatch, Why: "killed"})
	again := e.Claim(j.JobID)
	if got := borrow(again, limit, 2); got != 2_500_000 {
		t.Errorf("R-GWL-13 after a kill: lent %d, want what the first delivery left", got)
	}
	if got := borrow(again, 1, 3); got != 0 {
		t.Errorf("R-GWL-12 lent %d beyond the limit", got)
	}
	e.Must(ec.FinishTask{TaskID: again.TaskID, In: contracts.TaskFinish{Dispatch: again.Dispatch, Token: ectest.Token, Unspent: limit,
		Result: func() contracts.PromptLabJobResult {
			r := result(j, candidateText("Name the owner."))
			r.EndedBy = contracts.EndedByBudget
			return r
		}()}})
	now := job(t, e, j.JobID)
	if now.Detail.SpentUSD != 0.005 || now.Detail.EndedBy != contracts.EndedByBudget {
		t.Errorf("unspent money beyond what was lent was taken: spent %v, ended by %s", now.Detail.SpentUSD, now.Detail.EndedBy)
	}
	m := e.Claim(j.JobID)
	if m.Budget.Left != 5_000_000 {
		t.Errorf("R-GWL-14 left for measuring: %d", m.Budget.Left)
	}
	r := result(j)
	r.EndedBy = contracts.EndedByBudget
	if _, err := finish(e, m, r); err != nil {
		t.Fatal(err)
	}
	now = job(t, e, j.JobID)
	c := e.View().Candidates(ec.CandidateFilter{}).Items[0]
	if now.Status != contracts.JobCompleted || c.Reviewable || c.StateReason == "" {
		t.Errorf("G-059 budget out while measuring: job %s, candidate %+v", now.Status, c)
	}
}

func TestUsageIsBookedOnce(t *testing.T) {
	e := ectest.New(t)
	j := e.Job(e.Lab(40), `{}`)
	task := e.Claim(j.JobID)
	row := contracts.UsageRow{AttemptID: contracts.DeriveID("a", "u", 0), RequestID: "r", Feature: contracts.RoleMeta, Target: "t", Provider: "p", Model: "m", Attempt: 1,
		Success: true, UsageKnown: true, InputTokens: 10, OutputTokens: 5, CostKnown: true, Cost: 1000, At: contracts.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))}
	in := contracts.TaskUsage{Dispatch: task.Dispatch, Token: ectest.Token, Rows: contracts.List[contracts.UsageRow]{row, row}}
	e.Must(ec.DeliverUsage{TaskID: task.TaskID, In: in})
	e.Must(ec.DeliverUsage{TaskID: task.TaskID, In: in})
	e.Restart()
	e.Must(ec.DeliverUsage{TaskID: task.TaskID, In: in})
	want := contracts.UsageTotal{Calls: 1, InputTokens: 10, OutputTokens: 5, USD: 0.000001}
	if d := cmp.Diff(want, e.View().Usage(ec.UsageFilter{Job: j.JobID}).Total); d != "" {
		t.Errorf("R-GWL-02 usage (-want +got):\n%s", d)
	}
}

// R-GWL-09: usage is told by day, feature, model and job, or by some of them.
func TestUsageBySomething(t *testing.T) {
	e := ectest.New(t)
	row := func(n int, day string, feature contracts.ModelRole, model string, known bool) contracts.UsageRow {
		at, err := contracts.ParseTime(day + "T10:00:00Z")
		if err != nil {
			t.Fatal(err)
		}
		return contracts.UsageRow{AttemptID: contracts.DeriveID(fmt.Sprint(n), "u", 0), RequestID: "r", Feature: feature, Target: "t", Provider: "p", Model: model, Attempt: 1,
			UsageKnown: known, InputTokens: 10, OutputTokens: 1, CostKnown: true, Cost: 2_000_000_000, At: at}
	}
	if _, err := e.Do(t.Context(), ec.Command{ID: "u", Actor: ec.Actor{Role: ec.RoleSeam, Name: "seam"}, Body: ec.BookUsage{Rows: []contracts.UsageRow{
		row(1, "2026-01-01", contracts.RoleChat, "a", true), row(2, "2026-01-01", contracts.RoleChat, "b", false), row(3, "2026-01-02", contracts.RoleJudge, "a", true), row(4, "2026-01-03", contracts.RoleChat, "a", true),
	}}}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		f    ec.UsageFilter
		want []contracts.UsageSum
	}{
		"by model": {ec.UsageFilter{By: []ec.UsageBy{ec.UsageByModel}}, []contracts.UsageSum{
			{Model: "a", Calls: 3, InputTokens: 30, OutputTokens: 3, USD: 6}, {Model: "b", Calls: 1, InputTokens: 10, OutputTokens: 1, USD: 2, Unknown: 1}}},
		"chat by day, from the second": {ec.UsageFilter{By: []ec.UsageBy{ec.UsageByDay}, Feature: contracts.RoleChat, Since: "2026-01-02"}, []contracts.UsageSum{
			{Day: "2026-01-03", Calls: 1, InputTokens: 10, OutputTokens: 1, USD: 2}}},
		"model a until the second": {ec.UsageFilter{By: []ec.UsageBy{ec.UsageByFeature, ec.UsageByDay}, Model: "a", Until: "2026-01-02"}, []contracts.UsageSum{
			{Day: "2026-01-01", Feature: contracts.RoleChat, Calls: 1, InputTokens: 10, OutputTokens: 1, USD: 2}, {Day: "2026-01-02", Feature: contracts.RoleJudge, Calls: 1, InputTokens: 10, OutputTokens: 1, USD: 2}}},
	} {
		if d := cmp.Diff(tc.want, []contracts.UsageSum(e.View().Usage(tc.f).Rows)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if got := e.View().Usage(ec.UsageFilter{}); len(got.Rows) != 4 || got.Total.Calls != 4 || got.Total.USD != 8 {
		t.Errorf("everything: %+v", got)
	}
}
