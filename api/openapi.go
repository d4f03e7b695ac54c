package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/elnor/promptlab/contracts"
)

const schemaPrefix = "#/components/schemas/"

// schemas is the document's component registry. Its schemas come from package
// contracts, which is also what decodes; huma's own generator is not asked.
type schemas struct{ defs map[string]contracts.Schema }

// Schema gives a reference; the definitions are made by ref.
func (s schemas) Schema(t reflect.Type, _ bool, _ string) *huma.Schema {
	return s.ref(t, contracts.Stored)
}

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

// ref defines t with everything it refers to and gives a reference. What may be
// sent differs from what the server answers: a client leaves out fields that are
// the server's own (such types have a second definition called Input...), a peer
// may send fields of a later version (Peer...).
func (s schemas) ref(t reflect.Type, mode contracts.Mode) *huma.Schema {
	answer := map[string]contracts.Schema{}
	contracts.SchemaOf(t, schemaPrefix, contracts.Stored, answer)
	request := map[string]contracts.Schema{}
	contracts.SchemaOf(t, schemaPrefix, mode, request)
	if !reflect.DeepEqual(answer, request) {
		kind := map[contracts.Mode]string{contracts.Client: "Input", contracts.Peer: "Peer"}[mode]
		request = map[string]contracts.Schema{}
		contracts.SchemaOf(t, schemaPrefix+kind, mode, request)
		for name, def := range request {
			s.defs[kind+name] = def
		}
		return &huma.Schema{Ref: schemaPrefix + kind + t.Name()}
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
	c.Components.Responses = s.failures()
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "The token of a role."},
		"cookie": {Type: "apiKey", In: "cookie", Name: s.keys.cookieName, Description: "A browser's session."},
	}
	return c
}
