package ec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// View is one immutable moment of the state, for readers. Its answers are made
// of fresh values: a caller may change them.
type View struct{ s *State }

// NewView makes a view of a state that nobody changes any more.
func NewView(s *State) *View { return &View{s} }

// Seq is the view's revision: how many commands have been accepted.
func (v *View) Seq() uint64 { return v.s.Seq }

// OverlayFilter narrows a list of the library. The zero value lists what is
// visible by default: not archived, not hidden.
type OverlayFilter struct {
	Query           string
	Category        contracts.OverlayCategory
	Tier            contracts.OverlayVisibilityTier
	Class           contracts.OverlayArtifactClass
	IncludeArchived bool
	Limit, Offset   int
}

func page[T any](items []T, limit, offset int) contracts.List[T] {
	offset = min(max(offset, 0), len(items))
	items = items[offset:]
	if limit > 0 && limit < len(items) {
		items = items[:limit]
	}
	return items
}

func (f OverlayFilter) matches(o *Overlay, words []string) bool {
	fm := &o.Record.Frontmatter
	switch {
	case o.Archived() && !f.IncludeArchived:
		return false
	case f.Tier != "" && fm.VisibilityTier != f.Tier:
		return false
	case f.Tier == "" && f.Class == "" && fm.VisibilityTier == contracts.TierHidden:
		return false
	case f.Class != "" && fm.ArtifactClass != f.Class:
		return false
	case f.Category != "" && fm.Category != f.Category:
		return false
	}
	for _, word := range words {
		if !strings.Contains(o.found, word) {
			return false
		}
	}
	return true
}

func indexEntry(o *Overlay) contracts.OverlayIndexEntry {
	fm := o.Record.Frontmatter
	return contracts.OverlayIndexEntry{
		OverlayID: fm.ID, Title: fm.Title, ArtifactClass: fm.ArtifactClass, Category: fm.Category,
		VisibilityTier: fm.VisibilityTier, SupportedSurfaces: slices.Clone(fm.SupportedSurfaces),
		EstimatedTokens: contracts.EstimateTokens(o.Record.Body),
		ConflictsWith:   slices.Clone(fm.ConflictsWith), WarnsWith: slices.Clone(fm.WarnsWith),
		Preset: fm.Preset, Archived: o.Archived(), UpdatedAt: o.Record.UpdatedAt,
	}
}

// Overlay gives one overlay, by id or by an alias it once had, archived or not.
func (v *View) Overlay(id contracts.OverlayID) (contracts.OverlayDetail, string, error) {
	o, ok := v.s.resolve(id)
	if !ok {
		return contracts.OverlayDetail{}, "", noOverlay(id)
	}
	return contracts.OverlayDetail{Record: o.Record, Metadata: o.Meta}, o.FileHash, nil
}

func noOverlay(id contracts.OverlayID) error {
	return fault.New(fault.NotFound, "not_found", "there is no overlay %q", id)
}

// Flags gives the lab's switches.
func (v *View) Flags() contracts.Flags { return v.s.flags }

// HasKeys says whether the library has its secrets.
func (v *View) HasKeys() bool { return v.s.keys.SplitKey != "" }

// Datasets lists every version of every dataset.
func (v *View) Datasets() contracts.DatasetList {
	var items []contracts.DatasetSummary
	v.s.datasets.Scan(func(_ string, d *contracts.Dataset) bool {
		items = append(items, summarize(d))
		return true
	})
	return contracts.DatasetList{Items: items, Total: len(items)}
}

// Dataset gives one version with its rows.
func (v *View) Dataset(ref string) (contracts.Dataset, error) {
	d, ok := v.s.datasets.Get(ref)
	if !ok {
		return contracts.Dataset{}, fault.New(fault.NotFound, "not_found", "there is no dataset %q", ref)
	}
	return *d, nil
}

// DatasetSummary gives one version without its rows.
func (v *View) DatasetSummary(ref string) (contracts.DatasetSummary, error) {
	d, ok := v.s.datasets.Get(ref)
	if !ok {
		return contracts.DatasetSummary{}, fault.New(fault.NotFound, "not_found", "there is no dataset %q", ref)
	}
	return summarize(d), nil
}

// Job gives one job as the API shows it.
func (v *View) Job(id contracts.UUID) (contracts.PromptLabJob, error) {
	j, ok := v.s.jobs.Get(string(id))
	if !ok {
		return contracts.PromptLabJob{}, fault.New(fault.NotFound, "not_found", "there is no job %q", id)
	}
	return v.s.jobView(j), nil
}

// JobFilter narrows a list of jobs.
type JobFilter struct {
	Status        contracts.PromptLabJobStatus
	ArtifactID    string
	Limit, Offset int
}

// Jobs lists jobs, newest first.
func (v *View) Jobs(f JobFilter) contracts.PromptLabJobList {
	var items []contracts.PromptLabJob
	v.s.jobs.Scan(func(_ string, j *Job) bool {
		if (f.Status == "" || j.Job.Status == f.Status) && (f.ArtifactID == "" || j.Job.ArtifactID == f.ArtifactID) {
			items = append(items, v.s.jobView(j))
		}
		return true
	})
	slices.SortStableFunc(items, func(a, b contracts.PromptLabJob) int { return b.CreatedAt.Compare(a.CreatedAt.Time) })
	return contracts.PromptLabJobList{Total: len(items), Items: page(items, f.Limit, f.Offset)}
}

// CandidateFilter narrows a list of candidates.
type CandidateFilter struct {
	JobID         contracts.UUID
	ArtifactID    string
	State         contracts.CandidateState
	Limit, Offset int
}

// Candidates lists candidates, newest first and best first within a job. Their
// state is as of now: one whose source has changed is invalidated.
func (v *View) Candidates(f CandidateFilter) contracts.PromptCandidateList {
	var items []contracts.PromptCandidate
	v.s.candidates.Scan(func(_ string, c *contracts.PromptCandidate) bool {
		now := v.s.candidateNow(c)
		if (f.JobID == "" || now.SourceJobID == f.JobID) && (f.ArtifactID == "" || now.ArtifactID == f.ArtifactID) && (f.State == "" || now.State == f.State) {
			items = append(items, now)
		}
		return true
	})
	slices.SortStableFunc(items, func(a, b contracts.PromptCandidate) int {
		if d := b.CreatedAt.Compare(a.CreatedAt.Time); d != 0 {
			return d
		}
		return compareMerit(a, b)
	})
	return contracts.PromptCandidateList{Total: len(items), Items: page(items, f.Limit, f.Offset)}
}

func compareMerit(a, b contracts.PromptCandidate) int {
	merit := func(c contracts.PromptCandidate) float64 {
		switch {
		case c.Evidence != nil:
			return 10 + c.Evidence.Difference
		case c.SearchScore != nil:
			return *c.SearchScore
		}
		return -1
	}
	switch x, y := merit(a), merit(b); {
	case x > y:
		return -1
	case x < y:
		return 1
	}
	return strings.Compare(string(a.CandidateID), string(b.CandidateID))
}

// Candidate gives one candidate beside the text it would replace.
func (v *View) Candidate(id contracts.UUID) (contracts.PromptCandidateDetail, error) {
	c, ok := v.s.candidates.Get(string(id))
	if !ok {
		return contracts.PromptCandidateDetail{}, fault.New(fault.NotFound, "not_found", "there is no candidate %q", id)
	}
	out := contracts.PromptCandidateDetail{Candidate: v.s.candidateNow(c)}
	if j, ok := v.s.jobs.Get(string(c.SourceJobID)); ok {
		out.SourceText = j.SourceText
	}
	if sum, ok := v.s.summaries.Get(string(id)); ok {
		s := *sum
		out.ReplaySummary = &s
	}
	return out, nil
}

// Status says how things are.
func (v *View) Status() contracts.Status {
	st := contracts.Status{Flags: v.s.flags, Revision: v.s.Seq, Overlays: v.s.overlays.Len()}
	gate := func(name string, on bool) {
		g := contracts.Gate{Name: name, Open: on}
		if !on {
			g.Reason = fmt.Sprintf("the flag %s is off; turn it on with: promptlab flags set %s on", name, name)
		}
		st.Gates = append(st.Gates, g)
	}
	gate("prompt_lab", v.s.flags.PromptLab)
	gate("promptolution", v.s.flags.Promptolution)
	gate("dspy", v.s.flags.DSPy)
	gate("candidate_apply", v.s.flags.CandidateApply)
	st.Gates = append(st.Gates, v.companionGates()...)
	v.s.jobs.Scan(func(_ string, j *Job) bool {
		if !j.Job.Status.Terminal() {
			st.JobsOpen++
		}
		return true
	})
	v.s.externals.Scan(func(path string, x refused) bool {
		st.Warnings = append(st.Warnings, contracts.Warning{Code: "hand_edit_refused", Subject: path, Message: onOneLine(x.why)})
		return true
	})
	st.Warnings = append(st.Warnings, v.s.modelWarnings()...)
	return st
}

// OpenTask is a task that needs the dispatcher's attention.
type OpenTask struct {
	JobID contracts.UUID
	Task  TaskState
}

// Idle says that every job has ended.
func (v *View) Idle() bool { return v.s.unfinished.Len() == 0 }

// OpenTasks lists the tasks of all jobs that have not ended, oldest job first.
func (v *View) OpenTasks() []OpenTask {
	var out []OpenTask
	var at []contracts.Time
	v.s.unfinished.Scan(func(id string, _ struct{}) bool {
		j, _ := v.s.jobs.Get(id)
		out = append(out, OpenTask{j.Job.JobID, *j.Task})
		at = append(at, j.Job.CreatedAt)
		return true
	})
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return at[a].Compare(at[b].Time) })
	sorted := make([]OpenTask, len(out))
	for i, k := range order {
		sorted[i] = out[k]
	}
	return sorted
}

// TaskOf gives a job's open task and the job of a task id; ok is false when the
// task has ended or never was.
func (v *View) TaskOf(task contracts.UUID) (contracts.UUID, TaskState, bool) {
	job, ok := v.s.tasks.Get(string(task))
	if !ok {
		return "", TaskState{}, false
	}
	j, ok := v.s.jobs.Get(string(job))
	if !ok || j.Task == nil || j.Task.ID != task {
		return job, TaskState{}, false
	}
	return job, *j.Task, true
}

// TaskFor builds what a claim hands out: the request with development rows, or
// the plan of a measurement with the sealed rows. The caller has claimed.
func (v *View) TaskFor(task contracts.UUID) (contracts.Task, error) { return v.s.taskFor(task) }
