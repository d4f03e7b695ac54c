package trace

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/requirements.md")

// The page of requirements is what the tests name.
func TestRequirementsPageIsUpToDate(t *testing.T) {
	found, err := Find(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	want := Page(found)
	const page = "../../docs/requirements.md"
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s does not match the tests (%v); run: make trace", page, err)
	}
}
