package api_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Parameters  []struct{ Name, In string }
		RequestBody *struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
	} `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

func (r *rig) document() (document, []byte) {
	r.t.Helper()
	a := r.ask(ec.RoleUser, "GET", "/openapi.json", "")
	r.want("openapi", a, 200, "")
	var doc document
	if err := json.Unmarshal(a.body, &doc); err != nil {
		r.t.Fatalf("openapi document: %v", err)
	}
	return doc, a.body
}

func TestDocumentListsExactlyTheRoutes(t *testing.T) { // R-HTTP-01
	r := newRig(t)
	doc, raw := r.document()
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version: %s", doc.OpenAPI)
	}
	var got, want []string
	for path, methods := range doc.Paths {
		for method, o := range methods {
			got = append(got, strings.ToUpper(method)+" "+strings.NewReplacer("{", ":", "}", "").Replace(path))
			for _, part := range strings.Split(path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok && !slices.Contains(o.Parameters, struct{ Name, In string }{strings.TrimSuffix(name, "}"), "path"}) {
					t.Errorf("%s %s does not describe %s", method, path, name)
				}
			}
			if o.OperationID == "" || o.Responses["default"].Content["application/json"].Schema == nil {
				t.Errorf("%s %s lacks an id or the error's shape", method, path)
			}
			if (method == "post" || method == "put") != (o.RequestBody != nil) {
				t.Errorf("%s %s: body described: %v", method, path, o.RequestBody != nil)
			}
		}
	}
	for _, rt := range table() {
		want = append(want, rt.method+" "+rt.path)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("described routes (-want +got):\n%s", d)
	}
	if _, again := newRig(t).document(); !bytes.Equal(stripPort(raw), stripPort(again)) {
		t.Error("the document differs from start to start")
	}
}

// stripPort takes the cookie's name out, which has the port in it.
func stripPort(doc []byte) []byte {
	before, rest, _ := bytes.Cut(doc, []byte("promptlab_session_"))
	_, after, _ := bytes.Cut(rest, []byte(`"`))
	return append(slices.Clone(before), after...)
}

// TestAnswersFitTheDocument compiles every schema and holds real answers and
// requests against it: R-HTTP-08.
func TestAnswersFitTheDocument(t *testing.T) {
	r := newRig(t)
	r.env.Lab(40)
	doc, raw := r.document()
	full, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("doc.json", full); err != nil {
		t.Fatal(err)
	}
	for name := range doc.Components.Schemas {
		if _, err := c.Compile("doc.json#/components/schemas/" + name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
	at := func(pointer string) *jsonschema.Schema {
		t.Helper()
		s, err := c.Compile("doc.json#/paths/" + pointer)
		if err != nil {
			t.Fatalf("schema at %s: %v", pointer, err)
		}
		return s
	}
	fits := func(what string, s *jsonschema.Schema, body []byte) {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %s does not fit its description: %v", what, body, err)
		}
	}
	for _, rt := range table() {
		described := strings.NewReplacer("/", "~1").Replace(rt.path)
		for _, name := range []string{"overlay_id", "dataset_ref", "job_id", "candidate_id", "session_key", "moderator_id", "key_id"} {
			described = strings.ReplaceAll(described, ":"+name, "{"+name+"}")
		}
		place := described + "/" + strings.ToLower(rt.method)
		role := ec.RoleUser
		if rt.seam {
			role = ec.RoleSeam
		}
		a := r.ask(role, rt.method, strings.ReplaceAll(rt.url(), "some-id", "note-style"), strings.ReplaceAll(rt.body, "some-id", "note-style"), "Accept", "application/json")
		if rt.writes() {
			fits("request of "+place, at(place+"/requestBody/content/application~1json/schema"), []byte(rt.body))
		}
		switch {
		case a.status >= 400:
			fits("error of "+place, at(place+"/responses/default/content/application~1json/schema"), a.body)
		case strings.HasPrefix(a.header.Get("Content-Type"), "application/json"):
			status := map[int]string{200: "200", 201: "201"}[a.status]
			fits("answer of "+place, at(place+"/responses/"+status+"/content/application~1json/schema"), a.body)
		}
	}
}
