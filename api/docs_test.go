package api_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec"
)

// R-HTTP-01, R-SEC-10: the page for people tells of every operation and schema of
// the document, its links lead somewhere, its examples fit, and it needs a login
// and no script.
func TestDocumentToRead(t *testing.T) {
	r := newRig(t)
	s := readSpec(r)
	a := r.ask(ec.RoleUser, "GET", "/docs", "")
	page := string(a.body)
	if a.status != 200 || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("GET /docs: %d %v", a.status, a.header)
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "style=") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page has a script, an inline style or something from elsewhere, which its policy forbids")
	}
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		anchors[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !anchors[m[1]] {
			t.Errorf("a link to #%s leads nowhere", m[1])
		}
	}
	for name := range s.object(s.raw, "components", "schemas") {
		if !anchors["schema-"+name] {
			t.Errorf("the schema %s is not on the page", name)
		}
	}
	schema := s.compiler()
	for _, d := range s.operations() {
		id, _ := d.doc["operationId"].(string)
		_, rest, found := strings.Cut(page, `<article id="`+id+`">`)
		part, _, _ := strings.Cut(rest, "</article>")
		part = html.UnescapeString(part)
		for _, want := range append(d.roles, d.method+" "+d.path) {
			if !found || !strings.Contains(part, want) {
				t.Errorf("the page does not tell %q of %s", want, id)
			}
		}
		for _, p := range d.params {
			if name, _ := p["name"].(string); !strings.Contains(part, "<code>"+name+"</code>") {
				t.Errorf("the page does not tell of the parameter %s of %s", name, id)
			}
		}
		if d.body != nil {
			_, rest, _ := strings.Cut(part, `<pre data-operation="`+id+`">`)
			example, _, _ := strings.Cut(rest, "</pre>")
			place := "paths/" + strings.ReplaceAll(d.path, "/", "~1") + "/" + strings.ToLower(d.method) + "/requestBody/content/application~1json/schema"
			fits(t, "example of "+id, schema(place), []byte(example))
		}
	}
	login := r.ask("", "GET", "/docs", "", "Accept", "text/html")
	if login.status != 401 || !strings.Contains(string(login.body), "<form") {
		t.Errorf("GET /docs of a browser without a login: got %d, want the login page", login.status)
	}
	r.want("a program without credentials", r.ask("", "GET", "/docs", ""), 401, "unauthenticated")
	r.want("style without credentials", r.ask("", "GET", "/docs.css", ""), 401, "unauthenticated")
	for _, link := range []string{string(r.ask(ec.RoleUser, "GET", "/", "").body), string(r.ask("", "GET", "/login", "").body)} {
		if !strings.Contains(link, `href="/docs"`) {
			t.Errorf("no link to the page in %s", link)
		}
	}
}
