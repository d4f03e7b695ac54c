package ec_test

import (
	"context"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/google/go-cmp/cmp"
)

// Evidence rests on what a job's own worker books: the chat's side cannot add to it.
func TestNobodyElseBooksForAJob(t *testing.T) {
	e := ectest.New(t)
	r := ectest.Answer(cloud(january))
	r.AttemptID, r.JobID, r.At = contracts.DeriveID("a", "b", 0), contracts.DeriveID("j", "b", 0), contracts.At(e.Clock.Now())
	_, err := e.Do(context.Background(), ec.Command{ID: "x", Actor: ec.Actor{Role: ec.RoleSeam}, Body: ec.BookUsage{Rows: []contracts.UsageRow{r}}})
	if fault.Of(err) != fault.Invalid {
		t.Errorf("R-GWM-10 the seam books a job's call: %v, want a refusal", err)
	}
}

// R-GWM-10: a worker is told with its task which models may answer.
func TestATaskSaysWhichModelsMayAnswer(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(60)
	if task := e.Claim(e.Job(ref, `{}`).JobID); task.Models != nil {
		t.Errorf("an empty registry rules: %+v", task.Models)
	}
	observe(e, cloud(january))
	observe(e, cloud(february))
	task := e.Claim(e.Job(ref, `{}`).JobID)
	want := &contracts.ActiveModels{Items: contracts.List[contracts.ActiveModel]{{Name: "cloud", Fingerprint: cloud(january).Fingerprint}}}
	if d := cmp.Diff(want, task.Models); d != "" {
		t.Errorf("R-GWM-10 (-want +got):\n%s", d)
	}
}
