package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds of an expected signal.
const (
	maxSignalBytes  = 4 << 10
	maxSignalChecks = 32
	maxPatternBytes = 512
	maxWords        = 1_000_000
)

// Kind is what a check looks at.
type Kind string

// The kinds. A line starts with one and a colon, in lower case.
const (
	Exact       Kind = "exact"        // the answer is the text, white space around it aside
	Contains    Kind = "contains"     // the text occurs; also the kind of a line without one
	IContains   Kind = "icontains"    // the text occurs in any case
	NotContains Kind = "not_contains" // the text does not occur in any case: a banned phrase
	Regex       Kind = "regex"        // an RE2 expression matches somewhere
	JSON        Kind = "json"         // "/pointer = VALUE": the answer is JSON with this value there
	MaxWords    Kind = "max_words"    // at most so many words
	MinWords    Kind = "min_words"    // at least so many words
)

// Check is one line of an expected signal.
type Check struct {
	Kind Kind
	Text string // the argument as written
	Must bool   // the example fails as a whole when this check fails
	Line int    // counted from 1

	needle  string // normalised text
	pattern *regexp.Regexp
	pointer []string
	value   any
	words   int
}

// Signal is what a good answer to one example shows. It does not change and may
// be used from many goroutines.
type Signal struct{ checks []Check }

// Problem is what is wrong with one line of a signal.
type Problem struct {
	Line    int // counted from 1; 0: the signal as a whole
	Message string
}

// Checks gives the checks in order. None: the signal says nothing and an
// answer cannot be scored by it.
func (s Signal) Checks() []Check { return append([]Check(nil), s.checks...) }

// ParseSignal reads an expected signal, one check a line:
//
//	[must:] kind: argument
//
// Empty lines are skipped, a line without a known kind is a text that the
// answer must contain. All problems are given, by line; with any of them the
// signal is empty.
func ParseSignal(text string) (Signal, []Problem) {
	switch {
	case len(text) > maxSignalBytes:
		return Signal{}, []Problem{{0, fmt.Sprintf("is longer than %d bytes", maxSignalBytes)}}
	case !utf8.ValidString(text):
		return Signal{}, []Problem{{0, "is not valid UTF-8"}}
	}
	var s Signal
	var problems []Problem
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(s.checks)+len(problems) >= maxSignalChecks {
			problems = append(problems, Problem{i + 1, fmt.Sprintf("is one check too many: %d are allowed", maxSignalChecks)})
			break
		}
		c, problem := parseCheck(line)
		if problem != "" {
			problems = append(problems, Problem{i + 1, problem})
			continue
		}
		c.Line = i + 1
		s.checks = append(s.checks, c)
	}
	if len(problems) > 0 {
		return Signal{}, problems
	}
	return s, nil
}

// parseCheck reads one line; the problem is empty when it is good.
func parseCheck(line string) (Check, string) {
	if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return Check{}, "has a control character"
	}
	c := Check{Kind: Contains}
	if rest, must := strings.CutPrefix(line, "must:"); must {
		c.Must, line = true, strings.TrimSpace(rest)
	}
	c.Text = line
	if kind, rest, found := strings.Cut(line, ":"); found && known(Kind(kind)) {
		c.Kind, c.Text = Kind(kind), strings.TrimSpace(rest)
	}
	if c.Text == "" {
		return c, "has nothing after the colon"
	}
	switch c.Kind {
	case Exact, Contains:
		c.needle = norm.NFC.String(c.Text)
	case IContains, NotContains:
		c.needle = fold(c.Text)
	case Regex:
		return c.withPattern()
	case JSON:
		return c.withPointer()
	case MaxWords, MinWords:
		n, err := strconv.Atoi(c.Text)
		if err != nil || n < 0 || n > maxWords {
			return c, fmt.Sprintf("needs a whole number from 0 to %d", maxWords)
		}
		c.words = n
	}
	return c, ""
}

func known(k Kind) bool {
	switch k {
	case Exact, Contains, IContains, NotContains, Regex, JSON, MaxWords, MinWords:
		return true
	}
	return false
}

// fold is the form in which letters of either case are equal.
func fold(s string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(s)))
}

func (c Check) withPattern() (Check, string) {
	if len(c.Text) > maxPatternBytes {
		return c, fmt.Sprintf("has an expression longer than %d bytes", maxPatternBytes)
	}
	pattern, err := regexp.Compile(c.Text)
	if err != nil {
		return c, "has an expression that is not RE2"
	}
	c.pattern = pattern
	return c, ""
}

func (c Check) withPointer() (Check, string) {
	// A key may hold "=", a text may hold " = ": the first cut that leaves a
	// value counts.
	var pointer string
	found, valid := false, false
	for _, equals := range []string{" = ", "="} {
		left, right, cut := strings.Cut(c.Text, equals)
		found = found || cut
		if v, ok := decodeJSON(right); cut && ok {
			pointer, c.value, valid = left, v, true
			break
		}
	}
	switch {
	case !found:
		return c, "needs the form /pointer = VALUE"
	case !valid:
		return c, "has a value that is not JSON (texts stand in double quotes)"
	}
	pointer = strings.TrimSpace(pointer)
	if pointer != "" && pointer[0] != '/' {
		return c, "has a pointer that does not start with a slash"
	}
	if pointer != "" {
		for _, token := range strings.Split(pointer[1:], "/") {
			plain := strings.NewReplacer("~0", "", "~1", "").Replace(token)
			if strings.Contains(plain, "~") {
				return c, "has a pointer in which ~ stands without 0 or 1"
			}
			c.pointer = append(c.pointer, strings.NewReplacer("~0", "~", "~1", "/").Replace(token))
		}
	}
	return c, ""
}

// decodeJSON reads exactly one JSON value, numbers kept as written.
func decodeJSON(text string) (any, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, errors.Is(err, io.EOF)
}
