package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
)

// R-BND-11: a shape or a set of values that crosses a process is declared in
// contracts and nowhere else: no other package has a type of the same name, or
// lists the values of one of its enumerations again.
func TestSharedShapesLiveInOnePlace(t *testing.T) {
	const root = "../.."
	names, sets := map[string]bool{}, map[string]string{} // values, joined -> enumeration
	for name, typ := range contracts.Published() {
		names[name] = true
		for i := range typ.NumField() {
			f := typ.Field(i).Type
			for f.Kind().String() == "slice" || f.Kind().String() == "ptr" {
				f = f.Elem()
			}
			if m, ok := f.MethodByName("Values"); ok && f.Kind().String() == "string" {
				values := m.Func.Call([]reflect.Value{reflect.Zero(f)})[0].Interface().([]string)
				sets[join(values)] = f.Name()
				names[f.Name()] = true
			}
		}
	}
	if len(sets) < 8 {
		t.Fatalf("%d enumerations were found; the scan has lost them", len(sets))
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if err != nil {
			return err
		}
		if d.IsDir() && (rel == "contracts" || d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				_, own := n.Type.(*ast.StructType)
				_, basic := n.Type.(*ast.Ident)
				if (own || basic) && names[n.Name.Name] && !n.Assign.IsValid() {
					t.Errorf("R-BND-11 %s declares %s, which contracts has", rel, n.Name.Name)
				}
			case *ast.CompositeLit:
				var values []string
				for _, e := range n.Elts {
					if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						if v, err := strconv.Unquote(lit.Value); err == nil {
							values = append(values, v)
						}
					}
				}
				if name := sets[join(values)]; name != "" && len(values) > 2 {
					t.Errorf("R-BND-11 %s lists the values of contracts.%s again", rel, name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files were read (%v), want the whole house", files, err)
	}
}

func join(values []string) string {
	values = slices.Sorted(slices.Values(values))
	return strings.Join(values, "\x00")
}
