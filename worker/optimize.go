package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/lint"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/loopback"
	"github.com/elnor/promptlab/prompt"
	"github.com/elnor/promptlab/worker/pyrun"
)

// search is one run of the optimizer: the Python process on one side, the
// loopback that answers it on the other.
type search struct {
	s      *session
	scorer *scorer
	byID   map[string]contracts.ReplayExample
	rules  lint.GateRules

	mu     sync.Mutex
	known  map[tried]*answer // what has been or is being scored
	texts  map[string]bool   // distinct texts, by hash
	broken error             // the first call that ended the search, for the result's code
}

// tried names a scored answer: a text on an example.
type tried struct{ textHash, exampleID string }

// answer is a score that may still be on its way.
type answer struct {
	done    chan struct{}
	verdict verdict
	err     error
}

// optimize runs the search and turns what Python says into a result. What Python
// says is a claim: EC recomputes hashes, lints and measures.
func (s *session) optimize(ctx context.Context) contracts.PromptLabJobResult {
	q := newSearch(s)
	server, door, err := loopback.Open(q.door())
	if err != nil {
		s.log.ErrorContext(ctx, "loopback not opened", "error", err)
		return failed(contracts.FailWorkerUnavailable, "the optimizer's address could not be opened")
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Run(serving); err != nil {
			s.log.ErrorContext(ctx, "loopback ended", "error", err)
		}
	})
	defer served.Wait()
	defer stop()
	defer context.AfterFunc(ctx, server.Cancel)() // no call outlives the task

	run := newEngineRun(s)
	outcome, err := run.runPython(ctx, door)
	latch, latched := server.Latch()
	if !latched {
		latch = loopback.Latch{}
	}
	return q.result(ctx, run, outcome.Result, err, latch)
}

func newSearch(s *session) *search {
	req := s.task.Request
	q := &search{
		s: s, scorer: newScorer(s, 0), byID: map[string]contracts.ReplayExample{},
		known: map[tried]*answer{}, texts: map[string]bool{},
		rules: lint.GateRules{
			Kind: req.ArtifactKind, Live: req.LiveOverlay, BannedPhrases: req.Constraints.BannedPhrases,
			PreserveSections: req.Constraints.PreserveRequiredSections,
		},
	}
	for _, ex := range req.ReplayExamples {
		q.byID[ex.ExampleID] = ex
		q.rules.Examples = append(q.rules.Examples, ex.InputText)
	}
	return q
}

// door is what the Python process may ask for.
func (q *search) door() loopback.Config {
	ids := make([]string, 0, len(q.s.task.Request.ReplayExamples))
	for _, ex := range q.s.task.Request.ReplayExamples {
		ids = append(ids, ex.ExampleID)
	}
	return loopback.Config{
		JobID: string(q.s.task.JobID), Gateway: q, Budget: q.s.budget(), ExampleIDs: ids,
		PromptKey: prompt.PathMeta, PromptVersion: prompt.MetaVersion,
		Measure: q.measure, Check: q.check, Log: q.s.log,
	}
}

// Do passes meta calls on and remembers how the first failed one failed: Python
// is told a status, EC wants the reason.
func (q *search) Do(ctx context.Context, req gateway.Request, budget gateway.Budget) (gateway.Response, error) {
	req.Trial = q.s.task.Request.ModelRoute
	resp, err := q.s.w.models.Do(ctx, req, budget)
	if err != nil {
		q.breaks(err)
	}
	return resp, err
}

func (q *search) breaks(err error) {
	if gateway.ClassOf(err) == gateway.ClassCallerGone {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken == nil {
		q.broken = err
	}
}

// measure scores a text on development examples. An answer is asked for once in
// a search, whoever asks and however often.
func (q *search) measure(ctx context.Context, text string, ids []string) ([]loopback.Score, error) {
	hash := contracts.Hash(text)
	out := make([]loopback.Score, len(ids))
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var asks sync.WaitGroup
	for i, id := range ids {
		asks.Go(func() {
			v, err := q.once(work, text, hash, id)
			if err != nil {
				cancel(err) // the first one is the reason; the others need not go on
				return
			}
			out[i] = loopback.Score{ExampleID: id, Score: v.score, Feedback: feedback(v)}
		})
	}
	asks.Wait()
	if err := context.Cause(work); err != nil {
		q.breaks(err)
		return nil, err
	}
	return out, nil
}

func feedback(v verdict) string {
	if v.score == nil {
		return "unscored: " + v.reason
	}
	return contracts.Clip(v.feedback, 2000)
}

// once gives the one answer for a text on an example, asking if nobody has. An
// asker that is cancelled leaves no answer behind, and the next one asks again.
func (q *search) once(ctx context.Context, text, hash, id string) (verdict, error) {
	key := tried{hash, id}
	for {
		q.mu.Lock()
		a, ok := q.known[key]
		if !ok {
			a = &answer{done: make(chan struct{})}
			q.known[key] = a
			q.texts[hash] = true
		}
		q.mu.Unlock()
		if !ok {
			a.verdict, a.err = q.scorer.score(ctx, text, q.byID[id], 0)
			if a.err != nil {
				q.mu.Lock()
				delete(q.known, key)
				q.mu.Unlock()
			}
			close(a.done)
			return a.verdict, a.err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return verdict{}, ctx.Err()
		}
		if a.err == nil || ctx.Err() == nil && gateway.ClassOf(a.err) != gateway.ClassCallerGone {
			return a.verdict, a.err
		}
	}
}

// check runs the gates that EC will run again on whatever comes back.
func (q *search) check(_ context.Context, text string) []loopback.Violation {
	var out []loopback.Violation
	for _, f := range lint.Gates(q.s.task.Request.SourceText, text, q.rules) {
		if f.Severity == lint.Block {
			out = append(out, loopback.Violation{Rule: f.Rule, Message: f.Message})
		}
	}
	return out
}

// tried counts the distinct texts that were scored.
func (q *search) tried() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.texts)
}

func (q *search) why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.broken
}

// result decides how the task ended. The order matters: what Go knows (a cancel,
// the time, the budget, a provider's refusal) outranks what the process said.
func (q *search) result(ctx context.Context, run *engineRun, said *pyrun.Result, err error, latch loopback.Latch) contracts.PromptLabJobResult {
	bad := failureOf(err)
	broken := q.why()
	end := func(by contracts.EndedBy) contracts.PromptLabJobResult {
		r := completed(by)
		run.fill(&r, said, q.tried())
		return r
	}
	switch {
	case errors.Is(context.Cause(ctx), errTimeLimit) && said != nil && len(said.Candidates) > 0:
		return end(contracts.EndedByTimeLimit) // told to stop, it handed over its best so far
	case ctx.Err() != nil:
		return stopped(ctx)
	case latch.Code == "budget_exhausted":
		return end(contracts.EndedByBudget)
	case latch.FailureCode != "":
		return failed(latch.FailureCode, "model call: "+string(latch.Class))
	case bad != nil && broken != nil && q.explains(broken, bad.FailureCode):
		return callFailure(ctx, broken)
	case bad != nil:
		return *bad
	case said == nil || said.Status != "completed":
		return failed(contracts.FailTemporary, "the optimizer stopped without being told to")
	}
	return end(endedBy(said))
}

// explains tells whether a failed call is why the process failed: it knows a
// status only, so its own code is at best as exact as the call's.
func (q *search) explains(broken error, code string) bool {
	own := gateway.ClassOf(broken).FailureCode()
	return own != "" && (code == own || code == contracts.FailTemporary || code == contracts.FailProviderTerminal)
}
