package worker

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// R-GWB-15: no address of a model is written into the worker or its Python
// side; it comes with the configuration and, for Python, with the request.
func TestNoAddressIsWrittenIntoTheCode(t *testing.T) {
	address := regexp.MustCompile(`https?://[^\s"'` + "`" + `]+|[a-z0-9-]+\.(openai|anthropic|azure|openrouter)\.[a-z]+`)
	files := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (p == "testdata" || d.Name() == "tests" || strings.HasPrefix(d.Name(), ".") && p != ".") {
			return fs.SkipDir
		}
		if ext := path.Ext(p); d.IsDir() || ext != ".go" && ext != ".py" || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files++
		for _, found := range address.FindAllString(string(src), -1) {
			if found != "http://127.0.0.1:PORT" { // what a message says that an address must look like
				t.Errorf("R-GWB-15 %s names %s", p, found)
			}
		}
		return nil
	})
	if err != nil || files < 20 {
		t.Errorf("%d files were read, error %v", files, err)
	}
}
