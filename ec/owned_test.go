package ec_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// R-STO-02: one table says what EC owns, and whose everything in it is.
func TestEveryPlaceHasAnOwner(t *testing.T) {
	for _, c := range []struct {
		path   string
		stream bool
		owner  ec.Owner // empty: nobody's, so it is not written
	}{
		{"system/overlays/templates/a.md", false, ec.OwnedByLibrary},
		{"system/overlays/archived/a.md", false, ec.OwnedByLibrary},
		{"system/overlays/index.json", false, ec.OwnedByLibrary},
		{"system/overlays/metadata.json", false, ec.OwnedByLibrary},
		{"system/overlays/sessions/k.json", false, ec.OwnedBySessions},
		{"system/overlays/sessions/k.truth.json", false, ec.OwnedBySessions},
		{"system/overlays/pins/global.json", false, ec.OwnedBySessions},
		{"system/overlays/pins/workspace/w.json", false, ec.OwnedBySessions},
		{"signals/doc17/overlay_feedback.jsonl", true, ec.OwnedByFeedback},
		{"system/prompt_lab/worker/queue/pending/j.json", false, ec.OwnedByLab},
		{"system/prompt_lab/results/candidates/c.json", false, ec.CopyOfEvidence},
		{"system/prompt_lab/results/replay_summaries/c.json", false, ec.CopyOfEvidence},
		{"system/audit/2026-01.jsonl", true, ec.OwnedByEC},

		{"", false, ""},
		{"config.yaml", false, ""},
		{".ec/lock", false, ""},
		{"system/overlays/templates/", false, ""},
		{"system/overlays/templates/.md", false, ""},
		{"system/overlays/templates/a.txt", false, ""},
		{"system/overlays/index.json.old", false, ""},
		{"system/overlays/index.json/x", false, ""},
		{"system/overlays/other/a.md", false, ""},
		{"system/audit/2026-01.jsonl", false, ""},           // a stream is never replaced
		{"signals/doc17/overlay_feedback.jsonl", false, ""}, // likewise
		{"system/overlays/sessions/k.json", true, ""},       // a document is never appended to
		{"signals/doc17/other.jsonl", true, ""},
		{"elsewhere/system/audit/2026-01.jsonl", true, ""},
	} {
		owner, ok := ec.OwnerOf(c.path, c.stream)
		if owner != c.owner || ok != (c.owner != "") {
			t.Errorf("R-STO-02 owner of %q (stream: %v): got %q, %v; want %q", c.path, c.stream, owner, ok, c.owner)
		}
	}
}

// R-STO-03, R-BND-04: variants, assignments to a replay or a canary, and records of a
// promotion belong to the system that judges candidates: EC has no place for one.
// Of results it holds copies, each in a folder of its kind.
func TestEvidenceIsNotOwnedHere(t *testing.T) {
	copies := []string{}
	for _, p := range ec.Places() {
		for _, word := range []string{"variant", "assignment", "promotion", "retire", "canary"} {
			if strings.Contains(p.Path, word) {
				t.Errorf("R-BND-04 EC may write %s", p.Path)
			}
		}
		if strings.HasPrefix(p.Path, "system/prompt_lab/results/") {
			copies = append(copies, p.Path)
			if p.Owner != ec.CopyOfEvidence {
				t.Errorf("R-STO-03 %s is owned by %s; it holds copies", p.Path, p.Owner)
			}
		}
	}
	if want := []string{"system/prompt_lab/results/candidates/", "system/prompt_lab/results/replay_summaries/"}; !slices.Equal(copies, want) {
		t.Errorf("R-STO-03 copies lie in %v, want %v", copies, want)
	}
}

// R-STO-03: when the copies of results are gone, what is owned here is not: EC
// starts, and jobs with their outcome, overlays and the count of used examples are
// as they were.
func TestNothingOwnedRestsOnResults(t *testing.T) {
	e := ectest.New(t)
	j := e.Job(e.Lab(60), `{}`)
	if _, err := finish(e, e.Claim(j.JobID), result(j, candidateText("Name the owner."))); err != nil {
		t.Fatal(err)
	}
	m := e.Claim(j.JobID)
	measure(t, e, m, 0, 1)
	if _, err := finish(e, m, result(j)); err != nil {
		t.Fatal(err)
	}
	files := func(folder string) []string {
		paths, err := e.Store.List(folder)
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	before, overlays := job(t, e, j.JobID), e.View().Overlays(ec.OverlayFilter{})
	rows := files("system/prompt_lab/measurements/")
	e.Restart()
	if n := len(files("system/prompt_lab/results/")); n != 2 || before.Status != contracts.JobCompleted || len(rows) == 0 {
		t.Fatalf("%d results of a job that is %s, %d files of rows; want a candidate and its summary", n, before.Status, len(rows))
	}
	e.While(func() {
		if err := os.RemoveAll(filepath.Join(e.Dir, "system", "prompt_lab", "results")); err != nil {
			t.Fatal(err)
		}
	})
	if d := cmp.Diff(before, job(t, e, j.JobID), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("R-STO-03 the job without results (-before +after):\n%s", d)
	}
	if d := cmp.Diff(overlays, e.View().Overlays(ec.OverlayFilter{})); d != "" {
		t.Errorf("R-STO-03 overlays without results (-before +after):\n%s", d)
	}
	if got := files("system/prompt_lab/measurements/"); !slices.Equal(got, rows) {
		t.Errorf("R-STO-03 measured rows without results: %v, want %v", got, rows)
	}
}
