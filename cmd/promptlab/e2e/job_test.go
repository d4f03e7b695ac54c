package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway/simulator"
)

// R-WRK-04, R-LAB-03, R-GWA-02: the demo is the main job with the installed
// optimizer, and its document has what it promises.
func TestDemoPrintsOneDocument(t *testing.T) {
	out, errs, code := run(t, t.Context(), nil, "demo", "--exit", "--json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	var doc struct {
		Job struct {
			Status   string `json:"status"`
			Attempts int    `json:"attempts"`
		} `json:"job"`
		Backend    struct{ Name, Version, Python string } `json:"backend"`
		Examples   struct{ Dev, Holdout int }             `json:"examples"`
		Candidates []struct {
			Hash  string          `json:"hash"`
			Delta json.RawMessage `json:"delta"`
			Gates json.RawMessage `json:"gates"`
		} `json:"candidates"`
		Evidence struct {
			N          int     `json:"n"`
			Difference float64 `json:"difference"`
			LowerBound float64 `json:"lower_bound"`
			UpperBound float64 `json:"upper_bound"`
			Label      string  `json:"label"`
		} `json:"evidence"`
		Usage     json.RawMessage `json:"usage"`
		Simulated bool            `json:"simulated"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("not one JSON document: %v\n%s", err, out)
	}
	switch {
	case doc.Job.Status != "completed" || doc.Job.Attempts != 1:
		t.Errorf("job %+v", doc.Job)
	case doc.Backend.Name != "promptolution" || doc.Backend.Version != "2.3.0" || !strings.HasPrefix(doc.Backend.Python, "3."):
		t.Errorf("backend %+v", doc.Backend)
	case doc.Examples.Dev < 8 || doc.Examples.Holdout < 30:
		t.Errorf("examples %+v", doc.Examples)
	case len(doc.Candidates) == 0 || len(doc.Candidates[0].Hash) != 64:
		t.Errorf("candidates %+v", doc.Candidates)
	case doc.Evidence.Label != "established" || doc.Evidence.LowerBound <= 0 || doc.Evidence.N != doc.Examples.Holdout:
		t.Errorf("R-EVD-03 evidence %+v", doc.Evidence)
	case !doc.Simulated || len(doc.Usage) < 10:
		t.Errorf("R-GWG-09 simulated %v, usage %s", doc.Simulated, doc.Usage)
	}
}

func TestNullWorldDemoEarnsNoLabel(t *testing.T) {
	out, errs, code := run(t, t.Context(), nil, "demo", "--exit", "--json", "--null-world")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if strings.Contains(out, `"established"`) || strings.Contains(out, `"promising"`) {
		t.Errorf("R-EVD-05 something is labelled better in a world where nothing helps:\n%s", out)
	}
}

// The whole job against a priced, unmarked model server: candidates wait for a
// person, money is counted, and the optimizer has seen nothing that is not its
// business.
func TestJobOverSeparateProcesses(t *testing.T) {
	s := newSystem(t, options{world: simulator.Helpful, prices: "{input_per_mtok_usd: 0.1, output_per_mtok_usd: 0.4}"})
	ref := s.lab(60)
	budget := 5.0
	j := s.ended(2*time.Minute, s.job(ref, client.JobOptions{PerJobBudgetUSD: &budget}).JobID)
	if j.Status != contracts.JobCompleted || j.Detail.Simulated || j.Detail.SpentUSD <= 0 || j.Detail.SpentUSD > budget {
		t.Fatalf("job %s (%s: %s), spent %v", j.Status, j.Detail.FailureCode, j.Detail.FailureMessage, j.Detail.SpentUSD)
	}
	list, err := s.user.Candidates(t.Context(), string(j.JobID))
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("candidates: %v, %v", list, err)
	}
	best := list.Items[0]
	if !best.Reviewable || best.EvidenceLabel != contracts.LabelEstablished || best.Evidence.LowerBound <= 0 {
		t.Errorf("R-EVD-03 best candidate: %s, %+v, %v", best.EvidenceLabel, best.Evidence, best.LabelReasons)
	}
	d, _, err := s.user.Overlay(t.Context(), "notes")
	if err != nil || d.Record.Body != overlayText {
		t.Errorf("R-BND-07 the overlay changed: %v", err)
	}
	t.Run("R-GWV-02 the model's key is in no file and no log", func(t *testing.T) {
		s.scan(t, modelKey)
	})
	t.Run("R-GWV-02 no log holds a text", func(t *testing.T) {
		logs, err := filepath.Glob(filepath.Join(s.dir, "*.log"))
		if err != nil || len(logs) < 2 {
			t.Fatalf("logs %v, %v", logs, err)
		}
		for _, p := range logs {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"Prefer plain words", "main worry"} {
				if bytes.Contains(b, []byte(text)) {
					t.Errorf("%s holds %q", filepath.Base(p), text)
				}
			}
		}
	})
	t.Run("R-SYS-03 R-GWV-02 Redis never held a text or a key", func(t *testing.T) {
		out, err := s.redisCLI("--scan")
		if err != nil {
			t.Skipf("redis-cli: %v", err)
		}
		read := map[string][]string{"string": {"get"}, "hash": {"hgetall"}, "list": {"lrange", "0", "-1"}, "set": {"smembers"}, "zset": {"zrange", "0", "-1"}}
		looked := 0
		for _, key := range strings.Fields(out) {
			typ, _ := s.redisCLI("type", key)
			how := read[strings.TrimSpace(typ)]
			if how == nil {
				continue
			}
			looked++
			v, _ := s.redisCLI(append([]string{how[0], key}, how[1:]...)...)
			for _, secret := range []string{"Prefer plain words", "main worry", modelKey} {
				if strings.Contains(key+v, secret) {
					t.Errorf("Redis key %s holds %q", key, secret)
				}
			}
		}
		if looked == 0 {
			t.Errorf("no key of %q was read: nothing is proved", out)
		}
	})
	t.Run("R-STO-01 what is on the disk verifies", func(t *testing.T) { s.verifyAudit(t) })
}

// scan looks for a string in every file of the system.
func (s *system) scan(t *testing.T, needle string) {
	t.Helper()
	err := filepath.WalkDir(s.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return nil // files come and go
		}
		b, _ := os.ReadFile(p)
		if bytes.Contains(b, []byte(needle)) {
			t.Errorf("%s holds %s", strings.TrimPrefix(p, s.dir), needle)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// R-RES-02, R-RES-04: a text that moves on while its job runs.
func TestSourceMovesOnWhileTheJobRuns(t *testing.T) {
	move := map[string]func(*system) error{
		"edited": func(s *system) error {
			_, err := s.user.UpdateOverlay(s.t.Context(), overlay(overlayText+"- One line more.\n"), "")
			return err
		},
		"archived": func(s *system) error { _, err := s.user.ArchiveOverlay(s.t.Context(), "notes", ""); return err },
	}
	for name, do := range move {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, options{delay: 20 * time.Millisecond})
			j := s.job(s.lab(60), client.JobOptions{})
			s.until(time.Minute, "the search runs", func() bool { return len(s.pythons()) > 0 && s.model.Calls() > 20 })
			if err := do(s); err != nil {
				t.Fatal(err)
			}
			now := s.ended(2*time.Minute, j.JobID)
			list, err := s.user.Candidates(t.Context(), string(j.JobID))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range list.Items {
				if c.Reviewable {
					t.Errorf("R-RES-02 candidate %s is reviewable", c.CandidateID)
				}
			}
			if now.Status != contracts.JobStale || now.Detail.FailureCode != contracts.FailStaleSource {
				t.Errorf("R-RES-02 job is %s (%s)", now.Status, now.Detail.FailureCode)
			}
			s.serve.kill(15)
			audit := s.audit(t)
			if !has(audit, "job.stale:"+string(j.JobID)) {
				t.Errorf("the audit does not show it:\n%s", strings.Join(audit, "\n"))
			}
		})
	}
}

// R-LAB-10: cancel while Python runs: dead within 3 s, tree and all.
func TestCancelWhilePythonRuns(t *testing.T) {
	s := newSystem(t, options{delay: 50 * time.Millisecond})
	j := s.job(s.lab(60), client.JobOptions{})
	s.until(time.Minute, "the search runs", func() bool { return len(s.pythons()) > 0 && s.model.Calls() > 5 })
	began := time.Now()
	if _, err := s.user.CancelJob(t.Context(), string(j.JobID)); err != nil {
		t.Fatal(err)
	}
	s.until(10*time.Second, "no Python is left", func() bool { return len(s.pythons()) == 0 })
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("R-LAB-10 Python lived for %s after the cancel", took)
	}
	if now, err := s.user.Job(t.Context(), string(j.JobID)); err != nil || now.Status != contracts.JobCancelled {
		t.Errorf("job %s, %v", now.Status, err)
	}
}

// R-GWL-12, R-GWL-13: 0.01 USD is never overrun, by concurrent calls or by kills.
func TestBudgetOverConcurrencyAndKills(t *testing.T) {
	s := newSystem(t, options{delay: 5 * time.Millisecond, prices: "{input_per_mtok_usd: 1, output_per_mtok_usd: 4}"})
	budget := 0.01
	j := s.job(s.lab(60), client.JobOptions{PerJobBudgetUSD: &budget})
	for range 2 {
		before := s.model.Calls()
		s.until(time.Minute, "money is being spent, or the job has ended", func() bool {
			now, err := s.user.Job(t.Context(), string(j.JobID))
			return s.model.Calls() > before || err == nil && now.Status.Terminal()
		})
		s.work.kill(9)
		s.work.start()
	}
	now := s.ended(3*time.Minute, j.JobID)
	cost := 0.0
	for _, r := range s.model.Requests() {
		var body struct{ Messages []struct{ Content string } }
		if json.Unmarshal(r.Body, &body) == nil {
			for _, m := range body.Messages {
				cost += float64(len(m.Content)) / 4 * 1e-6 // what the fake counts as a token, at 1 USD per million
			}
		}
	}
	if cost > budget || now.Detail.SpentUSD > budget {
		t.Errorf("R-GWL-12 the input alone cost %.4f, booked %.4f, of %.2f", cost, now.Detail.SpentUSD, budget)
	}
	if now.Status != contracts.JobCompleted || now.Detail.EndedBy != contracts.EndedByBudget {
		t.Errorf("job %s, ended by %s (%s: %s)", now.Status, now.Detail.EndedBy, now.Detail.FailureCode, now.Detail.FailureMessage)
	}
}

// audit gives the effects of every accepted command, from the files.
func (s *system) audit(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.home.Memory, "system", "audit", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
			var l struct{ Effects []string }
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatalf("audit line %s: %v", line, err)
			}
			out = append(out, l.Effects...)
		}
	}
	return out
}

// verifyAudit runs promptlab verify, before and after somebody changed a line.
func (s *system) verifyAudit(t *testing.T) {
	t.Helper()
	verify := func() (string, int) {
		out, errs, code := run(t, t.Context(), nil, "verify", "--json", "--home", s.home.Dir)
		return out + errs, code
	}
	if out, code := verify(); code != 0 || !strings.Contains(out, `"running": true`) {
		t.Errorf("R-CMD-06 verify beside a running server: exit %d\n%s", code, out)
	}
	s.work.kill(15)
	s.serve.kill(15)
	if out, code := verify(); code != 0 || !strings.Contains(out, `"running": false`) {
		t.Errorf("R-CMD-06 verify: exit %d\n%s", code, out)
	}
	paths, err := filepath.Glob(filepath.Join(s.home.Memory, "system", "audit", "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no audit: %v", err)
	}
	b, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(b, []byte(`"command":"overlay.create"`), []byte(`"command":"overlay.update"`), 1)
	if err := os.WriteFile(paths[0], forged, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := verify(); code != 1 || !strings.Contains(out, filepath.Base(paths[0])) {
		t.Errorf("R-CMD-06 verify after a line was changed: exit %d\n%s", code, out)
	}
}

func (s *system) redisCLI(args ...string) (string, error) {
	cmd := s.redis.make() // for its port
	out, err := command("redis-cli", append([]string{"-p", cmd.Args[2]}, args...)...).Output()
	return string(out), err
}

// R-CON-08, R-HTTP-03: every field of a job body wrong in turn: one 4xx that names
// the field, and nothing is changed.
func TestEachBadFieldOfTheBodies(t *testing.T) {
	s := newSystem(t, options{})
	ref := s.lab(60)
	job := map[string]string{
		"artifact_kind": `"moon"`, "artifact_id": `""`, "backend": `"x"`, "request_reason": `"x"`, "requested_by": `7`, "dataset_ref": `[]`,
		"min_replay_examples": `0`, "status": `"done"`, "job_id": `"x"`, "created_at": `"yesterday"`, "options": `[]`, "unknown": `1`,
	}
	for name, bad := range map[string]string{"optimization_goal": `1`, "max_candidates": `9`, "per_job_budget_usd": `-1`, "banned_phrases": `"x"`, "preserve_required_sections": `{}`, "engine": `"x"`, "seed": `-1`, "model_route": `1`, "max_steps": `0`} {
		job["options."+name] = bad
	}
	overlayFields := map[string]string{"body": `""`, "body_hash": `"0"`, "frontmatter": `[]`, "source": `"preset"`, "unknown": `1`}
	for name, bad := range map[string]string{
		"id": `"../x"`, "title": `""`, "artifact_class": `"x"`, "category": `"x"`, "description": `""`, "visibility_tier": `"x"`, "supported_surfaces": `[]`,
		"recommended_model_classes": `["x"]`, "reasoning_model_caution": `1`, "conflicts_with": `["nobody"]`, "warns_with": `"x"`, "compatible_categories": `["x"]`,
		"live_token_target": `39`, "estimated_tokens": `0`, "requires_explicit_invocation": `"no"`, "suggested_use_cases": `[1]`, "avoid_when": `{}`, "structure_labels": `null`,
		"research_tags": `7`, "preset": `true`, "deprecated_aliases": `[1]`, "version": `1`, "unknown": `1`,
	} {
		overlayFields["frontmatter."+name] = bad
	}
	goodJob := fmt.Sprintf(`{"artifact_kind":"overlay_template","artifact_id":"notes","dataset_ref":%q,"options":{}}`, ref)
	goodOverlay := `{"frontmatter":{"id":"another","title":"T","artifact_class":"live_overlay","category":"quality","description":"D","supported_surfaces":["chat"],"live_token_target":100},"body":"Text.\n"}`
	before, err := s.user.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	try := func(path, doc string, fields map[string]string) {
		for field, bad := range fields {
			body := setField(t, doc, field, bad)
			status, details := s.post(t, path, body)
			named := false
			for _, d := range details {
				named = named || strings.HasPrefix(d, field) || field == "frontmatter" && strings.HasPrefix(d, "frontmatter")
			}
			if status < 400 || status > 499 || !named {
				t.Errorf("R-HTTP-03 POST %s with bad %s: status %d, names %v", path, field, status, details)
			}
		}
	}
	try("/api/prompt-lab/jobs", goodJob, job)
	try("/api/overlays", goodOverlay, overlayFields)
	after, err := s.user.Status(t.Context())
	if err != nil || after.Revision != before.Revision {
		t.Errorf("R-CMD-08 revision %d became %d, %v", before.Revision, after.Revision, err)
	}
	if status, _ := s.post(t, "/api/overlays", goodOverlay); status != 201 {
		t.Errorf("the good overlay body: status %d", status)
	}
}

// A worker that cannot isolate as asked does not start, and says so in one line.
func TestNoWorkerBelowTheLevelAskedFor(t *testing.T) {
	_, errs, code := run(t, t.Context(), nil, "up", "--home", t.TempDir(), "--listen", "127.0.0.1:0", "--sandbox-min-level", "L2f")
	if code != 2 || !strings.Contains(errs, "sandbox.min_level") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
