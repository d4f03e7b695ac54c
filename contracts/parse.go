package contracts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/elnor/promptlab/internal/fault"
)

const maxDepth = 32

// node is a JSON value with its members in order, so that duplicates are seen.
type node struct {
	value   any // string, json.Number, bool, nil; or
	object  []member
	array   []node
	isObj   bool
	isArray bool
}

type member struct {
	name  string
	value node
}

func (n node) kind() string {
	switch {
	case n.isObj:
		return "object"
	case n.isArray:
		return "list"
	}
	switch n.value.(type) {
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	default:
		return "null"
	}
}

// parseJSON reads exactly one JSON value. What is not JSON at all is malformed.
func parseJSON(data []byte) (node, error) {
	if !utf8.Valid(data) {
		return node{}, fault.New(fault.Malformed, "bad_request", "the document is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := parseValue(dec, 0)
	if err != nil {
		return node{}, malformed(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, fault.New(fault.Malformed, "bad_request", "there is something after the JSON document")
	}
	return n, nil
}

func malformed(err error) error {
	return fault.Wrap(fault.Malformed, "bad_request", err, "the document is not valid JSON")
}

func parseValue(dec *json.Decoder, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return node{}, fmt.Errorf("read value: %w", err)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return node{value: tok}, nil
	}
	var n node
	switch delim {
	case '{':
		n.isObj = true
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return node{}, fmt.Errorf("read key: %w", err)
			}
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return node{}, err
			}
			name, _ := key.(string)
			n.object = append(n.object, member{name, v})
		}
	case '[':
		n.isArray = true
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return node{}, err
			}
			n.array = append(n.array, v)
		}
	}
	_, err = dec.Token() // the closing delimiter
	if err != nil {
		return node{}, fmt.Errorf("read end: %w", err)
	}
	return n, nil
}

// plain gives the value as encoding/json would, for free-form metadata.
func (n node) plain() any {
	switch {
	case n.isObj:
		m := make(map[string]any, len(n.object))
		for _, f := range n.object {
			m[f.name] = f.value.plain()
		}
		return m
	case n.isArray:
		l := make([]any, len(n.array))
		for i, v := range n.array {
			l[i] = v.plain()
		}
		return l
	}
	if num, ok := n.value.(json.Number); ok {
		f, err := num.Float64()
		if err != nil {
			return num.String()
		}
		return f
	}
	return n.value
}
