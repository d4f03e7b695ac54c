package worker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
)

// failed is the result of a task that failed.
func failed(code, message string) contracts.PromptLabJobResult {
	return contracts.PromptLabJobResult{Status: contracts.JobFailed, FailureCode: code, FailureMessage: message}
}

// completed is the result of a task that ran to an end.
func completed(by contracts.EndedBy) contracts.PromptLabJobResult {
	return contracts.PromptLabJobResult{Status: contracts.JobCompleted, EndedBy: by}
}

// maxSource bounds a text under work, in bytes: what the optimizer and the
// loopback take.
const maxSource = 64 << 10

// preflight refuses orders that cannot be carried out, before anything is
// spent. Nil: go on.
func preflight(t contracts.Task) *contracts.PromptLabJobResult {
	r := t.Request
	refuse := func(code, message string) *contracts.PromptLabJobResult {
		f := failed(code, message)
		return &f
	}
	kinds := []contracts.PromptArtifactKind{contracts.KindOverlay, contracts.KindRecipe, contracts.KindRewriteTemplate}
	switch {
	case t.Kind != contracts.TaskOptimize && t.Kind != contracts.TaskMeasure:
		return refuse(contracts.FailUnsupportedKind, "this worker does not do tasks of this kind")
	case !slices.Contains(kinds, r.ArtifactKind):
		return refuse(contracts.FailUnsupportedKind, "texts of this kind are not optimized")
	case r.Backend != contracts.BackendPromptolution:
		return refuse(contracts.FailUnsupportedKind, "this worker does not have the backend")
	case strings.TrimSpace(r.SourceText) == "":
		return refuse(contracts.FailInvalidSource, "the source text is empty")
	case len(r.SourceText) > maxSource:
		return refuse(contracts.FailInvalidSource, "the source text is larger than 64 KiB")
	case contracts.Hash(r.SourceText) != r.SourceHash:
		return refuse(contracts.FailStaleSource, "the source text is not the one that the job was made for")
	case t.Kind == contracts.TaskOptimize && len(r.ReplayExamples) == 0:
		return refuse(contracts.FailTooFewExamples, "there are no examples to search with")
	case t.Kind == contracts.TaskMeasure && (t.Measure == nil || len(t.Measure.Examples) == 0 || len(t.Measure.Arms) == 0):
		return refuse(contracts.FailTooFewExamples, "there is nothing to measure")
	}
	return nil
}

// callFailure turns a failed model call into a result. The budget's end is an
// end of the work and no failure; a call that was cancelled with the task gives
// what the cancel's cause decides.
func callFailure(ctx context.Context, err error) contracts.PromptLabJobResult {
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	class := gateway.ClassOf(err)
	switch code := class.FailureCode(); {
	case class == gateway.ClassJobBudget:
		return completed(contracts.EndedByBudget)
	case code == "":
		return failed(contracts.FailTemporary, "a model call was given up")
	default:
		return failed(code, callMessage(err))
	}
}

// callMessage says how a call failed, in words of our own. A model that nobody
// has configured is the caller's to correct, so that is said in full.
func callMessage(err error) string {
	var call *gateway.Error
	switch {
	case !errors.As(err, &call) || call.Reason == "":
		return "model call: " + string(gateway.ClassOf(err))
	case call.Reason == "no_model_for_route":
		return "no configured model has the name or the route that the job asks for (options.model_route, models[].routes)"
	case call.Reason == gateway.ReasonNotActive:
		return "the model " + call.Target + " is configured in a version that nobody has activated; promptlab models list says more. A job tries it with --model-route"
	}
	return "model call: " + string(call.Class) + " (" + call.Reason + ")"
}

// stopped is the result of work whose context has ended. Only a time limit is
// ever delivered: after a cancel nobody waits for a result, and a stopping
// worker gives the task back.
func stopped(ctx context.Context) contracts.PromptLabJobResult {
	if context.Cause(ctx) == errTimeLimit { //nolint:errorlint // a cause is what it was set to
		return failed(contracts.FailTemporary, "the task did not end within its time")
	}
	return failed(contracts.FailWorkerUnavailable, "the worker was stopped")
}

// presentable makes a result that EC can read whatever Python put into it. One
// that is beyond repair becomes a failure.
func presentable(r contracts.PromptLabJobResult) contracts.PromptLabJobResult {
	r.FailureCode, r.FailureMessage = contracts.Clip(r.FailureCode, 100), contracts.Clip(r.FailureMessage, 2000)
	if _, err := contracts.Check(r, contracts.Peer); err != nil {
		return blank(r, contracts.FailTemporary, "the result does not have the form of one")
	}
	return r
}

// blank keeps of a result only whose it is.
func blank(r contracts.PromptLabJobResult, code, message string) contracts.PromptLabJobResult {
	f := failed(code, message)
	f.JobID, f.SourceHash, f.StartedAt, f.CompletedAt, f.Simulated = r.JobID, r.SourceHash, r.StartedAt, r.CompletedAt, r.Simulated
	return f
}
