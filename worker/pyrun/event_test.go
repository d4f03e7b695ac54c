package pyrun

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/elnor/promptlab/contracts"
)

const helloLine = `{"type":"hello","protocol":1,"pid":5,"python":"3.11.7","promptolution":"2.3.0"}` + "\n"

func goodResult() map[string]any {
	return map[string]any{
		"type": "result", "status": "completed", "ended_by": "steps", "source_score": 0.5, "steps": 2, "seed": 7, "engine": "capo",
		"promptolution": "2.3.0", "python": "3.11.7", "warnings": []any{map[string]any{"code": "meta_truncated", "count": 1}},
		"candidates": []any{goodCandidate()},
	}
}

func goodCandidate() map[string]any {
	return map[string]any{"text": "Be kind.", "sha256": contracts.Hash("Be kind."), "score": 0.75, "n": 8, "delta_summary": []any{"words: +1"}}
}

func readAll(lines string) *reader {
	r := newReader(Config{MaxLine: 1 << 20, MaxOutput: 4 << 20}, ignore)
	r.run(strings.NewReader(lines))
	return r
}

// Python's output is hostile: every field of the result wrong in turn.
func TestAMalformedResultIsRefused(t *testing.T) {
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return helloLine + string(b) + "\n"
	}
	if r := readAll(encode(goodResult())); r.broken != nil || r.result == nil {
		t.Fatalf("a good result: %v", r.broken)
	}
	fields := map[string][]any{
		"status": {"", "done", 1, nil}, "ended_by": {"", "Two words", strings.Repeat("x", 100)}, "source_score": {-0.1, 1.1, "0.5", true},
		"steps": {-1, 1.5, "2"}, "seed": {"7", 1.5}, "engine": {"a b", strings.Repeat("x", 100), 5}, "promptolution": {"<b>", []any{}}, "python": {"3\n11"},
		"warnings":   {"x", []any{map[string]any{"code": "A B"}}, []any{map[string]any{"code": "a", "count": -1}}, make([]map[string]any, 101)},
		"candidates": {"x", make([]map[string]any, 65), []any{[]any{}}},
	}
	for field, values := range fields {
		for _, v := range values {
			bad := goodResult()
			bad[field] = v
			if r := readAll(encode(bad)); r.broken == nil || r.result != nil {
				t.Errorf("result with %s = %v: accepted, want it refused", field, v)
			}
		}
	}
	candidate := map[string][]any{
		"text": {"", " \n", "Be kind", strings.Repeat("x", maxText+1), 5}, "sha256": {"", strings.Repeat("a", 64), strings.ToUpper(contracts.Hash("Be kind."))},
		"score": {-0.5, 1.5, "1"}, "n": {0, -1, 1.5}, "delta_summary": {"x", []any{strings.Repeat("x", 501)}, make([]string, 21), []any{1}},
	}
	for field, values := range candidate {
		for _, v := range values {
			bad, c := goodResult(), goodCandidate()
			c[field] = v
			bad["candidates"] = []any{goodCandidate(), c}
			if r := readAll(encode(bad)); r.broken == nil || r.result != nil {
				t.Errorf("candidate with %s = %.40v: accepted, want it refused", field, v)
			}
		}
	}
	for _, number := range []string{"NaN", "Infinity", "-Infinity", "1e999"} {
		line := strings.Replace(encode(goodResult()), `"score":0.75`, `"score":`+number, 1)
		if r := readAll(line); r.broken == nil {
			t.Errorf("a score of %s: accepted, want it refused", number)
		}
	}
}

func TestAMalformedEventIsRefused(t *testing.T) {
	for _, line := range []string{
		`{"type":"step","i":1}`, `{"type":"step","i":-1,"n":1}`, `{"type":"step","i":1,"n":1.5}`, `{"type":"step","i":1,"n":1,"best":1.5}`, `{"type":"step","i":1,"n":1,"mean":-1}`,
		`{"type":"step","i":1,"n":1,"best":NaN}`, `{"type":"step","i":99999999999,"n":1}`,
		`{"type":"seeds"}`, `{"type":"seeds","n":"4"}`, `{"type":"seeds","n":4,"rejected":-1}`, `{"type":"calls","meta":-1}`, `{"type":"calls","check":"x"}`,
		`{"type":"candidate","score":0.5}`, `{"type":"candidate","sha256":"abc","score":0.5}`, `{"type":"warning"}`, `{"type":"warning","code":"Not A Code"}`,
		`{"type":"ready","engine":"a b"}`, `{"type":"ready","promptolution":7}`, `{"type":"error"}`, `{"type":"error","code":"no code","message":""}`, `{"type":5}`, `null`, `"x"`,
	} {
		if r := readAll(helloLine + line + "\n"); r.broken == nil {
			t.Errorf("event %s: accepted, want it refused", line)
		}
	}
	for _, line := range []string{
		`{"type":"hello","protocol":"1"}`, `{"type":"hello"}`, `{"type":"hello","protocol":1,"python":"a b"}`, `{"type":"hello","protocol":1,"promptolution":5}`,
	} {
		if r := readAll(line + "\n"); r.broken == nil || r.greeted {
			t.Errorf("first event %s: accepted, want it refused", line)
		}
	}
	if r := readAll(helloLine + `{"type":"step","i":1,"n":1}` + "\n" + `{"type":"","x":1}` + "\n"); r.broken != nil {
		t.Errorf("good and unknown events: %v, want none refused", r.broken)
	}
}

func FuzzReader(f *testing.F) {
	good, err := json.Marshal(goodResult())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(helloLine + `{"type":"step","i":1,"n":1,"best":0.5}` + "\n" + string(good) + "\n"))
	f.Add([]byte(helloLine + `{"type":"error","code":"weird","message":"x"}` + "\n"))
	f.Add([]byte(helloLine + string(good) + "\n" + string(good) + "\n"))
	f.Add([]byte("\n\xff\x00{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := newReader(Config{MaxLine: 4096, MaxOutput: 1 << 16}, func(e Event) {
			if !json.Valid(e.Raw) || !utf8.Valid(e.Raw) || e.Type == "result" || e.Type == "error" {
				t.Errorf("event %q handed on", e.Raw)
			}
		})
		r.run(bytes.NewReader(raw))
		if r.result != nil && r.failure != nil {
			t.Errorf("%q gave a result and a failure", raw)
		}
		if r.broken != nil || r.result == nil {
			return
		}
		for _, c := range r.result.Candidates {
			if c.SHA256 != contracts.Hash(c.Text) || math.IsNaN(c.Score) || c.Score < 0 || c.Score > 1 || c.N < 1 {
				t.Errorf("candidate %+v accepted", c)
			}
		}
	})
}
