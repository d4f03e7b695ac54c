package api_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec"
)

var (
	fuzzer   = flag.String("schemathesis", "", "the program schemathesis; without it the document is not fuzzed")
	fuzzTime = flag.Duration("fuzz-time", 30*time.Second, "how long the document is fuzzed in all")
	fuzzMost = flag.Int("fuzz-examples", 50, "how many requests of each kind an operation gets at most")
	fuzzSeed = flag.Int("fuzz-seed", 1, "the same seed gives the same requests")
)

// R-HTTP-03, R-HTTP-08, R-HTTP-14: requests made from the document, fitting and
// not fitting it, never meet a mistake of ours, and every answer is as described.
// Each role that has routes of its own fuzzes those.
func TestDocumentIsFuzzed(t *testing.T) {
	if *fuzzer == "" {
		t.Skip("needs the fuzzer of api/fuzz: make fuzz-api")
	}
	r := everything(t)
	document := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(document, r.ask(ec.RoleUser, "GET", "/openapi.json", "").body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []fuzzRun{
		{role: ec.RoleUser, path: "^/(api|healthz|readyz|login|docs|openapi)", share: 3},
		{role: ec.RoleUser, path: `^/api/(overlays|prompt-lab|overlay-feedback|overlay-signals|presets|session-keys|.*\{)`, share: 3, real: true},
		{role: ec.RoleSeam, path: "^/internal/", share: 2},
		{role: ec.RoleOperator, path: "^/(api/flags|metrics|api/presets)", share: 2},
	} {
		t.Run(fmt.Sprintf("%s %s", run.role, run.path), func(t *testing.T) { r.fuzz(t, document, run) })
	}
	if strings.Contains(r.log.String(), `"level":"ERROR"`) {
		for line := range strings.Lines(r.log.String()) {
			if strings.Contains(line, `"level":"ERROR"`) && !strings.Contains(line, `"status":503`) {
				t.Errorf("the server ran into a mistake of its own: %s", line)
			}
		}
	}
}

// fuzzRun is one call of the fuzzer.
type fuzzRun struct {
	role  ec.Role
	path  string // of the operations, an expression
	share int    // of the time, in parts of ten
	real  bool   // with ids that are there: what fits the schemas is never malformed
}

func (r *rig) fuzz(t *testing.T, document string, run fuzzRun) {
	t.Helper()
	text, err := os.ReadFile("fuzz/schemathesis.toml")
	if err != nil {
		t.Fatal(err)
	}
	checks := "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method"
	if run.real {
		text = append([]byte(r.realIDs()), text...)
		checks += ",positive_data_acceptance"
	}
	config := filepath.Join(t.TempDir(), "schemathesis.toml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	seconds := max(1, int(fuzzTime.Seconds())*run.share/10)
	cmd := exec.CommandContext(t.Context(), *fuzzer, "--no-color", "--config-file", config, "run", document, "--url", "http://"+r.addr,
		"--header", "Authorization: Bearer "+token(run.role), "--header", "Accept: application/json",
		"--phases", "coverage,fuzzing", "--max-time", strconv.Itoa(seconds), "--max-examples", strconv.Itoa(*fuzzMost), "--seed", strconv.Itoa(*fuzzSeed),
		"--include-path-regex", run.path, "--generation-database", "none", "--suppress-health-check", "all", "--warnings", "off", "--checks", checks)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("requests as %s: %v\n%s", run.role, err, out)
	}
	_, summary, _ := strings.Cut(string(out), "= SUMMARY =")
	t.Logf("%s", summary)
}

// realIDs names, for the fuzzer, things that are there.
func (r *rig) realIDs() string {
	var b strings.Builder
	b.WriteString("[parameters]\n")
	for name, id := range map[string]string{
		"overlay_id": "some-id", "dataset_ref": "ds:notes@1", "job_id": "/jobs/" + someID, "candidate_id": "/candidates/" + someID,
		"session_key": sessionKey("t-1").Token(), "room_key": roomKey("board").Token(), "key_id": "/session-keys/" + someID,
	} {
		id = r.ids.Replace(id)
		fmt.Fprintf(&b, "\"path.%s\" = %q\n", name, id[strings.LastIndex(id, "/")+1:])
	}
	return b.String() + "\n"
}
