package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway/loopback"
	"github.com/elnor/promptlab/prompt"
	"github.com/elnor/promptlab/worker/pyrun"
)

// maxGrowth is how much longer than its source a candidate may be.
const maxGrowth = 1.3

// engineRequest is what the Python process is told, protocol 1. It names
// examples and never shows one.
type engineRequest struct {
	Protocol      int               `json:"protocol"`
	JobID         contracts.UUID    `json:"job_id"`
	Engine        contracts.Engine  `json:"engine"`
	Seed          int64             `json:"seed"`
	SourceText    string            `json:"source_text"`
	Goal          string            `json:"goal"`
	ArtifactKind  string            `json:"artifact_kind"`
	ExampleIDs    []string          `json:"example_ids"`
	MaxCandidates int               `json:"max_candidates"`
	MaxSteps      int               `json:"max_steps"`
	Population    int               `json:"population"`
	Constraints   engineConstraints `json:"constraints"`
	Templates     prompt.Templates  `json:"templates"`
	BaseURL       string            `json:"base_url"`
	Token         string            `json:"token"`
	MetaModel     string            `json:"meta_model"`
	MetaMaxTokens int               `json:"meta_max_tokens"`
	Concurrency   int               `json:"concurrency"`
}

type engineConstraints struct {
	BannedPhrases            contracts.List[string] `json:"banned_phrases"`
	PreserveRequiredSections contracts.List[string] `json:"preserve_required_sections"`
	MaxGrowth                float64                `json:"max_growth"`
}

// engineRun is one run of the Python process: what it is told and what it tells.
type engineRun struct {
	s *session
}

func newEngineRun(s *session) *engineRun { return &engineRun{s} }

// config is the process's, with a limit behind the task's own: the task's limit
// gives the process a chance to hand over what it has.
func (e *engineRun) config() pyrun.Config {
	c := e.s.w.c.Python
	c.Timeout = time.Duration(max(1, e.s.task.LimitSeconds))*time.Second + time.Minute
	c.Log = e.s.log
	return c
}

// request builds the process's orders. The token opens the loopback and nothing
// else.
func (e *engineRun) request(door loopback.Door) ([]byte, error) {
	r := e.s.task.Request
	ids := make([]string, 0, len(r.ReplayExamples))
	for _, ex := range r.ReplayExamples {
		ids = append(ids, ex.ExampleID)
	}
	engine := r.Engine
	if engine == "" {
		engine = "auto"
	}
	b, err := json.Marshal(engineRequest{
		Protocol: 1, JobID: r.JobID, Engine: engine, Seed: r.Seed, SourceText: r.SourceText, Goal: r.OptimizationGoal,
		ArtifactKind: engineKind(r.ArtifactKind), ExampleIDs: ids,
		MaxCandidates: max(1, r.Constraints.MaxCandidates), MaxSteps: max(1, r.MaxSteps),
		Population: min(max(4, r.Constraints.MaxCandidates+1), 8),
		Constraints: engineConstraints{
			BannedPhrases: r.Constraints.BannedPhrases, PreserveRequiredSections: r.Constraints.PreserveRequiredSections, MaxGrowth: maxGrowth,
		},
		Templates: prompt.MetaTemplates(r.OptimizationGoal, r.Constraints.PreserveRequiredSections, r.Constraints.BannedPhrases),
		BaseURL:   strings.TrimSuffix(door.BaseURL, "/v1"), Token: door.Token, MetaModel: door.Model,
		// a byte is a token at worst; what does not fit comes back cut and is no candidate
		MetaMaxTokens: min(max(1024, len(r.SourceText)/2+512), 8192),
		Concurrency:   e.s.w.c.Calls,
	})
	if err != nil {
		return nil, fmt.Errorf("encode engine request: %w", err)
	}
	return b, nil
}

// engineKind gives the adapter's name for a kind.
func engineKind(k contracts.PromptArtifactKind) string {
	if k == contracts.KindRewriteTemplate {
		return "rewrite_template"
	}
	return string(k)
}

// event turns the process's events into progress. Their form has been checked.
func (e *engineRun) event(ev pyrun.Event) {
	var in struct {
		I    int      `json:"i"`
		Best *float64 `json:"best"`
		Mean *float64 `json:"mean"`
		N    int      `json:"n"`
		Code string   `json:"code"`
	}
	if json.Unmarshal(ev.Raw, &in) != nil {
		return
	}
	steps := max(1, e.s.task.Request.MaxSteps)
	e.s.note(func(p *contracts.TaskProgress) {
		p.Steps = steps
		switch ev.Type {
		case "hello":
			p.Message = "the optimizer is starting"
		case "ready":
			p.Message = "the optimizer makes its first variants"
		case "seeds":
			p.Message = fmt.Sprintf("%d first variants", in.N)
		case "step":
			p.Step, p.Best, p.Mean = in.I, in.Best, in.Mean
			p.Message = fmt.Sprintf("step %d of %d", in.I, steps)
		}
	})
}

// failureOf turns the run's error into a result; nil when the run ended well.
func failureOf(err error) *contracts.PromptLabJobResult {
	if err == nil {
		return nil
	}
	r := failed(contracts.FailTemporary, "the optimizer could not be run")
	var f *pyrun.Failure
	if errors.As(err, &f) {
		r = failed(f.Code, f.Message)
	}
	return &r
}

// fill puts what the process found into a result. Ids and hashes are computed
// here from the texts; EC computes them once more.
func (e *engineRun) fill(r *contracts.PromptLabJobResult, said *pyrun.Result, tried int) {
	if said == nil {
		return
	}
	source := contracts.Hash(e.s.task.Request.SourceText)
	r.SourceScore = said.SourceScore
	r.Optimizer = &contracts.OptimizerInfo{
		Name: "promptolution", Version: said.Promptolution, Python: said.Python, Engine: said.Engine, Steps: said.Steps, Tried: tried,
	}
	for i, c := range said.Candidates {
		text := contracts.Normalize(c.Text)
		hash := contracts.Hash(text)
		if hash == source || len(r.Candidates) >= max(1, e.s.task.Request.Constraints.MaxCandidates) {
			continue
		}
		score := c.Score
		r.Candidates = append(r.Candidates, contracts.PromptLabCandidatePayload{
			CandidateID:   contracts.DeriveID(fmt.Sprintf("%s/%d", e.s.task.TaskID, e.s.task.Dispatch), "candidate/"+hash, i),
			CandidateText: text, DeltaSummary: c.DeltaSummary, SourceHash: source, CandidateHash: hash, SearchScore: &score,
			BackendNotes: contracts.List[string]{fmt.Sprintf("search score over %d development examples", c.N)},
		})
	}
	for _, w := range said.Warnings {
		if len(r.Warnings) < 64 {
			r.Warnings = append(r.Warnings, contracts.Warning{Code: w.Code, Message: fmt.Sprintf("the optimizer reported this %d times", max(1, w.Count))})
		}
	}
}

// endedBy maps the process's word; unknown ones count as the plain end.
func endedBy(said *pyrun.Result) contracts.EndedBy {
	if contracts.EndedBy(said.EndedBy) == contracts.EndedByNoSeeds {
		return contracts.EndedByNoSeeds
	}
	return contracts.EndedBySteps
}

// runPython runs the process against an open door.
func (e *engineRun) runPython(ctx context.Context, door loopback.Door) (pyrun.Outcome, error) {
	request, err := e.request(door)
	if err != nil {
		return pyrun.Outcome{}, err
	}
	out, err := pyrun.Run(ctx, e.config(), request, e.event)
	if err != nil && out.Stderr != "" {
		e.s.log.DebugContext(ctx, "optimizer's last words", "stderr", out.Stderr)
	}
	return out, err
}
