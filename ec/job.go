package ec

import (
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/internal/fault"
)

const (
	// reserveShare is the part of a job's budget that the search cannot touch:
	// it is kept for measuring what was found.
	reserveShare = 0.25
	maxNotes     = 50
	maxFailed    = 64
	workspace    = "default" // until artifacts belong to workspaces
)

// createJob checks in the order schema, gate, existence; then freezes source,
// split and criteria into the job.
func (s *State) createJob(c Command, b CreateJob) (decision, error) {
	in := b.Job
	if err := checkJob(c, in); err != nil {
		return decision{}, err
	}
	if err := s.mayAsk(c, in); err != nil {
		return decision{}, err
	}
	o, ok := s.overlays.Get(in.ArtifactID)
	if in.ArtifactKind != contracts.KindOverlay || !ok {
		return decision{}, fault.New(fault.NotFound, contracts.FailArtifactNotFound, "there is no saved %s %q; save the text first", in.ArtifactKind, in.ArtifactID)
	}
	if o.Archived() {
		return decision{}, fault.New(fault.Conflict, "overlay_archived", "the overlay %q is archived; restore it first", in.ArtifactID)
	}
	data, ok := s.datasets.Get(in.DatasetRef)
	if !ok {
		return decision{}, fault.New(fault.NotFound, "not_found", "there is no dataset %q; upload examples with: promptlab datasets create NAME FILE.jsonl", in.DatasetRef)
	}
	if s.keys.SplitKey == "" {
		return decision{}, fault.New(fault.Unavailable, "ec_unavailable", "the library has no keys yet; try again")
	}
	j := s.newJob(c, in, o, data)
	return changed(string(j.Job.JobID), JobPut{Job: j, What: "created"})
}

// checkJob applies the bounds of a request again; what is EC's own in it is not
// looked at.
func checkJob(c Command, in contracts.PromptLabJob) error {
	in.JobID, in.Status, in.ProposalID, in.Detail = contracts.DeriveID(c.ID, "job", 0), contracts.JobQueued, "", nil
	_, err := contracts.Check(in, contracts.Client)
	return err //nolint:wrapcheck // a fault for the sender
}

// mayAsk checks what can be checked without looking at the library.
func (s *State) mayAsk(c Command, in contracts.PromptLabJob) error {
	var details []fault.Detail
	if in.ArtifactKind == contracts.KindRoomRolePrompt {
		return fault.New(fault.Invalid, contracts.FailUnsupportedKind, "room role prompts are not optimized").
			With(fault.Detail{Field: "artifact_kind", Rule: contracts.FailUnsupportedKind, Message: "must be overlay_template, prompt_recipe or prompt_advisor_rewrite"})
	}
	if in.DatasetRef == "" {
		details = append(details, fault.Detail{Field: "dataset_ref", Rule: "required", Message: "is missing: a job needs examples"})
	}
	if in.Options != nil && in.Options.Engine == "gepa" {
		details = append(details, fault.Detail{Field: "options.engine", Rule: "enum", Message: "gepa is not available with this backend"})
	}
	if len(details) > 0 {
		return fault.Validation(details)
	}
	reasons := map[contracts.JobRequestReason]Role{contracts.ReasonNightly: RoleSystem, contracts.ReasonFollowup: RoleSeam}
	if need, special := reasons[in.RequestReason]; special != (c.Actor.Role == RoleSystem || c.Actor.Role == RoleSeam) || special && need != c.Actor.Role {
		return fault.New(fault.Forbidden, "forbidden", "the role %s may not ask for a %s job", c.Actor.Role, in.RequestReason)
	}
	return s.gates(in.Backend)
}

func (s *State) gates(backend contracts.PromptOptimizationBackend) error {
	closed := func(flag string) error {
		return fault.New(fault.Gate, "gate_closed", "the flag %s is off; turn it on with: promptlab flags set %s on", flag, flag).
			With(fault.Detail{Field: "flag", Rule: "gate_closed", Message: flag})
	}
	switch {
	case !s.flags.PromptLab:
		return closed("prompt_lab")
	case backend == contracts.BackendPromptolution && !s.flags.Promptolution:
		return closed("promptolution")
	case backend == contracts.BackendDSPy && !s.flags.DSPy:
		return closed("dspy")
	case backend == contracts.BackendDSPy:
		return fault.New(fault.Gate, "gate_closed", "the dspy backend is not installed here; use promptolution")
	}
	return nil
}

func (s *State) newJob(c Command, in contracts.PromptLabJob, o *Overlay, data *contracts.Dataset) *Job {
	in.JobID = contracts.DeriveID(c.ID, "job", 0)
	in.RequestedBy = c.Actor.Name
	in.Status = contracts.JobQueued
	in.CreatedAt, in.UpdatedAt = c.At, c.At
	in.Detail = nil
	if in.Options == nil {
		opt, err := contracts.Decode[contracts.JobOptions]([]byte("{}"), contracts.Client)
		if err != nil {
			panic("ec: default job options: " + err.Error())
		}
		in.Options = &opt
	}
	split := evidence.Split(evidenceRows(data), s.keys.SplitKey)
	criteria := evidence.DefaultCriteria()
	j := &Job{
		Job: in, SourceText: o.Record.Body, WorkspaceID: workspace, Goal: in.Options.OptimizationGoal,
		Dev: split.Dev, Holdout: split.Holdout, Criteria: criteria,
		Budget: Budget{Limit: contracts.FromUSD(in.Options.PerJobBudgetUSD)},
		Detail: contracts.JobDetail{
			SourceHash: o.Record.BodyHash, ArtifactTitle: o.Record.Frontmatter.Title, CriteriaHash: criteria.Hash(),
			BudgetUSD: in.Options.PerJobBudgetUSD,
			Split:     contracts.SplitInfo{Dev: len(split.Dev), Holdout: len(split.Holdout), Distinct: split.Distinct, Hash: split.Hash},
		},
	}
	if j.Goal == "" {
		j.Goal = "Answers written under this text should meet what the examples ask for more often, without breaking any rule the text already has."
	}
	for _, sh := range evidence.Preflight(split.Distinct, in.MinReplayExamples) {
		j.Detail.Warnings = append(j.Detail.Warnings, contracts.Warning{Code: "too_few_examples", Subject: string(sh.Label), Message: sh.Message})
	}
	if j.Budget.Limit == 0 {
		j.Detail.Warnings = append(j.Detail.Warnings, contracts.Warning{Code: "no_paid_calls", Message: "the budget is 0: only models that cost nothing are called"})
	}
	if split.Distinct < in.MinReplayExamples && in.RequestReason != contracts.ReasonManual {
		j.end(c.At, contracts.JobFailed, contracts.FailTooFewExamples,
			fmt.Sprintf("%d distinct examples, %d are needed", split.Distinct, in.MinReplayExamples))
		return j
	}
	j.Task = &TaskState{ID: contracts.DeriveID(c.ID, "task-optimize", 0), Kind: contracts.TaskOptimize, Stage: StageWaiting, NotBefore: c.At}
	return j
}

// clone copies a job so that it can be changed: everything that a change
// touches is fresh.
func (j *Job) clone() *Job {
	c := *j
	if j.Task != nil {
		t := *j.Task
		t.Deliveries = slices.Clone(j.Task.Deliveries)
		c.Task = &t
	}
	c.Detail.Warnings = slices.Clone(j.Detail.Warnings)
	c.Detail.CandidateIDs = slices.Clone(j.Detail.CandidateIDs)
	c.Detail.FailedOutcomes = slices.Clone(j.Detail.FailedOutcomes)
	c.Detail.Notes = slices.Clone(j.Detail.Notes)
	c.Budget.Borrows = slices.Clone(j.Budget.Borrows)
	return &c
}

// end brings a job to a terminal state: its task is over and its token dead.
func (j *Job) end(at contracts.Time, status contracts.PromptLabJobStatus, code, message string) {
	j.Job.Status, j.Job.UpdatedAt = status, at
	j.Detail.Phase = ""
	j.Detail.FailureCode, j.Detail.FailureMessage = code, message
	j.Detail.CompletedAt = &at
	j.Budget.settleLost()
	j.Task = nil
}

// settleLost ends the money of a dispatch that returned nothing: it counts as spent.
func (b *Budget) settleLost() { b.Unreturned, b.Borrows = 0, nil }

// note adds a remark. The last places are kept for how the job ended.
func (j *Job) note(at contracts.Time, code, format string, args ...any) {
	most := maxNotes
	if code == "stale" || code == "cancelled" {
		most += 2
	}
	if len(j.Detail.Notes) < most {
		j.Detail.Notes = append(j.Detail.Notes, contracts.JobNote{At: at, Code: code, Text: fmt.Sprintf(format, args...)})
	}
}

func (s *State) cancelJob(c Command, b CancelJob) (decision, error) {
	old, ok := s.jobs.Get(string(b.JobID))
	if !ok {
		return decision{}, fault.New(fault.NotFound, "not_found", "there is no job %q", b.JobID)
	}
	if old.Job.Status == contracts.JobCancelled {
		return unchanged(string(b.JobID), "already cancelled")
	}
	if old.Job.Status.Terminal() {
		return decision{}, fault.New(fault.Conflict, "conflict", "the job has ended already: it is %s", old.Job.Status)
	}
	j := old.clone()
	j.end(c.At, contracts.JobCancelled, "", "")
	j.Detail.EndedBy = contracts.EndedByCancel
	j.note(c.At, "cancelled", "cancelled by %s", c.Actor.Name)
	events := []Event{JobPut{Job: j, Previous: old, What: "cancelled"}}
	events = append(events, s.dropUnmeasured(j, "the job was cancelled before it was measured")...)
	return changed(string(b.JobID), events...)
}

// dropUnmeasured says of a job's unmeasured candidates why they cannot be reviewed.
func (s *State) dropUnmeasured(j *Job, why string) []Event {
	var events []Event
	for _, old := range s.candidatesOf(j) {
		if old.State == contracts.CandidateUnmeasured {
			cand := *old
			cand.StateReason, cand.Reviewable = why, false
			events = append(events, CandidatePut{Candidate: &cand})
		}
	}
	return events
}

// candidatesOf gives a job's candidates in the order in which they were found.
func (s *State) candidatesOf(j *Job) []*contracts.PromptCandidate {
	out := make([]*contracts.PromptCandidate, 0, len(j.Detail.CandidateIDs))
	for _, id := range j.Detail.CandidateIDs {
		if cand, ok := s.candidates.Get(string(id)); ok {
			out = append(out, cand)
		}
	}
	return out
}

// jobView is a job as the API shows it.
func (s *State) jobView(j *Job) contracts.PromptLabJob {
	out := j.Job
	d := j.clone().Detail
	d.Usage = s.usageOf(out.JobID)
	d.SpentUSD = j.Budget.Spent().USD()
	out.Detail = &d
	return out
}

// sourceNow says whether a job's source text still is what the job began with.
func (s *State) sourceNow(kind contracts.PromptArtifactKind, id, hash string) (ok bool, why string) {
	o, found := s.overlays.Get(id)
	switch {
	case kind != contracts.KindOverlay || !found:
		return false, "the source text is gone"
	case o.Archived():
		return false, "the source text was archived meanwhile"
	case o.Record.BodyHash != hash:
		return false, "the source text was changed meanwhile"
	}
	return true, ""
}

// candidateNow is a candidate as of this state: it is invalid once its source
// has moved on.
func (s *State) candidateNow(c *contracts.PromptCandidate) contracts.PromptCandidate {
	out := *c
	switch c.State {
	case contracts.CandidatePending, contracts.CandidateUnmeasured:
		if ok, why := s.sourceNow(c.ArtifactKind, c.ArtifactID, c.SourceArtifactHash); !ok {
			out.State, out.StateReason, out.Reviewable = contracts.CandidateInvalidated, why, false
		}
	}
	return out
}
