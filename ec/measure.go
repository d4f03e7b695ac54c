package ec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/internal/fault"
)

// armSource is the incumbent's arm. It runs twice: run 1 is its own control.
const armSource = "source"

// measurePlan says which cells a measurement has, and which EC has already.
func (s *State) measurePlan(j *Job, data *contracts.Dataset) *contracts.MeasurePlan {
	plan := &contracts.MeasurePlan{
		CriteriaHash: j.Detail.CriteriaHash,
		Examples:     examples(data, j.Holdout),
		Arms:         contracts.List[contracts.MeasureArm]{{Arm: armSource, Text: j.SourceText, Runs: 2}},
	}
	for _, cand := range s.candidatesOf(j) {
		plan.Arms = append(plan.Arms, contracts.MeasureArm{Arm: cand.CandidateHash, Text: cand.CandidateText, Runs: 1})
	}
	for _, r := range s.rowsOf(j.Job.JobID) {
		plan.Done = append(plan.Done, r.Key())
	}
	return plan
}

// rowsOf gives a job's measured rows in the order of their keys.
func (s *State) rowsOf(job contracts.UUID) []contracts.MeasurementRow {
	prefix := string(job) + "\x00"
	var out []contracts.MeasurementRow
	s.rows.Ascend(prefix, func(key string, r contracts.MeasurementRow) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		out = append(out, r)
		return true
	})
	return out
}

// deliverRows takes the rows that belong to the plan and are not there yet.
func (s *State) deliverRows(_ Command, b DeliverRows) (decision, error) {
	j, err := s.fenced(b.TaskID, b.In.Dispatch, b.In.Token)
	if err != nil {
		return decision{}, err
	}
	if j.Task.Kind != contracts.TaskMeasure {
		return decision{}, fault.New(fault.Conflict, "conflict", "this task measures nothing")
	}
	arms := map[string]int{armSource: 2}
	for _, cand := range s.candidatesOf(j) {
		arms[cand.CandidateHash] = 1
	}
	sealed := make(map[string]bool, len(j.Holdout))
	for _, id := range j.Holdout {
		sealed[id] = true
	}
	var fresh []contracts.MeasurementRow
	var details []fault.Detail
	seen := map[contracts.MeasurementKey]bool{}
	for i, r := range b.In.Rows {
		runs, known := arms[r.Arm]
		if !known || r.Run >= runs || !sealed[r.ExampleID] {
			details = append(details, fault.Detail{Field: fmt.Sprintf("rows[%d]", i), Rule: "foreign", Message: "is no cell of this measurement"})
			continue
		}
		if _, have := s.rows.Get(rowKey(j.Job.JobID, r.Key())); !have && !seen[r.Key()] {
			seen[r.Key()] = true
			fresh = append(fresh, r)
		}
	}
	if len(details) > 0 {
		return decision{}, fault.Validation(details)
	}
	if len(fresh) == 0 {
		return unchanged(string(j.Job.JobID), "all rows were there")
	}
	return changed(string(j.Job.JobID), RowsPut{JobID: j.Job.JobID, Rows: fresh})
}

// measuredResult turns the rows into evidence. The worker's own opinion of
// them is not asked for.
func (s *State) measuredResult(c Command, old, j *Job, r contracts.PromptLabJobResult) ([]Event, error) {
	if r.EndedBy == contracts.EndedByBudget {
		j.Detail.Warnings = append(j.Detail.Warnings, contracts.Warning{Code: "budget_exhausted", Message: "the budget ran out while measuring; raise it and run the job again"})
		j.end(c.At, contracts.JobCompleted, "", "")
		j.Detail.EndedBy = contracts.EndedByBudget
		events := s.dropUnmeasured(j, "the budget ran out before the measurement was complete")
		return append(events, JobPut{Job: j, Previous: old, What: "completed"}), nil
	}
	rows := s.rowsOf(j.Job.JobID)
	if missing := cells(j) - len(rows); missing > 0 {
		return s.failedTask(c, old, j, contracts.FailTemporary, fmt.Sprintf("the measurement lacks %d answers", missing)), nil
	}
	report, m, err := s.judge(j, rows)
	if err != nil {
		return nil, err
	}
	if report.Control != nil {
		block := evidenceBlock(*report.Control)
		j.Detail.Control = &block
	}
	simulated, mixed := provenance(rows)
	j.Detail.Simulated = j.Detail.Simulated || simulated
	events := make([]Event, 0, len(report.Finalists)+2)
	for i, v := range report.Finalists {
		if mixed != "" {
			v.Label, v.Reasons = evidence.NoLocalEvidence, append([]string{mixed}, v.Reasons...)
		}
		cand, ok := s.candidates.Get(v.ID)
		if !ok {
			continue
		}
		put := s.labelled(j, cand, v, m.Finalists[i])
		put.Candidate.Simulated = put.Candidate.Simulated || j.Detail.Simulated
		events = append(events, put)
	}
	j.end(c.At, contracts.JobCompleted, "", "")
	events = append(events, s.tested(c, j)...)
	return append(events, JobPut{Job: j, Previous: old, What: "completed"}), nil
}

// provenance says whether a simulator gave any of the answers, and why no label
// can rest on them when they came from more than one model.
func provenance(rows []contracts.MeasurementRow) (simulated bool, mixed string) {
	var models []string
	for _, r := range rows {
		simulated = simulated || r.Simulated
		if r.Model != "" && !slices.Contains(models, r.Model) {
			models = append(models, r.Model)
		}
	}
	if len(models) > 1 {
		return simulated, fmt.Sprintf("The answers came from %d models (%s): they cannot be compared.", len(models), strings.Join(models, ", "))
	}
	return simulated, ""
}

// cells counts the answers that a complete measurement of a job has.
func cells(j *Job) int { return (2 + len(j.Detail.CandidateIDs)) * len(j.Holdout) }

// judge builds the measurement of a job and asks package evidence for its labels.
func (s *State) judge(j *Job, rows []contracts.MeasurementRow) (evidence.Report, evidence.Measurement, error) {
	slicesOf := map[string]string{}
	if data, ok := s.datasets.Get(j.Job.DatasetRef); ok {
		for _, r := range data.Rows {
			slicesOf[r.ExampleID] = r.Slice
		}
	}
	scores := map[string][]evidence.Score{}
	failed := map[string][]string{}
	for _, r := range rows {
		arm := r.Arm
		if r.Run > 0 {
			arm += "/control"
		}
		scores[arm] = append(scores[arm], evidence.Score{ExampleID: r.ExampleID, Slice: slicesOf[r.ExampleID], Value: r.Score})
		if r.MustFailed {
			failed[arm] = append(failed[arm], r.ExampleID)
		}
	}
	control := evidence.Pair(scores[armSource], scores[armSource+"/control"])
	m := evidence.Measurement{
		CriteriaHash: j.Detail.CriteriaHash, HoldoutSize: len(j.Holdout), HoldoutUses: j.Detail.Split.Uses,
		Tried: len(j.Detail.CandidateIDs), Control: &control,
	}
	if o := j.Detail.Optimizer; o != nil && o.Tried > m.Tried {
		m.Tried = o.Tried
	}
	for _, cand := range s.candidatesOf(j) {
		m.Finalists = append(m.Finalists, evidence.Finalist{
			ID: string(cand.CandidateID), Pairs: evidence.Pair(scores[armSource], scores[cand.CandidateHash]), MustPassFailed: failed[cand.CandidateHash],
		})
	}
	report, err := evidence.Judge(j.Criteria, m)
	if err != nil {
		return report, m, fmt.Errorf("judge the measurement: %w", err)
	}
	return report, m, nil
}

// labelled is a candidate with its evidence: it waits for a person now.
func (s *State) labelled(j *Job, old *contracts.PromptCandidate, v evidence.Judgement, f evidence.Finalist) CandidatePut {
	cand := *old
	cand.EvidenceLabel = contracts.EvidenceLabel(v.Label)
	block := evidenceBlock(v.Comparison)
	cand.Evidence = &block
	cand.LabelReasons = v.Reasons
	cand.State, cand.StateReason, cand.Reviewable = contracts.CandidatePending, "", true
	cand.ReplaySummaryRef = "replay_summaries/" + string(cand.CandidateID)
	arm := make([]evidence.Score, 0, len(f.Pairs.Examples))
	for _, e := range f.Pairs.Examples {
		value := e.Arm
		arm = append(arm, evidence.Score{ExampleID: e.ExampleID, Slice: e.Slice, Value: &value})
	}
	lower := evidence.LowerMean(arm)
	sum := &contracts.PromptLabReplaySummary{
		ExamplesRun: len(j.Holdout), ExamplesSucceeded: len(arm), EvidenceLabel: cand.EvidenceLabel, LowerConfidenceBound: &lower,
	}
	return CandidatePut{Candidate: &cand, Summary: sum}
}

func evidenceBlock(c evidence.Comparison) contracts.EvidenceBlock {
	return contracts.EvidenceBlock{
		Slice: c.Slice, N: c.N, MeanArm: c.MeanArm, MeanAgainst: c.MeanAgainst, Difference: c.Difference,
		LowerBound: c.LowerBound, UpperBound: c.UpperBound, Verdict: string(c.Verdict), Unscored: c.Unscored, Wins: c.Wins, Losses: c.Losses,
	}
}
