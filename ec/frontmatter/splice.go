package frontmatter

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// Change is one key of a header to set: to a string, int, bool or []string. A
// nil value removes the key.
type Change struct {
	Key   string
	Value any
}

// Splice sets single keys of an overlay file and leaves every other byte as it
// was: order, comments, quoting, line ends, byte order mark, body. A comment at
// the end of a one-line value stays; comments inside a replaced list go with
// it. New keys are put before the closing fence. The file must be valid before
// and after.
func Splice(src []byte, changes ...Change) ([]byte, error) {
	_, p, err := parse[contracts.OverlayTemplateFrontmatter](src)
	if err != nil {
		return nil, err
	}
	s := splicer{lines: bytes.SplitAfter(src, []byte("\n")), root: p.root, closing: p.bodyLine - 2}
	for _, c := range changes {
		s.set(c)
	}
	out := s.bytes()
	if err := unmoved(p, out, changes); err != nil {
		return nil, err
	}
	return out, nil
}

// Update makes a file say fm and body, by the smallest splice. fm is compared
// key by key with what the file says now.
func Update(src []byte, fm contracts.OverlayTemplateFrontmatter, body string) ([]byte, error) {
	doc, err := Parse(src)
	if err != nil {
		return nil, err
	}
	var changes []Change
	now, want := fields(doc.Frontmatter), fields(fm)
	for i := range want {
		if render(now[i].key, now[i].value, "\n") != render(want[i].key, want[i].value, "\n") {
			changes = append(changes, Change{Key: want[i].key, Value: want[i].value})
		}
	}
	out := src
	if len(changes) > 0 {
		if out, err = Splice(src, changes...); err != nil {
			return nil, err
		}
	}
	if body == doc.Body {
		return out, nil
	}
	head := bytes.Join(bytes.SplitAfter(out, []byte("\n"))[:closingLine(out)+1], nil)
	if !bytes.HasSuffix(head, []byte("\n")) {
		head = append(head, '\n')
	}
	out = bytes.Join([][]byte{head, []byte(body)}, nil)
	if _, err = Parse(out); err != nil {
		return nil, err
	}
	return out, nil
}

// closingLine gives the index of the closing fence's line of a valid file.
func closingLine(src []byte) int {
	for i, l := range bytes.SplitAfter(src, []byte("\n")) {
		if i > 0 && strings.TrimRight(string(l), "\r\n") == fence {
			return i
		}
	}
	return 0
}

// splicer works on the file's own lines; normalising moves no line, so the
// tree's line numbers hold for them.
type splicer struct {
	lines   [][]byte
	root    node
	closing int            // index of the closing fence in lines
	edits   map[int][]byte // replacement of a line
	added   []byte         // before the closing fence
}

func (s *splicer) set(c Change) {
	if s.edits == nil {
		s.edits = map[int][]byte{}
	}
	newline := "\n"
	if bytes.HasSuffix(s.lines[0], []byte("\r\n")) {
		newline = "\r\n"
	}
	for i, k := range s.root.keys {
		if k.value != c.Key {
			continue
		}
		from, to := k.line-1, s.end(i)
		text := render(c.Key, c.Value, newline)
		if to == from+1 && c.Value != nil {
			text = strings.TrimSuffix(text, newline) + s.tail(from, s.root.items[i]) + newline
		}
		s.edits[from] = []byte(text)
		for l := from + 1; l < to; l++ {
			s.edits[l] = nil
		}
		return
	}
	s.added = append(s.added, render(c.Key, c.Value, newline)...)
}

// end gives the line after the i-th key's value: blank lines and comments
// before the next key belong to that one.
func (s *splicer) end(i int) int {
	to := s.closing
	if i+1 < len(s.root.keys) {
		to = s.root.keys[i+1].line - 1
	}
	for to > s.root.keys[i].line {
		l := strings.TrimSpace(string(s.lines[to-1]))
		if l != "" && s.lines[to-1][0] != '#' {
			break
		}
		to--
	}
	return to
}

// tail gives the comment at the end of a line, with the space before it.
func (s *splicer) tail(line int, v node) string {
	comment := v.comment
	for _, item := range v.items {
		if item.comment != "" {
			comment = item.comment
		}
	}
	text := strings.TrimRight(string(s.lines[line]), "\r\n")
	at := strings.LastIndex(text, comment)
	if comment == "" || at < 0 {
		return ""
	}
	return text[len(strings.TrimRight(text[:at], " \t")):]
}

func (s *splicer) bytes() []byte {
	var out []byte
	for i, l := range s.lines {
		if i == s.closing {
			out = append(out, s.added...)
		}
		if e, ok := s.edits[i]; ok {
			l = e
		}
		out = append(out, l...)
	}
	return out
}

var errMoved = errors.New("frontmatter: a splice changed more than it was asked to")

// unmoved reads the result and compares it with the file before.
func unmoved(before parts, out []byte, changes []Change) error {
	_, after, err := parse[contracts.OverlayTemplateFrontmatter](out)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Key] = true
	}
	was, is := before.root.rest(changed), after.root.rest(changed)
	if before.body != after.body || was != is {
		return errMoved
	}
	return nil
}

// rest writes all keys but some, to be compared.
func (n node) rest(but map[string]bool) string {
	var b strings.Builder
	for i, k := range n.keys {
		if !but[k.value] {
			fmt.Fprintf(&b, "%q=", k.value)
			n.items[i].dump(&b)
		}
	}
	return b.String()
}

func (n node) dump(b *strings.Builder) {
	fmt.Fprintf(b, "%d%v%q(", n.kind, n.plain, n.value)
	for i, item := range n.items {
		if n.kind == mapping {
			fmt.Fprintf(b, "%q:", n.keys[i].value)
		}
		item.dump(b)
	}
	b.WriteByte(')')
}
