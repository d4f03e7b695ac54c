package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is the shape that a structured answer must have. Whatever a server
// promises about its strict mode, the answer is held against it here.
type Schema struct {
	id       string
	shape    *jsonschema.Schema
	keywords json.RawMessage // see Wire
	sum      string          // of the whole document
}

// NewSchema compiles a JSON Schema. id names it with its version, such as
// judge/1; a further required field is a new version. References to other
// documents are refused.
func NewSchema(id, document string) (*Schema, error) {
	if id == "" {
		return nil, errors.New("schema: no id")
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const here = "mem:///schema.json"
	if err := c.AddResource(here, doc); err != nil {
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	shape, err := c.Compile(here)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	keywords, err := json.Marshal(structural(doc))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	whole, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", id, err)
	}
	sum := sha256.Sum256(whole)
	return &Schema{id: id, shape: shape, keywords: keywords, sum: hex.EncodeToString(sum[:])}, nil
}

// NewClientSchema compiles a JSON Schema of somebody who asks through us. It is
// sent as it was given.
func NewClientSchema(id string, document []byte) (*Schema, error) {
	s, err := NewSchema(id, string(document))
	if err != nil {
		return nil, err
	}
	s.keywords = bytes.Clone(document)
	return s, nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("no reference to other documents") }

// ID names the schema with its version.
func (s *Schema) ID() string { return s.id }

// identity names the schema down to its words: a document that was changed under
// its old id is another one.
func (s *Schema) identity() string {
	if s == nil {
		return ""
	}
	return s.id + "#" + s.sum
}

// name is ID for a request that may have no schema.
func (s *Schema) name() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Wire gives the schema for a server's strict mode: only the keywords that all
// of them take. Bounds are checked here and not there.
func (s *Schema) Wire() json.RawMessage { return bytes.Clone(s.keywords) }

// structural keeps the keywords that say what the parts of a value are.
func structural(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, val := range m {
		switch key {
		case "type", "required", "enum", "additionalProperties":
			out[key] = val
		case "items":
			out[key] = structural(val)
		case "properties":
			props := map[string]any{}
			subs, _ := val.(map[string]any) // the schema is compiled: it is an object
			for name, sub := range subs {
				props[name] = structural(sub)
			}
			out[key] = props
		}
	}
	return out
}

// Check tells whether a text is one JSON value of the shape; a code fence around
// it is tolerated. The error holds none of the text.
func (s *Schema) Check(text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(unfenced(text)))
	if err != nil {
		return errors.New("not one JSON value")
	}
	if s.shape.Validate(v) != nil {
		return fmt.Errorf("not of the shape %s", s.id)
	}
	return nil
}

// malformed tells whether an answer has not the shape that was asked for. One
// that was cut, refused or ended for an unknown reason never has it, even when
// what is there happens to parse; one that asks for tools has none of its own,
// but the tools' arguments must be JSON.
func malformed(req Request, r Reply) bool {
	for _, c := range r.ToolCalls {
		if !json.Valid([]byte(c.Arguments)) {
			return true
		}
	}
	if r.Finish == FinishToolCalls {
		return false
	}
	switch {
	case req.Schema != nil:
		return r.Finish != FinishStop || req.Schema.Check(r.Text) != nil
	case req.JSONObject:
		return r.Finish != FinishStop || !isObject(r.Text)
	default:
		return false
	}
}

func isObject(text string) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal([]byte(unfenced(text)), &m) == nil && m != nil
}

// unfenced takes a code fence off.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "```json"), "```"), "```")
}
