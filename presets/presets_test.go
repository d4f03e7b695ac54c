package presets

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
	"github.com/elnor/promptlab/ec/lint"
)

var update = flag.Bool("update", false, "write manifest.json anew; refuses a changed text under an old version")

// canonical is the display order of the pack.
var canonical = strings.Fields("guided-verification concise-executive step-back-principles structured-decomposition " +
	"secure-code legal-research dont-make-mistakes legal-strict pre-mortem-risk-analysis red-team-aggressive " +
	"self-consistency-check spec-implementation tree-of-approaches creative-innovation counterargument-generator " +
	"creative-flow verify-first diverse-sampling spec-architect elicitation reflexion-learning")

const packVersion = "1.0.0"

// The manifest says what the files say. With -update it is written anew, unless a
// text changed under an old version.
func TestManifestIsCurrent(t *testing.T) {
	var overlays []Overlay
	for _, id := range canonical {
		src, err := os.ReadFile("overlays/" + id + ".md")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := frontmatter.Parse(src)
		if err != nil {
			t.Fatalf("parse %s: %v", id, err)
		}
		overlays = append(overlays, Overlay{Frontmatter: doc.Frontmatter, Body: doc.Body})
	}
	want := manifestOf(t, packVersion, overlays)
	got, err := os.ReadFile(manifestName)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := CheckVersions(manifest(t, got), manifest(t, want)); err != nil {
			t.Fatalf("R-CMP-21 manifest not written: %v", err)
		}
		if err := os.WriteFile(manifestName, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("R-PRE-09 manifest (run with -update; -want +got):\n%s", diff)
	}
}

// manifestOf writes the manifest of a pack's files in the given order.
func manifestOf(t *testing.T, version string, overlays []Overlay) []byte {
	t.Helper()
	m := Manifest{SchemaVersion: 1, Version: version}
	for _, o := range overlays {
		m.Overlays = append(m.Overlays, Entry{
			ID: o.Frontmatter.ID, Version: o.Frontmatter.Version,
			File: "overlays/" + string(o.Frontmatter.ID) + ".md", BodyHash: contracts.Hash(o.Body),
		})
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func manifest(t *testing.T, raw []byte) Manifest {
	t.Helper()
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func load(t *testing.T) Pack {
	t.Helper()
	p, err := Load()
	if err != nil {
		t.Fatalf("load the pack: %v", err)
	}
	return p
}

func shelf(p Pack) lint.Shelf {
	var s lint.Shelf
	for _, o := range p.Overlays {
		s = append(s, o.Frontmatter)
	}
	return s
}

func TestPackOrderClassesAndTiers(t *testing.T) {
	p := load(t)
	var ids []string
	count := map[string]int{}
	for _, o := range p.Overlays {
		ids = append(ids, string(o.Frontmatter.ID))
		count[string(o.Frontmatter.ArtifactClass)+" "+string(o.Frontmatter.VisibilityTier)]++
	}
	if diff := cmp.Diff(canonical, ids); diff != "" {
		t.Errorf("R-PRE-03 canonical order (-want +got):\n%s", diff)
	}
	want := map[string]int{"live_overlay core": 8, "live_overlay advanced": 10, "advisor_protocol hidden": 2, "post_task_template hidden": 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("R-PRE-02 classes and tiers (-want +got):\n%s", diff)
	}
}

func TestPackPassesTheRealValidatorAsOneLibrary(t *testing.T) {
	p := load(t)
	lib := shelf(p)
	for _, o := range p.Overlays {
		for _, origin := range []lint.Origin{lint.Person, lint.Optimizer} {
			r := lint.Validate(lint.Candidate{Frontmatter: o.Frontmatter, Body: o.Body}, lib, lint.Options{Operation: lint.Install, Origin: origin})
			if len(r.Errors) > 0 || len(r.Warnings) > 0 {
				t.Errorf("G-001 G-119 R-SRC-10 %s: got errors %+v, warnings %+v, want none", o.Frontmatter.ID, r.Errors, r.Warnings)
			}
		}
		if class, ok := lint.PresetClass(o.Frontmatter.ID); !ok || class != o.Frontmatter.ArtifactClass {
			t.Errorf("G-067 class bound to %s: got %q, want %q", o.Frontmatter.ID, class, o.Frontmatter.ArtifactClass)
		}
	}
}

// Every preset may be the source of a job: a small edit of it is a candidate.
func TestSmallEditsPassTheGates(t *testing.T) {
	for _, o := range load(t).Overlays {
		rules := lint.GateRules{Kind: contracts.KindOverlay, Live: o.Frontmatter.ArtifactClass == contracts.ClassLive}
		for _, f := range lint.Gates(o.Body, o.Body+"Name units.\n", rules) {
			t.Errorf("R-RES-05 %s with one rule more: got %+v, want no finding", o.Frontmatter.ID, f)
		}
	}
}

func TestPackWithOneEdgeMissingIsRefused(t *testing.T) {
	p := load(t)
	lib := shelf(p)
	for i := range lib {
		if lib[i].ID == "dont-make-mistakes" {
			lib[i].ConflictsWith = nil
		}
	}
	for _, o := range p.Overlays {
		r := lint.Validate(lint.Candidate{Frontmatter: o.Frontmatter, Body: o.Body}, lib, lint.Options{Operation: lint.Install})
		if want := o.Frontmatter.ID == "creative-flow"; want != (len(r.Errors) > 0) {
			t.Errorf("G-001 %s against a pack whose dont-make-mistakes names nobody: errors %+v", o.Frontmatter.ID, r.Errors)
		}
	}
}

func TestBodiesKeepToTheirTargets(t *testing.T) {
	for _, o := range load(t).Overlays {
		got := contracts.EstimateTokens(o.Body)
		if got > o.Frontmatter.LiveTokenTarget || got > lint.MaxLiveTokens {
			t.Errorf("R-PRE-04 %s: %d tokens, target %d", o.Frontmatter.ID, got, o.Frontmatter.LiveTokenTarget)
		}
	}
}

func TestFilesAreInCanonicalForm(t *testing.T) {
	for _, o := range load(t).Overlays {
		src, err := fs.ReadFile(files, "overlays/"+string(o.Frontmatter.ID)+".md")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(src), string(frontmatter.Format(o.Frontmatter, o.Body))); diff != "" {
			t.Errorf("%s is not as the writer would write it (-file +writer):\n%s", o.Frontmatter.ID, diff)
		}
	}
}

func TestTextsHoldNoNotes(t *testing.T) {
	for _, o := range load(t).Overlays {
		for _, mark := range []string{"TODO", "FIXME", "XXX", "NOTE:", "<!--", "R-", "G-0", "You are "} {
			if strings.Contains(o.Body, mark) {
				t.Errorf("R-CMP-22 R-APP-06 %s: the text holds %q", o.Frontmatter.ID, mark)
			}
		}
	}
}

// copyOf is the embedded pack as files that a test may change.
func copyOf(t *testing.T) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		out[path] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func edit(t *testing.T, fsys fstest.MapFS, path, old, now string) {
	t.Helper()
	was := string(fsys[path].Data)
	if !strings.Contains(was, old) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	fsys[path] = &fstest.MapFile{Data: []byte(strings.Replace(was, old, now, 1))}
}

func TestPackIdentity(t *testing.T) {
	base := load(t).ID
	read := func(t *testing.T, fsys fs.FS) string {
		t.Helper()
		p, err := Read(fsys)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		return p.ID
	}
	if got := read(t, copyOf(t)); got != base {
		t.Fatalf("R-CMP-17 identity of the same files: got %s, want %s", got, base)
	}
	t.Run("R-CMP-17 every listed file moves it", func(t *testing.T) {
		for _, id := range canonical {
			fsys := copyOf(t)
			edit(t, fsys, "overlays/"+id+".md", ".\nvisibility_tier", "!\nvisibility_tier") // as long as before
			if read(t, fsys) == base {
				t.Errorf("%s was edited and the identity stayed", id)
			}
		}
	})
	t.Run("R-CMP-20 the manifest moves it", func(t *testing.T) {
		fsys := copyOf(t)
		edit(t, fsys, manifestName, `"version": "`+packVersion+`"`, `"version": "9.9.9"`)
		if read(t, fsys) == base {
			t.Error("the manifest was edited and the identity stayed")
		}
	})
	t.Run("R-CMP-18 unlisted files are neither read nor hashed", func(t *testing.T) {
		fsys := copyOf(t)
		fsys["overlays/zzz.md"] = &fstest.MapFile{Data: []byte("not even a header")}
		fsys["notes.txt"] = &fstest.MapFile{Data: []byte("x")}
		if got := read(t, fsys); got != base {
			t.Errorf("identity with unlisted files: got %s, want %s", got, base)
		}
	})
}

func TestPackIsRefused(t *testing.T) {
	tests := []struct{ name, path, old, now, want string }{
		{"R-CMP-25 a path above the pack", manifestName, `"overlays/elicitation.md"`, `"../elicitation.md"`, "not a file of the pack"},
		{"R-CMP-25 a path that climbs inside", manifestName, `"overlays/elicitation.md"`, `"overlays/../manifest.json"`, "not a file of the pack"},
		{"R-CMP-25 an absolute path", manifestName, `"overlays/elicitation.md"`, `"/etc/passwd"`, "not a file of the pack"},
		{"R-CMP-25 a file beside the overlays", manifestName, `"overlays/elicitation.md"`, `"manifest.json"`, "not a file of the pack"},
		{"R-CMP-21 R-PRE-09 a changed text", "overlays/elicitation.md", "Begin by sorting", "Start by sorting", "needs a new version"},
		{"R-PRE-09 a version only in the file", "overlays/elicitation.md", `version: "1.0.0"`, `version: "1.0.1"`, "the manifest 1.0.0"},
		{"R-PRE-09 a file of another id", "overlays/elicitation.md", "id: elicitation", "id: elicitations", "says that it is elicitations"},
		{"R-PRE-09 no preset", "overlays/elicitation.md", "preset: true\n", "", "does not say preset"},
		{"R-CMP-17 a listed file that is not there", manifestName, `"overlays/elicitation.md"`, `"overlays/elicit.md"`, "read preset elicitation"},
		{"R-CMP-17 an entry twice", manifestName, `"id": "elicitation"`, `"id": "spec-architect"`, "listed twice"},
		{"R-CMP-17 an unknown key", manifestName, `"schema_version"`, `"more": 1, "schema_version"`, "more"},
		{"G-081 an unknown schema version", manifestName, `"schema_version": 1`, `"schema_version": 2`, "schema_version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := copyOf(t)
			edit(t, fsys, tt.path, tt.old, tt.now)
			_, err := Read(fsys)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("read: got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestCheckVersions(t *testing.T) {
	raw, err := fs.ReadFile(files, manifestName)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest(t, raw)
	with := func(pack string, change func(*Entry)) Manifest {
		n := Manifest{SchemaVersion: 1, Version: pack, Overlays: append(contracts.List[Entry]{}, m.Overlays...)}
		change(&n.Overlays[0])
		return n
	}
	if err := CheckVersions(m, with("1.0.1", func(e *Entry) { e.BodyHash = "x" })); err == nil {
		t.Error("R-CMP-21 a changed text under the same version: no error")
	}
	if err := CheckVersions(m, with(m.Version, func(e *Entry) { e.BodyHash, e.Version = "x", "1.0.2" })); err == nil {
		t.Error("R-CMP-21 a changed pack under the same version: no error")
	}
	if err := CheckVersions(m, with("1.0.1", func(e *Entry) { e.BodyHash, e.Version = "x", "1.0.2" })); err != nil {
		t.Errorf("R-CMP-21 a changed text under new versions: %v", err)
	}
	if err := CheckVersions(m, m); err != nil {
		t.Errorf("R-CMP-21 no change: %v", err)
	}
}
