package importer

import (
	"os"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// checkReport holds what is true of every plan: what may be taken is a valid file
// of ours, and what is refused gives nothing.
func checkReport(t *testing.T, f File) {
	t.Helper()
	for _, r := range Plan([]File{f}, Options{}).Files {
		if r.Refused != "" && len(r.Overlays) > 0 {
			t.Fatalf("%s is refused (%s) and gives %d overlays", f.Path, r.Refused, len(r.Overlays))
		}
		if r.Refused == "" && len(r.Overlays) == 0 {
			t.Fatalf("%s gives nothing and no reason", f.Path)
		}
		for _, p := range r.Overlays {
			if !p.Takeable() {
				continue
			}
			doc, err := frontmatter.Parse(frontmatter.Format(p.Frontmatter, p.Body))
			if err != nil {
				t.Fatalf("a proposal without errors is no overlay file: %v\n%+v", err, p)
			}
			if doc.Body != p.Body || doc.Frontmatter.ID != p.Frontmatter.ID {
				t.Fatalf("read back: got %+v, want %+v", doc, p)
			}
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, p := range []string{"testdata/rules/typescript.mdc", "testdata/rules/everywhere.mdc", "testdata/skills/contract-check/SKILL.md", "testdata/handbook.md"} {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("---\na: [x\n- b\n---\n")
	f.Add("---\n:\n---\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if _, body, found := cutHeader(text); found && !strings.HasSuffix(text, body) || !found && body != text {
			t.Fatalf("cutHeader(%q): body %q is not the end of the text", text, body)
		}
		for _, p := range []string{"SKILL.md", "x.mdc", "x.instructions.md", "x.md"} {
			checkReport(t, File{Path: p, Data: []byte(text), Named: true})
		}
	})
}

func FuzzExports(f *testing.F) {
	for _, p := range []string{"langfuse", "mlflow", "openai"} {
		b, err := os.ReadFile("testdata/exports/" + p + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkReport(t, File{Path: "x.json", Data: []byte(text), Named: true})
	})
}

func FuzzBundle(f *testing.F) {
	b, err := Pack([]Overlay{{overlayFM("a-one"), "A.\n"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Unpack(b)
		if err != nil {
			return
		}
		again, err := Pack(list)
		if err != nil {
			t.Fatalf("an accepted bundle cannot be packed: %v", err)
		}
		back, err := Unpack(again)
		if err != nil || contracts.HashJSON(back) != contracts.HashJSON(list) {
			t.Fatalf("packed and read again it differs (%v)", err)
		}
	})
}
