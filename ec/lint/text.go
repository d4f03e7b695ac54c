package lint

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// Origin says where a text comes from.
type Origin int

// The origins. A person may quote an attack in order to forbid it, and is asked
// to look again; an optimizer has no reason to.
const (
	Person Origin = iota
	Optimizer
)

// Severity is what a finding means for the text, and what a report comes to.
type Severity string

// The severities, from best to worst.
const (
	Pass   Severity = "pass"
	Note   Severity = "note"   // to be shown, refuses nothing
	Review Severity = "review" // may be saved after a person has looked
	Block  Severity = "block"
)

// Rule codes of save-time validation. Those of a file's form are in frontmatter.
const (
	RuleDuplicate   = "duplicate_id"
	RuleMarker      = "reserved_marker"
	RuleAttack      = "hierarchy_attack"
	RuleConflict    = "asymmetric_conflict"
	RuleTooLong     = "live_body_too_long"
	RuleClass       = "class_mismatch"
	RulePlaceholder = "placeholder_not_allowed"
	RulePreset      = "preset_reserved"
)

// Finding is one reason to look at a text or to refuse it. Start and End are
// byte offsets into the text as it was given.
type Finding struct {
	Rule     string // code, such as hierarchy_attack
	ID       string // which pattern of the rule, such as override.former
	Message  string // one sentence, without the text itself
	Severity Severity
	Start    int
	End      int
	InSource bool // the span is in a candidate's source: something of it is gone
}

// Report is what the prompt lint says of one text.
type Report struct {
	Verdict  Severity // the worst of the findings
	Findings []Finding
}

// phraseMatcher compiles the phrase list on first use.
var phraseMatcher = sync.OnceValue(newMatcher)

// Text lints a text that may become part of a prompt. placeholders says whether
// the artifact's kind may hold {{placeholders}} at all.
func Text(text string, origin Origin, placeholders bool) Report {
	if len(text) > MaxText {
		return report([]Finding{{Rule: frontmatter.RuleTooLarge, ID: "size", Message: fmt.Sprintf("is larger than %d bytes", MaxText), Severity: Block, End: len(text)}})
	}
	found := characters(text)
	f := fold(text)
	found = append(found, markers(&f)...)
	if !placeholders {
		for _, at := range placeholder.FindAllStringIndex(text, -1) {
			found = append(found, Finding{Rule: RulePlaceholder, ID: "placeholder", Message: "holds a placeholder ({{...}}), which is not allowed here", Severity: Block, Start: at[0], End: at[1]})
		}
	}
	found = append(found, attacks(&f)...)
	for i := range found {
		if origin == Optimizer && found[i].Severity == Review {
			found[i].Severity = Block
		}
	}
	return report(found)
}

func report(found []Finding) Report {
	sort.SliceStable(found, func(i, j int) bool { return found[i].Start < found[j].Start })
	r := Report{Verdict: Pass, Findings: found}
	for _, f := range found {
		if f.Severity == Block || r.Verdict == Pass {
			r.Verdict = f.Severity
		}
	}
	const most = 100
	r.Findings = found[:min(len(found), most)]
	return r
}

// characters finds what no reader can see, and what is not text.
func characters(text string) []Finding {
	var out []Finding
	for _, d := range frontmatter.CheckText("", text, 1) {
		out = append(out, Finding{Rule: d.Rule, ID: "control", Message: d.Message, Severity: Block})
	}
	prev := rune(0)
	for i, r := range text {
		if frontmatter.Hidden(prev, r) {
			return append(out, Finding{Rule: frontmatter.RuleHidden, ID: "hidden", Message: fmt.Sprintf("line %d: holds the invisible character U+%04X", 1+strings.Count(text[:i], "\n"), r), Severity: Block, Start: i, End: i + len(string(r))})
		}
		prev = r
	}
	return out
}

var (
	placeholder = regexp.MustCompile(`\{\{[^{}\n]{0,200}\}?\}?`)
	// control tokens of chat formats: a tokenizer may take them for turns
	chatToken = regexp.MustCompile(`<\|[a-z0-9_ ]{2,30}\|>|\[/?inst\]|<</?sys>>|<(start|end)_of_turn>|</s>`)
	// a line that poses as another speaker
	speaker = regexp.MustCompile(`(?m)^[ \t>*_#]*(system|developer|assistant)[ \t*_]*:|</?(system|developer|assistant)>`)
)

// markers finds reserved frame markers and the control tokens of chat formats,
// also in disguise. An escaped marker is text.
func markers(f *folded) []Finding {
	var b strings.Builder
	var owner []int
	for i, l := range f.flat {
		n, _ := b.WriteRune(l.r)
		for range n {
			owner = append(owner, i)
		}
	}
	flat := b.String()
	span := func(from, to int) (int, int) { return f.flat[owner[from]].start, f.flat[owner[to-1]].end }
	var out []Finding
	for _, m := range contracts.FrameMarkers() {
		m = strings.ToLower(m)
		for from := 0; ; {
			at := strings.Index(flat[from:], m)
			if at < 0 {
				break
			}
			s, e := span(from+at, from+at+len(m))
			out = append(out, Finding{Rule: RuleMarker, ID: "frame", Message: "holds a reserved frame marker; escape it with a backslash after its first bracket", Severity: Block, Start: s, End: e})
			from += at + len(m)
		}
	}
	for _, at := range chatToken.FindAllStringIndex(flat, -1) {
		s, e := span(at[0], at[1])
		out = append(out, Finding{Rule: RuleMarker, ID: "chat_token", Message: "holds a control token of a chat format", Severity: Block, Start: s, End: e})
	}
	for _, at := range speaker.FindAllStringIndex(flat, -1) {
		s, e := span(at[0], at[1])
		out = append(out, Finding{Rule: RuleAttack, ID: "speaker", Message: "holds a line that poses as a speaker of its own", Severity: Review, Start: s, End: e})
	}
	return out
}

// attacks finds phrases against the hierarchy of instructions, safety, the
// system prompt, provenance and truth.
func attacks(f *folded) []Finding {
	m := phraseMatcher()
	quotes := quotations(f.text)
	var out []Finding
	for _, h := range m.find(f) {
		p := m.phrases[h.phrase]
		v := Block
		switch {
		case p.mention, p.scoped && m.elsewhere(f, h):
			v = Review
		case h.disguised, h.crosses > 2: // nobody disguises a quotation
		case h.crosses > 0, m.mentioned(f, h, quotes):
			v = Review
		}
		out = keepWorst(out, Finding{Rule: RuleAttack, ID: p.id, Message: p.what, Severity: v, Start: f.tokens[h.first].start, End: f.tokens[h.last].end})
	}
	return out
}

// keepWorst adds a finding, or lets it take the place of a milder one that
// overlaps it: one place in a text is one finding.
func keepWorst(found []Finding, f Finding) []Finding {
	for i, o := range found {
		if o.Start < f.End && f.Start < o.End {
			if o.Severity == Review && f.Severity == Block {
				found[i] = f
			}
			return found
		}
	}
	return append(found, f)
}
