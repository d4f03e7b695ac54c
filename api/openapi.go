package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/elnor/promptlab/contracts"
)

const schemaPrefix = "#/components/schemas/"

// schemas is the document's component registry. Its schemas come from package
// contracts, which is also what decodes; huma's own generator is not asked.
type schemas struct{ defs map[string]contracts.Schema }

// Schema gives a reference; the definitions are made by ref.
func (s schemas) Schema(t reflect.Type, _ bool, _ string) *huma.Schema { return s.ref(t, false) }

// SchemaFromRef is part of huma's interface; nothing asks for it.
func (schemas) SchemaFromRef(string) *huma.Schema { return nil }

// TypeFromRef is part of huma's interface; nothing asks for it.
func (schemas) TypeFromRef(string) reflect.Type { return nil }

// Map is part of huma's interface; nothing asks for it.
func (schemas) Map() map[string]*huma.Schema { return nil }

// RegisterTypeAlias is part of huma's interface; nothing asks for it.
func (schemas) RegisterTypeAlias(reflect.Type, reflect.Type) {}

// MarshalJSON writes the definitions, sorted by name.
func (s schemas) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(s.defs)
	if err != nil {
		return nil, fmt.Errorf("encode schemas: %w", err)
	}
	return b, nil
}

// ref defines t with everything it refers to and gives a reference. What a
// client may send differs from what the server answers where fields are the
// server's own; such types get a second definition called Input....
func (s schemas) ref(t reflect.Type, client bool) *huma.Schema {
	answer := map[string]contracts.Schema{}
	contracts.SchemaOf(t, schemaPrefix, false, answer)
	if client {
		request := map[string]contracts.Schema{}
		contracts.SchemaOf(t, schemaPrefix, true, request)
		if !reflect.DeepEqual(answer, request) {
			prefix := schemaPrefix + "Input"
			request = map[string]contracts.Schema{}
			contracts.SchemaOf(t, prefix, true, request)
			for name, def := range request {
				s.defs["Input"+name] = def
			}
			return &huma.Schema{Ref: prefix + t.Name()}
		}
	}
	maps.Copy(s.defs, answer)
	return &huma.Schema{Ref: schemaPrefix + t.Name()}
}

func (s *Server) humaConfig() huma.Config {
	c := huma.DefaultConfig("Prompt Lab", s.cfg.Version)
	c.CreateHooks = nil
	c.RejectUnknownQueryParameters = true
	c.DocsPath, c.OpenAPIPath, c.SchemasPath = "", "", "" // served by us, behind the wall
	c.Components.Schemas = s.schemas
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "The token of a role."},
		"cookie": {Type: "apiKey", In: "cookie", Name: s.keys.cookieName, Description: "A browser's session."},
	}
	return c
}

// describe makes the document's entry of an operation.
func (s *Server) describe(o op) *huma.Operation {
	d := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, DefaultStatus: o.status(),
		Responses: map[string]*huma.Response{"default": {
			Description: "What went wrong.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: s.schemas.ref(reflect.TypeFor[contracts.APIError](), false)}},
		}},
	}
	if !o.public {
		d.Security = []map[string][]string{{"bearer": {}}, {"cookie": {}}}
	}
	if o.only != "" {
		d.Description = "Role " + string(o.only) + " only."
	}
	if o.people {
		d.Description = "Not for the role agent."
	}
	for _, part := range strings.Split(o.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			p := &huma.Param{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}
			if p.Name == "session_key" {
				p.Description = "The session's key: unpadded base64url of its JSON, keys sorted."
			}
			d.Parameters = append(d.Parameters, p)
		}
	}
	for _, p := range o.query {
		d.Parameters = append(d.Parameters, p.document())
	}
	if !reads(o.method) {
		s.describeWrite(o, d)
	}
	s.describeAnswer(o, d)
	return d
}

func (s *Server) describeWrite(o op, d *huma.Operation) {
	header := func(name, about string, most int) {
		d.Parameters = append(d.Parameters, &huma.Param{Name: name, In: "header", Description: about, Schema: &huma.Schema{Type: "string", MaxLength: &most}})
	}
	header("Idempotency-Key", "Makes the write safe to repeat.", 128)
	if o.etag {
		header("If-Match", "Refuse with 412 unless this is the present ETag.", 200)
	}
	body := &huma.RequestBody{Required: !o.empty, Content: map[string]*huma.MediaType{}}
	if o.in != nil {
		body.Content["application/json"] = &huma.MediaType{Schema: s.schemas.ref(o.in, true)}
	} else {
		body.Content["application/json"] = &huma.MediaType{Schema: &huma.Schema{Type: "object", AdditionalProperties: false}}
	}
	d.RequestBody = body
}

func (s *Server) describeAnswer(o op, d *huma.Operation) {
	ok := &huma.Response{Description: http.StatusText(o.status()), Content: map[string]*huma.MediaType{}}
	media := o.media
	if media == "" {
		media = "application/json"
	}
	switch {
	case o.out != nil:
		ok.Content["application/json"] = &huma.MediaType{Schema: s.schemas.ref(o.out, false)}
	case media == "application/json":
		ok.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: "object"}}
	}
	if media != "application/json" {
		ok.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	}
	if o.etag {
		ok.Headers = map[string]*huma.Param{"ETag": {Description: "The version of what is shown, quoted: of an overlay the hash of its whole file, of a session its revision, of a packet the hash of its bytes.", Schema: &huma.Schema{Type: "string"}}}
	}
	d.Responses[strconv.Itoa(o.status())] = ok
	if o.repeat {
		d.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{Description: "It was there already; nothing was made.", Content: ok.Content}
	}
	if o.id == "get-overlay-packet" {
		d.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: "The packet with the tag of If-None-Match is still the one."}
	}
}
