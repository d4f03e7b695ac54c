package ec

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// TokenHash is how a task's token is kept.
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// TokenMatches compares a token with a kept hash in constant time.
func TokenMatches(token, hash string) bool {
	return subtle.ConstantTimeCompare([]byte(TokenHash(token)), []byte(hash)) == 1
}

// Codes of refused worker messages: none of them can succeed later.
const (
	CodeTaskEnded      = "task_ended"
	CodeTaskSuperseded = "task_superseded"
)

// dispatchTask opens a new delivery of a waiting task.
func (s *State) dispatchTask(c Command, b DispatchTask) (decision, error) {
	old, err := s.openJob(b.JobID)
	if err != nil {
		return decision{}, err
	}
	if old.Task.Stage != StageWaiting || old.Task.Kind != b.Kind {
		return decision{}, fault.New(fault.Conflict, "conflict", "the task is not waiting")
	}
	if c.At.Before(old.Task.NotBefore.Time) {
		return decision{}, fault.New(fault.Conflict, "conflict", "the task waits for its retry")
	}
	if ok, why := s.sourceNow(old.Job.ArtifactKind, old.Job.ArtifactID, old.Detail.SourceHash); !ok {
		return s.staleBefore(c, old, why)
	}
	j := old.clone()
	hourAgo := c.At.Add(-time.Hour)
	recent := make(contracts.List[contracts.Time], 0, len(j.Task.Deliveries)+1)
	for _, t := range j.Task.Deliveries {
		if t.After(hourAgo) {
			recent = append(recent, t)
		}
	}
	if len(recent) >= s.policy.MaxDeliveries {
		j.end(c.At, contracts.JobFailed, contracts.FailWorkerUnavailable,
			fmt.Sprintf("the task was handed out %d times within an hour and never came back", len(recent)))
		return changed(string(b.JobID), append(s.dropUnmeasured(j, "the job failed before it was measured"), JobPut{Job: j, Previous: old, What: "failed"})...)
	}
	recent = append(recent, c.At)
	j.Task.Deliveries = recent
	j.Task.Stage, j.Task.Dispatch, j.Task.TokenHash = StageSent, j.Task.Dispatch+1, b.TokenHash
	j.Task.Worker, j.Task.ClaimedAt = "", nil
	j.Detail.Deliveries++
	j.Job.UpdatedAt = c.At
	return changed(string(b.JobID), JobPut{Job: j, Previous: old, What: "dispatched"})
}

// staleBefore ends a job whose source moved on before its task ran.
func (s *State) staleBefore(c Command, old *Job, why string) (decision, error) {
	j := old.clone()
	if old.Task.Kind == contracts.TaskOptimize && old.Detail.Deliveries == 0 {
		j.end(c.At, contracts.JobFailed, contracts.FailStaleSource, why)
		return changed(string(j.Job.JobID), JobPut{Job: j, Previous: old, What: "failed"})
	}
	return changed(string(j.Job.JobID), s.stale(c, old, j, why)...)
}

// stale ends a job whose source moved on while it ran: nothing becomes reviewable.
func (s *State) stale(c Command, old, j *Job, why string) []Event {
	j.end(c.At, contracts.JobStale, contracts.FailStaleSource, why)
	j.note(c.At, "stale", "%s: the result changes nothing", why)
	events := []Event{JobPut{Job: j, Previous: old, What: "stale"}}
	for _, cand := range s.candidatesOf(j) {
		gone := *cand
		gone.State, gone.StateReason, gone.Reviewable = contracts.CandidateInvalidated, why, false
		events = append(events, CandidatePut{Candidate: &gone})
	}
	return events
}

// loseTask takes a delivery back: the task waits again, at once.
func (s *State) loseTask(c Command, b LoseTask) (decision, error) {
	old, err := s.openJob(b.JobID)
	if err != nil {
		return decision{}, err
	}
	if old.Task.Dispatch != b.Dispatch || old.Task.Stage == StageWaiting {
		return unchanged(string(b.JobID), "not the current delivery")
	}
	j := old.clone()
	j.Task.Stage, j.Task.TokenHash, j.Task.NotBefore = StageWaiting, "", c.At
	j.Budget.settleLost()
	j.Job.UpdatedAt = c.At
	j.note(c.At, "delivery_lost", "delivery %d did not come back: %s", b.Dispatch, b.Why)
	return changed(string(b.JobID), JobPut{Job: j, Previous: old, What: "task_lost"})
}

func (s *State) openJob(id contracts.UUID) (*Job, error) {
	j, ok := s.jobs.Get(string(id))
	if !ok {
		return nil, fault.New(fault.NotFound, "not_found", "there is no job %q", id)
	}
	if j.Task == nil {
		return nil, fault.New(fault.Conflict, CodeTaskEnded, "the job has ended: it is %s", j.Job.Status)
	}
	return j, nil
}

// fenced finds the job of a worker's message and checks that the message belongs
// to the current delivery.
func (s *State) fenced(task contracts.UUID, dispatch int, token string) (*Job, error) {
	job, ok := s.tasks.Get(string(task))
	if !ok {
		return nil, fault.New(fault.NotFound, "not_found", "there is no task %q", task)
	}
	j, err := s.openJob(job)
	if err != nil {
		return nil, err
	}
	switch {
	case j.Task.ID != task:
		return nil, fault.New(fault.Conflict, CodeTaskEnded, "this task has ended")
	case j.Task.Dispatch != dispatch || j.Task.TokenHash == "":
		return nil, fault.New(fault.Conflict, CodeTaskSuperseded, "delivery %d of this task is not the current one", dispatch)
	case !TokenMatches(token, j.Task.TokenHash):
		return nil, fault.New(fault.Forbidden, "forbidden", "the token does not belong to this delivery")
	}
	return j, nil
}

func (s *State) claimTask(c Command, b ClaimTask) (decision, error) {
	old, err := s.fenced(b.TaskID, b.In.Dispatch, b.In.Token)
	if err != nil {
		return decision{}, err
	}
	if old.Task.Stage == StageClaimed {
		if old.Task.Worker != b.In.Worker {
			return decision{}, fault.New(fault.Conflict, CodeTaskSuperseded, "another worker has claimed this delivery")
		}
		return unchanged(string(old.Job.JobID), "claimed before")
	}
	if ok, why := s.sourceNow(old.Job.ArtifactKind, old.Job.ArtifactID, old.Detail.SourceHash); !ok {
		d, err := s.staleBefore(c, old, why)
		d.receipt.Note = CodeTaskEnded
		return d, err
	}
	j := old.clone()
	j.Task.Stage, j.Task.Worker, j.Task.ClaimedAt = StageClaimed, b.In.Worker, &c.At
	j.Job.Status, j.Job.UpdatedAt = contracts.JobRunning, c.At
	j.Detail.Phase = contracts.PhaseOptimizing
	if j.Task.Kind == contracts.TaskMeasure {
		j.Detail.Phase = contracts.PhaseMeasuring
	}
	if j.Detail.StartedAt == nil {
		j.Detail.StartedAt = &c.At
	}
	j.Detail.Attempts = j.Task.Failures + 1
	return changed(string(j.Job.JobID), JobPut{Job: j, Previous: old, What: "claimed"})
}

// taskFor builds the work of a claimed task.
func (s *State) taskFor(task contracts.UUID) (contracts.Task, error) {
	id, ok := s.tasks.Get(string(task))
	if !ok {
		return contracts.Task{}, fault.New(fault.NotFound, "not_found", "there is no task %q", task)
	}
	j, err := s.openJob(id)
	if err != nil {
		return contracts.Task{}, err
	}
	if j.Task.ID != task {
		return contracts.Task{}, fault.New(fault.Conflict, CodeTaskEnded, "this task has ended")
	}
	data, ok := s.datasets.Get(j.Job.DatasetRef)
	if !ok {
		return contracts.Task{}, fault.New(fault.NotFound, "not_found", "there is no dataset %q", j.Job.DatasetRef)
	}
	out := contracts.Task{
		TaskID: task, JobID: id, Kind: j.Task.Kind, Dispatch: j.Task.Dispatch,
		LeaseSeconds: int(max(s.policy.Lease, time.Second) / time.Second),
		Request:      s.requestFor(j, data),
		Budget:       contracts.TaskBudget{PaidCalls: j.Budget.Limit > 0, Left: j.left()},
		Models:       s.ruling(),
	}
	limit := s.policy.OptimizeLimit
	if j.Task.Kind == contracts.TaskMeasure {
		limit = s.policy.MeasureLimit
		out.Measure = s.measurePlan(j, data)
	}
	out.LimitSeconds = int(max(limit, time.Second) / time.Second)
	return out, nil
}

func (s *State) requestFor(j *Job, data *contracts.Dataset) contracts.PromptLabJobRequest {
	opt := j.Job.Options
	req := contracts.PromptLabJobRequest{
		JobID: j.Job.JobID, Backend: j.Job.Backend, ArtifactKind: j.Job.ArtifactKind, ArtifactID: j.Job.ArtifactID,
		ArtifactTitle: j.Detail.ArtifactTitle, SourceText: j.SourceText, SourceHash: j.Detail.SourceHash,
		WorkspaceID: j.WorkspaceID, RequestReason: j.Job.RequestReason, OptimizationGoal: j.Goal,
		Constraints: contracts.JobConstraints{
			MaxCandidates: opt.MaxCandidates, PerJobBudgetUSD: opt.PerJobBudgetUSD,
			BannedPhrases: opt.BannedPhrases, PreserveRequiredSections: opt.PreserveRequiredSections,
		},
		CreatedAt: j.Job.CreatedAt, Engine: opt.Engine, Seed: opt.Seed, MaxSteps: opt.MaxSteps, ModelRoute: opt.ModelRoute, Rubric: data.Rubric,
		LiveOverlay: s.isLive(j.Job.ArtifactID),
	}
	if j.Task != nil && j.Task.Kind == contracts.TaskOptimize {
		req.ReplayExamples = examples(data, j.Dev)
	}
	return req
}

func examples(data *contracts.Dataset, ids []string) contracts.List[contracts.ReplayExample] {
	byID := make(map[string]contracts.DatasetRow, len(data.Rows))
	for _, r := range data.Rows {
		byID[r.ExampleID] = r
	}
	out := make(contracts.List[contracts.ReplayExample], 0, len(ids))
	for _, id := range ids {
		r := byID[id]
		out = append(out, contracts.ReplayExample{
			ExampleID: r.ExampleID, InputText: r.InputText, ExpectedSignal: r.ExpectedSignal, RubricRef: r.RubricRef, Metadata: r.Metadata,
		})
	}
	return out
}

// left is what the current task may still borrow.
func (j *Job) left() contracts.NanoUSD {
	limit := j.Budget.Limit
	if j.Task != nil && j.Task.Kind == contracts.TaskOptimize {
		limit -= contracts.NanoUSD(float64(limit) * reserveShare)
	}
	return max(0, limit-j.Budget.Spent())
}

func (s *State) deliverUsage(c Command, b DeliverUsage) (decision, error) {
	old, err := s.fenced(b.TaskID, b.In.Dispatch, b.In.Token)
	if err != nil {
		return s.lateUsage(b, err)
	}
	var events []Event
	if fresh := s.newAttempts(ofJob(b.In.Rows, old.Job.JobID)); len(fresh) > 0 {
		events = append(events, UsagePut{fresh})
	}
	d := decision{receipt: Receipt{Subject: string(old.Job.JobID), Left: old.left()}}
	if b.In.Borrow > 0 {
		for _, before := range old.Budget.Borrows {
			if before.ID == b.In.BorrowID {
				d.receipt.Granted = before.Granted
				d.events, d.receipt.Changed = events, len(events) > 0
				return d, nil
			}
		}
		if granted := min(b.In.Borrow, old.left()); granted > 0 {
			j := old.clone()
			j.Budget.Lent += granted
			j.Budget.Unreturned += granted
			j.Budget.Borrows = append(j.Budget.Borrows, BorrowRecord{b.In.BorrowID, granted})
			j.Job.UpdatedAt = c.At
			d.receipt.Granted, d.receipt.Left = granted, j.left()
			events = append(events, JobPut{Job: j, Previous: old, What: "budget_lent"})
		}
	}
	d.events, d.receipt.Changed = events, len(events) > 0
	return d, nil
}

// lateUsage books the calls of a delivery that is over: they happened. Nothing
// is lent.
func (s *State) lateUsage(b DeliverUsage, err error) (decision, error) {
	job, ok := s.tasks.Get(string(b.TaskID))
	if !ok || fault.Of(err) != fault.Conflict {
		return decision{}, err
	}
	fresh := s.newAttempts(ofJob(b.In.Rows, job))
	if len(fresh) == 0 {
		return decision{}, err
	}
	d, _ := changed(string(job), UsagePut{fresh})
	d.receipt.Note = fault.Code(err)
	return d, nil
}

// ofJob gives the rows as those of a job, whatever job the worker wrote into them.
func ofJob(rows []contracts.UsageRow, job contracts.UUID) []contracts.UsageRow {
	out := make([]contracts.UsageRow, len(rows))
	for i, r := range rows {
		r.JobID = job
		out[i] = r
	}
	return out
}
