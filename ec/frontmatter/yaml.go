package frontmatter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	// The one import of a YAML library: swapping it is a change of this line.
	"go.yaml.in/yaml/v3"

	"github.com/elnor/promptlab/internal/fault"
)

// Limits of a header's structure.
const (
	maxDepth    = 6
	maxNodes    = 512
	maxRun      = 8   // "- - - -" on one line
	maxBrackets = 256 // opening brackets and braces, quoted ones included
)

type kind int

const (
	scalar kind = iota
	list
	mapping
)

// node is a YAML value that passed the walk. line is the line in the file.
type node struct {
	kind    kind
	value   string
	plain   bool   // an unquoted scalar: its type must be looked at
	tag     string // what the library would make of a plain scalar
	line    int
	comment string // the comment at the end of its line, if any
	items   []node
	keys    []node // of a mapping, beside items
}

// walker turns a library tree into ours and notes everything forbidden.
type walker struct {
	lines   []string
	first   int // file line of the header's first line
	nodes   int
	details []fault.Detail
}

func (w *walker) refuse(path string, n *yaml.Node, format string, args ...any) {
	w.details = append(w.details, unsafeYAML(path, n.Line+w.first-1, format, args...))
}

func unsafeYAML(path string, line int, format string, args ...any) fault.Detail {
	return fault.Detail{Field: path, Rule: RuleYAML, Message: fmt.Sprintf("line %d: %s", line, fmt.Sprintf(format, args...))}
}

// readYAML parses the header that starts at file line first. Without problems
// it gives the root mapping.
func readYAML(header string, first int) (root node, details []fault.Detail) {
	if d := precheck(header, first); len(d) > 0 {
		return node{}, d
	}
	defer func() { // a crash of the library must stay a bad file
		if p := recover(); p != nil {
			details = []fault.Detail{unsafeYAML(header0, first, "the YAML cannot be read")}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader([]byte(header)))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return node{}, []fault.Detail{unsafeYAML(header0, first, "the front matter is empty")}
		}
		return node{}, []fault.Detail{syntax(err, first)}
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return node{}, []fault.Detail{unsafeYAML(header0, first, "holds a second YAML document")}
	}
	w := walker{lines: strings.Split(header, "\n"), first: first}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode || top.Style&yaml.FlowStyle != 0 {
		w.refuse(header0, top, "must be a list of keys, one to a line")
		return node{}, w.details
	}
	root = w.walk(top, header0, 1)
	for i := 0; i < len(top.Content); i += 2 {
		if k := top.Content[i]; k.Column != 1 {
			w.refuse(header0, k, "keys must start in the first column")
		}
	}
	return root, w.details
}

// precheck is cheap and comes before the library: how deep a text can nest.
func precheck(header string, first int) []fault.Detail {
	if strings.Count(header, "[")+strings.Count(header, "{") > maxBrackets {
		return []fault.Detail{unsafeYAML(header0, first, "holds more than %d opening brackets", maxBrackets)}
	}
	for i, line := range strings.Split(header, "\n") {
		run := 0
		rest := strings.TrimLeft(line, " ")
		for len(rest) >= 2 && strings.ContainsRune("-?:", rune(rest[0])) && (rest[1] == ' ' || rest[1] == '\t') {
			run++
			rest = strings.TrimLeft(rest[1:], " \t")
		}
		switch {
		case run > maxRun:
			return []fault.Detail{unsafeYAML(header0, first+i, "nests deeper than %d", maxDepth)}
		case strings.HasPrefix(line, "?"):
			return []fault.Detail{unsafeYAML(header0, first+i, "holds an explicit key (?)")}
		case strings.HasPrefix(line, "%"):
			return []fault.Detail{unsafeYAML(header0, first+i, "holds a YAML directive (%%)")}
		case line == "..." || strings.HasPrefix(line, "... "):
			return []fault.Detail{unsafeYAML(header0, first+i, "holds an end-of-document mark (...)")}
		case strings.HasPrefix(line, "---"):
			return []fault.Detail{unsafeYAML(header0, first+i, "begins with ---; a fence is exactly three hyphens without spaces after them")}
		}
	}
	return nil
}

var errLine = regexp.MustCompile(`line (\d+): `)

// syntax makes a detail of a parser's error, with the line in the file.
func syntax(err error, first int) fault.Detail {
	line, msg := first, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := errLine.FindStringSubmatch(msg); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = first + n - 1
		}
		msg = strings.Replace(msg, m[0], "", 1)
	}
	const most = 120
	if len(msg) > most {
		msg = msg[:most]
	}
	return unsafeYAML(header0, line, "the YAML cannot be read (%s)", strings.Trim(strconv.QuoteToASCII(msg), `"`))
}

// at gives the character at which a node starts, 0 when there is none.
func (w *walker) at(n *yaml.Node) rune {
	if n.Line < 1 || n.Line > len(w.lines) {
		return 0
	}
	line := []rune(w.lines[n.Line-1])
	if n.Column < 1 || n.Column > len(line) {
		return 0
	}
	return line[n.Column-1]
}

func (w *walker) walk(n *yaml.Node, path string, depth int) node {
	w.nodes++
	out := node{line: n.Line + w.first - 1, tag: n.ShortTag(), comment: n.LineComment}
	switch {
	case w.nodes == maxNodes+1:
		w.refuse(header0, n, "holds more than %d values", maxNodes)
		return out
	case w.nodes > maxNodes:
		return out
	case depth > maxDepth:
		w.refuse(path, n, "nests deeper than %d", maxDepth)
		return out
	case n.Kind == yaml.AliasNode: // never followed
		w.refuse(path, n, "is a YAML alias (*)")
		return out
	}
	if n.Anchor != "" || w.at(n) == '&' {
		w.refuse(path, n, "has a YAML anchor (&)")
	}
	if n.Style&yaml.TaggedStyle != 0 || w.at(n) == '!' {
		w.refuse(path, n, "has a YAML tag (!)")
	}
	switch n.Kind {
	case yaml.MappingNode:
		out.kind = mapping
		w.members(n, &out, path, depth)
	case yaml.SequenceNode:
		out.kind = list
		for i, c := range n.Content {
			out.items = append(out.items, w.walk(c, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	default:
		const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		out.value, out.plain = n.Value, n.Style&quoted == 0
		w.details = append(w.details, CheckText(path, n.Value, out.line)...)
		w.details = append(w.details, CheckHidden(path, n.Value, out.line)...)
	}
	return out
}

func (w *walker) members(n *yaml.Node, out *node, path string, depth int) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := w.walk(k, path, depth+1)
		switch {
		case k.Kind != yaml.ScalarNode:
			w.refuse(path, k, "has a key that is not text")
			continue
		case k.Value == "<<":
			w.refuse(path, k, "holds a merge key (<<)")
			continue
		case key.plain && key.tag != "!!str":
			w.refuse(path, k, "has a key that is not text")
			continue
		case seen[k.Value]:
			w.refuse(path+"."+printable(k.Value), k, "the key is given twice")
			continue
		}
		seen[k.Value] = true
		out.keys = append(out.keys, key)
		out.items = append(out.items, w.walk(v, path+"."+printable(k.Value), depth+1))
	}
}

// printable makes a key of somebody else's fit for a message.
func printable(key string) string {
	q := strings.Trim(strconv.QuoteToASCII(key), `"`)
	const most = 64
	if len(q) > most {
		q = q[:most] + "..."
	}
	return q
}
