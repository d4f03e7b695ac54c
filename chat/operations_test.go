package chat

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Whoever writes a client reads docs/operations.md: it names every header and metric
// of this endpoint and every key of the field promptlab, in both directions.
func TestOperationsTellsClientsEverything(t *testing.T) {
	b, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## Chat\n")
	text, _, end := strings.Cut(text, "\n## ")
	if !ok || !end {
		t.Fatal("docs/operations.md has no section on chat")
	}
	want := map[string]bool{}
	for _, typ := range []reflect.Type{reflect.TypeFor[extension](), reflect.TypeFor[override](), reflect.TypeFor[background](), reflect.TypeFor[doc](), reflect.TypeFor[note]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			want[name] = true
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`"(X-PromptLab-[A-Za-z]+|promptlab_chat_[a-z_]+|(?:POST|GET) /[a-z0-9/]+)"`)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said.FindAllStringSubmatch(string(src), -1) {
			_, path, isRoute := strings.Cut(m[1], " ")
			if isRoute {
				want[path] = true
			} else {
				want[m[1]] = true
			}
		}
	}
	if len(want) < 45 {
		t.Fatalf("%d names were found; the scan has lost them", len(want))
	}
	for name := range want {
		if !regexp.MustCompile(regexp.QuoteMeta(name) + "`").MatchString(text) {
			t.Errorf("docs/operations.md does not tell of %s", name)
		}
	}
}
