package importer

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixtures gives every file below testdata that is no golden file.
func fixtures(t *testing.T) []File {
	t.Helper()
	var out []File
	err := filepath.WalkDir("testdata", func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "golden" || d.Name() == "fuzz" || d.Name() == "rapid") {
			return filepath.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(p)
		out = append(out, File{Path: filepath.ToSlash(p), Data: b})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// one plans a single named file.
func one(p, text string) FileReport {
	return Plan([]File{{Path: p, Data: []byte(text), Named: true}}, Options{}).Files[0]
}

func TestEveryFormatSaysWhatItGivesAndWhatIsLost(t *testing.T) {
	got, err := json.MarshalIndent(Plan(fixtures(t), Options{}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/golden/report.json"
	if *update {
		if err := os.MkdirAll("testdata/golden", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSuffix(string(want), "\n"), string(got)); d != "" {
		t.Errorf("plan of testdata (-want +got):\n%s", d)
	}
}

func TestBodiesStayExact(t *testing.T) {
	body := "\n\nTwo empty lines before, spaces after.  \n---\nA rule inside.\n\n"
	for _, p := range []string{"SKILL.md", "a.mdc", "a.instructions.md", "a.md"} {
		r := one(p, "---\nname: x y\nglobs: **/*\n---\n"+body)
		if len(r.Overlays) != 1 || r.Overlays[0].Body != body {
			t.Errorf("%s: got %+v, want the body %q", p, r, body)
		}
		crlf := one(p, "\ufeff"+strings.ReplaceAll("---\nname: x y\nglobs: **/*\n---\n"+body, "\n", "\r\n"))
		if d := cmp.Diff(r, crlf); d != "" {
			t.Errorf("%s with byte order mark and CRLF differs (-plain +windows):\n%s", p, d)
		}
	}
}

func TestOnlyMarkedBlocksAreInstalled(t *testing.T) {
	const file = "---\nid: plain-words\ntitle: Plain Words\nartifact_class: live_overlay\ncategory: quality\ndescription: Short.\nsupported_surfaces: [chat]\nlive_token_target: 60\n---\nUse plain words.\n"
	t.Run("R-SRC-07 fence lines never reach the body", func(t *testing.T) {
		r := one("doc.md", "# Doc\n\n~~~~markdown installable\n"+file+"~~~~\n")
		if len(r.Overlays) != 1 || r.Overlays[0].Body != "Use plain words.\n" || r.Overlays[0].Frontmatter.ID != "plain-words" {
			t.Errorf("got %+v, want plain-words with its body alone", r)
		}
	})
	t.Run("R-SRC-07 an unmarked block is an example", func(t *testing.T) {
		for _, info := range []string{"", "markdown", "not-installable", "installable=false", "uninstallable"} {
			r := one("doc.md", "# Doc\n\n```"+info+"\n"+file+"```\n")
			if len(r.Overlays) != 0 || !strings.Contains(r.Refused, "marked installable") {
				t.Errorf("info string %q: got %+v, want nothing taken and a reason", info, r)
			}
		}
	})
	t.Run("R-SRC-07 a fence around the whole file is refused", func(t *testing.T) {
		r := one("doc.md", "```markdown\nUse plain words.\n```\n")
		if len(r.Overlays) != 0 || !strings.Contains(r.Refused, "fenced block") {
			t.Errorf("got %+v, want a refusal that names the fence", r)
		}
	})
	t.Run("a marked block that is never closed is not taken", func(t *testing.T) {
		if r := one("doc.md", "```markdown installable\nUse plain words.\n"); len(r.Overlays) != 0 {
			t.Errorf("got %+v, want nothing", r)
		}
	})
	t.Run("R-PRE-18 a preset's block gives its id and text, and not the mark of the pack", func(t *testing.T) {
		src, err := os.ReadFile("../presets/overlays/step-back-principles.md")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := frontmatter.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		r := one("doc.md", "# Presets\n````markdown installable\n"+string(src)+"````\n")
		if len(r.Overlays) != 1 {
			t.Fatalf("got %+v, want one overlay", r)
		}
		p := r.Overlays[0]
		want := doc.Frontmatter
		want.Preset = false
		if d := cmp.Diff(want, p.Frontmatter); d != "" || p.Body != doc.Body || len(p.Lost) != 1 {
			t.Errorf("header (-want +got):\n%s\nbody %q, lost %v", d, p.Body, p.Lost)
		}
	})
}

func TestForeignHeadersAreReadLeniently(t *testing.T) {
	t.Run("R-SRC-02 what makes our own reader refuse a file reaches no overlay", func(t *testing.T) {
		for _, trick := range []string{"a: &x [1]\nb: *x", "a: !!str 1", "<<: {a: 1}", "name: one\nname: two", "globs: **/*"} {
			src := "---\nid: x\ndescription: d\n" + trick + "\n---\nDo it.\n"
			if _, err := frontmatter.Parse([]byte(src)); err == nil {
				t.Fatalf("%q: the strict reader accepts it, so it is no trick", trick)
			}
			r := one("x.md", src)
			if len(r.Overlays) != 1 {
				t.Errorf("%q: got %+v, want one overlay", trick, r)
				continue
			}
			p := r.Overlays[0]
			if _, err := frontmatter.Parse(frontmatter.Format(p.Frontmatter, p.Body)); err != nil {
				t.Errorf("%q: the proposal is no strict file: %v", trick, err)
			}
			if len(p.Lost)+len(p.Notes) == 0 {
				t.Errorf("%q: nothing is said about it", trick)
			}
		}
	})
	h, body, found := cutHeader("---  \nglobs: **/*.ts, {a,b} # note\ndescription: 'it''s'\nlist:\n- one\n- \"two: three\"\nfolded: >-\n  a\n  b\nhash: #nothing\nnested:\n  k: v\nurl: http://x/#y\n---\t\nBody\n")
	got := map[string]string{}
	for _, e := range h.entries {
		got[e.key] = e.text()
	}
	want := map[string]string{"globs": "**/*.ts, {a,b}", "description": "it's", "list": "one, two: three", "folded": "a b", "hash": "#nothing", "nested": "k: v", "url": "http://x/#y"}
	if d := cmp.Diff(want, got); d != "" || body != "Body\n" || !found {
		t.Errorf("header (-want +got):\n%s\nbody %q found %v", d, body, found)
	}
	if _, body, found := cutHeader("---\n\nA rule, then prose.\n\n---\nMore.\n"); found || !strings.HasPrefix(body, "---\n") {
		t.Errorf("two rules around prose were taken for a header, body %q", body)
	}
}

func TestHostileFilesAreRefusedWithWords(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct{ name, path, data, want string }{
		{"huge", "a.md", strings.Repeat("a", MaxText+1), "larger than"},
		{"huge JSON", "a.json", strings.Repeat(" ", MaxJSON+1), "larger than"},
		{"empty", "a.md", "", "empty"},
		{"spaces", "a.md", " \n", "no text"},
		{"binary", "a.md", "abc\x00def", "binary"},
		{"not UTF-8", "a.md", "good\nb\xffd", "UTF-8 (line 2)"},
		{"deep JSON", "a.json", deep, "deeper"},
		{"not JSON", "a.json", "{oops", "valid JSON"},
		{"two documents", "a.json", `{"name":"a","prompt":"b"} {}`, "after its JSON"},
		{"doubled key", "a.json", `{"name":"a","prompt":"b","prompt":"c"}`, "twice"},
		{"other JSON", "a.json", `{"dependencies":{}}`, "no export"},
		{"header alone", "a.mdc", "---\ndescription: x\n---\n", "no text below"},
		{"reference", "a.json", `{"prompt":{"prompt_id":"pmpt_1"}}`, "can become"},
		{"only a conversation", "a.json", `{"name":"a","prompt":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`, "can become"},
		{"no tar", "a.tar", "hello", "tar"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := one(c.path, c.data)
			if !strings.Contains(r.Refused, c.want) || len(r.Overlays) != 0 {
				t.Errorf("got %+v, want a refusal with %q and no overlay", r, c.want)
			}
		})
	}
	if r := Plan([]File{{Path: "dir/package.json", Data: []byte("{}")}}, Options{}); r.Ignored != 1 || len(r.Files) != 0 {
		t.Errorf("foreign JSON found in a folder: got %+v, want it passed over and counted", r)
	}
}

func TestIDsAreUniqueAndIndependentOfTheLibrary(t *testing.T) {
	files := []File{
		{Path: "b/review.md", Data: []byte("Review it.\n")}, {Path: "a/review.md", Data: []byte("Review this.\n")},
		{Path: "c/Überprüfung.md", Data: []byte("Prüfe es.\n")}, {Path: "c/search.md", Data: []byte("Search it.\n")},
		{Path: "c/secure-code.md", Data: []byte("Secure it.\n")}, {Path: "c/日本.md", Data: []byte("Do it.\n")},
		{Path: "c/own.md", Data: frontmatter.Format(overlayFM("review"), "Mine.\n")},
	}
	ids := func(o Options) string {
		var out []string
		for _, f := range Plan(files, o).Files {
			for _, p := range f.Overlays {
				out = append(out, string(p.Frontmatter.ID))
			}
		}
		return strings.Join(out, " ")
	}
	want := "review-2 review-3 review search-overlay secure-code-imported ueberpruefung imported-" + contracts.Hash("Do it.\n")[:8]
	if got := ids(Options{}); got != want {
		t.Errorf("ids: got %s, want %s", got, want)
	}
	if got := ids(Options{Library: []Known{{Frontmatter: overlayFM("review")}}}); got != want {
		t.Errorf("ids beside a library: got %s, want the same as without", got)
	}
}

func overlayFM(id string) contracts.OverlayTemplateFrontmatter {
	return contracts.OverlayTemplateFrontmatter{
		ID: contracts.OverlayID(id), Title: "T " + id, ArtifactClass: contracts.ClassLive, Category: "quality", Description: "D.",
		VisibilityTier: contracts.TierAdvanced, SupportedSurfaces: contracts.List[contracts.SupportedSurface]{contracts.SurfaceChat},
		RecommendedModelClasses: contracts.List[contracts.ModelClass]{"unknown"}, LiveTokenTarget: 60, Version: "1.0.0",
	}
}

func TestConflictsWithTheLibraryAreNamed(t *testing.T) {
	fm := overlayFM("mine")
	file := []File{{Path: "mine.md", Data: frontmatter.Format(fm, "Do it.\n")}}
	other := fm
	other.Title = "Other"
	for _, c := range []struct {
		name string
		o    Options
		want string
		same bool
	}{
		{"nothing there", Options{}, "", false},
		{"the same", Options{Library: []Known{{Frontmatter: fm, Body: "Do it.\n", Loaded: true}}}, "", true},
		{"another text", Options{Library: []Known{{Frontmatter: fm, Body: "Do that.\n", Loaded: true}}}, "another text", false},
		{"another header", Options{Library: []Known{{Frontmatter: other, Body: "Do it.\n", Loaded: true}}}, "another header", false},
		{"archived", Options{Library: []Known{{Frontmatter: fm, Archived: true}}}, "archived", false},
		{"an earlier id", Options{Aliases: map[string]contracts.OverlayID{"mine": "now"}}, "earlier id of now", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Plan(file, c.o).Files[0].Overlays[0]
			if p.Same != c.same || !strings.Contains(p.Conflict, c.want) || (c.want == "") != (p.Conflict == "") {
				t.Errorf("got conflict %q same %v, want %q and %v", p.Conflict, p.Same, c.want, c.same)
			}
			if p.Takeable() != (c.name == "nothing there") {
				t.Errorf("takeable: got %v", p.Takeable())
			}
		})
	}
	t.Run("an overlay that the library excludes is told so", func(t *testing.T) {
		rival := overlayFM("rival")
		rival.ConflictsWith = contracts.List[contracts.OverlayID]{"mine"}
		p := Plan(file, Options{Library: []Known{{Frontmatter: rival}}}).Files[0].Overlays[0]
		if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Message, "leaves out rival") {
			t.Errorf("got errors %v, want one that names rival", p.Errors)
		}
	})
	t.Run("R-SRC-11 files that exclude each other are saved at once, and what stands on one side is refused", func(t *testing.T) {
		names := func(id contracts.OverlayID, others ...contracts.OverlayID) contracts.OverlayTemplateFrontmatter {
			fm := overlayFM(string(id))
			fm.ConflictsWith = others
			return fm
		}
		a, b := names("a-one", "b-two"), names("b-two", "a-one", "c-three")
		var files []File
		for _, fm := range []contracts.OverlayTemplateFrontmatter{a, b, names("c-three", "b-two"), names("d-four", "e-five"), names("e-five"), names("f-six", "there")} {
			files = append(files, File{Path: string(fm.ID) + ".md", Data: frontmatter.Format(fm, "Text.\n")})
		}
		o := Options{Library: []Known{{Frontmatter: overlayFM("there")}}}
		for _, f := range Plan(files, o).Files {
			p := f.Overlays[0]
			together := strings.Contains("a-one b-two c-three", string(p.Frontmatter.ID))
			if p.Takeable() != together || together != (p.Group == "a-one") {
				t.Errorf("%s: group %q, errors %v; want group a-one and none for the first three, else an error", f.Path, p.Group, p.Errors)
			}
		}
		o.Reciprocal = true
		for _, f := range Plan(files, o).Files {
			p := f.Overlays[0]
			if want := p.Frontmatter.ID != "d-four"; p.Takeable() != want { // what it names is not in the library
				t.Errorf("both sides written: %s has errors %v, want takeable %v", f.Path, p.Errors, want)
			}
		}
		a, b = names("a-one", "b-two"), names("b-two", "a-one")
		bundle, err := Pack([]Overlay{{Frontmatter: a, Body: "A.\n"}, {Frontmatter: b, Body: "B.\n"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Plan([]File{{Path: "pair.tar", Data: bundle, Named: true}}, Options{}).Files[0].Overlays { // saved at once
			if !p.Takeable() {
				t.Errorf("%s in one bundle: got errors %v, want none", p.Frontmatter.ID, p.Errors)
			}
		}
	})
}

func TestTheChosenClassWins(t *testing.T) {
	long := strings.Repeat("Check every number. ", 200)
	for _, c := range []struct {
		as   contracts.OverlayArtifactClass
		text string
		want contracts.OverlayArtifactClass
	}{
		{"", "Check it.\n", contracts.ClassLive}, {"", long, contracts.ClassAdvisor},
		{contracts.ClassPostTask, "Check it.\n", contracts.ClassPostTask}, {contracts.ClassLive, long, contracts.ClassLive},
	} {
		p := Plan([]File{{Path: "a.md", Data: []byte(c.text)}}, Options{As: c.as}).Files[0].Overlays[0]
		if p.Frontmatter.ArtifactClass != c.want || p.ClassReason == "" {
			t.Errorf("as %q: got %s (%s), want %s", c.as, p.Frontmatter.ArtifactClass, p.ClassReason, c.want)
		}
		if tooLong := c.want == contracts.ClassLive && len(c.text) > 1800; tooLong == p.Takeable() {
			t.Errorf("as %q with %d bytes: takeable %v, errors %v", c.as, len(c.text), p.Takeable(), p.Errors)
		}
	}
}

func TestManyBlocksStayCheap(t *testing.T) {
	r := one("a.md", strings.Repeat("```\n", MaxText/4))
	if r.Refused == "" && len(r.Overlays) != 1 {
		t.Errorf("got %d overlays", len(r.Overlays))
	}
	var files []File
	for i := range 2000 {
		files = append(files, File{Path: fmt.Sprintf("d/%04d/rule.md", i), Data: []byte("Do it.\n")})
	}
	ids := map[contracts.OverlayID]bool{}
	for _, f := range Plan(files, Options{}).Files {
		ids[f.Overlays[0].Frontmatter.ID] = true
	}
	if len(ids) != 2000 || !ids["rule-2000"] {
		t.Errorf("2000 files of one name give %d ids, want 2000 up to rule-2000", len(ids))
	}
}
