package frontmatter

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
)

func TestParseReadsAHeaderWithItsDefaults(t *testing.T) {
	doc := parsed(t, file(good, "Be brief.\n"))
	want := contracts.OverlayTemplateFrontmatter{
		ID: "brief-notes", Title: "Brief Notes", ArtifactClass: "live_overlay", Category: "quality",
		Description: "Keeps notes brief.", VisibilityTier: "advanced",
		SupportedSurfaces:       contracts.List[contracts.SupportedSurface]{"chat"},
		RecommendedModelClasses: contracts.List[contracts.ModelClass]{"unknown"},
		ConflictsWith:           contracts.List[contracts.OverlayID]{}, WarnsWith: contracts.List[contracts.OverlayID]{},
		CompatibleCategories: contracts.List[contracts.OverlayCategory]{}, LiveTokenTarget: 100,
		SuggestedUseCases: contracts.List[string]{}, AvoidWhen: contracts.List[string]{},
		StructureLabels: contracts.List[string]{}, ResearchTags: contracts.List[string]{},
		DeprecatedAliases: contracts.List[string]{}, Version: "1.0.0",
	}
	if diff := cmp.Diff(want, doc.Frontmatter); diff != "" {
		t.Errorf("R-SRC-01 R-CON-03 header with defaults (-want +got):\n%s", diff)
	}
	if doc.Body != "Be brief.\n" || doc.BodyLine != 10 || doc.Lines["title"] != 3 {
		t.Errorf("body %q at line %d, title at line %d; want the body at 10, title at 3", doc.Body, doc.BodyLine, doc.Lines["title"])
	}
}

// R-SEC-02: tags, aliases, unknown keys and everything else that plain headers do not
// need is refused, with the field. TestParseIsTheInverseOfFormat holds that bodies are exact.
func TestParseRefusesHeaders(t *testing.T) {
	deep := "research_tags: " + strings.Repeat("[", 8) + "x" + strings.Repeat("]", 8)
	many := "avoid_when: [" + strings.Repeat("a, ", 520) + "a]"
	tests := []struct{ name, header, field, rule string }{
		{"R-SRC-01 unknown key", with("foo: bar"), "frontmatter.foo", RuleKey},
		{"R-SRC-01 a second unknown key beside the allowlisted one", with("research_bases: [A.1]"), "frontmatter.research_bases", RuleKey},
		{"R-SRC-02 alias", good + "avoid_when: &a [x]\nresearch_tags: *a\n", "frontmatter.research_tags", RuleYAML},
		{"R-SRC-02 anchor alone", with("title: &a Notes"), "frontmatter.title", RuleYAML},
		{"R-SRC-02 anchor on a key", "&a " + good, "frontmatter", RuleYAML},
		{"R-SRC-02 unknown alias", with("title: *nobody"), "frontmatter", RuleYAML},
		{"R-SRC-02 python tag", with("avoid_when: !!python/object/apply:os.system [x]"), "frontmatter.avoid_when", RuleYAML},
		{"R-SRC-02 standard tag", with("version: !!str 1.0"), "frontmatter.version", RuleYAML},
		{"R-SRC-02 binary tag", with("title: !!binary aGk="), "frontmatter.title", RuleYAML},
		{"R-SRC-02 empty tag", with("title: ! Notes"), "frontmatter.title", RuleYAML},
		{"R-SRC-02 local tag on the map", "!x\n" + good, "frontmatter", RuleYAML},
		{"R-SRC-02 merge key", good + "<<: {preset: true}\n", "frontmatter", RuleYAML},
		{"R-SRC-02 duplicate key", good + "title: Other\n", "frontmatter.title", RuleYAML},
		{"R-SRC-02 duplicate key, quoted", good + "\"title\": Other\n", "frontmatter.title", RuleYAML},
		{"R-SRC-02 document end and more", good + "...\npreset: true\n", "frontmatter", RuleYAML},
		{"R-SRC-02 document end with a comment", good + "... # done\n", "frontmatter", RuleYAML},
		{"R-SRC-02 second document", good + "--- \npreset: true\n", "frontmatter", RuleYAML},
		{"R-SRC-02 directive", "%YAML 1.1\n" + good, "frontmatter", RuleYAML},
		{"R-SRC-02 explicit key", "? id\n: a\n" + good, "frontmatter", RuleYAML},
		{"R-SRC-02 list as key", good + "[a, b]: c\n", "frontmatter", RuleYAML},
		{"R-SRC-02 number as key", good + "1: c\n", "frontmatter", RuleYAML},
		{"R-SRC-02 null as key", good + "~: c\n", "frontmatter", RuleYAML},
		{"R-SRC-02 flow mapping as header", "{id: a, title: b}\n", "frontmatter", RuleYAML},
		{"R-SRC-02 indented header", "  id: a\n  title: b\n", "frontmatter", RuleYAML},
		{"R-SRC-02 list as header", "- id\n", "frontmatter", RuleYAML},
		{"R-SRC-02 nothing in it", "", "frontmatter", RuleYAML},
		{"R-SRC-02 only a comment", "# nothing\n", "frontmatter", RuleYAML},
		{"R-SRC-02 too deep", with(deep), "frontmatter.research_tags[0][0][0][0][0]", RuleYAML},
		{"R-SRC-02 too many values", with(many), "frontmatter", RuleYAML},
		{"R-SRC-02 not YAML", with("title: \"open"), "frontmatter", RuleYAML},
		{"R-SRC-03 version as a number", with("version: 1.0"), "frontmatter.version", RuleSchema},
		{"R-SRC-03 title no", with("title: no"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 title On", with("title: On"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 id 007", with("id: 007"), "frontmatter.id", RuleID},
		{"R-SRC-03 id 123", with("id: 123"), "frontmatter.id", RuleID},
		{"R-SRC-03 title true", with("title: true"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 a date", with("title: 2001-12-14"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 a time", with("title: 10:00"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 grouped digits", with("live_token_target: 1_00"), "frontmatter.live_token_target", RuleSchema},
		{"R-SRC-03 octal", with("live_token_target: 0100"), "frontmatter.live_token_target", RuleSchema},
		{"R-SRC-03 hexadecimal", with("live_token_target: 0x64"), "frontmatter.live_token_target", RuleSchema},
		{"R-SRC-03 float", with("live_token_target: 100.0"), "frontmatter.live_token_target", RuleSchema},
		{"R-SRC-03 quoted number", with("live_token_target: \"100\""), "frontmatter.live_token_target", RuleSchema},
		{"R-SRC-03 yes as boolean", with("preset: yes"), "frontmatter.preset", RuleSchema},
		{"R-SRC-03 True as boolean", with("preset: True"), "frontmatter.preset", RuleSchema},
		{"R-SRC-03 quoted boolean", with("preset: \"true\""), "frontmatter.preset", RuleSchema},
		{"R-SRC-03 null", with("title: null"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 tilde", with("title: ~"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 no value", with("title:"), "frontmatter.title", RuleSchema},
		{"R-SRC-03 text for a list", with("avoid_when: often"), "frontmatter.avoid_when", RuleSchema},
		{"R-SRC-03 a map for text", with("title: {a: b}"), "frontmatter.title", RuleSchema},
		{"R-CON-01 surface out of the set", with("supported_surfaces: [chat, sms]"), "frontmatter.supported_surfaces[1]", RuleSchema},
		{"R-CON-08 target too low", with("live_token_target: 39"), "frontmatter.live_token_target", RuleSchema},
		{"R-CON-08 target too high", with("live_token_target: 451"), "frontmatter.live_token_target", RuleSchema},
		{"R-CON-06 upper case id", with("id: Brief"), "frontmatter.id", RuleID},
		{"R-CON-06 newline in the id", with(`id: "a\n"`), "frontmatter.id", RuleID},
		{"R-SRC-02 escaped bidi override", with(`title: "a\u202Eb"`), "frontmatter.title", RuleHidden},
		{"R-SRC-02 escaped NUL", with(`title: "a\0b"`), "frontmatter.title", RuleText},
		{"R-SRC-02 escaped next line", with(`title: "a\Nb"`), "frontmatter.title", RuleText},
		{"R-SRC-02 escaped zero width space", with(`title: "a\u200Bb"`), "frontmatter.title", RuleHidden},
		{"R-SRC-02 zero width space", with("title: a\u200bb"), "frontmatter", RuleHidden},
		{"R-SRC-02 key hidden behind U+2028", with("title: a\u2028preset: true"), "frontmatter", RuleText},
		{"R-SRC-02 key hidden behind U+0085", with("title: a\u0085preset: true"), "frontmatter", RuleText},
		{"R-SRC-02 key hidden behind a lone CR", with("title: a\rpreset: true"), "frontmatter", RuleText},
		{"R-SRC-02 header too large", with("description: \"" + strings.Repeat("x", MaxHeader) + "\""), "frontmatter", RuleTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refused(t, file(tt.header, "Body.\n"), tt.field, tt.rule) })
	}
}

func TestParseRefusesFiles(t *testing.T) {
	tests := []struct{ name, src, field, rule string }{
		{"empty file", "", "frontmatter", RuleYAML},
		{"no front matter", "Just text.\n", "frontmatter", RuleYAML},
		{"not closed", "---\n" + good + "Body.\n", "frontmatter", RuleYAML},
		{"no body", "---\n" + good + "---\n", "body", RuleSchema},
		{"no body and no newline", "---\n" + good + "---", "body", RuleSchema},
		{"leading blank line", "\n---\n" + good + "---\nBody.\n", "frontmatter", RuleYAML},
		{"four hyphens", "----\n" + good + "----\nBody.\n", "frontmatter", RuleYAML},
		{"bad bytes in the body", "---\n" + good + "---\nBo\xffdy.\n", "body", RuleText},
		{"NUL in the body", "---\n" + good + "---\nBo\x00dy.\n", "body", RuleText},
		{"lone CR in the body", "---\n" + good + "---\nBo\rdy.\n", "body", RuleText},
		{"U+2029 in the body", "---\n" + good + "---\nBo\u2029dy.\n", "body", RuleText},
		{"body too large", "---\n" + good + "---\n" + strings.Repeat("x", MaxBody+1), "body", RuleTooLarge},
		{"file too large", strings.Repeat("x", 3*maxFile), "file", RuleTooLarge},
		{"UTF-16", "\xff\xfe-\x00-\x00-\x00\n\x00", "frontmatter", RuleYAML},
		{"fenced document R-SRC-07", "```markdown\n---\n" + good + "---\nBody.\n```\n", "frontmatter", RuleYAML},
	}
	for _, tt := range tests {
		t.Run("R-SRC-02 "+tt.name, func(t *testing.T) { refused(t, []byte(tt.src), tt.field, tt.rule) })
	}
}

func TestAliasBombIsRefusedAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c < 'z'; c++ {
		b.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 8) + "*" + string(c-1) + "]\n")
	}
	start := time.Now()
	_, err := Parse(file(good+b.String(), "Body.\n"))
	if err == nil {
		t.Fatal("R-SRC-02: an alias bomb was accepted")
	}
	if took := time.Since(start); took > 50*time.Millisecond {
		t.Errorf("R-SRC-02: refusing an alias bomb took %v, want under 50 ms", took)
	}
}

func TestNestingIsRefusedBeforeTheParser(t *testing.T) {
	for _, src := range []string{strings.Repeat("[", 15000), strings.Repeat("- ", 7000), strings.Repeat("{a: ", 3000), "a: " + strings.Repeat("- ", 20) + "x"} {
		start := time.Now()
		if _, err := Parse(file(src+"\n", "Body.\n")); err == nil {
			t.Errorf("R-SRC-02: %.20q... was accepted", src)
		}
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("R-SRC-02: refusing %.20q... took %v, want under 50 ms", src, took)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	header := with("title: no")
	header = strings.Replace(header, "live_token_target: 100", "live_token_target: 9000", 1)
	header = strings.Replace(header, "category: quality\n", "", 1)
	all := refused(t, file(header+"colour: red\n", "Body.\n"), "frontmatter.title", RuleSchema)
	got := map[string]string{}
	for _, d := range all {
		got[d.Field] = d.Rule
	}
	want := map[string]string{
		"frontmatter.title": RuleSchema, "frontmatter.live_token_target": RuleSchema,
		"frontmatter.category": RuleSchema, "frontmatter.colour": RuleKey,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("R-SRC-18 four faults in one file (-want +got):\n%s", diff)
	}
	for _, d := range all {
		if d.Field == "frontmatter.title" && !strings.HasPrefix(d.Message, "line 3: ") {
			t.Errorf("R-SRC-18 message %q, want its line, 3", d.Message)
		}
	}
}

func TestWindowsFilesReadLikeOthers(t *testing.T) {
	plain := parsed(t, file(good, "\nOne.\n\nTwo.\n"))
	dos := parsed(t, append([]byte("\xef\xbb\xbf"), bytes.ReplaceAll(file(good, "\nOne.\n\nTwo.\n"), []byte("\n"), []byte("\r\n"))...))
	if diff := cmp.Diff(plain, dos); diff != "" {
		t.Errorf("R-SRC-04 byte order mark and CRLF against plain (-plain +dos):\n%s", diff)
	}
	if contracts.Hash(plain.Body) != contracts.Hash(dos.Body) {
		t.Error("R-SRC-04 the two bodies have different hashes")
	}
}

func TestBodiesAreExact(t *testing.T) {
	for _, body := range []string{"x", "\n\n\nx", "x\n\n\n", "---\n", "a\n---\nb\n---\n", "---\nid: other\n---\nx", "  \t x", "```\n---\n```\n", "\n---", "---", "a\n...\nb", "Ⅷ é é 🙂\n"} {
		if got := parsed(t, file(good, body)).Body; got != body {
			t.Errorf("R-SRC-05 body: read %q, want %q", got, body)
		}
	}
}

func TestResearchBasisIsTheOneExtraKey(t *testing.T) {
	doc := parsed(t, file(good+"research_basis: [A.1.2, A.3.1]\n", "x"))
	if diff := cmp.Diff(contracts.List[string]{"A.1.2", "A.3.1"}, doc.Frontmatter.ResearchBasis); diff != "" {
		t.Errorf("R-SRC-01 G-006 research_basis (-want +got):\n%s", diff)
	}
}
