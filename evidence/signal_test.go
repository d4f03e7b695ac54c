package evidence

import (
	"math"
	"strings"
	"testing"
)

func parsed(t testing.TB, text string) Signal {
	t.Helper()
	s, problems := ParseSignal(text)
	if len(problems) > 0 {
		t.Fatalf("parse %q: got %v, want no problem", text, problems)
	}
	return s
}

func TestChecks(t *testing.T) {
	cases := []struct {
		signal, output string
		met            bool
	}{
		{"exact: 42", " 42\n", true},
		{"exact: 42", "42.", false},
		{"exact: caf\u00e9", "cafe\u0301", true},
		{"contains: Paris", "It is Paris.", true},
		{"contains: Paris", "It is paris.", false},
		{"icontains: PARIS", "It is paris.", true},
		{"icontains: STRASSE", "Straße", true},
		{"not_contains: as an AI", "Sure.", true},
		{"not_contains: as an AI", "AS AN ai, I", false},
		{`regex: ^\d+ items?$`, "12 items", true},
		{`regex: ^\d+ items?$`, "twelve items", false},
		{`json: /status = "open"`, `{"status":"open"}`, true},
		{`json: /status = "open"`, "```json\n{\"status\":\"open\"}\n```", true},
		{`json: /status = "open"`, "```\n{\"status\":\"open\"}```", true},
		{`json: /status = "open"`, `{"status":"open"} and more`, false},
		{`json: /status = "open"`, `{"status":"shut"}`, false},
		{`json: /status = "open"`, `{}`, false},
		{`json: /items/1/n=3`, `{"items":[{"n":1},{"n":3.0}]}`, true},
		{`json: /items/01/n = 3`, `{"items":[{"n":1},{"n":3}]}`, false},
		{`json: /items/7 = 3`, `{"items":[1]}`, false},
		{`json: /a~1b/c~0d = null`, `{"a/b":{"c~d":null}}`, true},
		{`json: /a="x = y"`, `{"a":"x = y"}`, true},
		{`json: /k=v = true`, `{"k=v":true}`, true},
		{`json: = {"b":[1,2],"a":true}`, `{"a":true,"b":[1,2]}`, true},
		{`json: = [1,2]`, `[2,1]`, false},
		{`json: /n = 1e400`, `{"n":1e400}`, true},
		{`json: /n = 9007199254740993`, `{"n":9007199254740992}`, false},
		{"max_words: 3", "one two three", true},
		{"max_words: 3", "one two three four", false},
		{"min_words: 2", "one", false},
		{"min_words: 2", " one\n two ", true},
		{"the capital of France", "Paris is the capital of France.", true},
		{"Note: bring ID", "Note: bring ID", true},
		{"Exact: 42", "it says Exact: 42 here", true}, // kinds are lower case
		{"must: contains: yes", "yes", true},
		{"must: yes", "no", false},
	}
	for _, c := range cases {
		score, feedback, mustFailed := parsed(t, c.signal).Score(c.output)
		if want := map[bool]float64{true: 1}[c.met]; score != want {
			t.Errorf("score of %q by %q: got %v (%s), want %v", c.output, c.signal, score, feedback, want)
		}
		if want := !c.met && strings.HasPrefix(c.signal, "must:"); mustFailed != want {
			t.Errorf("must-pass of %q by %q: got failed %v, want %v", c.output, c.signal, mustFailed, want)
		}
	}
}

func TestSignalScore(t *testing.T) {
	t.Run("the score is the share of checks and feedback names the others", func(t *testing.T) {
		s := parsed(t, "contains: refund\n\nmust: not_contains: guarantee\r\nmax_words: 4\nregex: [0-9]+ days\n")
		score, feedback, mustFailed := s.Score("We guarantee a refund soon.")
		if score != 0.25 || !mustFailed {
			t.Errorf("one of four: got %v, must failed %v; want 0.25, true", score, mustFailed)
		}
		for _, part := range []string{
			"1 of 4 checks hold.", `Must: The answer should not contain "guarantee".`, "at most 4 words; it has 5", "match the expression [0-9]+ days",
		} {
			if !strings.Contains(feedback, part) {
				t.Errorf("feedback %q: lacks %q", feedback, part)
			}
		}
		if score, feedback, mustFailed := s.Score("A refund: 14 days"); score != 1 || mustFailed || feedback != "All of 4 checks hold." {
			t.Errorf("all four: got %v, %q, %v", score, feedback, mustFailed)
		}
	})
	t.Run("a failed check that is no must fails no must", func(t *testing.T) {
		if _, _, mustFailed := parsed(t, "must: a\nb").Score("a"); mustFailed {
			t.Errorf("only the plain check failed: got must failed")
		}
	})
	t.Run("no checks, nothing to score", func(t *testing.T) {
		s := parsed(t, "\n  \n")
		if score, feedback, mustFailed := s.Score("x"); len(s.Checks()) != 0 || score != 0 || mustFailed || feedback == "" {
			t.Errorf("empty signal: got %v checks, %v, %q, %v", len(s.Checks()), score, feedback, mustFailed)
		}
	})
}

func TestParseSignalProblems(t *testing.T) {
	t.Run("R-CON-08 all problems are named by line and nothing is kept", func(t *testing.T) {
		text := strings.Join([]string{
			"contains: fine", "exact:", "regex: (", "regex: " + strings.Repeat("a", 513), "json: /a", "json: a = 1", "json: /a = open",
			"json: /a~2 = 1", "max_words: many", "min_words: -1", "must:", "a\u0007b", "regex: (a{999}){999}", "max_words: 1000001",
		}, "\n")
		s, problems := ParseSignal(text)
		if len(s.Checks()) != 0 {
			t.Errorf("bad signal: got %d checks, want none", len(s.Checks()))
		}
		for i, p := range problems {
			if p.Line != i+2 || p.Message == "" {
				t.Errorf("problem %d: got %+v, want line %d", i, p, i+2)
			}
		}
		if len(problems) != 13 {
			t.Errorf("problems: got %d %v, want 13", len(problems), problems)
		}
	})
	t.Run("caps", func(t *testing.T) {
		for name, c := range map[string]struct {
			text string
			line int // -1: no problem
		}{
			"32 checks":          {strings.Repeat("x\n\n", 32), -1},
			"33 checks":          {strings.Repeat("x\n", 33), 33},
			"4 KiB":              {strings.Repeat("x", 4096), -1},
			"over 4 KiB":         {strings.Repeat("x", 4097), 0},
			"expression of 512":  {"regex: " + strings.Repeat("a", 512), -1},
			"broken UTF-8":       {"contains: \xff", 0},
			"tab inside is fine": {"contains: a\tb", -1},
		} {
			_, problems := ParseSignal(c.text)
			switch {
			case c.line < 0 && len(problems) > 0:
				t.Errorf("%s: got %v, want no problem", name, problems)
			case c.line >= 0 && (len(problems) != 1 || problems[0].Line != c.line):
				t.Errorf("%s: got %v, want one problem at line %d", name, problems, c.line)
			}
		}
	})
}

func FuzzParseSignal(f *testing.F) {
	f.Add("exact: 42\nmust: contains: yes", "42")
	f.Add("json: /a/0~1 = {\"b\":[1e9,null]}\nregex: ^a+$\nmax_words: 3", "```json\n{\"a\":[1]}\n```")
	f.Add("must:\r\n\x00", "")
	f.Add(strings.Repeat("icontains: ß\n", 40), "SS")
	f.Fuzz(func(t *testing.T, text, output string) {
		s, problems := ParseSignal(text)
		if len(problems) > 0 {
			if len(s.Checks()) != 0 {
				t.Fatalf("parse %q: problems and %d checks", text, len(s.Checks()))
			}
			return
		}
		if len(s.Checks()) > 32 || len(text) > 4096 {
			t.Fatalf("parse %q: above the caps without a problem", text)
		}
		score, feedback, mustFailed := s.Score(output)
		again, feedbackAgain, mustAgain := s.Score(output)
		if math.IsNaN(score) || score < 0 || score > 1 || feedback == "" || (mustFailed && score == 1) {
			t.Fatalf("score %q by %q: got %v, %q, %v", output, text, score, feedback, mustFailed)
		}
		if score != again || feedback != feedbackAgain || mustFailed != mustAgain {
			t.Fatalf("score %q by %q twice: got %v and %v", output, text, score, again)
		}
	})
}
