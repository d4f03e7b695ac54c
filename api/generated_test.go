package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
)

// every runs one test for each operation of the document, over one server.
func every(t *testing.T, r *rig, f func(r *rig, s *spec, d described, rt route)) {
	t.Helper()
	s := readSpec(r)
	for _, d := range s.operations() {
		rt, ok := d.fixture(t)
		if !ok {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			f(&rig{t: t, env: r.env, srv: r.srv, addr: r.addr, log: r.log, ids: r.ids}, &spec{t, s.raw}, d, rt)
		})
	}
}

// R-HTTP-03, R-HTTP-08, R-HTTP-09, R-HTTP-14, R-CON-03: each field of each body,
// wrong in each way that its schema knows, is refused and named; so are two at
// once, in one error. The library is empty and its gates are closed, so that
// every case shows the order of checks too: the schema comes before gates and
// existence.
func TestEveryFieldOfEveryBody(t *testing.T) {
	r := newRig(t)
	before, cases := r.env.View().Seq(), 0
	every(t, r, func(r *rig, s *spec, d described, rt route) {
		if d.body == nil {
			return
		}
		send := func(doc any) answer { return r.ask(rt.role(), d.method, rt.url(), encode(r.t, doc)) }
		list := s.mutants(d.body, decode(r.t, rt.body))
		for _, m := range list {
			cases++
			got := r.want(m.field+" "+m.rule, send(m.doc), 422, "validation_failed")
			if len(got.Details) != 1 || got.Details[0].Field != m.field || got.Details[0].Rule != m.rule {
				r.t.Errorf("%s (%s): details %+v, want just this one", m.field, m.rule, got.Details)
			}
		}
		two, fields := pairOf(s, d.body, list)
		if two == nil {
			return
		}
		got := r.want("two wrong fields", send(two), 422, "validation_failed")
		for _, f := range fields {
			if !slices.ContainsFunc(got.Details, func(x fault.Detail) bool { return x.Field == f }) {
				r.t.Errorf("two wrong fields: details %+v do not name %s", got.Details, f)
			}
		}
	})
	if cases < 1000 {
		t.Errorf("%d cases were made, want more than 1000: the walk has lost something", cases)
	}
	if got := r.env.View().Seq(); got != before {
		t.Errorf("refused bodies led to %d commands, want none", got-before)
	}
}

// pairOf makes a document with two wrong fields, side by side, out of two with
// one each; nil where a body has one field only.
func pairOf(s *spec, schema map[string]any, list []mutant) (any, []string) {
	for _, first := range list {
		for _, second := range list {
			depth := len(first.at) - 1
			beside := len(second.at) == depth+1 && fieldName(first.at[:depth]) == fieldName(second.at[:depth]) && first.field < second.field
			if beside && second.rule != "required" {
				return put(first.doc, second.at, get(second.doc, second.at)), []string{first.field, second.field}
			}
		}
	}
	if schema["additionalProperties"] == false { // a body without fields
		return map[string]any{"zz_a": 1, "zz_b": 2}, []string{"zz_a", "zz_b"}
	}
	if len(s.object(schema, "properties")) != 1 {
		s.t.Error("no two fields can be wrong at once")
	}
	return nil, nil
}

// R-HTTP-09: whatever a client may send has a bound.
func TestEveryTextHasABound(t *testing.T) {
	every(t, newRig(t), func(_ *rig, s *spec, d described, _ route) {
		var look func(schema map[string]any, at string)
		look = func(schema map[string]any, at string) {
			switch schema["type"] {
			case "string":
				bound := []any{schema["enum"], schema["maxLength"]}
				if f := schema["format"]; f == "uuid" || f == "date-time" {
					bound = append(bound, f)
				}
				if p, _ := schema["pattern"].(string); p != "" && !strings.ContainsAny(p, "*+") {
					bound = append(bound, p)
				}
				if !slices.ContainsFunc(bound, func(b any) bool { return b != nil }) {
					s.t.Errorf("the text %s has no bound", at)
				}
			case "array":
				if schema["maxItems"] == nil {
					s.t.Errorf("the list %s has no bound", at)
				}
				look(s.object(schema, "items"), at+"[]")
			case "object":
				for name := range s.object(schema, "properties") {
					if about, _ := schema["properties"].(map[string]any)[name].(map[string]any)["description"].(string); strings.HasPrefix(about, "Set by the server") {
						continue // what a client says there is not kept
					}
					look(s.object(schema, "properties", name), at+"."+name)
				}
			}
		}
		look(d.body, "body")
		for _, p := range d.params {
			look(s.object(p, "schema"), fmt.Sprint(p["name"]))
		}
	})
}

// R-HTTP-14, R-LIB-02: each parameter, wrong in each way that its schema knows.
func TestEveryParameter(t *testing.T) {
	r := newRig(t)
	before := r.env.View().Seq()
	every(t, r, func(r *rig, s *spec, d described, rt route) {
		for _, p := range d.params {
			name, schema := fmt.Sprint(p["name"]), s.object(p, "schema")
			for _, bad := range wrongTexts(schema) {
				var a answer
				switch p["in"] {
				case "query":
					a = r.ask(rt.role(), d.method, withQuery(rt.url(), name, bad), rt.body)
				case "header":
					if strings.Contains(bad, "\n") {
						continue // no client can send it
					}
					a = r.ask(rt.role(), d.method, rt.url(), rt.body, name, bad)
				default:
					continue // see TestEveryUnknownID
				}
				got := r.want(fmt.Sprintf("%s = %.20q", name, bad), a, 400, "bad_request")
				if len(got.Details) != 1 || got.Details[0].Field != name {
					r.t.Errorf("%s = %.20q: details %+v, want %s named", name, bad, got.Details, name)
				}
			}
			if p["in"] == "query" && p["required"] == true {
				got := r.want(name+" left out", r.ask(rt.role(), d.method, withQuery(rt.url(), name), rt.body), 400, "bad_request")
				if len(got.Details) != 1 || got.Details[0].Field != name || got.Details[0].Rule != "required" {
					r.t.Errorf("%s left out: details %+v", name, got.Details)
				}
			}
			if p["in"] == "query" {
				r.want(name+" twice", r.ask(rt.role(), d.method, withQuery(rt.url(), name, "1", "1"), rt.body), 400, "bad_request")
			}
		}
	})
	if got := r.env.View().Seq(); got != before {
		t.Errorf("refused parameters led to %d commands, want none", got-before)
	}
}

// wrongTexts gives texts that a parameter's schema does not allow.
func wrongTexts(schema map[string]any) []string {
	var out []string
	switch schema["type"] {
	case "boolean":
		return []string{"TRUE", "1", ""}
	case "integer":
		out = append(out, "x", "-1", "1.0", "01", "+1", "", "99999999999999999999")
		if n, ok := schema["maximum"].(float64); ok {
			out = append(out, fmt.Sprintf("%.0f", n+1))
		}
		return out
	}
	if schema["enum"] != nil {
		return []string{"zz-unknown", ""}
	}
	if n, ok := schema["maxLength"].(float64); ok {
		out = append(out, strings.Repeat("x", int(n)+1))
	}
	return append(out, "a\nb")
}

// withQuery replaces a parameter of an address; no values take it away.
func withQuery(address, name string, values ...string) string {
	path, raw, _ := strings.Cut(address, "?")
	q, err := url.ParseQuery(raw)
	if err != nil {
		panic(err)
	}
	q[name] = values
	return path + "?" + q.Encode()
}

// R-HTTP-04, R-HTTP-05: who may do what, for every role and for nobody. What a
// route says of itself is what it does, and both are what the map of addresses
// below says.
func TestEveryRoleAtEveryRoute(t *testing.T) {
	r := newRig(t)
	before := r.env.View().Seq()
	all := []ec.Role{"", ec.RoleUser, ec.RoleOperator, ec.RoleSeam, ec.RoleWorker, ec.RoleAgent}
	every(t, r, func(r *rig, _ *spec, d described, rt route) {
		allowed := mayCall(d)
		var want []string
		for _, role := range allowed {
			want = append(want, string(role))
		}
		if !slices.Equal(d.roles, want) {
			r.t.Errorf("the document says %v may, want %v", d.roles, want)
		}
		for _, role := range all {
			what := fmt.Sprintf("role %q", role)
			a := r.ask(role, d.method, rt.with("surprise=1"), rt.body) // refused by everybody who lets it in
			switch {
			case rt.public, slices.Contains(allowed, role):
				r.want(what, a, 400, "bad_request")
			case role == "":
				r.want(what, a, 401, "unauthenticated")
				if a.header.Get("WWW-Authenticate") == "" {
					r.t.Error("a 401 does not say how to authenticate")
				}
			default:
				r.want(what, a, 403, "forbidden")
			}
		}
	})
	if got := r.env.View().Seq(); got != before {
		t.Errorf("they led to %d commands, want none", got-before)
	}
}

// mayCall is the policy, by address and kind.
func mayCall(d described) []ec.Role {
	people := []ec.Role{ec.RoleUser, ec.RoleOperator}
	switch {
	case strings.HasPrefix(d.path, "/internal/doc17/"):
		return []ec.Role{ec.RoleSeam}
	case d.path == "/metrics", d.name == "PUT /api/flags", d.method != "GET" && strings.HasPrefix(d.path, "/api/models/"), strings.HasPrefix(d.path, "/api/maintenance/"):
		return []ec.Role{ec.RoleOperator}
	case d.path == "/healthz", d.path == "/readyz", d.path == "/login":
		return nil
	case d.path == "/docs", d.path == "/docs.css", strings.HasPrefix(d.path, "/api/session-keys"):
		return people
	case d.method == "GET":
		return append(people, ec.RoleAgent)
	default:
		return people
	}
}
