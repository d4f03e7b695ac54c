package ectest

import (
	"fmt"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/google/uuid"
)

// Observed is a model as a configuration may hold it. Its fingerprint is made of
// its exact name and note, which stands for the parameters.
func Observed(name, exact, note string) contracts.ObservedModel {
	return contracts.ObservedModel{
		Name: name, DisplayName: "Model " + name, Type: contracts.ModelChat, Adapter: "openai", BaseModel: exact, Model: exact,
		Routes:      contracts.List[contracts.ModelRole]{contracts.RoleJudge, contracts.RoleTask},
		Fingerprint: contracts.Hash(exact + "\n" + note), Parameters: contracts.Map[string]{"model": exact, "note": note},
	}
}

// Answer is the row of an example's answer by a model.
func Answer(m contracts.ObservedModel) contracts.UsageRow {
	return contracts.UsageRow{
		RequestID: "r", Feature: contracts.RoleTask, Target: m.Name, Provider: "server", Model: m.Model, ServedModel: m.Model,
		Fingerprint: m.Fingerprint, Attempt: 1, Success: true, UsageKnown: true, CostKnown: true,
	}
}

// Replay takes a job on "note-style" through search and measurement, with these
// rows of model calls, and gives its id. change, which may be nil, spoils what
// the worker says at the end of the measurement; it is nil for a job that ends
// well.
func (e *Env) Replay(dataset string, calls []contracts.UsageRow, change func(*contracts.PromptLabJobResult)) contracts.UUID {
	e.tb.Helper()
	j := e.Job(dataset, `{}`)
	task := e.Claim(j.JobID)
	const text = "Write the note in plain words.\n\n- Say what changed.\n- Never guess a date.\n- Name the owner.\n"
	finish := func(task contracts.Task, r contracts.PromptLabJobResult) {
		r.JobID, r.SourceHash = j.JobID, j.Detail.SourceHash
		e.Must(ec.FinishTask{TaskID: task.TaskID, In: contracts.TaskFinish{Dispatch: task.Dispatch, Token: Token, Result: r}})
	}
	finish(task, contracts.PromptLabJobResult{
		Status: contracts.JobCompleted, EndedBy: contracts.EndedBySteps,
		Optimizer: &contracts.OptimizerInfo{Name: "promptolution", Version: "2.3.0", Python: "3.11", Engine: "capo", Steps: 1, Tried: 1},
		Candidates: contracts.List[contracts.PromptLabCandidatePayload]{{
			CandidateID: contracts.DeriveID("w", "c", 0), CandidateText: text, SourceHash: j.Detail.SourceHash, CandidateHash: contracts.Hash(text),
		}},
	})
	task = e.Claim(j.JobID)
	var rows contracts.List[contracts.MeasurementRow]
	for _, arm := range task.Measure.Arms {
		for run := range arm.Runs {
			for i, ex := range task.Measure.Examples {
				score := float64(i%2) / 2
				rows = append(rows, contracts.MeasurementRow{Arm: arm.Arm, ExampleID: ex.ExampleID, Run: run, Score: &score, Model: "m"})
			}
		}
	}
	e.Must(ec.DeliverRows{TaskID: task.TaskID, In: contracts.TaskRows{Dispatch: task.Dispatch, Token: Token, Rows: rows}})
	var booked contracts.List[contracts.UsageRow]
	for i, r := range calls {
		r.AttemptID, r.JobID, r.RequestID, r.At = contracts.UUID(uuid.NewString()), j.JobID, fmt.Sprint("r-", i), contracts.At(e.Clock.Now())
		booked = append(booked, r)
	}
	e.Must(ec.DeliverUsage{TaskID: task.TaskID, In: contracts.TaskUsage{Dispatch: task.Dispatch, Token: Token, Rows: booked}})
	r := contracts.PromptLabJobResult{Status: contracts.JobCompleted, EndedBy: contracts.EndedBySteps}
	if change != nil {
		change(&r)
	}
	finish(task, r)
	return j.JobID
}
