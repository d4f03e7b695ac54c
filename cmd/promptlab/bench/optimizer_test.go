package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/openai"
	"github.com/elnor/promptlab/gateway/simulator"
	"github.com/elnor/promptlab/gateway/simulator/simserver"
	"github.com/elnor/promptlab/prompt"
)

const (
	modelDelay = 50 * time.Millisecond
	steps      = 4
	atOnce     = 6 // model calls of a search, the worker's default
)

const longText = `Write the note in plain words so that somebody who was not there can follow it.

- Say what changed and why it changed, in the order in which it happened.
- Never guess a date; say that it is not known.
- Keep names and numbers exactly as they were given to you.
- Close with what happens next and who has to act on it.
- Ask one question only where the request cannot be answered without it.
`

// optimizer: one search from the creation of its job until its result has been
// accepted, against a script that runs the same search against the same endpoint.
func optimizer(t *testing.T, b *board) {
	const runs = 3
	python, err := filepath.Abs("../../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Log("SKIPPED: the optimizer is not installed; run: make setup")
		b.add(line{"optimizer", "-", "-", "-", "<= 1.10x + 1 s", skipped})
		b.note("optimizer: SKIPPED, the optimizer is not installed; run: make setup")
		return
	}
	world, err := simulator.New(simulator.Helpful, 1)
	if err != nil {
		t.Fatal(err)
	}
	model := simserver.New(simserver.Config{World: world, Always: simserver.Fault{Delay: modelDelay}})
	srv := httptest.NewServer(model)
	t.Cleanup(srv.Close)

	free := 0.0
	type ending struct {
		task contracts.UUID
		at   time.Time
	}
	claims, endings := make(chan contracts.Task, 64), make(chan ending, 64) // more than there can be, retries included
	lab := openLab(t, labConfig{
		python: python,
		models: []gateway.ModelConfig{{
			Name: "local", Protocol: gateway.ProtocolOpenAI, BaseURL: srv.URL + "/v1", Model: "local-model", Routes: gateway.Roles(),
			Prices: &gateway.Prices{Input: &free, Output: &free},
		}},
		adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolOpenAI: openai.New(openai.Config{})},
		spy: spy{
			claimed: func(task contracts.Task) contracts.Task {
				if task.Kind == contracts.TaskMeasure {
					task.Kind = "nothing" // the script measures nothing either
				} else {
					claims <- task
				}
				return task
			},
			finished: func(task contracts.UUID) { endings <- ending{task, time.Now()} },
		},
	})
	lab.must(ec.CreateOverlay{Record: ectest.Overlay("note-style", longText)})
	data := contracts.Dataset{Name: "notes"}
	for _, e := range simulator.Examples(60, 7) {
		data.Rows = append(data.Rows, contracts.DatasetRow{ExampleID: e.ID, InputText: e.Input, ExpectedSignal: e.ExpectedSignal})
	}
	ref := lab.must(ec.CreateDataset{Dataset: data}).Subject

	var ours, reference, over []float64
	var calls [2]int
	for range runs {
		before, began := model.Calls(), time.Now()
		id, err := lab.job(ref, fmt.Sprintf(`{"max_steps":%d,"seed":42}`, steps))
		if err != nil {
			t.Fatal(err)
		}
		task := <-claims
		end := <-endings
		for end.task != task.TaskID { // the earlier job's task that measured nothing
			end = <-endings
		}
		took := end.at.Sub(began)
		calls[0] = model.Calls() - before
		lab.await(time.Minute, "the job has ended", func(v *ec.View) bool { return len(v.OpenTasks()) == 0 })
		j, err := lab.View().Job(id)
		if err != nil || j.Detail.Optimizer == nil || j.Detail.Optimizer.Steps != steps {
			t.Fatalf("the search did not run to its end: %v, %s %+v", err, j.Status, j.Detail)
		}
		before, began = model.Calls(), time.Now()
		script(t, python, srv.URL, task)
		plain := time.Since(began)
		calls[1] = model.Calls() - before
		ours, reference = append(ours, took.Seconds()), append(reference, plain.Seconds())
		over = append(over, took.Seconds()-1.10*plain.Seconds())
	}
	r := ratios(ours, reference)
	b.add(line{"optimizer", fmt.Sprintf("%.2f s", median(ours)), fmt.Sprintf("%.2f s", median(reference)), fmt.Sprintf("%.2fx", median(r)), "<= 1.10x + 1 s", verdict(median(over) <= 1)})
	b.note("optimizer: from the job's creation to the accepted result of its search (queue, worker, Python, loopback, gateway, ledger; not the measuring behind it), %d steps, model answers after %s, 6 calls at once. "+
		"Reference: a script with the same search code, library, seed, texts and scoring rule that calls the endpoint itself. Model calls ours %d, script %d. Min/median/max of %d: ours %s s, script %s s.",
		steps, modelDelay, calls[0], calls[1], runs, spread(ours, "%.2f"), spread(reference, "%.2f"))
	if calls[0] != calls[1] {
		b.note("optimizer: ATTENTION, the two searches made different numbers of calls; per call the ratio is %.2fx.", median(r)*float64(calls[1])/float64(calls[0]))
	}
}

// script runs the reference on a task's own request.
func script(t *testing.T, python, endpoint string, task contracts.Task) {
	t.Helper()
	const mark = "@@text@@"
	r := task.Request
	examples := map[string]any{}
	var ids []string
	for _, ex := range r.ReplayExamples {
		ids = append(ids, ex.ExampleID)
		examples[ex.ExampleID] = map[string]string{"input": ex.InputText, "expected": ex.ExpectedSignal}
	}
	request, err := json.Marshal(map[string]any{
		"protocol": 1, "job_id": r.JobID, "engine": r.Engine, "seed": r.Seed, "source_text": r.SourceText, "goal": r.OptimizationGoal,
		"artifact_kind": r.ArtifactKind, "example_ids": ids, "max_candidates": max(1, r.Constraints.MaxCandidates), "max_steps": r.MaxSteps,
		"population": min(max(4, r.Constraints.MaxCandidates+1), 8), "constraints": map[string]any{"max_growth": 1.3},
		"templates": prompt.MetaTemplates(r.OptimizationGoal, nil, nil), "base_url": "http://127.0.0.1:1", "token": "none", "meta_model": "meta",
		"meta_max_tokens": min(max(1024, len(r.SourceText)/2+512), 8192), "concurrency": atOnce,
		"plain": map[string]any{
			"endpoint": endpoint + "/v1/chat/completions", "model": "local-model", "seed": r.Seed, "mark": mark,
			"system": prompt.Replay(r.ArtifactKind, mark, "").Messages[0].Content, "examples": examples,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-I", "-B", "testdata/plain.py")
	cmd.Stdin = bytes.NewReader(append(request, '\n'))
	cmd.Env = []string{ // as the worker gives it
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8",
		"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var said struct {
		Status string `json:"status"`
		Steps  int    `json:"steps"`
	}
	if err != nil || json.Unmarshal(out, &said) != nil || said.Status != "completed" || said.Steps != steps {
		t.Fatalf("the script did not run to its end: %v %s\n%s", err, out, errs.String())
	}
}
