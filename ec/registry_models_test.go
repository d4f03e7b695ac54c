package ec_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// The models of these tests: one name, several exact models and parameters.
const (
	january  = "gpt-x-2026-01-01"
	february = "gpt-x-2026-02-02"
)

func observe(e *ectest.Env, models ...contracts.ObservedModel) ec.Receipt {
	return e.Must(ec.ObserveModels{Models: models})
}

func cloud(exact string) contracts.ObservedModel { return ectest.Observed("cloud", exact, "") }

func activation(job contracts.UUID) ec.ActivateModel {
	return ec.ActivateModel{Name: "cloud", In: contracts.ModelActivation{ReplayJobID: job}}
}

func registered(t *testing.T, e *ectest.Env) contracts.RegisteredModel {
	t.Helper()
	m, err := e.View().Model("cloud")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// statuses gives the versions with where they stand.
func statuses(m contracts.RegisteredModel) map[string]contracts.ModelVersionStatus {
	out := map[string]contracts.ModelVersionStatus{}
	for _, v := range m.Versions {
		out[v.VersionID] = v.Status
	}
	return out
}

func wantStatuses(t *testing.T, when string, e *ectest.Env, want map[string]contracts.ModelVersionStatus) {
	t.Helper()
	if d := cmp.Diff(want, statuses(registered(t, e))); d != "" {
		t.Errorf("%s (-want +got):\n%s", when, d)
	}
}

func TestAModelsFirstVersionIsTakenOver(t *testing.T) {
	e := ectest.New(t)
	o := cloud(january)
	o.DocsPage, o.DocsChecked = "https://example.com/models", "2026-02-27"
	if r := observe(e, o); !r.Changed {
		t.Error("the first sight of a model changed nothing")
	}
	m := registered(t, e)
	t.Run("R-GWM-01 R-GWM-03 R-GWM-04 the registry holds who it is, how it is spoken to and what for", func(t *testing.T) {
		want := contracts.RegisteredModel{
			SchemaVersion: 1, Name: "cloud", DisplayName: "Model cloud", Type: contracts.ModelChat, Adapter: "openai", BaseModel: january,
			Routes: o.Routes, ActiveVersion: "cloud@1", ConfiguredVersion: "cloud@1", UpdatedAt: m.UpdatedAt, Versions: m.Versions,
		}
		if d := cmp.Diff(want, m); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("R-GWM-02 R-GWM-12 the version holds its history and what was read", func(t *testing.T) {
		want := contracts.List[contracts.ModelVersion]{{
			VersionID: "cloud@1", Status: contracts.ModelActive, Adapter: "openai", BaseModel: january, Model: january, Fingerprint: o.Fingerprint,
			Parameters: o.Parameters, ObservedAt: m.UpdatedAt, ActivatedAt: &m.UpdatedAt, ActivatedBy: "system",
			DocsPage: "https://example.com/models", DocsChecked: "2026-02-27",
		}}
		if d := cmp.Diff(want, m.Versions); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	if r := observe(e, o); r.Changed {
		t.Error("the same configuration again changed the registry")
	}
	if e.View().ModelsFollow([]contracts.ObservedModel{o}) {
		t.Error("the registry is said not to follow what it follows")
	}
	if !e.View().ModelActive("cloud", o.Fingerprint) || e.View().ModelActive("cloud", cloud(february).Fingerprint) || e.View().ModelActive("other", o.Fingerprint) {
		t.Error("R-GWM-10 something else than the version that was taken over may answer")
	}
	e.Restart()
	if d := cmp.Diff(m, registered(t, e)); d != "" {
		t.Errorf("after a restart (-before +after):\n%s", d)
	}
}

func TestAnotherVersionWaits(t *testing.T) {
	for name, changed := range map[string]contracts.ObservedModel{
		"R-GWM-10 another model string": cloud(february), "R-GWM-10 another parameter": ectest.Observed("cloud", january, "reasoning: high"),
	} {
		t.Run(name, func(t *testing.T) {
			e := ectest.New(t)
			observe(e, cloud(january))
			observe(e, changed)
			wantStatuses(t, "after the change", e, map[string]contracts.ModelVersionStatus{"cloud@1": "active", "cloud@2": "proposed"})
			if e.View().ModelActive("cloud", changed.Fingerprint) {
				t.Error("what nobody has activated may answer")
			}
			w := e.View().Status().Warnings
			if len(w) != 1 || w[0].Code != "model_not_active" || w[0].Subject != "cloud" || !strings.Contains(w[0].Message, "promptlab models activate cloud --replay JOB_ID") {
				t.Errorf("the status says %+v, want the model and the command", w)
			}
			observe(e, cloud(january))
			wantStatuses(t, "after the way back", e, map[string]contracts.ModelVersionStatus{"cloud@1": "active", "cloud@2": "retired"})
			if w := e.View().Status().Warnings; len(w) != 0 {
				t.Errorf("after the way back the status still says %+v", w)
			}
			observe(e, changed)
			wantStatuses(t, "changed once more", e, map[string]contracts.ModelVersionStatus{"cloud@1": "active", "cloud@2": "proposed"})
			observe(e)
			if m := registered(t, e); m.ConfiguredVersion != "" || len(e.View().Status().Warnings) != 0 {
				t.Errorf("not configured any more: %q, warnings %+v", m.ConfiguredVersion, e.View().Status().Warnings)
			}
		})
	}
}

func TestNamesOfPeopleChangeWithoutCeremony(t *testing.T) {
	e := ectest.New(t)
	observe(e, cloud(january))
	o := cloud(january)
	o.DisplayName, o.Routes = "Another name", contracts.List[contracts.ModelRole]{contracts.RoleJudge}
	observe(e, o)
	if m := registered(t, e); m.DisplayName != o.DisplayName || len(m.Routes) != 1 || m.ActiveVersion != "cloud@1" || len(m.Versions) != 1 {
		t.Errorf("R-GWM-04 routes and names are not taken over: %+v", m)
	}
}

func TestSimulatorsNeedNoRecord(t *testing.T) {
	e := ectest.New(t)
	sim := func(world string) contracts.ObservedModel {
		o := cloud(world)
		o.Type, o.Adapter = contracts.ModelSimulator, "simulator"
		return o
	}
	observe(e, sim("helpful"))
	observe(e, sim("null"))
	wantStatuses(t, "another world", e, map[string]contracts.ModelVersionStatus{"cloud@1": "previous", "cloud@2": "active"})
	observe(e, cloud(january))
	wantStatuses(t, "a real model under a simulator's name", e, map[string]contracts.ModelVersionStatus{"cloud@1": "previous", "cloud@2": "active", "cloud@3": "proposed"})
}

// R-GWM-10: what counts as the record of a replay, and what does not.
func TestActivationNeedsARecord(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(60)
	next := cloud(february)
	observe(e, cloud(january))
	observe(e, next)
	answers := func(rows ...contracts.UsageRow) []contracts.UsageRow { return rows }
	with := func(change func(*contracts.UsageRow)) contracts.UsageRow {
		r := ectest.Answer(next)
		change(&r)
		return r
	}
	own := ectest.Answer(next)
	open := e.Job(ref, `{}`)
	e.Must(ec.CancelJob{JobID: open.JobID})
	for name, job := range map[string]contracts.UUID{
		"no such job":          contracts.DeriveID("no", "job", 0),
		"a cancelled job":      open.JobID,
		"no call at all":       e.Replay(ref, nil, nil),
		"another model string": e.Replay(ref, answers(ectest.Answer(cloud(january))), nil),
		"other parameters":     e.Replay(ref, answers(ectest.Answer(ectest.Observed("cloud", february, "reasoning: high"))), nil),
		"only its judge":       e.Replay(ref, answers(with(func(r *contracts.UsageRow) { r.Feature = contracts.RoleJudge })), nil),
		"only failed calls":    e.Replay(ref, answers(with(func(r *contracts.UsageRow) { r.Success, r.Class = false, "server" })), nil),
		"a simulated answer":   e.Replay(ref, answers(with(func(r *contracts.UsageRow) { r.Simulated = true })), nil),
		"a simulated job":      e.Replay(ref, answers(own), func(r *contracts.PromptLabJobResult) { r.Simulated = true }),
		"partly another model": e.Replay(ref, answers(own, ectest.Answer(cloud(january))), nil),
		"a drifted answer":     e.Replay(ref, answers(own, with(func(r *contracts.UsageRow) { r.ServedModel = january })), nil),
		"its budget's end": e.Replay(ref, answers(own), func(r *contracts.PromptLabJobResult) {
			r.EndedBy = contracts.EndedByBudget
			r.Status = contracts.JobFailed
			r.FailureCode = contracts.FailWorkerUnavailable
		}),
	} {
		seq := e.View().Seq()
		_, err := e.Send(activation(job))
		if fault.Of(err) != fault.Conflict || fault.Code(err) != "no_replay_record" {
			t.Errorf("R-GWM-10 activated on %s: %v, want no_replay_record", name, err)
		}
		if e.View().Seq() != seq || e.View().ModelActive("cloud", next.Fingerprint) {
			t.Errorf("R-GWM-10 refused for %s, and something changed", name)
		}
	}
	job := e.Replay(ref, answers(own, with(func(r *contracts.UsageRow) { r.Success, r.Class = false, "server" }), own), nil)
	e.Restart() // the record is kept in the rows
	in := activation(job)
	in.In.Changelog, in.In.DocsPage = "better at dates", "https://example.com/february"
	e.Must(in)
	m := registered(t, e)
	v, _ := m.Version("cloud@2")
	want := contracts.ModelVersion{
		VersionID: "cloud@2", ParentID: "cloud@1", Status: contracts.ModelActive, Adapter: "openai", BaseModel: february, Model: february, Fingerprint: next.Fingerprint,
		Parameters: next.Parameters, Changelog: "better at dates", ObservedAt: v.ObservedAt, ActivatedAt: v.ActivatedAt, ActivatedBy: "operator", EvidenceRef: string(job),
		DocsPage: "https://example.com/february", DocsChecked: "2026-03-01",
	}
	if d := cmp.Diff(want, v); d != "" {
		t.Errorf("R-GWM-02 R-GWM-12 the activated version (-want +got):\n%s", d)
	}
	if !e.View().ModelActive("cloud", next.Fingerprint) || e.View().ModelActive("cloud", cloud(january).Fingerprint) {
		t.Error("R-GWM-10 after the activation another version answers")
	}
	if _, err := e.Send(in); fault.Code(err) != "nothing_proposed" {
		t.Errorf("activated again: %v, want nothing_proposed", err)
	}
}

func TestTheDayOfTheDocumentation(t *testing.T) { // R-GWM-12
	e := ectest.New(t)
	observe(e, cloud(january))
	for name, in := range map[string]contracts.ModelActivation{
		"a day alone": {DocsChecked: "2026-02-01"}, "no day": {DocsPage: "https://example.com/x", DocsChecked: "2026-02-31"},
		"the future": {DocsPage: "https://example.com/x", DocsChecked: "2026-03-02"}, "no address": {DocsPage: "somewhere"},
	} {
		in.ReplayJobID = contracts.DeriveID("some", "job", 0)
		if _, err := e.Send(ec.ActivateModel{Name: "cloud", In: in}); fault.Of(err) != fault.Invalid {
			t.Errorf("R-GWM-12 %s: %v, want a refusal of the field", name, err)
		}
	}
}

func TestRollback(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(60)
	next := cloud(february)
	observe(e, cloud(january))
	if _, err := e.Send(ec.RollbackModel{Name: "cloud"}); fault.Code(err) != "no_rollback_target" {
		t.Errorf("R-GWM-05 rolled back from the first version: %v, want no_rollback_target", err)
	}
	observe(e, next)
	job := e.Replay(ref, []contracts.UsageRow{ectest.Answer(next)}, nil)
	e.Must(activation(job))
	if m := registered(t, e); m.RollbackTo != "cloud@1" {
		t.Errorf("R-GWM-05 the way back is %q, want cloud@1", m.RollbackTo)
	}

	t.Run("R-GWM-13 back without new evidence, and the configuration that still holds it is unused", func(t *testing.T) {
		r := e.Must(ec.RollbackModel{Name: "cloud", In: contracts.ModelRollback{Reason: "refuses too often"}})
		if !strings.Contains(r.Note, "still holds cloud@2") {
			t.Errorf("the receipt says %q, want that the configuration holds cloud@2", r.Note)
		}
		wantStatuses(t, "after the rollback", e, map[string]contracts.ModelVersionStatus{"cloud@1": "active", "cloud@2": "retired"})
		if !e.View().ModelActive("cloud", cloud(january).Fingerprint) || e.View().ModelActive("cloud", next.Fingerprint) {
			t.Error("another version than the one before may answer")
		}
		m := registered(t, e)
		v, _ := m.Version("cloud@2")
		if v.RetiredAt == nil || v.RetiredWhy != "refuses too often" {
			t.Errorf("the version does not say why it was given up: %+v", v)
		}
		w := e.View().Status().Warnings
		if len(w) != 1 || !strings.Contains(w[0].Message, "rolled back") || !strings.Contains(w[0].Message, january) {
			t.Errorf("the status says %+v, want what to put back", w)
		}
	})
	t.Run("R-GWM-10 the old record does not bring it back", func(t *testing.T) {
		if _, err := e.Send(activation(job)); fault.Code(err) != "no_replay_record" {
			t.Errorf("activated again on the old job: %v, want no_replay_record", err)
		}
		observe(e, next) // a restart with the same configuration
		if _, err := e.Send(activation(job)); fault.Code(err) != "no_replay_record" {
			t.Errorf("after a restart, on the old job: %v, want no_replay_record", err)
		}
		e.Must(activation(e.Replay(ref, []contracts.UsageRow{ectest.Answer(next)}, nil)))
		wantStatuses(t, "on a younger one", e, map[string]contracts.ModelVersionStatus{"cloud@1": "previous", "cloud@2": "active"})
	})
	t.Run("a configuration of before is gone back to by a rollback", func(t *testing.T) {
		observe(e, cloud(january))
		wantStatuses(t, "the old configuration", e, map[string]contracts.ModelVersionStatus{"cloud@1": "previous", "cloud@2": "active"})
		if w := e.View().Status().Warnings; len(w) != 1 || !strings.Contains(w[0].Message, "promptlab models rollback cloud") {
			t.Errorf("the status says %+v, want the rollback", w)
		}
		if _, err := e.Send(activation(job)); fault.Code(err) != "nothing_proposed" || !strings.Contains(err.Error(), "rollback") {
			t.Errorf("activated: %v, want it sent to the rollback", err)
		}
		e.Must(ec.RollbackModel{Name: "cloud"})
		if w := e.View().Status().Warnings; len(w) != 0 {
			t.Errorf("after it the status still says %+v", w)
		}
	})
}

func TestDeprecation(t *testing.T) { // R-GWM-05
	e := ectest.New(t)
	ref := e.Lab(60)
	next := cloud(february)
	observe(e, cloud(january))
	e.Must(ec.DeprecateModel{Name: "cloud", In: contracts.ModelDeprecation{Note: "ends in March"}})
	if m := registered(t, e); !m.Deprecated || m.DeprecationNote != "ends in March" || m.DeprecatedAt == nil {
		t.Errorf("R-GWM-05 %+v, want deprecation, note and time as data", m)
	}
	if w := e.View().Status().Warnings; len(w) != 1 || w[0].Code != "model_deprecated" || !strings.Contains(w[0].Message, "ends in March") {
		t.Errorf("R-GWM-05 the status says %+v", w)
	}
	if !e.View().ModelActive("cloud", cloud(january).Fingerprint) {
		t.Error("R-GWM-05 a deprecated model stopped answering")
	}
	observe(e, next)
	job := e.Replay(ref, []contracts.UsageRow{ectest.Answer(next)}, nil)
	if _, err := e.Send(activation(job)); fault.Code(err) != "model_deprecated" {
		t.Errorf("R-GWM-05 a new version of a deprecated model: %v, want model_deprecated", err)
	}
	e.Must(ec.DeprecateModel{Name: "cloud", In: contracts.ModelDeprecation{Undo: true}})
	if r := e.Must(ec.DeprecateModel{Name: "cloud", In: contracts.ModelDeprecation{Undo: true}}); r.Changed {
		t.Error("taken back twice, changed twice")
	}
	e.Must(activation(job))
}

// R-GWM-13: who, when, which version and its fingerprint are in the audit, and
// nobody but an operator decides.
func TestTheRegistryIsAudited(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(60)
	next := cloud(february)
	observe(e, cloud(january))
	observe(e, next)
	job := e.Replay(ref, []contracts.UsageRow{ectest.Answer(next)}, nil)
	for _, body := range []ec.Body{activation(job), ec.RollbackModel{Name: "cloud"}, ec.DeprecateModel{Name: "cloud"}} {
		for _, role := range []ec.Role{ec.RoleUser, ec.RoleAgent, ec.RoleSeam, ec.RoleWorker, ec.RoleSystem} {
			_, err := e.Do(context.Background(), ec.Command{ID: string(role) + body.Type(), Actor: ec.Actor{Role: role}, Body: body})
			if fault.Of(err) != fault.Forbidden {
				t.Errorf("R-GWM-13 %s by %s: %v, want a refusal", body.Type(), role, err)
			}
		}
	}
	if _, err := e.Do(context.Background(), ec.Command{ID: "o", Actor: ec.Actor{Role: ec.RoleOperator}, Body: ec.ObserveModels{}}); fault.Of(err) != fault.Forbidden {
		t.Errorf("R-GWM-13 an operator says what is configured: %v, want a refusal", err)
	}
	e.Must(activation(job))
	e.Must(ec.RollbackModel{Name: "cloud", In: contracts.ModelRollback{Reason: "a secret reason"}})
	e.Stop()
	files, err := filepath.Glob(filepath.Join(e.Dir, "system", "audit", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no audit: %v", err)
	}
	found := map[string]ec.AuditLine{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "a secret reason") {
			t.Error("the audit holds a text")
		}
		for line := range strings.Lines(string(b)) {
			var l ec.AuditLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			for _, effect := range l.Effects {
				found[effect] = l
			}
		}
	}
	for effect, want := range map[string]struct{ role, hash string }{
		"model.adopted:cloud@1": {"system", cloud(january).Fingerprint}, "model.proposed:cloud@2": {"system", next.Fingerprint},
		"model.activated:cloud@2": {"operator", next.Fingerprint}, "model.rolled_back:cloud@1": {"operator", cloud(january).Fingerprint},
	} {
		l, ok := found[effect]
		if !ok || string(l.Actor.Role) != want.role || len(l.Hashes) != 1 || l.Hashes[0] != want.hash {
			t.Errorf("R-GWM-13 the audit of %s: %+v, want it by %s with the version's fingerprint", effect, l, want.role)
		}
	}
}
