package ec_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
)

// measuredBy runs a job to its label with rows that change makes.
func measuredBy(t *testing.T, change func(i int, r *contracts.MeasurementRow)) (contracts.PromptLabJob, contracts.PromptCandidate) {
	t.Helper()
	e := ectest.New(t)
	j := e.Job(e.Lab(60), `{}`)
	if _, err := finish(e, e.Claim(j.JobID), result(j, candidateText("Name the owner."))); err != nil {
		t.Fatal(err)
	}
	m := e.Claim(j.JobID)
	var rows contracts.List[contracts.MeasurementRow]
	for _, arm := range m.Measure.Arms {
		for run := range arm.Runs {
			for _, ex := range m.Measure.Examples {
				score := 0.0
				if arm.Arm != "source" {
					score = 1
				}
				r := contracts.MeasurementRow{Arm: arm.Arm, ExampleID: ex.ExampleID, Run: run, Score: &score, Model: "model-1"}
				change(len(rows), &r)
				rows = append(rows, r)
			}
		}
	}
	e.Must(ec.DeliverRows{TaskID: m.TaskID, In: contracts.TaskRows{Dispatch: m.Dispatch, Token: ectest.Token, Rows: rows}})
	if _, err := finish(e, m, result(j)); err != nil {
		t.Fatal(err)
	}
	return job(t, e, j.JobID), e.View().Candidates(ec.CandidateFilter{}).Items[0]
}

func TestWhereAnswersCameFrom(t *testing.T) {
	t.Run("R-EVD-03 one model", func(t *testing.T) {
		j, c := measuredBy(t, func(int, *contracts.MeasurementRow) {})
		if c.EvidenceLabel != contracts.LabelEstablished || c.Simulated || j.Detail.Simulated {
			t.Errorf("label %s, simulated %v", c.EvidenceLabel, c.Simulated)
		}
	})
	t.Run("R-GWR-24 two models void the pairs", func(t *testing.T) {
		_, c := measuredBy(t, func(i int, r *contracts.MeasurementRow) {
			if i == 3 {
				r.Model = "model-2"
			}
		})
		if c.EvidenceLabel != contracts.LabelNone || !strings.Contains(c.LabelReasons[0], "2 models") {
			t.Errorf("label %s: %v", c.EvidenceLabel, c.LabelReasons)
		}
	})
	t.Run("R-GWG-09 one simulated answer marks the candidate", func(t *testing.T) {
		j, c := measuredBy(t, func(i int, r *contracts.MeasurementRow) { r.Simulated = i == 5 })
		if !c.Simulated || !j.Detail.Simulated {
			t.Errorf("candidate simulated %v, job %v", c.Simulated, j.Detail.Simulated)
		}
	})
}

// R-GWA-03: uses are counted by input: another name for the dataset, or one
// changed row, makes no example fresh.
func TestHoldoutUsesAreCountedByInput(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(60)
	renamed := ectest.Dataset("other-name", 60)
	renamed.Rows[0].InputText = "One row is another one now."
	other := e.Must(ec.CreateDataset{Dataset: renamed}).Subject
	for i, r := range []string{ref, other, ref} {
		j := e.Job(r, `{}`)
		if _, err := finish(e, e.Claim(j.JobID), result(j, candidateText("Name the owner."))); err != nil {
			t.Fatal(err)
		}
		if got := job(t, e, j.JobID).Detail.Split.Uses; got != i+1 {
			t.Errorf("R-GWA-03 use %d of the examples is counted as %d", i+1, got)
		}
		if i == 1 {
			e.Must(ec.CancelJob{JobID: j.JobID})
			e.Restart()
		}
	}
}
