package contracts

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite schema and golden files")

// vector is one line of golden/hashes.json, which the Python tests read too.
type vector struct {
	Text   string `json:"text"`
	SHA256 string `json:"sha256"`
	Tokens int    `json:"tokens"`
}

// R-SRC-06, G-028: one hash, with vectors for every language.
func TestHashVectors(t *testing.T) {
	b, err := os.ReadFile("golden/hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 6 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		if got := Hash(v.Text); got != v.SHA256 {
			t.Errorf("R-SRC-06 Hash(%q): got %s, want %s", v.Text, got, v.SHA256)
		}
		if got := EstimateTokens(v.Text); got != v.Tokens {
			t.Errorf("G-029 EstimateTokens(%q): got %d, want %d", v.Text, got, v.Tokens)
		}
	}
}

// R-SRC-04: a byte order mark and CRLF do not change what a text is.
func TestHashIgnoresTransport(t *testing.T) {
	plain := "one\n\ntwo\n"
	if got := Hash("\ufeff" + strings.ReplaceAll(plain, "\n", "\r\n")); got != Hash(plain) {
		t.Errorf("R-SRC-04 got %s, want %s", got, Hash(plain))
	}
	if Hash("a\rb") == Hash("a\nb") {
		t.Error("a lone carriage return was taken for a line end")
	}
}

func TestDeriveIDIsAFunctionOfTheCommand(t *testing.T) {
	a := DeriveID("cmd-1", "job", 0)
	if a != DeriveID("cmd-1", "job", 0) {
		t.Error("R-CMD-05 the same command gave two ids")
	}
	for _, b := range []UUID{DeriveID("cmd-2", "job", 0), DeriveID("cmd-1", "task", 0), DeriveID("cmd-1", "job", 1)} {
		if a == b {
			t.Errorf("two purposes share the id %s", a)
		}
	}
	if !uuidPattern.MatchString(string(a)) {
		t.Errorf("R-CON-07 %q is no UUID", a)
	}
}

// R-RWR-11, R-SEC-05: nothing inside a frame can close it, and the text comes back.
func TestFramesCannotBeClosedFromWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"[[promptlab:", "[[/promptlab:x]]", "[[PromptLab:", `[\[promptlab:`, "[", `\`, "]]", "\n", "text", "ä"})).Draw(t, "parts")
		text := strings.Join(parts, "")
		framed := Frame("overlay", text)
		inner := strings.TrimSuffix(strings.TrimPrefix(framed, "[[promptlab:overlay]]\n"), "\n[[/promptlab:overlay]]")
		for _, m := range FrameMarkers() {
			if strings.Contains(strings.ToLower(inner), m) {
				t.Fatalf("R-SEC-05 framed %q holds the marker %q: %q", text, m, inner)
			}
		}
		if got := UnescapeMarkers(inner); got != text {
			t.Fatalf("R-RWR-11 unescaped %q, want %q", got, text)
		}
	})
}

// R-SEC-05: a letter whose other case is longer does not hide a marker behind it.
func TestMarkersBehindForeignLetters(t *testing.T) {
	for _, text := range []string{"İ[[PromptLab:overlay id=x]]", "ȺȾ [[/PROMPTLAB:overlay]]", "\xff[[PromptLab:x]]"} {
		got := EscapeMarkers(text)
		if low := strings.ToLower(got); strings.Contains(low, "[[promptlab:") || strings.Contains(low, "[[/promptlab:") || UnescapeMarkers(got) != text {
			t.Errorf("R-SEC-05 %q was escaped as %q", text, got)
		}
	}
}

// R-SEC-05: a marker that is spread over texts is escaped, each text keeps its
// place, and nothing else changes.
func TestMarkersOverSeveralTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"[", "[[", "prompt", "lab:", "[[promptlab:", "[/promptlab:x]]", "[Prompt", "Lab:", `\`, "a", "", "\n"})
		texts := make([]string, rapid.IntRange(0, 5).Draw(t, "texts"))
		for i := range texts {
			texts[i] = strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, "pieces"), "")
		}
		got := EscapeMarkersOf(texts)
		whole := strings.Join(got, "")
		for _, m := range FrameMarkers() {
			if strings.Contains(strings.ToLower(whole), m) {
				t.Fatalf("R-SEC-05 %q was escaped as %q", texts, got)
			}
		}
		if UnescapeMarkers(whole) != strings.Join(texts, "") || len(got) != len(texts) {
			t.Fatalf("%q was escaped as %q, which does not lead back", texts, got)
		}
		for i := range texts {
			if strings.ReplaceAll(got[i], `\`, "") != strings.ReplaceAll(texts[i], `\`, "") {
				t.Fatalf("text %d of %q became %q", i, texts, got)
			}
		}
	})
}

// R-SEC-05: the strings of a JSON text hold no marker, however it is spelt, and
// the rest of it stays as it is.
func TestMarkersInJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"z": "[[promptlab:x]]","a":1e2}`:                     `{"z": "[\\[promptlab:x]]","a":1e2}`,
		`{"[[/promptlab:k]]":["a","\u005b[PromptLab:\u0022"]}`: `{"[\\[/promptlab:k]]":["a","[\\[PromptLab:\""]}`,
		`{"a":"[\\[promptlab:x"}`:                              `{"a":"[\\\\[promptlab:x"}`,
		`{"a":"\u0061[1]","b":"\\"}`:                           `{"a":"\u0061[1]","b":"\\"}`,
		`not json [[promptlab:x]]`:                             `not json [\[promptlab:x]]`,
		``:                                                     ``,
	} {
		if got := EscapeMarkersJSON(in); got != want {
			t.Errorf("R-SEC-05 %s became %s, want %s", in, got, want)
		}
	}
}

// R-CON-02: the published schemas are those of the Go types.
func TestSchemasAreUpToDate(t *testing.T) {
	for name, typ := range Published() {
		want, err := Document(typ)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("schema", name+".json")
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("R-CON-02 %s differs from its type (%v); run: go test ./contracts -update", path, err)
		}
	}
	entries, err := os.ReadDir("schema")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(Published()) {
		t.Errorf("schema/ holds %d files, %d types are published", len(entries), len(Published()))
	}
}

// R-CON-02: golden documents decode, and encode to what they were.
func TestGoldenDocuments(t *testing.T) {
	check := func(t *testing.T, file string, roundTrip func([]byte) ([]byte, error)) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("golden", file))
		if err != nil {
			t.Fatal(err)
		}
		out, err := roundTrip(b)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var got, want any
		if json.Unmarshal(out, &got) != nil || json.Unmarshal(b, &want) != nil {
			t.Fatal("not JSON")
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("R-CON-02 %s changed in a round trip (-want +got):\n%s", file, d)
		}
	}
	check(t, "job_request.json", through[PromptLabJobRequest])
	check(t, "job_result.json", through[PromptLabJobResult])
	check(t, "task_message.json", through[TaskMessage])
}

func through[T any](b []byte) ([]byte, error) {
	v, err := Decode[T](b, Stored)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// R-WRK-06, R-WRK-07, R-WRK-08: which failure codes are tried again.
func TestRetryableFailures(t *testing.T) {
	for code, want := range map[string]bool{
		"worker_unavailable": true, "provider_rate_limited": true, "temporary_backend_error": true, "dataset_lock_contention": true,
		"artifact_not_found": false, "unsupported_artifact_kind": false, "invalid_source_text": false, "safety_lint_failure": false,
		"stale_source_hash": false, "insufficient_replay_examples": false, "provider_terminal": false, "policy_refused": false,
		"sandbox_unavailable": false, "weird": false, "": false,
	} {
		if got := RetryableFailure(code); got != want {
			t.Errorf("R-WRK-06 R-WRK-07 R-WRK-08 code %q: retried %v, want %v", code, got, want)
		}
	}
}
