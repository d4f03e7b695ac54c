package ec_test

import (
	"fmt"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator"
	"github.com/elnor/promptlab/prompt"
)

// worldText is a text with room for what the worlds' rules ask for.
const worldText = "# Notes\n\nWrite short notes about releases and changes for people who decide.\n\n" +
	"- Say what changed and why it matters.\n- Keep to what the request says.\n- Never guess a date.\n- Prefer plain words to jargon and short sentences to long ones.\n" +
	"- Put the most important thing first.\n"

// runWorld measures stub candidates in a world, through EC from create to label.
func runWorld(t *testing.T, e *ectest.Env, kind simulator.Kind, seed uint64, lines []string) []contracts.PromptCandidate {
	t.Helper()
	world, err := simulator.New(kind, seed)
	if err != nil {
		t.Fatal(err)
	}
	d := contracts.Dataset{Name: fmt.Sprintf("world-%s-%d", kind, seed)}
	for _, ex := range simulator.Examples(60, seed) {
		d.Rows = append(d.Rows, contracts.DatasetRow{ExampleID: ex.ID, InputText: ex.Input, ExpectedSignal: ex.ExpectedSignal})
	}
	ref := e.Must(ec.CreateDataset{Dataset: d}).Subject
	in, err := contracts.Decode[contracts.PromptLabJob]([]byte(fmt.Sprintf(`{"artifact_kind":"overlay_template","artifact_id":"world-text","dataset_ref":%q}`, ref)), contracts.Client)
	if err != nil {
		t.Fatal(err)
	}
	id := contracts.UUID(e.Must(ec.CreateJob{Job: in}).Subject)
	var texts []string
	for _, l := range lines {
		texts = append(texts, worldText+"- "+l+"\n")
	}
	j := job(t, e, id)
	if _, err := finish(e, e.Claim(id), result(j, texts...)); err != nil {
		t.Fatal(err)
	}
	m := e.Claim(id)
	var rows contracts.List[contracts.MeasurementRow]
	for _, arm := range m.Measure.Arms {
		for run := range arm.Runs {
			for _, ex := range m.Measure.Examples {
				score := ask(t, world, arm.Text, ex, int64(run))
				rows = append(rows, contracts.MeasurementRow{Arm: arm.Arm, ExampleID: ex.ExampleID, Run: run, Score: &score, Model: "world"})
			}
		}
	}
	e.Must(ec.DeliverRows{TaskID: m.TaskID, In: contracts.TaskRows{Dispatch: m.Dispatch, Token: ectest.Token, Rows: rows}})
	if _, err := finish(e, m, result(j)); err != nil {
		t.Fatal(err)
	}
	return e.View().Candidates(ec.CandidateFilter{JobID: id}).Items
}

func ask(t *testing.T, w *simulator.World, text string, ex contracts.ReplayExample, seed int64) float64 {
	t.Helper()
	var messages []gateway.Message
	for _, m := range prompt.Replay(contracts.KindOverlay, text, ex.InputText).Messages {
		messages = append(messages, gateway.Message{Role: m.Role, Content: m.Content})
	}
	signal, problems := evidence.ParseSignal(ex.ExpectedSignal)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	score, _, _ := signal.Score(w.Answer(messages, simulator.Params{Role: "task", Seed: &seed}).Text)
	return score
}

func better(c contracts.PromptCandidate) bool {
	return c.EvidenceLabel == contracts.LabelPromising || c.EvidenceLabel == contracts.LabelEstablished
}

// R-GWA-02, R-GWA-11: in a world where nothing helps, next to nothing may be
// called better: 18 of 200 jobs at most, with three finalists each.
func TestNullWorldEarnsNoLabels(t *testing.T) {
	e := ectest.New(t)
	e.Ready()
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("world-text", worldText)})
	const jobs, most = 200, 18
	labelled := 0
	for seed := range uint64(jobs) {
		for _, c := range runWorld(t, e, simulator.Null, seed, []string{"Begin with a Decision: line.", "Add an Owner: line.", "Stay friendly."}) {
			if better(c) {
				labelled++
				break
			}
		}
	}
	t.Logf("%d of %d null jobs have a candidate that is labelled better", labelled, jobs)
	if labelled > most {
		t.Errorf("R-GWA-11 %d of %d null jobs are labelled better, want at most %d", labelled, jobs, most)
	}
}

// R-EVD-03, R-GWA-02: in a world where instructions help, the text that carries
// them is found better on the sealed examples, and the decoy is not.
func TestHelpfulWorldEarnsItsLabel(t *testing.T) {
	e := ectest.New(t)
	e.Ready()
	e.Must(ec.CreateOverlay{Record: ectest.Overlay("world-text", worldText)})
	const jobs, least = 8, 6 // a sound run's control excludes zero one time in ten
	labelled := 0
	for seed := range uint64(jobs) {
		cands := runWorld(t, e, simulator.Helpful, seed, []string{"Add Decision:, Owner:, Deadline: and Risk: lines.", "Stay friendly."})
		uncalibrated := job(t, e, cands[0].SourceJobID).Detail.Control.Verdict != "inconclusive"
		for _, c := range cands {
			helps := c.CandidateText != worldText+"- Stay friendly.\n"
			switch {
			case helps && c.Evidence.LowerBound <= 0.2:
				t.Errorf("R-GWA-02 seed %d: the text that helps is not seen to: %+v", seed, c.Evidence)
			case helps && better(c):
				labelled++
			case helps && !uncalibrated, !helps && better(c):
				t.Errorf("R-EVD-03 seed %d: candidate that helps=%v is labelled %s: %v", seed, helps, c.EvidenceLabel, c.LabelReasons)
			}
		}
	}
	if labelled < least {
		t.Errorf("R-EVD-03 %d of %d helpful jobs are labelled, want at least %d", labelled, jobs, least)
	}
}
