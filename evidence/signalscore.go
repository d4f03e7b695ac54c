package evidence

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// answer is one output in the forms that checks look at, each made when first
// asked for.
type answer struct {
	raw    string
	nfc    string
	folded *string
	words  *int
	parsed *parsedJSON
}

type parsedJSON struct {
	value any
	ok    bool
}

// Score gives the share of the checks that an answer meets, feedback that names
// those it does not, and whether a must-pass check failed. The feedback quotes
// the signal: it is for examples that the reader may know. A signal without
// checks gives 0 and says so; callers treat such an example as unscored.
func (s Signal) Score(output string) (score float64, feedback string, mustFailed bool) {
	if len(s.checks) == 0 {
		return 0, "Nothing to check: the example has no expected signal.", false
	}
	a := &answer{raw: output, nfc: norm.NFC.String(output)}
	met := 0
	var lines []string
	for _, c := range s.checks {
		if c.met(a) {
			met++
			continue
		}
		line := c.unmet(a)
		if c.Must {
			mustFailed = true
			line = "Must: " + line
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return 1, fmt.Sprintf("All of %s hold.", count(len(s.checks), "check")), false
	}
	head := fmt.Sprintf("%d of %s hold.", met, count(len(s.checks), "check"))
	return float64(met) / float64(len(s.checks)), head + "\n" + strings.Join(lines, "\n"), mustFailed
}

func (c Check) met(a *answer) bool {
	switch c.Kind {
	case Exact:
		return strings.TrimSpace(a.nfc) == c.needle
	case Contains:
		return strings.Contains(a.nfc, c.needle)
	case IContains:
		return strings.Contains(a.fold(), c.needle)
	case NotContains:
		return !strings.Contains(a.fold(), c.needle)
	case Regex:
		return c.pattern.MatchString(a.raw)
	case JSON:
		document, ok := a.json()
		if !ok {
			return false
		}
		v, found := lookup(document, c.pointer)
		return found && sameJSON(v, c.value)
	case MaxWords:
		return a.count() <= c.words
	case MinWords:
		return a.count() >= c.words
	}
	return false
}

// unmet says what the answer lacks.
func (c Check) unmet(a *answer) string {
	text := short(c.Text)
	switch c.Kind {
	case Exact:
		return fmt.Sprintf("The answer should be exactly %q.", text)
	case NotContains:
		return fmt.Sprintf("The answer should not contain %q.", text)
	case Regex:
		return fmt.Sprintf("The answer should match the expression %s.", text)
	case JSON:
		if _, ok := a.json(); !ok {
			return fmt.Sprintf("The answer should be JSON with %s; it is not JSON.", text)
		}
		return fmt.Sprintf("The answer should be JSON with %s.", text)
	case MaxWords:
		return fmt.Sprintf("The answer should have at most %s; it has %d.", count(c.words, "word"), a.count())
	case MinWords:
		return fmt.Sprintf("The answer should have at least %s; it has %d.", count(c.words, "word"), a.count())
	default:
		return fmt.Sprintf("The answer should contain %q.", text)
	}
}

func short(text string) string {
	const most = 120
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}

func (a *answer) fold() string {
	if a.folded == nil {
		f := fold(a.raw)
		a.folded = &f
	}
	return *a.folded
}

func (a *answer) count() int {
	if a.words == nil {
		n := len(strings.Fields(a.raw))
		a.words = &n
	}
	return *a.words
}

// json reads the whole answer as JSON; one code fence around it is taken off,
// because models like to add one.
func (a *answer) json() (any, bool) {
	if a.parsed == nil {
		text := strings.TrimSpace(a.raw)
		if inner, fenced := strings.CutPrefix(text, "```"); fenced {
			if body, closed := strings.CutSuffix(inner, "```"); closed {
				if tag, rest, found := strings.Cut(body, "\n"); found && !strings.ContainsAny(tag, "{[\"") {
					text = rest
				}
			}
		}
		v, ok := decodeJSON(text)
		a.parsed = &parsedJSON{v, ok}
	}
	return a.parsed.value, a.parsed.ok
}

// lookup follows a JSON pointer's unescaped tokens.
func lookup(v any, pointer []string) (any, bool) {
	for _, token := range pointer {
		switch node := v.(type) {
		case map[string]any:
			next, ok := node[token]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(node) || strconv.Itoa(i) != token {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// sameJSON compares two values; objects in any order, numbers by value.
func sameJSON(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		return ok && sameNumber(x, y)
	case string:
		y, ok := b.(string)
		return ok && norm.NFC.String(x) == norm.NFC.String(y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameJSON(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, found := y[k]
			if !found || !sameJSON(v, w) {
				return false
			}
		}
		return true
	default:
		return a == b // bool and null
	}
}

// sameNumber compares by value where a float holds both exactly, by spelling
// beyond: a huge exponent must not cost anything.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	const exact = 1 << 53
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y && math.Abs(x) < exact
}
