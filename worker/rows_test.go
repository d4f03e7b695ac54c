package worker

import (
	"context"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/prompt"
)

// R-GWL-04: every row names the prompt that was sent with its version, the
// pinned model, the job and the digest of the request.
func TestUsageRowsNameWhatWasAsked(t *testing.T) {
	judged := measureTask()
	judged.Request.Rubric = "names the owner"
	for i := range judged.Measure.Examples {
		judged.Measure.Examples[i].ExpectedSignal = ""
	}
	answer := func(n int, c gateway.Call) (gateway.Reply, error) {
		if c.Request.Role == gateway.RoleJudge {
			return gateway.Reply{Text: `{"score":1,"feedback":"x"}`, Finish: gateway.FinishStop}, nil
		}
		return good(n, c)
	}
	texts := map[string]bool{}
	for _, arm := range judged.Measure.Arms {
		texts[contracts.Hash(arm.Text)] = true
	}
	want := map[contracts.ModelRole]struct {
		key     string
		version func(string) bool
	}{
		contracts.RoleTask:  {prompt.PathReplay, func(v string) bool { return texts[v] }}, // the text under trial is the version
		contracts.RoleJudge: {prompt.PathJudge, func(v string) bool { return v == prompt.JudgeVersion }},
		contracts.RoleMeta:  {prompt.PathMeta, func(v string) bool { return v == prompt.MetaVersion }},
	}
	seen := map[contracts.ModelRole]int{}
	for _, d := range []*fakeDoor{
		do(t, judged, &provider{answer: answer}, nil),
		do(t, optimizeTask("meta"), &provider{answer: good}, nil),
	} {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, row := range d.usage {
			seen[row.Feature]++
			w := want[row.Feature]
			if row.PromptKey != w.key || w.version == nil || !w.version(row.PromptVersion) {
				t.Errorf("R-GWL-04 a %s row names prompt %q, version %q", row.Feature, row.PromptKey, row.PromptVersion)
			}
			if len(row.RequestDigest) != 64 || row.JobID != d.task.JobID || row.Model != "model-1" || row.Target != "m" {
				t.Errorf("R-GWL-04 row %+v", row)
			}
		}
	}
	for role := range want {
		if seen[role] == 0 {
			t.Errorf("no row of role %s among %v", role, seen)
		}
	}
}

// believing is a gateway that lets everything pass.
type believing struct{ verdict string }

func (b believing) Do(_ context.Context, req gateway.Request, _ gateway.Budget) (gateway.Response, error) {
	text := "an answer"
	if req.Role == gateway.RoleJudge {
		text = b.verdict
	}
	return gateway.Response{Text: text, Finish: gateway.FinishStop, Model: "m"}, nil
}

// R-GWO-02, R-GWO-03: what a verdict means is checked again by who uses it; a
// shape that was let through buys no score outside of 0 to 1.
func TestAVerdictIsCheckedTwice(t *testing.T) {
	for text, scored := range map[string]bool{
		`{"score":0.5,"feedback":"x"}`: true, `{"score":1.01,"feedback":"x"}`: false, `{"score":-1,"feedback":"x"}`: false,
		`{"feedback":"x"}`: false, `{"score":1,"feedback":"x","more":1}`: false, `fine`: false,
	} {
		task := measureTask()
		task.Request.Rubric = "names the owner"
		for i := range task.Measure.Examples {
			task.Measure.Examples[i].ExpectedSignal = ""
		}
		d := do(t, task, &provider{}, func(c *Config) {
			c.Models = func(gateway.Rows) (Models, error) { return believing{text}, nil }
		})
		if len(d.rows) != 18 {
			t.Fatalf("%s: %d rows, want 18", text, len(d.rows))
		}
		for _, row := range d.rows {
			if (row.Score != nil) != scored {
				t.Fatalf("R-GWO-02 verdict %s: score %v, scored wanted: %t", text, row.Score, scored)
			}
		}
	}
}
