package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// eachFile parses every Go file that is not a test and not of the pinned tools.
func eachFile(t *testing.T, fn func(p string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || d.Name() == "tools" || d.Name() == "node_modules" || p == sdkDriver) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, src, 0)
		if err == nil {
			fn(p, fset, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// modelName is how providers' models are called.
var modelName = regexp.MustCompile(`(?i)\b(gpt-[0-9]|claude-[a-z0-9]|gemini-[a-z0-9]|mistral-[a-z]|deepseek-[a-z]|grok-[0-9]|llama-?[0-9]|qwen[0-9]|o[134]-mini)`)

// R-GWM-06: a model string stands in the configuration and in the registry that
// follows it. The code knows one list of them: the families that it refuses.
func TestNoModelStringInTheCode(t *testing.T) {
	seen := 0
	eachFile(t, func(p string, fset *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && p == "gateway/config.go" && fn.Name.Name == "families" {
				seen++
				return false
			}
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && modelName.MatchString(lit.Value) {
				t.Errorf("R-GWM-06 %s names a model: %s", fset.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	})
	if seen != 1 {
		t.Errorf("the list of families was found %d times; does this test still look at the code?", seen)
	}
}

// R-GWM-07: whoever makes a request says what the call is for, and at most the
// name that a person gave a model; never a model of the code's own choice.
func TestBusinessCodeAsksByRoute(t *testing.T) {
	requests := 0
	eachFile(t, func(p string, fset *token.FileSet, f *ast.File) {
		if strings.HasPrefix(p, "gateway/") && !strings.HasPrefix(p, "gateway/loopback/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			sel, ok := lit.Type.(*ast.SelectorExpr)
			if pkg, _ := selectorOf(sel, ok); pkg != "gateway.Request" || len(lit.Elts) == 0 {
				return true
			}
			requests++
			role := false
			for _, e := range lit.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				key, ok := kv.Key.(*ast.Ident)
				if !ok {
					continue
				}
				role = role || key.Name == "Role"
				if text, fixed := kv.Value.(*ast.BasicLit); key.Name == "Model" && fixed {
					if s, err := strconv.Unquote(text.Value); err != nil || s != "" {
						t.Errorf("R-GWM-07 %s chooses the model %s", fset.Position(kv.Pos()), text.Value)
					}
				}
			}
			if !role {
				t.Errorf("R-GWM-07 %s asks without saying what for", fset.Position(lit.Pos()))
			}
			return true
		})
	})
	if requests < 4 {
		t.Errorf("%d requests found; does this test still look at the code?", requests)
	}
}

func selectorOf(sel *ast.SelectorExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return x.Name + "." + sel.Sel.Name, true
}
