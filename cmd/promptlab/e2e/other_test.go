package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
)

// rules make the other server answer: an edited text where one is asked for, a
// note with an owner where the overlay asks for owners, else a note without.
const rules = `rules:
  - path: "/v1/models"
    method: "GET"
    response:
      status: 200
      content: |
        {"object":"list","data":[{"id":"local-model","object":"model","owned_by":"x"}]}
  - path: "/v1/chat/completions"
    match: "@"
    response:
      status: 200
      content: |
        {"id":"c1","object":"chat.completion","created":1,"model":"local-model","choices":[{"index":0,"message":{"role":"assistant","content":"A note."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23}}
  - path: "/v1/chat/completions"
    match: "contains(body.messages[0].content, 'Name the owner')"
    response:
      status: 200
      content: |
        {"id":"c2","object":"chat.completion","created":1,"model":"local-model","choices":[{"index":0,"message":{"role":"assistant","content":"A note.\nOwner: Ada"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}
  - path: "/v1/chat/completions"
    match: "contains(body.messages[-1].content, '<prompt>')"
    response:
      status: 200
      content: |
        {"id":"c3","object":"chat.completion","created":1,"model":"local-model","choices":[{"index":0,"message":{"role":"assistant","content":"<prompt>\nWrite the note in plain words.\n\n- Say what changed.\n- Never guess a date.\n- Name the owner.\n</prompt>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":30,"total_tokens":50}}
`

// R-GWB-05: another OpenAI-compatible server, which is not ours, by
// configuration alone.
func TestSameJobAgainstAnotherServer(t *testing.T) {
	module, err := filepath.Abs("otherserver/node_modules/@dwmkerr/mock-llm/dist/main.js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(module); err != nil {
		t.Fatalf("the other model server is not installed; run: make setup (%v)", err)
	}
	port := freePort(t)
	s := newSystem(t, options{model: fmt.Sprintf("http://127.0.0.1:%d/v1", port)})
	if err := os.WriteFile(filepath.Join(s.dir, "mock-llm.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process("other", func() *exec.Cmd {
		cmd := exec.Command("node", module)
		cmd.Dir, cmd.Env = s.dir, []string{"PATH=" + os.Getenv("PATH"), "PORT=" + strconv.Itoa(port), "HOST=127.0.0.1"}
		return cmd
	})
	s.until(time.Minute, "the other server answers", func() bool {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/models", port)) //nolint:noctx // a probe of a test's own server
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	ctx := t.Context()
	if _, err := s.oper.SetFlags(ctx, contracts.Flags{PromptLab: true, Promptolution: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.user.CreateOverlay(ctx, overlay("Write the note in plain words.\n\n- Say what changed.\n- Never guess a date.\n")); err != nil {
		t.Fatal(err)
	}
	var rows contracts.List[contracts.DatasetRow]
	for i := range 40 {
		rows = append(rows, contracts.DatasetRow{InputText: fmt.Sprintf("Please write note %d on change %d.", i, i*i), ExpectedSignal: "contains: Owner:"})
	}
	ds, err := s.user.CreateDataset(ctx, client.DatasetText{Name: "owners", Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	j := s.ended(2*time.Minute, s.job(ds.DatasetRef, client.JobOptions{}).JobID)
	list, err := s.user.Candidates(ctx, string(j.JobID))
	if err != nil || j.Status != contracts.JobCompleted || len(list.Items) != 1 {
		t.Fatalf("job %s (%s: %s), candidates %+v, %v", j.Status, j.Detail.FailureCode, j.Detail.FailureMessage, list.Items, err)
	}
	if c := list.Items[0]; c.EvidenceLabel != contracts.LabelEstablished || c.Evidence.Difference != 1 || c.Simulated {
		t.Errorf("R-GWB-05 candidate %s, %+v", c.EvidenceLabel, c.Evidence)
	}
}
