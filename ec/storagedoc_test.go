package ec_test

import (
	"os"
	"strings"
	"testing"

	"github.com/elnor/promptlab/ec"
)

// R-STO-01: the tables of docs/ARCHITECTURE.md on storage tell of every place that
// EC writes.
func TestStorageIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n## Storage\n")
	text, _, ok := strings.Cut(text, "\n## ")
	if !ok {
		t.Fatal("docs/ARCHITECTURE.md has no section on storage")
	}
	for _, p := range ec.Places() {
		if !strings.Contains(text, "`"+p.Path) {
			t.Errorf("R-STO-01 docs/ARCHITECTURE.md does not tell of %s", p.Path)
		}
	}
}
