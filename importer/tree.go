package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of a foreign JSON document.
const (
	maxJSONDepth  = 64
	maxJSONValues = 500_000
)

// node is a JSON value with its members in order. Exactly one of obj, arr and val
// counts, by kind.
type node struct {
	kind byte // 'o'bject, 'a'rray, 's'tring, 'n'umber, 'b'oolean, or 0 for null
	obj  []member
	arr  []node
	val  string
}

type member struct {
	name string
	node node
}

// parseTree reads exactly one JSON value. The error is a sentence without a subject.
func parseTree(text string) (node, error) {
	t := tree{dec: json.NewDecoder(strings.NewReader(text))}
	t.dec.UseNumber()
	n, err := t.value(0)
	if err != nil {
		return node{}, err
	}
	if _, err := t.dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("holds something after its JSON document; only one document is read")
	}
	return n, nil
}

type tree struct {
	dec   *json.Decoder
	count int
}

func (t *tree) value(depth int) (node, error) {
	if depth > maxJSONDepth {
		return node{}, fmt.Errorf("nests its JSON deeper than %d", maxJSONDepth)
	}
	if t.count++; t.count > maxJSONValues {
		return node{}, fmt.Errorf("holds more than %d JSON values", maxJSONValues)
	}
	tok, err := t.dec.Token()
	if err != nil {
		return node{}, t.broken()
	}
	switch v := tok.(type) {
	case string:
		return node{kind: 's', val: v}, nil
	case json.Number:
		return node{kind: 'n', val: v.String()}, nil
	case bool:
		return node{kind: 'b', val: fmt.Sprint(v)}, nil
	case json.Delim:
		return t.inside(v, depth)
	}
	return node{}, nil
}

func (t *tree) inside(open json.Delim, depth int) (node, error) {
	n := node{kind: 'a'}
	seen := map[string]bool{}
	if open == '{' {
		n.kind = 'o'
	}
	for t.dec.More() {
		if n.kind == 'a' {
			v, err := t.value(depth + 1)
			if err != nil {
				return node{}, err
			}
			n.arr = append(n.arr, v)
			continue
		}
		tok, err := t.dec.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			return node{}, t.broken()
		}
		v, err := t.value(depth + 1)
		if err != nil {
			return node{}, err
		}
		if seen[name] {
			return node{}, fmt.Errorf("gives the JSON key %q twice in one object", clip(name))
		}
		seen[name] = true
		n.obj = append(n.obj, member{name, v})
	}
	if _, err := t.dec.Token(); err != nil {
		return node{}, t.broken()
	}
	return n, nil
}

func (t *tree) broken() error {
	return fmt.Errorf("is not valid JSON (at byte %d)", t.dec.InputOffset())
}

// at gives a member; the null value when there is none.
func (n node) at(name string) node {
	for _, m := range n.obj {
		if m.name == name {
			return m.node
		}
	}
	return node{}
}

func (n node) has(name string) bool {
	for _, m := range n.obj {
		if m.name == name {
			return true
		}
	}
	return false
}

// str gives a string or a number as text, empty for everything else.
func (n node) str() string {
	if n.kind == 's' || n.kind == 'n' {
		return n.val
	}
	return ""
}

// empty says whether there is nothing to lose.
func (n node) empty() bool {
	switch n.kind {
	case 'o':
		return len(n.obj) == 0
	case 'a':
		return len(n.arr) == 0
	default:
		return n.val == ""
	}
}

// brief says in few words what a value holds.
func (n node) brief() string {
	var parts []string
	switch n.kind {
	case 'o':
		for _, m := range n.obj {
			parts = append(parts, m.name)
		}
	case 'a':
		for _, v := range n.arr {
			if v.kind == 'o' || v.kind == 'a' {
				return fmt.Sprintf("%d entries", len(n.arr))
			}
			parts = append(parts, v.val)
		}
	default:
		return n.val
	}
	if len(parts) > 12 {
		parts = append(parts[:12:12], "…")
	}
	return strings.Join(parts, ", ")
}
