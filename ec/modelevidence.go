package ec

import (
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// answers counts what a job's examples were answered by.
type answers struct {
	given   int // by this version, or whatever it was
	drifted int // of these, by another model than the pinned one, as the server itself says
}

// noteAnswer counts an answer to an example of a job. What a simulator says
// counts for nothing.
func (s *State) noteAnswer(r contracts.UsageRow) {
	if r.JobID == "" || r.Feature != contracts.RoleTask || !r.Success || r.Simulated {
		return
	}
	key := string(r.JobID) + "\x00" + r.Fingerprint
	n, _ := s.answers.Get(key)
	n.given++
	if r.ServedModel != r.Model {
		n.drifted++
	}
	s.answers.Set(key, n)
}

// replayRecord refuses a job as evidence for a version, unless the job was
// measured and the version, and nothing else, answered its examples.
func (s *State) replayRecord(job contracts.UUID, v contracts.ModelVersion) error {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Conflict, "no_replay_record", format, args...)
	}
	j, ok := s.jobs.Get(string(job))
	switch rows := len(s.rowsOf(job)); {
	case !ok:
		return refuse("there is no job %q whose replay could allow %s", job, v.VersionID)
	case j.Job.Status != contracts.JobCompleted:
		return refuse("the job is %s; only one that was completed shows anything", j.Job.Status)
	case rows == 0 || rows < cells(j):
		return refuse("nothing was measured in this job, or not all of it")
	case j.Detail.Simulated:
		return refuse("a simulator answered in this job, which shows nothing about a model")
	case v.RetiredAt != nil && !j.Job.CreatedAt.After(v.RetiredAt.Time):
		return refuse("%s was rolled back after this job; a replay that is younger is needed", v.VersionID)
	}
	var own, others answers
	prefix := string(job) + "\x00"
	s.answers.Ascend(prefix, func(key string, n answers) bool {
		by, mine := strings.CutPrefix(key, prefix)
		if !mine {
			return false
		}
		if by == v.Fingerprint {
			own = n
		} else {
			others.given += n.given
		}
		return true
	})
	switch {
	case own.given == 0:
		return refuse("the examples of this job were not answered by %s (%s with its parameters); name it in the job: promptlab jobs run --model-route", v.VersionID, v.Model)
	case others.given > 0:
		return refuse("%d of the %d answers of this job came from something other than %s", others.given, others.given+own.given, v.VersionID)
	case own.drifted > 0:
		return refuse("in %d of %d answers of this job the server said that it was not %s", own.drifted, own.given, v.Model)
	}
	return nil
}
