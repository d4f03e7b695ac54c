package writer_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/google/go-cmp/cmp"
)

// R-STO-10: what waits in the lab's queue waits for as long as it takes. No age
// removes a file of the queue, no pruning of sessions touches it, and after a
// restart each waiting job goes on.
func TestQueueFilesSurviveUntilConsumed(t *testing.T) {
	e := ectest.New(t)
	ref := e.Lab(40)
	var jobs []contracts.UUID
	for range 3 {
		jobs = append(jobs, e.Job(ref, `{}`).JobID)
	}
	e.Must(ec.CancelJob{JobID: jobs[2]})
	queue := func() map[string]string {
		out := map[string]string{}
		paths, err := e.Store.List("system/prompt_lab/worker/queue/")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(filepath.Join(e.Dir, p))
			if err != nil {
				t.Fatal(err)
			}
			out[p] = string(b)
		}
		return out
	}
	e.Restart()
	before := queue()
	if len(before) != 3 {
		t.Fatalf("the queue holds %d files, want one a job", len(before))
	}
	for range 3 {
		e.Clock.Add(400 * 24 * time.Hour)
		e.Must(ec.PruneSessions{})
		e.Restart()
	}
	if d := cmp.Diff(before, queue()); d != "" {
		t.Errorf("R-STO-10 files of the queue after three years (-before +after):\n%s", d)
	}
	for _, id := range jobs[:2] {
		e.Claim(id)
		got, err := e.View().Job(id)
		if err != nil || got.Status != contracts.JobRunning {
			t.Errorf("R-STO-10 a job that waited: %s, %v; want it running", got.Status, err)
		}
	}
	e.Restart()
	after := queue()
	for _, id := range jobs[:2] {
		if _, ok := after["system/prompt_lab/worker/queue/running/"+string(id)+".json"]; !ok || len(after) != 3 {
			t.Errorf("R-STO-10 %s was consumed and its file is not with what runs: %d files", id, len(after))
		}
	}
}
