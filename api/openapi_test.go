package api_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
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
			if o.OperationID == "" {
				t.Errorf("%s %s lacks an id", method, path)
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

// everything is a rig in which each line of table() can succeed, in its order:
// the lab is on, with a job under way and a candidate; a session is at work and
// its receipt is there; the overlay old-id is archived.
func everything(t *testing.T) *rig {
	t.Helper()
	r := liveRig(t)
	upgraded(t, r)
	ref := r.env.Lab(60)
	for _, id := range []string{"some-id", "old-id"} {
		r.env.Must(ec.CreateOverlay{Record: ectest.Overlay(id, "Rule "+id+".\n")})
	}
	r.env.Must(ec.ArchiveOverlay{OverlayID: "old-id"})
	j := r.env.Job(ref, `{}`)
	task := r.env.Claim(j.JobID)
	const text = "Write the note in plain words.\n\n- Say what changed.\n- Never guess a date.\n- Name the owner.\n"
	r.env.Must(ec.FinishTask{TaskID: task.TaskID, In: contracts.TaskFinish{Dispatch: task.Dispatch, Token: ectest.Token, Result: contracts.PromptLabJobResult{
		JobID: j.JobID, Status: contracts.JobCompleted, SourceHash: j.Detail.SourceHash, EndedBy: contracts.EndedBySteps,
		Optimizer:  &contracts.OptimizerInfo{Name: "promptolution", Version: "2.3.0", Python: "3.11", Engine: "capo", Steps: 1, Tried: 1},
		Candidates: contracts.List[contracts.PromptLabCandidatePayload]{{CandidateID: contracts.DeriveID("w", "c", 0), CandidateText: text, SourceHash: j.Detail.SourceHash, CandidateHash: contracts.Hash(text)}},
	}}})
	candidates := r.env.View().Candidates(ec.CandidateFilter{JobID: j.JobID}).Items
	if len(candidates) != 1 {
		t.Fatalf("%d candidates, want 1", len(candidates))
	}
	r.want("session", r.ask(ec.RoleUser, "GET", at("t-1", ""), ""), 200, "")
	r.want("receipt", r.ask(ec.RoleSeam, "POST", "/internal/doc17/runtime-truth", truthBody(0, "turn-0")), 200, "")
	plan := read[contracts.OverlayReanswerPlan](r, "plan", r.ask(ec.RoleUser, "POST", at("t-2", "reanswer-plan"), `{"selected_message_ids":["m1"]}`), 201)
	key := func() contracts.SessionAPIKeyCreated {
		return read[contracts.SessionAPIKeyCreated](r, "key", r.ask(ec.RoleUser, "POST", "/api/session-keys", `{"session_key":`+someKey+`}`), 201)
	}
	r.ids = strings.NewReplacer("/reanswer-plans/"+someID, "/reanswer-plans/"+string(plan.PlanID), "/session-keys/"+someID, "/session-keys/"+string(key().KeyID),
		strings.Repeat("0", 64), contracts.HashSessionAPIKey(key().Key),
		"/jobs/"+someID, "/jobs/"+string(j.JobID), someReplay, string(proposedModel(r.env, ref)), "/candidates/"+someID, "/candidates/"+string(candidates[0].CandidateID))
	return r
}

// good sends a route's good request.
func (r *rig) good(rt route) answer {
	r.t.Helper()
	body := rt.body
	if rt.path == "/login" && rt.writes() {
		body = `{"code":"` + strings.TrimPrefix(path(r.t, r.srv.LoginLink(ec.RoleUser)), "/login?code=") + `"}`
	}
	return r.ask(rt.role(), rt.method, r.ids.Replace(rt.url()), r.ids.Replace(body), "Accept", "application/json")
}

// compiler gives the document's schemas, ready to hold values against.
func (s *spec) compiler() func(pointer string) *jsonschema.Schema {
	s.t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	full, err := jsonschema.UnmarshalJSON(strings.NewReader(encode(s.t, s.raw)))
	if err == nil {
		err = c.AddResource("doc.json", full)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func(pointer string) *jsonschema.Schema {
		s.t.Helper()
		schema, err := c.Compile("doc.json#/" + pointer)
		if err != nil {
			s.t.Fatalf("schema at %s: %v", pointer, err)
		}
		return schema
	}
}

func fits(t *testing.T, what string, schema *jsonschema.Schema, body []byte) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Errorf("%s: %s does not fit its description: %v", what, body, err)
	}
}

// R-HTTP-01, R-HTTP-08, R-CON-03: a good request succeeds at every route, with a
// described status, type and shape; request and answer are held against the
// document's schemas.
func TestGoodInputAtEveryRoute(t *testing.T) {
	r := everything(t)
	s := readSpec(r)
	schema := s.compiler()
	for name := range s.object(s.raw, "components", "schemas") {
		schema("components/schemas/" + name)
	}
	byName := map[string]described{}
	for _, d := range s.operations() {
		byName[strings.NewReplacer("{", ":", "}", "").Replace(d.name)] = d
	}
	for _, rt := range table() { // in its order: a later line may need an earlier one
		d, ok := byName[rt.method+" "+rt.path]
		if !ok {
			t.Errorf("%s %s is not in the document", rt.method, rt.path)
			continue
		}
		a := r.good(rt)
		answer := s.object(d.doc, "responses", strconv.Itoa(a.status))
		if a.status >= 300 || answer == nil {
			t.Errorf("%s: got %d %s, want a success that is described", d.name, a.status, a.body)
			continue
		}
		media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
		if s.object(answer, "content", media) == nil {
			t.Errorf("%s answers with %s, which is not described", d.name, media)
		}
		if headers := s.object(answer, "headers"); (headers["ETag"] != nil) != (a.header.Get("ETag") != "") {
			t.Errorf("%s: ETag described: %v, sent: %q", d.name, headers["ETag"] != nil, a.header.Get("ETag"))
		}
		place := "paths/" + strings.ReplaceAll(d.path, "/", "~1") + "/" + strings.ToLower(d.method)
		if d.body != nil {
			fits(t, "request of "+d.name, schema(place+"/requestBody/content/application~1json/schema"), []byte(rt.body))
		}
		if media == "application/json" && rt.path != "/openapi.json" {
			fits(t, "answer of "+d.name, schema(place+"/responses/"+strconv.Itoa(a.status)+"/content/application~1json/schema"), a.body)
		}
	}
}
