package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/internal/fault"
)

func TestShortNamesOfExamplesAreTaken(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"both names", `{"id": "a", "input": "b"}`, `{"example_id": "a", "input_text": "b"}`},
		{"long names stay", `{"input_text":"b"}`, `{"input_text":"b"}`},
		{"names inside values stay", `{"input":"say \"input\": x","metadata":{"input":1,"id":[{"id":2}]}}`, `{"input_text":"say \"input\": x","metadata":{"input":1,"id":[{"id":2}]}}`},
		{"short and long together are left to be refused", `{"input":"a","input_text":"b"}`, `{"input":"a","input_text":"b"}`},
		{"a name twice stays twice", `{"input":"a","input":"b"}`, `{"input_text":"a","input_text":"b"}`},
		{"no object", `["input"]`, `["input"]`},
		{"broken", `{"input":`, `{"input":`},
		{"null", `null`, `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, string(renamed([]byte(tc.line)))); d != "" {
				t.Errorf("renamed(%s) (-want +got):\n%s", tc.line, d)
			}
		})
	}
}

func TestEveryBadLineIsCountedAndTheFirstAreListed(t *testing.T) {
	_, err := readRows("many.jsonl", []byte(strings.Repeat("{}\n", 200)))
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Details) != maxBadLines || !strings.Contains(f.Message, "200 bad entries") {
		t.Errorf("200 bad lines give %v, want a fault that counts 200 and lists %d", err, maxBadLines)
	}
}

func FuzzReadRows(f *testing.F) {
	for _, s := range []string{"", "{}", `{"input":"a"}`, "\ufeff{\"id\":\"x\",\"input\":\"a\"}\r\n{}", `{"input":"a","id":"x"}` + "\n" + `{"input":"b","id":"x"}`, `{"in\u0070ut":"a"}`, `{"input":"a"} x`, "{\"input\"\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		rows, err := readRows("f", []byte(data))
		if (err == nil) != (len(rows) > 0) {
			t.Errorf("readRows(%q) gave %d rows and %v, want one of both", data, len(rows), err)
		}
		for _, r := range rows {
			if r.InputText == "" {
				t.Errorf("readRows(%q) gave a row without input", data)
			}
		}
		if json.Valid([]byte(data)) && !json.Valid(renamed([]byte(data))) {
			t.Errorf("renamed(%q) = %q is no JSON any more", data, renamed([]byte(data)))
		}
	})
}

func TestDatasetNames(t *testing.T) {
	for path, want := range map[string]string{
		"mine.jsonl": "mine", "/a/My Notes_v2.jsonl": "my-notes-v2", "-": "examples", "äöü.jsonl": "examples",
		strings.Repeat("x", 80) + ".jsonl": strings.Repeat("x", 64), "..jsonl": "examples",
	} {
		if got := datasetName(path); got != want {
			t.Errorf("datasetName(%q) = %q, want %q", path, got, want)
		}
	}
}
