package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/prompt"
)

// Bounds of the answers that are asked for, in tokens.
const (
	answerTokens  = 1024
	verdictTokens = 512
)

// verdict is what one answer to one example is worth. A nil score is unscored.
type verdict struct {
	score      *float64
	reason     string // why it is unscored
	feedback   string
	mustFailed bool
	model      string
	simulated  bool
}

// scorer tries a text on examples: compose, ask, check or judge. It is the same
// for searching and measuring.
type scorer struct {
	models  Models
	budget  gateway.Budget
	task    contracts.Task
	rubric  string
	verdict *gateway.Schema
	slots   chan struct{} // one element a call under way
	patient *tolerance
}

func newScorer(s *session, cells int) *scorer {
	req := s.task.Request
	rubric := req.Rubric
	if rubric == "" {
		rubric = req.OptimizationGoal
	}
	return &scorer{
		models: s.w.models, budget: s.budget(), task: s.task, rubric: rubric, verdict: s.w.verdict,
		slots: make(chan struct{}, s.w.c.Calls), patient: &tolerance{cells: cells},
	}
}

// score tries text on one example. run numbers repeats and is all that differs
// between them. The error is a gateway's and ends the task; a single answer that
// cannot be had or judged is unscored instead.
func (s *scorer) score(ctx context.Context, text string, ex contracts.ReplayExample, run int) (verdict, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return verdict{}, ctx.Err()
	}
	signal, problems := evidence.ParseSignal(ex.ExpectedSignal)
	if len(problems) > 0 {
		return verdict{reason: "expected_signal cannot be read"}, nil
	}
	checks := len(signal.Checks()) > 0
	if !checks && s.rubric == "" {
		return verdict{reason: "neither expected_signal nor rubric"}, nil
	}
	composed := prompt.Replay(s.task.Request.ArtifactKind, text, ex.InputText)
	answer, err := s.ask(ctx, gateway.RoleTask, s.task.Request.ModelRoute, composed, contracts.Hash(text), nil, answerTokens, run)
	if err != nil {
		return s.unanswered("answer", err)
	}
	v := verdict{model: named(answer), simulated: answer.Simulated}
	if !answer.Complete() {
		v.reason = "answer: " + string(answer.Finish)
		return v, nil
	}
	if checks {
		score, feedback, mustFailed := signal.Score(answer.Text)
		v.score, v.feedback, v.mustFailed = &score, feedback, mustFailed
		return v, nil
	}
	return s.judge(ctx, v, ex, answer.Text, run)
}

// judge grades an answer by the rubric.
func (s *scorer) judge(ctx context.Context, v verdict, ex contracts.ReplayExample, answer string, run int) (verdict, error) {
	composed := prompt.Judge(s.rubric, ex.InputText, answer)
	got, err := s.ask(ctx, gateway.RoleJudge, "", composed, prompt.JudgeVersion, s.verdict, verdictTokens, run)
	if err != nil {
		u, err := s.unanswered("judge", err)
		v.reason = u.reason
		return v, err
	}
	v.simulated = v.simulated || got.Simulated
	if got.Finish != gateway.FinishStop {
		v.reason = "judge: " + string(got.Finish)
		return v, nil
	}
	if got.Malformed { // told by the gateway; what follows checks the meaning
		v.reason = "judge: verdict cannot be read"
		return v, nil
	}
	score, feedback, unreadable := prompt.ParseVerdict(got.Text)
	if unreadable != nil {
		v.reason = "judge: verdict cannot be read"
		return v, nil //nolint:nilerr // an answer without a verdict is unscored, which is no failure
	}
	v.score, v.feedback = &score, feedback
	return v, nil
}

func (s *scorer) ask(ctx context.Context, role gateway.Role, model string, c prompt.Composed, version string, shape *gateway.Schema, tokens, run int) (gateway.Response, error) {
	temperature, seed := 0.0, s.task.Request.Seed+int64(run)
	messages := make([]gateway.Message, len(c.Messages))
	for i, m := range c.Messages {
		messages[i] = gateway.Message{Role: m.Role, Content: m.Content}
	}
	resp, err := s.models.Do(ctx, gateway.Request{
		Role: role, Model: model, Messages: messages, MaxTokens: tokens, Temperature: &temperature, Seed: &seed, Schema: shape,
		JobID: string(s.task.JobID), Trial: s.task.Request.ModelRoute, Workspace: s.task.Request.WorkspaceID, Feature: string(s.task.Kind),
		PromptKey: c.Path, PromptVersion: version,
	}, s.budget)
	if err == nil {
		s.patient.answered()
	}
	return resp, err
}

// unanswered decides what a failed call means: this example has no score, or
// the task cannot go on.
func (s *scorer) unanswered(who string, err error) (verdict, error) {
	class := gateway.ClassOf(err)
	unscored := verdict{reason: who + ": " + string(class)}
	switch {
	case class == gateway.ClassContentFilter, class == gateway.ClassContextOverflow: // of this example's text
		return unscored, nil
	case contracts.RetryableFailure(class.FailureCode()) && s.patient.tolerates():
		return unscored, nil
	}
	return verdict{}, err
}

// tolerance lets single calls fail that the gateway has retried in vain: a
// measurement of hundreds of answers should survive a hiccup. It does not excuse
// a provider that never answered, nor more than a tenth of all calls, which
// would void the measurement anyway.
type tolerance struct {
	cells int // calls that are planned; 0: not known

	mu   sync.Mutex
	ok   int
	lost int
}

func (t *tolerance) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ok++
}

func (t *tolerance) tolerates() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost++
	return t.ok > 0 && t.lost <= max(2, max(t.cells, t.ok)/10)
}

// named gives the model that answered.
func named(r gateway.Response) string {
	if r.ServedModel != "" {
		return contracts.Clip(r.ServedModel, 200)
	}
	return contracts.Clip(fmt.Sprint(r.Model), 200)
}
