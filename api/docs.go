package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// docsRoutes show the document to people: a page made once, from nothing but
// the document, without scripts.
func (s *Server) docsRoutes() {
	s.register(op{id: "docs", method: http.MethodGet, path: "/docs", summary: "This document as a page", media: "text/html"},
		func(w http.ResponseWriter, _ *http.Request, _ values) error {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(s.docs) // the reader may be gone
			return nil
		})
	s.register(op{id: "docs-style", method: http.MethodGet, path: "/docs.css", summary: "The looks of the page", media: "text/css"},
		func(w http.ResponseWriter, _ *http.Request, _ values) error {
			w.Header().Set("Content-Type", "text/css; charset=utf-8")
			_, _ = w.Write([]byte(docsStyle)) // the reader may be gone
			return nil
		})
}

// docOp is what the page says of an operation.
type docOp struct {
	ID, Method, Path, Summary, Roles string

	Params  []docField
	Body    docType
	Empty   bool   // the body may be left out
	Example string // the smallest good body
	Answers []docAnswer
}

type docField struct {
	Name, In, About string
	Required        bool
	Type            docType
}

// docType is a type in words; Ref is the schema to look at.
type docType struct{ Text, Ref string }

type docAnswer struct {
	Status, About, Media string
	Type                 docType
}

type docGroup struct {
	Name string
	Ops  []docOp
}

type docSchema struct {
	Name   string
	Open   bool // fields of later versions are let through
	Fields []docField
}

// docReader reads the document, whose shape is ours.
type docReader struct{ raw map[string]any }

// renderDocs makes the page.
func renderDocs(spec []byte, version string) ([]byte, error) {
	r := docReader{}
	if err := json.Unmarshal(spec, &r.raw); err != nil {
		return nil, fmt.Errorf("read openapi document: %w", err)
	}
	page := struct {
		Version     string
		Groups      []docGroup
		Failures    []docAnswer
		FailureType docType
		Schemas     []docSchema
	}{Version: version, Groups: r.groups(), FailureType: docType{"APIError", "APIError"}, Schemas: r.schemas()}
	failures := object(object(r.raw, "components"), "responses")
	for _, status := range slices.Sorted(maps.Keys(failures)) {
		page.Failures = append(page.Failures, docAnswer{Status: status, About: text(object(failures, status), "description")})
	}
	t, err := template.New("docs").Parse(docsHTML)
	if err != nil {
		return nil, fmt.Errorf("read template of the page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, page); err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	return b.Bytes(), nil
}

func object(m map[string]any, key string) map[string]any {
	v, _ := m[key].(map[string]any)
	return v
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}

func (r docReader) groups() []docGroup {
	byName := map[string][]docOp{}
	paths := object(r.raw, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		methods := object(paths, path)
		for _, method := range []string{"get", "post", "put", "delete"} {
			if o := object(methods, method); o != nil {
				group := fmt.Sprint(list(o, "tags")[0]) // describe gives every operation one
				byName[group] = append(byName[group], r.operation(path, method, o))
			}
		}
	}
	var out []docGroup
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, docGroup{name, byName[name]})
	}
	return out
}

func (r docReader) operation(path, method string, o map[string]any) docOp {
	d := docOp{ID: text(o, "operationId"), Method: strings.ToUpper(method), Path: path, Summary: text(o, "summary"), Roles: "anybody"}
	if roles := list(o, rolesKey); roles != nil {
		d.Roles = strings.Trim(fmt.Sprint(roles), "[]")
	}
	for _, p := range list(o, "parameters") {
		p, _ := p.(map[string]any)
		required, _ := p["required"].(bool)
		d.Params = append(d.Params, docField{Name: text(p, "name"), In: text(p, "in"), About: text(p, "description"), Required: required, Type: r.typeOf(object(p, "schema"))})
	}
	if body := object(o, "requestBody"); body != nil {
		schema := object(object(object(body, "content"), "application/json"), "schema")
		required, _ := body["required"].(bool)
		example, _ := json.MarshalIndent(r.example(schema), "", "  ") //nolint:errchkjson // made of strings, numbers, lists and objects
		d.Body, d.Empty, d.Example = r.typeOf(schema), !required, string(example)
	}
	responses := object(o, "responses")
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		answer := object(responses, status)
		content := object(answer, "content")
		if len(content) == 0 {
			d.Answers = append(d.Answers, docAnswer{Status: status, About: text(answer, "description")})
		}
		for _, media := range slices.Sorted(maps.Keys(content)) {
			d.Answers = append(d.Answers, docAnswer{status, text(answer, "description"), media, r.typeOf(object(object(content, media), "schema"))})
		}
	}
	return d
}

func (r docReader) schemas() []docSchema {
	var out []docSchema
	all := object(object(r.raw, "components"), "schemas")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		schema := object(all, name)
		props := object(schema, "properties")
		d := docSchema{Name: name, Open: schema["additionalProperties"] == nil}
		for _, field := range slices.Sorted(maps.Keys(props)) {
			p := object(props, field)
			about := text(p, "description")
			if v, ok := p["default"]; ok {
				given, _ := json.Marshal(v) //nolint:errchkjson // it came out of JSON
				about = strings.TrimSpace(about + " Left out: " + string(given) + ".")
			}
			d.Fields = append(d.Fields, docField{Name: field, About: about, Required: slices.Contains(list(schema, "required"), any(field)), Type: r.typeOf(p)})
		}
		out = append(out, d)
	}
	return out
}

// typeOf says in words what a schema allows.
func (r docReader) typeOf(schema map[string]any) docType {
	if ref := text(schema, "$ref"); ref != "" {
		name := strings.TrimPrefix(ref, schemaPrefix)
		return docType{name, name}
	}
	bound := func(low, high, unit string) string {
		least, most := schema[low], schema[high]
		switch {
		case least != nil && most != nil:
			return fmt.Sprintf(", %s to %s%s", number(least), number(most), unit)
		case least != nil:
			return fmt.Sprintf(", at least %s%s", number(least), unit)
		case most != nil:
			return fmt.Sprintf(", at most %s%s", number(most), unit)
		}
		return ""
	}
	switch kind := text(schema, "type"); kind {
	case "string":
		what := "string"
		if f := text(schema, "format"); f != "" {
			what = f
		}
		what += bound("minLength", "maxLength", " characters")
		if e := list(schema, "enum"); e != nil {
			what = "one of " + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(e), "[]")), ", ")
		}
		if p := text(schema, "pattern"); p != "" {
			what += ", " + p
		}
		return docType{Text: what}
	case "array":
		t := r.typeOf(object(schema, "items"))
		return docType{"list of " + t.Text + bound("minItems", "maxItems", " entries"), t.Ref}
	case "object":
		if values := object(schema, "additionalProperties"); values != nil {
			t := r.typeOf(values)
			return docType{"map to " + t.Text, t.Ref}
		}
		return docType{Text: "object"}
	case "":
		return docType{Text: "anything"}
	default:
		return docType{Text: kind + bound("minimum", "maximum", "")}
	}
}

func number(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprint(v)
}

// example gives the smallest value that a schema allows.
func (r docReader) example(schema map[string]any) any {
	if name, ok := strings.CutPrefix(text(schema, "$ref"), schemaPrefix); ok {
		return r.example(object(object(object(r.raw, "components"), "schemas"), name))
	}
	switch text(schema, "type") {
	case "string":
		return exampleText(schema)
	case "integer", "number":
		n, _ := schema["minimum"].(float64)
		return n
	case "boolean":
		return false
	case "array":
		out := []any{}
		if n, _ := schema["minItems"].(float64); n > 0 {
			out = append(out, r.example(object(schema, "items")))
		}
		return out
	default:
		out := map[string]any{}
		for _, name := range list(schema, "required") {
			field := fmt.Sprint(name)
			out[field] = r.example(object(object(schema, "properties"), field))
		}
		return out
	}
}

func exampleText(schema map[string]any) string {
	switch {
	case schema["enum"] != nil:
		return fmt.Sprint(list(schema, "enum")[0])
	case schema["format"] == "uuid":
		return "0198a0c6-0000-7000-8000-000000000001"
	case schema["format"] == "date-time":
		return "2026-01-31T09:30:00Z"
	case strings.Contains(text(schema, "pattern"), "{64}$"): // a hash
		return strings.Repeat("0", 64)
	}
	n, _ := schema["minLength"].(float64)
	const word = "short-notes"
	return (word + strings.Repeat("x", max(0, int(n)-len(word))))
}
