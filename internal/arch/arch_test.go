package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/elnor/promptlab/"

// R-BND-06, R-BND-08, R-BND-12, R-GWB-01: the arrows of the map hold, and every
// package has a place on it. Files are read through the file system, so that the
// test cache sees a change.
func TestImportsFollowTheMap(t *testing.T) {
	rules := Rules()
	seen := map[string]bool{}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || slices.Contains([]string{"tools", "node_modules", "testdata", "bin"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		folder := path.Dir(p)
		if strings.HasPrefix(folder+"/", Free) {
			return nil
		}
		rule, ok := rules[folder]
		if !ok {
			if !seen[folder] {
				t.Errorf("package %s has no place in internal/arch", folder)
			}
			seen[folder] = true
			return nil
		}
		seen[folder] = true
		return checkFile(t, root, p, folder, rule)
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range rules {
		if _, err := fs.Stat(root, folder); err != nil {
			t.Errorf("internal/arch names %s, which is not there", folder)
		}
	}
}

func checkFile(t *testing.T, root fs.FS, p, folder string, rule Rule) error {
	t.Helper()
	src, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Base(p), src, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, imp := range f.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return err
		}
		own, isOwn := strings.CutPrefix(name, module)
		switch {
		case isOwn && !slices.Contains(rule.Knows, own):
			t.Errorf("%s imports %s: the map has no arrow from %s", p, own, folder)
		case !isOwn && owned(name) != "" && !slices.Contains(rule.Libraries, owned(name)):
			t.Errorf("%s imports %s, which belongs to other packages", p, name)
		case slices.Contains(rule.Forbidden, name):
			t.Errorf("%s imports %s: %s is pure", p, name, folder)
		}
	}
	return nil
}

// owned gives the owned library that a package belongs to, or "".
func owned(name string) string {
	for _, lib := range Owned() {
		if name == lib || strings.HasPrefix(name, lib+"/") {
			return lib
		}
	}
	return ""
}

// The map itself has no cycle: it can be drawn with arrows that point down only.
func TestMapHasNoCycle(t *testing.T) {
	rules := Rules()
	const open, closed = 1, 2
	mark := map[string]int{}
	var visit func(string)
	visit = func(p string) {
		if mark[p] == open {
			t.Fatalf("the map has a cycle through %s", p)
		}
		if mark[p] == closed {
			return
		}
		mark[p] = open
		for _, k := range rules[p].Knows {
			visit(k)
		}
		mark[p] = closed
	}
	for p := range rules {
		visit(p)
	}
}

// sdkDriver is a module of its own: it drives a provider's client against our
// endpoint in tests.
const sdkDriver = "cmd/promptlab/e2e/clients/go"

// R-GWB-01, R-GWM-06: no provider's host and no provider's SDK outside gateway.
func TestProvidersAreNamedInGatewayOnly(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || d.Name() == "tools" || d.Name() == "node_modules" || p == sdkDriver) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") || strings.HasPrefix(p, "gateway/") || strings.HasPrefix(p, "internal/arch/") {
			return nil
		}
		src, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		for _, word := range []string{"api.openai.com", "api.anthropic.com", "openai/openai-go", "anthropic-sdk-go"} {
			if strings.Contains(string(src), word) {
				t.Errorf("R-GWB-01 %s names %s", p, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
