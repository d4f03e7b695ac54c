package frontmatter

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
)

// Bugs that other front matter readers have had in public, as cases for ours.
// A row either reads exactly (body, title) or is refused under a rule.
func TestPublicParserBugs(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	head := "---\n" + good + "---\n"
	tests := []struct {
		bug, src    string
		body, title string // when it reads
		rule        string // when it is refused
	}{
		// three hyphens in a value, in the body, in a block text, under a heading
		{bug: "jonschlinkert/gray-matter#9", src: string(file(with(`title: "a --- b"`), "x")), body: "x", title: "a --- b"},
		{bug: "waiting-for-dev/front_matter_parser#4", src: head + "a\n---\nb\n", body: "a\n---\nb\n"},
		{bug: "Modularr/YAML-FrontMatter#21", src: head + "---\n---\nx\n---\n", body: "---\n---\nx\n---\n"},
		{bug: "activexray/cybermonday#62", src: head + "| a | b |\n|---|---|\n| 1 | 2 |\n", body: "| a | b |\n|---|---|\n| 1 | 2 |\n"},
		{bug: "jonbeebe/frontmatter#4", src: string(file(with("title: |-\n  a\n  ---\n  b"), "x")), body: "x", title: "a\n---\nb"},
		{bug: "chrisdiana/cms.js#51", src: head + "Title\n---\ntext ---- text\n", body: "Title\n---\ntext ---- text\n"},
		{bug: "dworthen/js-yaml-front-matter#1", src: head + "x --- y", body: "x --- y"},
		{bug: "sveltia/sveltia-cms#833", src: string(file(with("title: a---b"), "---")), body: "---", title: "a---b"},
		// a space after the fence: said, not guessed
		{bug: "pngwn/MDsveX#425 opening", src: "--- \n" + good + "---\nx", rule: RuleYAML},
		{bug: "pngwn/MDsveX#425 closing", src: "---\n" + good + "--- \nx", rule: RuleYAML},
		// CRLF
		{bug: "eyeseast/python-frontmatter#20", src: crlf(head + "x\n"), body: "x\n"},
		{bug: "microsoft/genaiscript#392", src: crlf(head) + "a\nb", body: "a\nb"},
		{bug: "ai-swiss/base#15", src: crlf(head + "\nx\n\n"), body: "\nx\n\n"},
		{bug: "colinta/StrangeCase#36", src: crlf(string(file(with("title: |-\n  a\n  b"), "x"))), body: "x", title: "a\nb"},
		// byte order mark: read, never an empty header
		{bug: "jekyll/jekyll#2853", src: "\ufeff" + head + "x", body: "x"},
		{bug: "jekyll/jekyll#7817", src: "\ufeff" + crlf(head) + "x", body: "x"},
		{bug: "open-gsd/gsd-core#2977", src: "\ufeff\ufeff" + head + "x", rule: RuleYAML},
		{bug: "Pratiyush/llm-wiki#435", src: "---\n\ufeff" + good + "---\nx", rule: RuleHidden},
		// bad bytes
		{bug: "jekyll/jekyll#2228", src: string(file(with("title: Caf\xe9"), "x")), rule: RuleText},
		// dates and times are not moved or turned into numbers
		{bug: "eyeseast/python-frontmatter#61", src: string(file(with("title: 10:00"), "x")), rule: RuleSchema},
		{bug: "eyeseast/python-frontmatter#102", src: string(file(with("title: 2026-01-31T10:00:00+02:00"), "x")), rule: RuleSchema},
		{bug: "jxson/front-matter#78", src: string(file(with("version: 2026-01-31"), "x")), rule: RuleSchema},
		{bug: "bitbonsai/mcpvault#77", src: string(file(with(`title: "2026-01-31"`), "x")), body: "x", title: "2026-01-31"},
		// a duplicated block, duplicate keys
		{bug: "platers/obsidian-linter#1537", src: head + head + "x", body: head + "x"},
		{bug: "Vasallo94/obsidian-mcp-server#64", src: "---\n" + good + good + "---\nx", rule: RuleYAML},
		// crashes of parsers
		{bug: "go-yaml/yaml#666", src: "---\n0: [:!00 \xef\n---\nx", rule: RuleText},
		{bug: "goccy/go-yaml#464", src: "---\na:\n- b\n  c: d\n  e: f\n  g: h\n---\nx", rule: RuleYAML},
		{bug: "mikefarah/yq#2040", src: "---\n- [\n---\nx", rule: RuleYAML},
	}
	for _, tt := range tests {
		t.Run("R-SRC-02 R-SRC-05 "+tt.bug, func(t *testing.T) {
			doc, err := Parse([]byte(tt.src))
			if tt.rule != "" {
				if err == nil {
					t.Fatalf("parse %q: accepted as %+v, want %s", tt.src, doc, tt.rule)
				}
				for _, d := range details(t, err) {
					if d.Rule == tt.rule {
						return
					}
				}
				t.Fatalf("parse %q: got %v, want rule %s", tt.src, err, tt.rule)
			}
			if err != nil {
				t.Fatalf("parse %q: %v", tt.src, err)
			}
			if tt.title == "" {
				tt.title = "Brief Notes"
			}
			if doc.Body != tt.body || doc.Frontmatter.Title != tt.title {
				t.Errorf("parse %q: body %q, title %q; want %q, %q", tt.src, doc.Body, doc.Frontmatter.Title, tt.body, tt.title)
			}
		})
	}
}

// An edit of one field keeps order, comments and unusual forms of the others:
// eyeseast/python-frontmatter#117, nimbalyst/nimbalyst#1552,
// cyanheads/obsidian-mcp-server#89.
func TestPublicWriterBugs(t *testing.T) {
	doc := parsed(t, []byte(edited))
	fm := doc.Frontmatter
	fm.LiveTokenTarget = 120
	out, err := Update([]byte(edited), fm, doc.Body)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if want := strings.Replace(edited, "live_token_target: 100", "live_token_target: 120", 1); string(out) != want {
		t.Errorf("R-SRC-05 one-field edit: got\n%s\nwant\n%s", out, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(good, "Body.\n"))
	f.Add([]byte(edited))
	f.Add(file(with("title: *a"), "x"))
	f.Add(file(good+"avoid_when:\n- a\n-   b\n- |\n  c\n", "---\n"))
	f.Add([]byte("\ufeff---\r\nid: a\r\n---\r\nx"))
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := Parse(src)
		if err != nil {
			details(t, err)
			return
		}
		again, err := Parse(Format(doc.Frontmatter, doc.Body))
		if err != nil {
			t.Fatalf("R-SRC-05: what was read cannot be written and read again: %v\n%q", err, src)
		}
		if again.Body != doc.Body || contracts.HashJSON(again.Frontmatter) != contracts.HashJSON(doc.Frontmatter) {
			t.Fatalf("R-SRC-05: read %+v, then %+v", doc, again)
		}
		out, err := Splice(src, Change{"live_token_target", 77})
		if err != nil {
			t.Fatalf("R-SRC-05: a valid file cannot be spliced: %v\n%q", err, src)
		}
		if d, err := Parse(out); err != nil || d.Frontmatter.LiveTokenTarget != 77 {
			t.Fatalf("R-SRC-05: after the splice: %v, target %d", err, d.Frontmatter.LiveTokenTarget)
		}
	})
}
