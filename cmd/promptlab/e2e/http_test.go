package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
)

func command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// setField puts a raw value at a dotted path of a JSON object.
func setField(t *testing.T, doc, path, value string) string {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(doc), &m); err != nil {
		t.Fatal(err)
	}
	head, rest, nested := strings.Cut(path, ".")
	if nested {
		value = setField(t, string(m[head]), rest, value)
	}
	m[head] = json.RawMessage(value)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// post sends a raw body as the user and gives status and the fields that the
// answer names.
func (s *system) post(t *testing.T, path, body string) (int, []string) {
	t.Helper()
	token, err := s.home.Token("user")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var fields []string
	if resp.StatusCode >= 400 {
		var e contracts.APIError
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			t.Fatalf("POST %s: status %d without our error body: %v", path, resp.StatusCode, err)
		}
		for _, d := range e.Error.Details {
			fields = append(fields, d.Field)
		}
	}
	return resp.StatusCode, fields
}
