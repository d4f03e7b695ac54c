package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec"
)

// spec is the OpenAPI document as the generated cases read it: nothing about a
// route or a field is known to them but what the document says.
type spec struct {
	t   *testing.T
	raw map[string]any
}

// described is one operation of the document.
type described struct {
	name   string // "POST /api/overlays", parameters as {x}
	method string
	path   string
	params []map[string]any
	body   map[string]any // schema; nil for none
	roles  []string       // nil: anybody
	doc    map[string]any
}

// readSpec reads the document from a running server.
func readSpec(r *rig) *spec {
	r.t.Helper()
	a := r.ask(ec.RoleUser, "GET", "/openapi.json", "")
	r.want("openapi", a, 200, "")
	s := &spec{t: r.t}
	if err := json.Unmarshal(a.body, &s.raw); err != nil {
		r.t.Fatalf("openapi document: %v", err)
	}
	return s
}

// at gives a nested value, following references.
func (s *spec) at(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := s.resolve(v).(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return s.resolve(v)
}

func (s *spec) resolve(v any) any {
	for {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		ref, ok := m["$ref"].(string)
		if !ok {
			return v
		}
		v = any(s.raw)
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			v = v.(map[string]any)[part]
		}
	}
}

func (s *spec) object(v any, keys ...string) map[string]any {
	m, _ := s.at(v, keys...).(map[string]any)
	return m
}

// operations lists every operation, sorted.
func (s *spec) operations() []described {
	s.t.Helper()
	var out []described
	for path, methods := range s.object(s.raw, "paths") {
		for method := range s.object(methods) {
			o := s.object(methods, method)
			d := described{name: strings.ToUpper(method) + " " + path, method: strings.ToUpper(method), path: path, doc: o}
			list, _ := o["parameters"].([]any)
			for _, p := range list {
				d.params = append(d.params, s.object(p))
			}
			d.body = s.object(o, "requestBody", "content", "application/json", "schema")
			roles, _ := o["x-roles"].([]any)
			for _, r := range roles {
				d.roles = append(d.roles, fmt.Sprint(r))
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b described) int { return strings.Compare(a.name, b.name) })
	if len(out) < 40 {
		s.t.Fatalf("the document has %d operations only; it was not read", len(out))
	}
	return out
}

// fixture gives the line of the route table for an operation.
func (d described) fixture(t *testing.T) (route, bool) {
	t.Helper()
	name := strings.NewReplacer("{", ":", "}", "").Replace(d.name)
	for _, rt := range table() {
		if rt.method+" "+rt.path == name {
			return rt, true
		}
	}
	t.Errorf("%s has no line in table(): every route needs a good request", d.name)
	return route{}, false
}

func (d described) takes(header string) bool {
	return slices.ContainsFunc(d.params, func(p map[string]any) bool { return p["in"] == "header" && p["name"] == header })
}

// mutant is a document with one wrong field.
type mutant struct {
	at    []any
	field string // as details name it
	rule  string
	doc   any
}

// mutants makes one document for everything that the schema says can be wrong,
// from a good one.
func (s *spec) mutants(schema map[string]any, good any) []mutant {
	w := walk{s: s}
	w.fields(schema, good, nil)
	return w.out
}

type walk struct {
	s   *spec
	out []mutant
}

func (w *walk) add(base any, at []any, rule string, value any) {
	w.out = append(w.out, mutant{at, fieldName(at), rule, put(base, at, value)})
}

// fields makes the mutants of an object and of everything in it.
func (w *walk) fields(schema map[string]any, base any, at []any) {
	props := w.s.object(schema, "properties")
	required, _ := schema["required"].([]any)
	names := make([]string, 0, len(props))
	for name := range props {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		here := append(slices.Clone(at), name)
		if slices.Contains(required, any(name)) {
			w.out = append(w.out, mutant{here, fieldName(here), "required", remove(base, here)})
		}
		w.value(w.s.object(props, name), base, here)
	}
	if schema["additionalProperties"] == false {
		w.add(base, append(slices.Clone(at), "zz_unknown"), "unknown_key", 1)
	}
}

// value makes the mutants of one field.
func (w *walk) value(schema map[string]any, base any, at []any) {
	w.add(base, at, "null", nil)
	switch schema["type"] {
	case "string":
		w.text(schema, base, at)
	case "integer", "number":
		w.add(base, at, "type", "7")
		if schema["type"] == "integer" {
			w.add(base, at, "type", 1.5)
		}
		if n, ok := schema["minimum"].(float64); ok {
			w.add(base, at, "minimum", n-1)
		}
		if n, ok := schema["maximum"].(float64); ok {
			w.add(base, at, "maximum", n+1)
		}
	case "boolean":
		w.add(base, at, "type", "true")
	case "array":
		w.list(schema, base, at)
	case "object":
		w.add(base, at, "type", []any{})
		if get(base, at) == nil {
			base = put(base, at, w.s.sample(schema))
		}
		w.fields(schema, base, at)
		if values := w.s.object(schema, "additionalProperties"); values != nil {
			w.value(values, base, append(slices.Clone(at), "some-id"))
		}
	}
}

func (w *walk) text(schema map[string]any, base any, at []any) {
	w.add(base, at, "type", 7)
	w.add(base, at, "type", map[string]any{})
	number := func(key string) int { n, _ := schema[key].(float64); return int(n) }
	switch {
	case schema["enum"] != nil:
		w.add(base, at, "enum", "zz-unknown")
		w.add(base, at, "enum", strings.ToUpper(fmt.Sprint(schema["enum"].([]any)[0])))
		return
	case schema["format"] == "uuid":
		w.add(base, at, "uuid", "no-uuid")
		w.add(base, at, "uuid", "{"+someID+"}")
		return
	case schema["format"] == "date-time":
		w.add(base, at, "datetime", "yesterday")
		w.add(base, at, "datetime", "2026-01-31T09:30:00+01:00")
		return
	}
	if n := number("minLength"); n > 0 {
		w.add(base, at, "min_length", strings.Repeat("x", n-1))
	}
	if n := number("maxLength"); n > 0 {
		w.add(base, at, "max_length", strings.Repeat("x", n+1))
	}
	switch schema["pattern"] {
	case nil:
	case overlayPattern:
		w.add(base, at, "invalid_id", "Not an id")
		w.add(base, at, "invalid_id", strings.Repeat("x", 65))
		w.add(base, at, "invalid_id", "line-end\n")
	default:
		w.add(base, at, "pattern", "\u00c4!")
	}
}

const overlayPattern = "^[a-z0-9-]{1,64}$"

func (w *walk) list(schema map[string]any, base any, at []any) {
	w.add(base, at, "type", map[string]any{})
	items := w.s.object(schema, "items")
	one := w.s.sample(items)
	if n, ok := schema["minItems"].(float64); ok && n > 0 {
		w.add(base, at, "min_items", []any{})
	}
	if n, ok := schema["maxItems"].(float64); ok {
		w.add(base, at, "max_items", slices.Repeat([]any{one}, int(n)+1))
	}
	base = put(base, at, []any{one})
	w.value(items, base, append(slices.Clone(at), 0))
}

// sample gives the smallest value that a schema allows.
func (s *spec) sample(schema map[string]any) any {
	switch schema["type"] {
	case "string":
		switch {
		case schema["enum"] != nil:
			return schema["enum"].([]any)[0]
		case schema["format"] == "uuid":
			return someID
		case schema["format"] == "date-time":
			return "2026-01-31T09:30:00Z"
		case schema["pattern"] == overlayPattern:
			return "some-id"
		}
		n, _ := schema["minLength"].(float64)
		return strings.Repeat("x", int(n))
	case "integer", "number":
		n, _ := schema["minimum"].(float64)
		return n
	case "boolean":
		return false
	case "array":
		list := []any{}
		if n, _ := schema["minItems"].(float64); n > 0 {
			list = slices.Repeat([]any{s.sample(s.object(schema, "items"))}, int(n))
		}
		return list
	case "object":
		out := map[string]any{}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			out[fmt.Sprint(name)] = s.sample(s.object(schema, "properties", fmt.Sprint(name)))
		}
		return out
	default:
		return map[string]any{}
	}
}

func fieldName(at []any) string {
	var b strings.Builder
	for i, p := range at {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", p)
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(p)
		}
	}
	return b.String()
}

func get(doc any, at []any) any {
	for _, p := range at {
		switch p := p.(type) {
		case string:
			m, _ := doc.(map[string]any)
			doc = m[p]
		case int:
			l, _ := doc.([]any)
			if p >= len(l) {
				return nil
			}
			doc = l[p]
		}
	}
	return doc
}

// put gives a copy of doc with another value at one place.
func put(doc any, at []any, value any) any {
	if len(at) == 0 {
		return value
	}
	switch p := at[0].(type) {
	case string:
		out := map[string]any{}
		if m, ok := doc.(map[string]any); ok {
			for k, v := range m {
				out[k] = v
			}
		}
		out[p] = put(out[p], at[1:], value)
		return out
	case int:
		l, _ := doc.([]any)
		l = slices.Clone(l)
		for len(l) <= p {
			l = append(l, nil)
		}
		l[p] = put(l[p], at[1:], value)
		return l
	}
	return doc
}

// remove gives a copy of doc without one field.
func remove(doc any, at []any) any {
	if len(at) == 1 {
		out := map[string]any{}
		if m, ok := doc.(map[string]any); ok {
			for k, v := range m {
				if k != at[0] {
					out[k] = v
				}
			}
		}
		return out
	}
	return put(doc, at[:len(at)-1], remove(get(doc, at[:len(at)-1]), at[len(at)-1:]))
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func decode(t *testing.T, doc string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
