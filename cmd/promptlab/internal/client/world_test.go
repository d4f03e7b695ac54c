package client_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// R-BND-18: the terminal knows of the library what the API says. Neither the
// client nor the commands can open a data root: what reads files of one comes in
// by an interface (verify) and is composed elsewhere.
func TestTheTerminalKnowsNoDataRoot(t *testing.T) {
	const module = "github.com/elnor/promptlab/"
	files, err := filepath.Glob("../c*li*/*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files of cli and client: %v", len(files), err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range src.Imports {
			path, _ := strconv.Unquote(spec.Path.Value) // it was parsed
			switch pkg, _ := strings.CutPrefix(path, module); {
			case pkg == "ec", strings.HasPrefix(pkg, "ec/store"), pkg == "ec/writer", pkg == "ec/remote", pkg == "ec/dispatch":
				t.Errorf("R-BND-18 %s imports %s", f, pkg)
			}
		}
	}
}
