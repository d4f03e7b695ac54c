package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

// proposedModel gives the registry some-model, with a version to go back to and
// one that waits, and gives the job that has tried it.
func proposedModel(e *ectest.Env, dataset string) contracts.UUID {
	for _, world := range []string{"helpful", "null"} { // simulators are taken over as they are
		m := ectest.Observed("some-model", world, "")
		m.Type, m.Adapter = contracts.ModelSimulator, "simulator"
		e.Must(ec.ObserveModels{Models: []contracts.ObservedModel{m}})
	}
	waits := ectest.Observed("some-model", "gpt-x-2026-01-01", "")
	e.Must(ec.ObserveModels{Models: []contracts.ObservedModel{waits}})
	return e.Replay(dataset, []contracts.UsageRow{ectest.Answer(waits)}, nil)
}

// R-GWM-10, R-GWM-13: the registry over HTTP.
func TestModelsOverHTTP(t *testing.T) {
	r := newRig(t)
	ref := r.env.Lab(60)
	was, next := ectest.Observed("cloud", "gpt-x-2026-01-01", ""), ectest.Observed("cloud", "gpt-x-2026-02-02", "")
	r.env.Must(ec.ObserveModels{Models: []contracts.ObservedModel{was}})
	r.env.Must(ec.ObserveModels{Models: []contracts.ObservedModel{next}})

	list := read[contracts.ModelList](r, "list", r.ask(ec.RoleAgent, "GET", "/api/models", ""), 200)
	if len(list.Items) != 1 || !strings.Contains(list.Items[0].Notice, "promptlab models activate cloud --replay JOB_ID") {
		t.Errorf("list: %+v, want cloud with the command that activates it", list.Items)
	}
	active := read[contracts.ActiveModels](r, "active", r.ask(ec.RoleSeam, "GET", "/internal/doc17/models", ""), 200)
	if len(active.Items) != 1 || active.Items[0].Fingerprint != was.Fingerprint {
		t.Errorf("R-GWM-10 the chat's side is told %+v, want the version from before the change", active.Items)
	}
	status := read[contracts.Status](r, "status", r.ask(ec.RoleUser, "GET", "/api/doc17/status", ""), 200)
	if s, _ := json.Marshal(status.Warnings); !strings.Contains(string(s), `"model_not_active","subject":"cloud"`) {
		t.Errorf("the status does not tell of the version that waits: %s", s)
	}

	ask := func(role ec.Role, job contracts.UUID) answer {
		return r.ask(role, "POST", "/api/models/cloud/activate", `{"replay_job_id":"`+string(job)+`","changelog":"newer"}`)
	}
	old := r.env.Replay(ref, []contracts.UsageRow{ectest.Answer(was)}, nil)
	r.want("R-GWM-10 with a job that another version has answered", ask(ec.RoleOperator, old), 409, "no_replay_record")
	job := r.env.Replay(ref, []contracts.UsageRow{ectest.Answer(next)}, nil)
	for _, role := range []ec.Role{ec.RoleUser, ec.RoleAgent, ec.RoleSeam, ec.RoleWorker} {
		r.want("R-GWM-13 activated by "+string(role), ask(role, job), 403, "forbidden")
	}
	m := read[contracts.RegisteredModel](r, "activate", ask(ec.RoleOperator, job), 200)
	if m.ActiveVersion != "cloud@2" || m.RollbackTo != "cloud@1" || m.Notice != "" {
		t.Errorf("after the activation: active %s, rollback to %s, notice %q", m.ActiveVersion, m.RollbackTo, m.Notice)
	}
	m = read[contracts.RegisteredModel](r, "rollback", r.ask(ec.RoleOperator, "POST", "/api/models/cloud/rollback", `{"reason":"too slow"}`), 200)
	if m.ActiveVersion != "cloud@1" || !strings.Contains(m.Notice, "still holds cloud@2") {
		t.Errorf("R-GWM-13 after the rollback: active %s, notice %q, want cloud@1 and that the configuration holds cloud@2", m.ActiveVersion, m.Notice)
	}
	m = read[contracts.RegisteredModel](r, "deprecate", r.ask(ec.RoleOperator, "POST", "/api/models/cloud/deprecate", `{"note":"ends in March"}`), 200)
	if !m.Deprecated || m.DeprecationNote != "ends in March" {
		t.Errorf("R-GWM-05 after the deprecation: %+v", m)
	}
}
