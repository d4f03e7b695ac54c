package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables of docs/ARCHITECTURE.md are held against what is there.

// rows gives the cells of the first table below a heading of the document.
func rows(t *testing.T, heading string) [][]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/ARCHITECTURE.md has no heading %q", heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	var out [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(out) > 0 {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	if len(out) < 3 {
		t.Fatalf("below %q is no table", heading)
	}
	return out[2:] // the head and the line below it
}

var quoted = regexp.MustCompile("`([^`]+)`")

// names gives what stands in backquotes in a cell.
func names(cell string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// places gives those names that are files or folders of this repository: they
// have a slash in them or are known at its root.
func places(cell string) (out []string) {
	for _, n := range names(cell) {
		_, err := os.Stat(path.Join("../..", n))
		if err == nil || strings.Contains(n, "/") {
			out = append(out, n)
		}
	}
	return out
}

func there(t *testing.T, row, place string) {
	t.Helper()
	if _, err := os.Stat(path.Join("../..", place)); err != nil {
		t.Errorf("the row of %s names %s: %v", row, place, err)
	}
}

// The map has each package once, those of the programs and of tests too, and
// nothing else.
func TestTheMapNamesEveryPackage(t *testing.T) {
	mapped := map[string]bool{}
	for _, row := range rows(t, "The map") {
		for _, n := range names(row[0]) {
			if mapped[n] {
				t.Errorf("the map has %s twice", n)
			}
			mapped[n] = true
			there(t, "the map", n)
		}
	}
	root := os.DirFS("../..")
	packages := map[string]bool{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || slices.Contains([]string{"tools", "node_modules", "testdata", "bin"}, d.Name())):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, ".go"):
			packages[path.Dir(p)] = true
		}
		return nil
	})
	if err != nil || len(packages) < 40 {
		t.Fatalf("%d packages were found: %v", len(packages), err)
	}
	for p := range packages {
		if !mapped[p] {
			t.Errorf("the map in docs/ARCHITECTURE.md lacks %s", p)
		}
	}
	for p := range Rules() {
		if !mapped[p] {
			t.Errorf("the map in docs/ARCHITECTURE.md lacks %s, which internal/arch has", p)
		}
	}
}

// R-CON-15: each part of EC that the wider system names, and each of its routes and
// services, has a row. What the row names is there, or the row says that it is not
// there yet.
func TestNamedComponentsAreListed(t *testing.T) {
	want := []string{
		"OverlayRepository", "OverlayInstallService", "OverlayValidation", "OverlayClassifier", "OverlaySessionStore", "OverlayPinStore",
		"OverlayPacketService", "OverlayRuntimeTruthStore", "OverlayReanswerService", "PromptAdvisorService", "PromptRecipeRepository",
		"PromptRecipeInvocationService", "PromptLabBridge", "Doc17SignalEmitter", "Doc17Maintenance",
		"Routes: overlays", "Routes: overlaySessions", "Routes: promptAdvisor", "Routes: promptRecipes", "Routes: promptLab",
		"Doc17ApiClient", "OverlayPacketRelay",
	}
	got := map[string]bool{}
	for _, row := range rows(t, "Named EC components") {
		name, here := row[0], row[1]
		if got[name] {
			t.Errorf("R-CON-15 %s has two rows", name)
		}
		got[name] = true
		found := places(here)
		if (here == "not yet") == (len(found) > 0) {
			t.Errorf("R-CON-15 the row of %s names %v and says %q; want files and folders, or \"not yet\"", name, found, here)
		}
		for _, p := range found {
			there(t, "R-CON-15 "+name, p)
		}
	}
	for _, name := range want {
		if !got[name] {
			t.Errorf("R-CON-15 %s has no row", name)
		}
	}
}

// What is said not to be there yet is not there: such a row would be out of date.
func TestWhatIsNotYetIsNotThere(t *testing.T) {
	for name, sign := range map[string]string{
		"PromptAdvisorService": `"/api/prompt-advisor`, "Routes: promptAdvisor": `"/api/prompt-advisor`,
		"PromptRecipeRepository": `"/api/prompt-recipes`, "PromptRecipeInvocationService": `"/api/prompt-recipes`, "Routes: promptRecipes": `"/api/prompt-recipes`,
	} {
		i := slices.IndexFunc(rows(t, "Named EC components"), func(row []string) bool { return row[0] == name && row[1] == "not yet" })
		if i < 0 {
			continue
		}
		for p, src := range sources(t) {
			if strings.HasPrefix(p, "api/") && strings.Contains(src, sign) {
				t.Errorf("R-CON-15 %s is said not to be there yet, and %s has %s", name, p, sign)
			}
		}
	}
}

// R-CON-09: the contracts of each area lie in the files that its row names.
func TestContractsLieInTheirFiles(t *testing.T) {
	areas := map[string]bool{}
	for _, row := range rows(t, "Contracts by file") {
		area, files, types := row[0], names(row[1]), names(row[2])
		areas[area] = true
		if row[1] == "not yet" {
			continue
		}
		text := ""
		for _, f := range files {
			b, err := os.ReadFile(path.Join("../..", f))
			if err != nil || !strings.HasPrefix(f, "contracts/") {
				t.Errorf("R-CON-09 the row of %s names %s: %v", area, f, err)
			}
			text += string(b)
		}
		if len(files) == 0 || len(types) == 0 {
			t.Errorf("R-CON-09 the row of %s names no file or no type", area)
		}
		for _, typ := range types {
			if !regexp.MustCompile(fmt.Sprintf(`(?m)^type %s `, regexp.QuoteMeta(typ))).MatchString(text) {
				t.Errorf("R-CON-09 %s is not in %v", typ, files)
			}
		}
	}
	for _, area := range []string{"overlay", "overlay-session", "prompt-recipes", "prompt-advisor", "prompt-lab", "feedback"} {
		if !areas[area] {
			t.Errorf("R-CON-09 the area %s has no row", area)
		}
	}
	for _, later := range []struct{ area, sign string }{{"prompt-recipes", "type PromptRecipe"}, {"prompt-advisor", "type PromptAdvisor"}} {
		i := slices.IndexFunc(rows(t, "Contracts by file"), func(row []string) bool { return row[0] == later.area && row[1] == "not yet" })
		for p, src := range sources(t) {
			if i >= 0 && strings.HasPrefix(p, "contracts/") && strings.Contains(src, later.sign) {
				t.Errorf("R-CON-09 %s is said not to be there yet, and %s has %s", later.area, p, later.sign)
			}
		}
	}
}
