package ec

import (
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/internal/fault"
)

// finishTask takes a worker's result as the claim that it is: only the current
// delivery counts, and everything in it is checked again.
func (s *State) finishTask(c Command, b FinishTask) (decision, error) {
	old, err := s.fenced(b.TaskID, b.In.Dispatch, b.In.Token)
	if err != nil {
		return s.lateResult(c, b, err)
	}
	j := old.clone()
	back := min(max(b.In.Unspent, 0), j.Budget.Unreturned)
	j.Budget.Returned += back
	j.Budget.Unreturned -= back
	j.Budget.settleLost()
	j.Job.UpdatedAt = c.At
	j.Detail.Simulated = j.Detail.Simulated || b.In.Result.Simulated
	var events []Event
	switch r := b.In.Result; {
	case r.JobID != j.Job.JobID:
		return decision{}, fault.New(fault.Invalid, "validation_failed", "the result belongs to another job").
			With(fault.Detail{Field: "result.job_id", Rule: "foreign", Message: "is not the job of this task"})
	case r.Status == contracts.JobFailed:
		events = s.failedTask(c, old, j, r.FailureCode, r.FailureMessage)
	default:
		if ok, why := s.sourceNow(j.Job.ArtifactKind, j.Job.ArtifactID, j.Detail.SourceHash); !ok {
			events = s.stale(c, old, j, why)
			break
		}
		if j.Task.Kind == contracts.TaskMeasure {
			events, err = s.measuredResult(c, old, j, r)
		} else {
			events = s.searchResult(c, old, j, r)
		}
	}
	if err != nil {
		return decision{}, err
	}
	d, _ := changed(string(j.Job.JobID), events...)
	return d, nil
}

// lateResult keeps a note of a result that nobody waits for any more.
func (s *State) lateResult(c Command, b FinishTask, err error) (decision, error) {
	id, ok := s.tasks.Get(string(b.TaskID))
	if !ok || fault.Of(err) != fault.Conflict {
		return decision{}, err
	}
	old, ok := s.jobs.Get(string(id))
	if !ok {
		return decision{}, err
	}
	d := decision{receipt: Receipt{Subject: string(id), Note: fault.Code(err)}}
	if len(old.Detail.Notes) >= maxNotes {
		return d, nil
	}
	j := old.clone()
	j.note(c.At, "late_result", "a result of delivery %d came after its time and changed nothing", b.In.Dispatch)
	d.events = []Event{JobPut{Job: j, Previous: old, What: "late_result"}}
	d.receipt.Changed = true
	return d, nil
}

// failedTask retries what may be retried, up to the number of delays.
func (s *State) failedTask(c Command, old, j *Job, code, message string) []Event {
	if code == "" {
		code = "unknown"
	}
	j.Detail.FailureCode, j.Detail.FailureMessage = code, message
	if contracts.RetryableFailure(code) && j.Task.Failures < len(s.policy.RetryDelays) {
		wait := s.policy.RetryDelays[j.Task.Failures]
		j.Task.Failures++
		j.Task.Stage, j.Task.TokenHash, j.Task.Worker, j.Task.ClaimedAt = StageWaiting, "", "", nil
		j.Task.NotBefore = contracts.At(c.At.Add(wait))
		j.Job.Status, j.Detail.Phase = contracts.JobQueued, ""
		j.note(c.At, "retry", "%s: try %d follows in %s", code, j.Task.Failures+1, wait)
		return []Event{JobPut{Job: j, Previous: old, What: "retry"}}
	}
	j.end(c.At, contracts.JobFailed, code, message)
	return append(s.dropUnmeasured(j, "the job failed before it was measured"), JobPut{Job: j, Previous: old, What: "failed"})
}

// searchResult takes in what a search found and opens the measurement.
func (s *State) searchResult(c Command, old, j *Job, r contracts.PromptLabJobResult) []Event {
	j.Detail.Optimizer, j.Detail.EndedBy = r.Optimizer, r.EndedBy
	j.Detail.Warnings = append(j.Detail.Warnings, r.Warnings...)
	found, refused := s.ingest(c, j, r)
	j.Detail.FailedOutcomes = refused
	j.Detail.FailureCode, j.Detail.FailureMessage = "", ""
	if len(found) == 0 {
		if len(refused) > 0 {
			j.end(c.At, contracts.JobFailed, contracts.FailSafetyLint, fmt.Sprintf("none of %d candidates passed the gates", len(refused)))
			return []Event{JobPut{Job: j, Previous: old, What: "failed"}}
		}
		j.note(c.At, "no_candidates", "the search found no text that differs from the source and scores as well")
		j.end(c.At, contracts.JobCompleted, "", "")
		return append(s.tested(c, j), JobPut{Job: j, Previous: old, What: "completed"})
	}
	for _, cand := range found {
		j.Detail.CandidateIDs = append(j.Detail.CandidateIDs, cand.CandidateID)
	}
	events := s.openMeasurement(c, old, j, found)
	for _, cand := range found {
		events = append(events, CandidatePut{Candidate: cand})
	}
	return events
}

// openMeasurement hands the sealed examples to a second task, where there are
// any and money is left; otherwise it says why the candidates stay unmeasured.
func (s *State) openMeasurement(c Command, old, j *Job, found []*contracts.PromptCandidate) []Event {
	why := ""
	switch {
	case len(j.Holdout) == 0:
		why = "too few examples: none are left for a measurement"
	case j.Budget.Limit > 0 && j.Budget.Limit <= j.Budget.Spent():
		why = "the budget is used up: nothing is left for a measurement"
	}
	if why != "" {
		for _, cand := range found {
			cand.StateReason = why
		}
		j.end(c.At, contracts.JobCompleted, "", "")
		return append(s.tested(c, j), JobPut{Job: j, Previous: old, What: "completed"})
	}
	j.Task = &TaskState{ID: contracts.DeriveID(c.ID, "task-measure", 0), Kind: contracts.TaskMeasure, Stage: StageWaiting, NotBefore: c.At}
	j.Detail.Phase = contracts.PhaseMeasuring
	used := s.useHoldout(j)
	for _, uses := range used.Uses {
		j.Detail.Split.Uses = max(j.Detail.Split.Uses, uses)
	}
	return []Event{used, JobPut{Job: j, Previous: old, What: "measuring"}}
}

// useHoldout counts one more use of every sealed input, whatever dataset or
// version it stands in: another name or one changed row makes nothing fresh.
func (s *State) useHoldout(j *Job) HoldoutUsed {
	used := HoldoutUsed{Uses: make(map[string]int, len(j.Holdout))}
	data, ok := s.datasets.Get(j.Job.DatasetRef)
	if !ok {
		return used
	}
	for _, ex := range examples(data, j.Holdout) {
		key := contracts.HashBytes([]byte(evidence.NormaliseInput(ex.InputText)))[:32]
		uses, _ := s.holdouts.Get(key)
		used.Uses[key] = uses + 1
	}
	return used
}

// tested stamps the artifact of a completed job.
func (s *State) tested(c Command, j *Job) []Event {
	o, ok := s.overlays.Get(j.Job.ArtifactID)
	if !ok {
		return nil
	}
	n := *o
	n.Meta.LastLabTestedAt = &c.At
	return []Event{OverlayPut{Overlay: &n, Previous: o}}
}

// ingest checks every candidate of a result: its hash is recomputed; surplus,
// copies, unchanged and unsafe texts are refused, each with its reasons.
func (s *State) ingest(c Command, j *Job, r contracts.PromptLabJobResult) ([]*contracts.PromptCandidate, contracts.List[contracts.FailedOutcome]) {
	var found []*contracts.PromptCandidate
	var refused contracts.List[contracts.FailedOutcome]
	refuse := func(hash string, findings ...contracts.GateFinding) {
		if len(refused) < maxFailed {
			refused = append(refused, contracts.FailedOutcome{CandidateHash: hash, Findings: findings})
		}
	}
	seen := map[string]bool{j.Detail.SourceHash: true}
	for _, p := range r.Candidates {
		text := contracts.Normalize(p.CandidateText)
		hash := contracts.Hash(text)
		finding := func(rule, message string) contracts.GateFinding {
			return contracts.GateFinding{Rule: rule, Severity: "block", Message: message}
		}
		switch {
		case p.CandidateHash != hash:
			refuse(hash, finding("hash_mismatch", "the hash sent with the candidate is not that of its text"))
			continue
		case p.SourceHash != j.Detail.SourceHash:
			refuse(hash, finding("foreign", "the candidate was made from another text"))
			continue
		case hash == j.Detail.SourceHash:
			refuse(hash, finding("unchanged", "the candidate is the source"))
			continue
		case seen[hash]:
			refuse(hash, finding("duplicate", "the same text came twice"))
			continue
		case len(found) >= j.Job.Options.MaxCandidates:
			refuse(hash, finding("surplus", "more candidates than were asked for"))
			continue
		}
		seen[hash] = true
		findings, blocked := s.gate(j, text)
		if blocked {
			refuse(hash, findings...)
			continue
		}
		found = append(found, &contracts.PromptCandidate{
			CandidateID:  contracts.DeriveID(string(j.Job.JobID), "candidate/"+hash, 0),
			ArtifactKind: j.Job.ArtifactKind, ArtifactID: j.Job.ArtifactID, CandidateText: text, Backend: j.Job.Backend,
			EvidenceLabel: contracts.LabelNone, SourceJobID: j.Job.JobID, SourceArtifactHash: j.Detail.SourceHash,
			CreatedAt: c.At, CandidateHash: hash, State: contracts.CandidateUnmeasured, StateReason: "not measured yet",
			DeltaSummary: p.DeltaSummary, BackendNotes: p.BackendNotes, Gates: findings, SearchScore: p.SearchScore,
			Simulated: r.Simulated,
		})
	}
	return found, refused
}

// gate runs the gates that the worker ran too, on EC's own copy of everything.
func (s *State) gate(j *Job, text string) (contracts.List[contracts.GateFinding], bool) {
	rules := lint.GateRules{
		Kind:             j.Job.ArtifactKind,
		BannedPhrases:    j.Job.Options.BannedPhrases,
		PreserveSections: j.Job.Options.PreserveRequiredSections,
		Live:             s.isLive(j.Job.ArtifactID),
	}
	if data, ok := s.datasets.Get(j.Job.DatasetRef); ok {
		for _, r := range data.Rows {
			rules.Examples = append(rules.Examples, r.InputText)
		}
	}
	var out contracts.List[contracts.GateFinding]
	blocked := false
	for _, f := range lint.Gates(j.SourceText, text, rules) {
		out = append(out, contracts.GateFinding{Rule: f.Rule, Severity: string(f.Severity), Message: f.Message})
		blocked = blocked || f.Severity == lint.Block
	}
	return out, blocked
}

func (s *State) isLive(id string) bool {
	o, ok := s.overlays.Get(id)
	return ok && o.Record.Frontmatter.ArtifactClass == contracts.ClassLive
}
