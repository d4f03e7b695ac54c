package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// Rule codes of candidate gates, beside those of the lint.
const (
	RuleUnchanged       = "unchanged"
	RuleEmpty           = "empty"
	RuleSection         = "section_lost"
	RuleBanned          = "banned_phrase"
	RuleGrowth          = "length_growth"
	RulePlaceholderLost = "placeholder_lost"
	RuleClause          = "clause_lost"
	RuleLeak            = "example_leak"
	RuleSecret          = "secret_added"
	RulePersonal        = "personal_detail_added"
)

// defaultGrowth is how much longer than its source a candidate may be.
const defaultGrowth = 1.3

// GateRules are what a job demands of its candidates.
type GateRules struct {
	Kind             contracts.PromptArtifactKind
	Live             bool     // the artifact is a live overlay: its token limit holds
	BannedPhrases    []string // compared word by word, whatever the spelling's disguise
	PreserveSections []string // headings that must stay, in the source's order
	MaxGrowth        float64  // of estimated tokens; 0 means 1.3
	Examples         []string // texts of which nothing may be copied
}

// Gates checks a candidate that an optimizer made of source. A candidate with a
// finding of severity block is no candidate; notes are shown to whoever decides.
func Gates(source, candidate string, rules GateRules) []Finding {
	source, candidate = contracts.Normalize(source), contracts.Normalize(candidate)
	switch {
	case len(candidate) > MaxText:
		return []Finding{gate(frontmatter.RuleTooLarge, 0, len(candidate), "is larger than %d bytes", MaxText)}
	case strings.TrimSpace(candidate) == "":
		return []Finding{gate(RuleEmpty, 0, len(candidate), "is empty")}
	case strings.TrimSpace(candidate) == strings.TrimSpace(source):
		return []Finding{gate(RuleUnchanged, 0, len(candidate), "is the source itself")}
	}
	src, cand := fold(source), fold(candidate)
	var out []Finding
	out = append(out, lintGate(&src, candidate, rules.Kind)...)
	out = append(out, sections(source, candidate, rules.PreserveSections)...)
	out = append(out, banned(&cand, rules.BannedPhrases)...)
	out = append(out, placeholders(source, candidate, rules.Kind)...)
	out = append(out, length(source, candidate, rules)...)
	out = append(out, clauses(&src, &cand)...)
	out = append(out, leaks(source, candidate, rules.Examples)...)
	return append(out, private(source, candidate)...)
}

func gate(rule string, from, to int, format string, args ...any) Finding {
	return Finding{Rule: rule, ID: rule, Message: fmt.Sprintf(format, args...), Severity: Block, Start: from, End: to}
}

func note(rule string, from, to int, format string, args ...any) Finding {
	f := gate(rule, from, to, format, args...)
	f.Severity = Note
	return f
}

// lintGate is the prompt lint of an optimizer's text. A mention that a person
// already accepted, word for word in the source, may be carried over.
func lintGate(src *folded, candidate string, kind contracts.PromptArtifactKind) []Finding {
	found := Text(candidate, Person, kind != contracts.KindOverlay).Findings
	for i, f := range found {
		if f.Severity != Review {
			continue
		}
		found[i].Severity = Block
		if strings.Contains(src.text, lineAround(candidate, f.Start, f.End)) {
			found[i].Severity = Note
			found[i].Message += "; it stands in the source already"
		}
	}
	return found
}

func lineAround(text string, from, to int) string {
	start := strings.LastIndexByte(text[:from], '\n') + 1
	if end := strings.IndexByte(text[to:], '\n'); end >= 0 {
		return text[start : to+end]
	}
	return text[start:]
}

// sections checks that required headings stay, and in order. Other headings of
// the source may go, which is noted.
func sections(source, candidate string, required []string) []Finding {
	var out []Finding
	have := lineKeys(candidate)
	was := lineKeys(source)
	from := 0
	var wanted []string
	for _, s := range required {
		key := lineKey(s)
		if key == "" {
			continue
		}
		wanted = append(wanted, key)
		if !slices.Contains(was, key) {
			out = append(out, note(RuleSection, 0, 0, "has no section to keep by the name of required section %d: the source has none", len(wanted)))
			continue
		}
		at := slices.Index(have[from:], key)
		if at < 0 {
			out = append(out, gate(RuleSection, 0, 0, "loses the required section %q or moves it out of order", heading(s)))
			continue
		}
		from += at + 1
	}
	for _, at := range headingLine.FindAllStringIndex(source, -1) {
		line := source[at[0]:at[1]]
		if key := lineKey(line); !slices.Contains(have, key) && !slices.Contains(wanted, key) {
			f := note(RuleSection, at[0], at[1], "loses the heading %q of the source", heading(line))
			f.InSource = true
			out = append(out, f)
		}
	}
	return out
}

var headingLine = regexp.MustCompile(`(?m)^#{1,6}[ \t]+.*$`)

func heading(s string) string { return strings.Trim(s, "#*_: \t") }

func lineKey(line string) string { return strings.Join(foldWords(line), " ") }

func lineKeys(text string) []string {
	var out []string
	for _, l := range strings.Split(text, "\n") {
		out = append(out, lineKey(l))
	}
	return out
}

// banned finds phrases that the job forbids.
func banned(cand *folded, phrases []string) []Finding {
	var out []Finding
	for n, p := range phrases {
		want := foldWords(p)
		if len(want) == 0 { // signs only
			if at := strings.Index(cand.text, p); at >= 0 && p != "" {
				out = append(out, gate(RuleBanned, at, at+len(p), "holds banned phrase %d of the job", n+1))
			}
			continue
		}
		for i := range cand.tokens {
			if run(cand.tokens[i:], want) {
				out = append(out, gate(RuleBanned, cand.tokens[i].start, cand.tokens[i+len(want)-1].end, "holds banned phrase %d of the job", n+1))
				break
			}
		}
	}
	return out
}

func run(tokens []token, want []string) bool {
	if len(tokens) < len(want) {
		return false
	}
	for i, w := range want {
		if tokens[i].key != w {
			return false
		}
	}
	return true
}

var named = regexp.MustCompile(`\{\{[^{}\n]{1,200}\}\}`)

// placeholders checks that a recipe's or template's placeholders are the same;
// the lint has refused every one in an overlay.
func placeholders(source, candidate string, kind contracts.PromptArtifactKind) []Finding {
	if kind == contracts.KindOverlay {
		return nil
	}
	var out []Finding
	for _, at := range named.FindAllStringIndex(source, -1) {
		if !strings.Contains(candidate, source[at[0]:at[1]]) {
			f := gate(RulePlaceholderLost, at[0], at[1], "loses a placeholder of the source")
			f.InSource = true
			out = append(out, f)
		}
	}
	for _, at := range placeholder.FindAllStringIndex(candidate, -1) {
		if p := candidate[at[0]:at[1]]; !strings.Contains(source, p) || !named.MatchString(p) {
			out = append(out, gate(RulePlaceholder, at[0], at[1], "holds a placeholder that the source does not have"))
		}
	}
	return out
}

// length bounds growth, and the size of the artifact's class.
func length(source, candidate string, rules GateRules) []Finding {
	growth := rules.MaxGrowth
	if growth == 0 {
		growth = defaultGrowth
	}
	var out []Finding
	was, is := contracts.EstimateTokens(source), contracts.EstimateTokens(candidate)
	if limit := int(float64(was) * growth); is > limit {
		out = append(out, gate(RuleGrowth, 0, len(candidate), "is estimated at %d tokens; %.1f times the source allows %d", is, growth, limit))
	}
	switch {
	case rules.Live && is > MaxLiveTokens:
		out = append(out, gate(RuleTooLong, 0, len(candidate), "is estimated at %d tokens; a live overlay may have %d", is, MaxLiveTokens))
	case rules.Kind == contracts.KindOverlay && !rules.Live && len(candidate) > MaxOtherBody:
		out = append(out, gate(frontmatter.RuleTooLarge, 0, len(candidate), "has %d bytes; an overlay of this class may have %d", len(candidate), MaxOtherBody))
	}
	return out
}
