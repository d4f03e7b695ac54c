package frontmatter

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

const (
	fence   = "---"
	header0 = "frontmatter" // field path of the header as a whole
	body0   = "body"
)

// Document is an overlay file that was read.
type Document struct {
	Frontmatter contracts.OverlayTemplateFrontmatter // defaults applied
	Body        string                               // exact, from the line after the closing fence
	BodyLine    int                                  // the file's line at which Body starts, from 1
	Lines       map[string]int                       // the file's line of each top-level key
}

// Parse reads an overlay file. A bad file gives one validation fault whose
// details name every problem, as frontmatter.KEY or body, with its line.
func Parse(src []byte) (Document, error) {
	fm, raw, err := parse[contracts.OverlayTemplateFrontmatter](src)
	if err != nil {
		return Document{}, err
	}
	doc := Document{Frontmatter: fm, Body: raw.body, BodyLine: raw.bodyLine, Lines: map[string]int{}}
	for _, k := range raw.root.keys {
		doc.Lines[k.value] = k.line
	}
	return doc, nil
}

// parts is a file cut at its fences.
type parts struct {
	header   string
	body     string
	bodyLine int
	root     node
}

// parse reads a file whose header is a T: the shape of T, its defaults and
// bounds come from contracts.
func parse[T any](src []byte) (T, parts, error) {
	var none T
	p, details := split(src)
	if len(details) > 0 {
		return none, p, fault.Validation(details)
	}
	if p.body == "" {
		details = append(details, fault.Detail{Field: body0, Rule: RuleSchema, Message: fmt.Sprintf("line %d: the text after the front matter is missing", p.bodyLine)})
	}
	root, more := readYAML(p.header, 2)
	if p.root = root; len(more) > 0 {
		return none, p, fault.Validation(append(details, more...))
	}
	fm, more := decode[T](root)
	if details = append(details, more...); len(details) > 0 {
		return none, p, fault.Validation(details)
	}
	return fm, p, nil
}

// split normalises a file, checks its text and cuts it at the fences.
func split(src []byte) (parts, []fault.Detail) {
	if len(src) > 2*maxFile { // before any work; CRLF at most doubles a file
		return parts{}, tooLarge("file", maxFile)
	}
	text := contracts.Normalize(string(src))
	if len(text) > maxFile {
		return parts{}, tooLarge("file", maxFile)
	}
	first, rest, found := strings.Cut(text, "\n")
	if first != fence || !found {
		msg := "line 1: the file must begin with a line of exactly three hyphens (---)"
		if strings.TrimSpace(first) == fence {
			msg += "; there are spaces around them"
		}
		return parts{}, append(CheckText("file", text, 1), fault.Detail{Field: header0, Rule: RuleYAML, Message: msg})
	}
	header, body, closed := cutFence(rest)
	if !closed {
		return parts{}, append(CheckText("file", text, 1), fault.Detail{Field: header0, Rule: RuleYAML, Message: "the front matter is not closed by a line of exactly three hyphens (---)"})
	}
	p := parts{header: header, body: body, bodyLine: 3 + strings.Count(header, "\n")}
	var details []fault.Detail
	if len(header) > MaxHeader {
		details = append(details, tooLarge(header0, MaxHeader)...)
	}
	if len(body) > MaxBody {
		details = append(details, tooLarge(body0, MaxBody)...)
	}
	details = append(details, CheckText(header0, header, 2)...)
	details = append(details, CheckHidden(header0, header, 2)...)
	return p, append(details, CheckText(body0, body, p.bodyLine)...)
}

func tooLarge(field string, most int) []fault.Detail {
	return []fault.Detail{{Field: field, Rule: RuleTooLarge, Message: fmt.Sprintf("is larger than %d bytes", most)}}
}

// cutFence finds the first line that is exactly a fence. The header keeps its
// last newline.
func cutFence(text string) (header, body string, ok bool) {
	for at := 0; ; {
		line, _, more := strings.Cut(text[at:], "\n")
		if line == fence {
			end := at + len(fence)
			if more {
				end++
			}
			return text[:at], text[end:], true
		}
		if !more {
			return "", "", false
		}
		at += len(line) + 1
	}
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})$`)

// converter makes JSON of the tree and keeps declared types: nothing is guessed.
type converter struct {
	lines   map[string]int // by field path without the header's name
	failed  map[string]bool
	details []fault.Detail
}

func decode[T any](root node) (T, []fault.Detail) {
	c := converter{lines: map[string]int{}, failed: map[string]bool{}}
	v := c.value(root, "")
	b, err := json.Marshal(v)
	if err != nil { // strings, numbers, lists and maps only
		panic(fmt.Sprintf("frontmatter: encode header: %v", err))
	}
	out, err := contracts.Decode[T](b, contracts.Stored)
	var f *fault.Error
	if err != nil && !errors.As(err, &f) {
		panic(fmt.Sprintf("frontmatter: decode header: %v", err))
	}
	if f != nil {
		for _, d := range f.Details {
			if !c.failed[d.Field] {
				c.details = append(c.details, c.place(d))
			}
		}
	}
	return out, c.details
}

// place gives a detail of contracts its code, its full path and its line.
func (c *converter) place(d fault.Detail) fault.Detail {
	top, _, _ := strings.Cut(d.Field, "[")
	line, ok := c.lines[d.Field]
	if !ok {
		line, ok = c.lines[top]
	}
	d.Rule = SaveRule(d.Field, d.Rule)
	d.Field = header0 + "." + d.Field
	if ok {
		d.Message = fmt.Sprintf("line %d: %s", line, d.Message)
	}
	return d
}

// SaveRule gives the save-time rule code of a contracts rule at a field of the
// header: identifiers and unknown keys have their own, the rest is schema.
func SaveRule(field, rule string) string {
	switch {
	case field == "id" && rule != "required":
		return RuleID
	case rule == RuleKey, rule == RuleID:
		return rule
	default:
		return RuleSchema
	}
}

func (c *converter) value(n node, path string) any {
	if path != "" {
		c.lines[path] = n.line
	}
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.items))
		for i, k := range n.keys {
			at := k.value
			if path != "" {
				at = path + "." + k.value
			}
			m[k.value] = c.value(n.items[i], at)
		}
		return m
	case list:
		l := make([]any, 0, len(n.items))
		for i, item := range n.items {
			l = append(l, c.value(item, fmt.Sprintf("%s[%d]", path, i)))
		}
		return l
	default:
		return c.scalar(n, path)
	}
}

func (c *converter) scalar(n node, path string) any {
	if !n.plain {
		return n.value
	}
	switch {
	case n.value == "true":
		return true
	case n.value == "false":
		return false
	case wholeNumber.MatchString(n.value):
		return json.Number(n.value)
	case n.tag == "!!null":
		c.fail(n, path, "has no value; leave the key out or give one")
	case boolLike(n.value):
		c.fail(n, path, "looks like yes or no; write true or false, or put the word into quotes")
	case n.tag != "!!str" || numberLike(n.value):
		c.fail(n, path, "looks like a number or a date; put it into quotes if it is text")
	}
	return n.value
}

// fail notes a problem of a value and silences what contracts would say of it.
func (c *converter) fail(n node, path, msg string) {
	c.failed[path] = true
	rule := RuleSchema
	if path == "id" {
		rule = RuleID
	}
	c.details = append(c.details, fault.Detail{Field: header0 + "." + printable(path), Rule: rule, Message: fmt.Sprintf("line %d: %s", n.line, msg)})
}

// boolLike finds the words that some YAML reader or other takes for a boolean.
func boolLike(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n":
		return true
	default:
		return false
	}
}

var numberShape = regexp.MustCompile(`^[-+.]?[0-9][0-9_.,:eExXoO+-]*$`)

// numberLike finds what one reader takes for a number, time or version and the
// next one for text: 007, 1_000, 10:00, 1.0, 2026-01-31. A version of three
// parts such as 1.0.0 is text for every reader.
func numberLike(s string) bool {
	return numberShape.MatchString(s) && strings.Count(s, ".") != 2
}
