package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
)

// R-GWM-10, R-GWM-13: over separate processes, a changed model answers nobody but
// the job that tries it, until an operator activates it on that job.
func TestAChangedModelWaits(t *testing.T) {
	s := newSystem(t, options{})
	ref := s.lab(60)
	path := filepath.Join(s.home.Dir, "config.yaml")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s.startChat()
	if status, body := s.turn(t); status != http.StatusOK {
		t.Fatalf("a turn before the change: %d %s", status, body)
	}
	s.rewrite(t, path, strings.Replace(string(old), "    routes:", "    drop_parameters: [seed]\n    routes:", 1))

	out, _, _ := s.cli(t, "doctor")
	if !strings.Contains(out, "promptlab models activate local --replay") {
		t.Errorf("doctor does not tell of the model that waits:\n%s", out)
	}
	out, _, _ = s.cli(t, "status")
	if !strings.Contains(out, "which nobody has activated") {
		t.Errorf("the status does not tell of the model that waits:\n%s", out)
	}
	if status, body := s.turn(t); status != http.StatusServiceUnavailable || !strings.Contains(body, "model_not_active") {
		t.Errorf("R-GWM-10 a turn after the change: %d %s, want model_not_active", status, body)
	}
	steps := 1
	j := s.ended(time.Minute, s.job(ref, client.JobOptions{MaxSteps: &steps}).JobID)
	if j.Status != contracts.JobFailed || !strings.Contains(j.Detail.FailureMessage, "--model-route") {
		t.Errorf("R-GWM-10 a job that does not try it: %s %q, want it to say how to", j.Status, j.Detail.FailureMessage)
	}
	if _, errs, code := s.cli(t, "models", "activate", "local", "--replay", string(j.JobID)); code != 1 || !strings.Contains(errs, "only one that was completed") {
		t.Errorf("R-GWM-10 activated on a failed job: exit code %d, %s", code, errs)
	}
	j = s.ended(2*time.Minute, s.job(ref, client.JobOptions{MaxSteps: &steps, ModelRoute: "local"}).JobID)
	if j.Status != contracts.JobCompleted {
		t.Fatalf("the job that tries it: %s %q", j.Status, j.Detail.FailureMessage)
	}
	out, errs, code := s.cli(t, "models", "activate", "local", "--replay", string(j.JobID), "--changelog", "no seed", "--docs-page", "https://example.com/local")
	if code != 0 || !strings.Contains(out, "local is local@2") {
		t.Fatalf("activate: exit code %d\n%s%s", code, out, errs)
	}
	s.until(30*time.Second, "R-GWM-10 the chat endpoint hears of it", func() bool { status, _ := s.turn(t); return status == http.StatusOK })
	out, _, code = s.cli(t, "models", "show", "local")
	for _, want := range []string{"local@2  active", "local@1  previous", string(j.JobID), "no seed", "https://example.com/local"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("R-GWM-02 R-GWM-12 show does not say %q:\n%s", want, out)
		}
	}

	// EC away, the chat endpoint started again: what was heard last holds
	s.serve.kill(syscall.SIGTERM)
	s.chat.kill(syscall.SIGTERM)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s.chat.start()
	s.until(time.Minute, "the chat endpoint answers without EC", func() bool { status, _ := s.turn(t); return status != 0 })
	if status, body := s.turn(t); status != http.StatusServiceUnavailable || !strings.Contains(body, "model_not_active") {
		t.Errorf("R-GWM-10 a turn of the version before, EC away: %d %s, want model_not_active", status, body)
	}
	s.serve.start()
	s.waitReady()
	out, errs, code = s.cli(t, "models", "rollback", "local", "--reason", "was better")
	if code != 0 || !strings.Contains(out, "local is local@1") {
		t.Fatalf("rollback: exit code %d\n%s%s", code, out, errs)
	}
	s.until(30*time.Second, "R-GWM-13 the chat endpoint hears of the rollback", func() bool { status, _ := s.turn(t); return status == http.StatusOK })
	if out, _, code := s.cli(t, "doctor", "--json"); code != 0 || strings.Contains(out, "nobody uses it") {
		t.Errorf("doctor after the rollback, exit code %d:\n%s", code, out)
	}
}

// rewrite changes the configuration and starts every process again.
func (s *system) rewrite(t *testing.T, path, config string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*proc{s.work, s.chat, s.serve} {
		p.kill(syscall.SIGTERM)
	}
	s.serve.start()
	s.waitReady()
	s.work.start()
	s.chat.start()
	s.until(time.Minute, "the chat endpoint hears from EC", s.chatHearsEC)
}

// turn asks the chat endpoint something; 0 is nobody there.
func (s *system) turn(t *testing.T) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.chatURL+"/v1/chat/completions",
		strings.NewReader(`{"model":"local","messages":[{"role":"user","content":"Hello."}]}`))
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.home.Token("user")
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.caller().Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusOK && !json.Valid(b) {
		t.Errorf("not JSON: %s", b)
	}
	return resp.StatusCode, string(b)
}

// cli runs a command against this system.
func (s *system) cli(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return run(t, t.Context(), []string{"E2E_MODEL_KEY=" + modelKey}, append(args, "--home", s.home.Dir)...)
}
