package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a foreign header.
const (
	maxHeaderLines = 400
	maxHeaderKeys  = 100
)

// entry is one key of a foreign header. list is set when the value was a list.
type entry struct {
	key   string
	value string
	list  []string
	line  int
}

// text gives the value as one line.
func (e entry) text() string {
	if e.list != nil {
		return strings.Join(e.list, ", ")
	}
	return e.value
}

// header is a foreign front matter, read line by line.
type header struct {
	entries []entry
	notes   []string
}

func (h header) has(key string) bool {
	return slices.ContainsFunc(h.entries, func(e entry) bool { return strings.EqualFold(e.key, key) })
}

var keyLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]{0,63})[ \t]*:(?:[ \t]+(.*))?$`)

// cutHeader cuts a text at its front matter and reads it. The body is every byte
// after the closing fence. found is false when there is none: the first line is no
// fence, no line closes it, or nothing between looks like a key.
func cutHeader(text string) (h header, body string, found bool) {
	first, rest, more := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" || !more {
		return header{}, text, false
	}
	var lines []string
	for len(lines) <= maxHeaderLines {
		line, after, more := strings.Cut(rest, "\n")
		if strings.TrimRight(line, " \t") == "---" {
			h = readHeader(lines)
			if len(h.entries) == 0 && strings.TrimSpace(strings.Join(lines, "")) != "" {
				return header{}, text, false // two rules of a Markdown text
			}
			return h, after, true
		}
		if !more {
			break
		}
		lines, rest = append(lines, line), after
	}
	return header{}, text, false
}

// readHeader takes every line for what it most likely means. What it cannot place
// becomes a note with its line in the file.
func readHeader(lines []string) header {
	var h header
	at := map[string]bool{}
	for i := 0; i < len(lines); {
		line, no := lines[i], i+2
		i++
		if t := strings.TrimSpace(line); t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		m := keyLine.FindStringSubmatch(strings.TrimRight(line, " \t"))
		if m == nil {
			h.notes = append(h.notes, fmt.Sprintf("line %d of the header is neither a key nor part of one: %s", no, clip(line)))
			continue
		}
		from := i
		for i < len(lines) && belongs(lines[i]) {
			i++
		}
		e := value(m[1], strings.TrimSpace(m[2]), lines[from:i])
		e.line = no
		switch low := strings.ToLower(e.key); {
		case at[low]:
			h.notes = append(h.notes, fmt.Sprintf("line %d gives %s a second time; the first one counts", no, e.key))
		case len(h.entries) == maxHeaderKeys:
			h.notes = append(h.notes, fmt.Sprintf("the header has more than %d keys; the rest was not read", maxHeaderKeys))
			return h
		default:
			at[low] = true
			h.entries = append(h.entries, e)
		}
	}
	return h
}

// belongs says whether a line continues the key before it: it is indented, empty,
// or an item of a list.
func belongs(line string) bool {
	return strings.TrimSpace(line) == "" || line[0] == ' ' || line[0] == '\t' || line == "-" || strings.HasPrefix(line, "- ")
}

// value reads what follows a key on its line and on the lines below.
func value(key, first string, below []string) entry {
	e := entry{key: key}
	var more []string
	for _, l := range below {
		if t := strings.TrimSpace(l); t != "" {
			more = append(more, t)
		}
	}
	switch {
	case first == "|" || first == ">" || strings.HasPrefix(first, "|-") || strings.HasPrefix(first, ">-") || strings.HasPrefix(first, "|+") || strings.HasPrefix(first, ">+"):
		sep := " "
		if first[0] == '|' {
			sep = "\n"
		}
		e.value = strings.Join(more, sep)
	case first == "" && len(more) > 0 && items(more):
		e.list = []string{}
		for _, l := range more {
			if item := scalar(strings.TrimSpace(strings.TrimPrefix(l, "-"))); item != "" {
				e.list = append(e.list, item)
			}
		}
	case strings.HasPrefix(first, "[") && strings.HasSuffix(first, "]") && len(more) == 0:
		e.list = []string{}
		for part := range strings.SplitSeq(first[1:len(first)-1], ",") {
			if item := scalar(strings.TrimSpace(part)); item != "" {
				e.list = append(e.list, item)
			}
		}
	case first == "":
		e.value = strings.Join(more, "; ")
	default:
		e.value = scalar(strings.Join(append([]string{first}, more...), " "))
	}
	return e
}

func items(lines []string) bool {
	for _, l := range lines {
		if l != "-" && !strings.HasPrefix(l, "- ") {
			return false
		}
	}
	return true
}

// scalar takes quotes off, or the comment after a value without quotes.
func scalar(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	}
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(s[1 : len(s)-1])
	}
	if at := strings.Index(s, " #"); at >= 0 {
		s = s[:at]
	}
	return strings.TrimSpace(s)
}

// clip makes a foreign text fit into a sentence.
func clip(s string) string {
	const most = 100
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func joined(key, value string) string {
	if value == "" {
		return key
	}
	return key + ": " + value
}
