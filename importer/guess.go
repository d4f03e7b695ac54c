package importer

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/lint"
)

// slug makes an id of a name; it is empty when no letter or digit is left.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case latin(r) != "":
			b.WriteString(latin(r))
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 56 { // room for what makes it unique
			break
		}
	}
	return strings.Trim(b.String(), "-")
}

func latin(r rune) string {
	switch r {
	case 'ä', 'æ':
		return "ae"
	case 'ö', 'ø', 'œ':
		return "oe"
	case 'ü':
		return "ue"
	case 'ß':
		return "ss"
	case 'à', 'á', 'â', 'ã', 'å':
		return "a"
	case 'è', 'é', 'ê', 'ë':
		return "e"
	case 'ì', 'í', 'î', 'ï':
		return "i"
	case 'ò', 'ó', 'ô', 'õ':
		return "o"
	case 'ù', 'ú', 'û':
		return "u"
	case 'ç':
		return "c"
	case 'ñ':
		return "n"
	}
	return ""
}

// idFor makes an id that nothing in taken has; next remembers which number comes
// next for a name. A word says what was changed.
func idFor(d draft, taken map[contracts.OverlayID]bool, next map[string]int) (contracts.OverlayID, string) {
	base, word := slug(d.name), ""
	if base == "" {
		base = "imported-" + contracts.Hash(d.body)[:8]
		word = "the name gives no id; one was made from the text"
	}
	if reserved(base) {
		base, word = base+"-overlay", fmt.Sprintf("the id %s has a meaning of its own; another is proposed", base)
	}
	if _, preset := lint.PresetClass(contracts.OverlayID(base)); preset {
		base, word = base+"-imported", fmt.Sprintf("the id %s belongs to a preset; another is proposed", base)
	}
	id := contracts.OverlayID(base)
	for n := max(2, next[base]); taken[id]; n++ {
		next[base] = n + 1
		id = contracts.OverlayID(fmt.Sprintf("%s-%d", base, n))
		word = fmt.Sprintf("the id %s is taken by another file of this import; a number makes it unique", base)
	}
	return id, word
}

// reserved finds the ids that a route or a file system means something else by.
func reserved(id string) bool {
	switch id {
	case "search", "con", "prn", "aux", "nul":
		return true
	}
	return len(id) == 4 && (strings.HasPrefix(id, "com") || strings.HasPrefix(id, "lpt")) && unicode.IsDigit(rune(id[3]))
}

// humanTitle makes a title of a name that is written like an id.
func humanTitle(name string) string {
	if strings.ContainsAny(name, " ") {
		return oneLine(name)
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '/' })
	for i, w := range words {
		r, n := utf8.DecodeRuneInString(w)
		words[i] = string(unicode.ToUpper(r)) + w[n:]
	}
	return strings.Join(words, " ")
}

// firstHeading gives the text of the first Markdown heading outside fences.
func firstHeading(body string) string {
	fenced := false
	for line := range strings.SplitSeq(body, "\n") {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			fenced = !fenced
		}
		if rest := strings.TrimLeft(t, "#"); !fenced && len(t)-len(rest) >= 1 && len(t)-len(rest) <= 6 && strings.HasPrefix(rest, " ") {
			if h := strings.Trim(rest, " #*_`"); h != "" {
				return oneLine(h)
			}
		}
	}
	return ""
}

// firstSentence gives the first line of prose, cut to a description's usual length.
func firstSentence(body string) string {
	fenced := false
	for line := range strings.SplitSeq(body, "\n") {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			fenced = !fenced
			continue
		}
		if fenced || t == "" || strings.ContainsRune("#|<-*>", rune(t[0])) || strings.Contains(t, "{{") {
			continue
		}
		return cut(oneLine(t), 200)
	}
	return ""
}

// cut shortens a text to most characters, at a space where there is one.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	s = string([]rune(s)[:most-1])
	if at := strings.LastIndexByte(s, ' '); at > len(s)/2 {
		s = s[:at]
	}
	return strings.TrimRight(s, " ,;:") + "…"
}

// baseName is a file's name without folders and endings.
func baseName(p string) string {
	b := path.Base(p)
	for _, end := range []string{".instructions.md", ".prompt.md", ".mdc", ".markdown", ".md", ".json", ".txt"} {
		if low := strings.ToLower(b); strings.HasSuffix(low, end) && len(b) > len(end) {
			return b[:len(b)-len(end)]
		}
	}
	return strings.TrimPrefix(b, ".")
}

// guessClass says how a text would be used, and why that is thought.
func guessClass(d draft) (contracts.OverlayArtifactClass, string) {
	about := strings.ToLower(d.name + " " + d.title + " " + d.description)
	for _, w := range []string{"retrospective", "post-mortem", "postmortem", "debrief", "lessons learned", "reflexion"} {
		if strings.Contains(about, w) && !strings.Contains(about, "pre-mortem") {
			return contracts.ClassPostTask, fmt.Sprintf("it speaks of a look back (%s)", w)
		}
	}
	for _, w := range []string{"elicit", "interview me", "clarifying questions", "prompt engineer", "improve prompt", "prompt rewrit"} {
		if strings.Contains(about, w) {
			return contracts.ClassAdvisor, fmt.Sprintf("it works on a prompt before the work begins (%s)", w)
		}
	}
	if n := contracts.EstimateTokens(d.body); n > lint.MaxLiveTokens {
		return contracts.ClassAdvisor, fmt.Sprintf("about %d tokens are too many for a live overlay, which may have %d", n, lint.MaxLiveTokens)
	}
	return contracts.ClassLive, "it is short enough to stand beside every message"
}

func surfaces(c contracts.OverlayArtifactClass) contracts.List[contracts.SupportedSurface] {
	switch c {
	case contracts.ClassAdvisor:
		return contracts.List[contracts.SupportedSurface]{contracts.SurfaceAdvisor, contracts.SurfaceTask}
	case contracts.ClassPostTask:
		return contracts.List[contracts.SupportedSurface]{contracts.SurfacePostTask}
	default:
		return contracts.List[contracts.SupportedSurface]{contracts.SurfaceChat, contracts.SurfaceRoom, contracts.SurfacePanel, contracts.SurfaceTask}
	}
}

// categoryWords point to a category; each is the beginning of a word.
func categoryWords() []struct {
	category contracts.OverlayCategory
	words    []string
} {
	return []struct {
		category contracts.OverlayCategory
		words    []string
	}{
		{"legal", []string{"legal", "contract", "statute", "clause", "compliance", "gdpr", "lawyer"}},
		{"review", []string{"review", "critique", "audit", "feedback", "proofread"}},
		{"architecture", []string{"architect", "system design", "microservice", "adr"}},
		{"coding", []string{"code", "coding", "typescript", "javascript", "python", "golang", "react", "function", "refactor", "lint", "unit test", "api", "commit", "sql", "css", "rust"}},
		{"creative", []string{"creative", "story", "brainstorm", "fiction", "poem", "marketing copy"}},
		{"strategy", []string{"strategy", "strategic", "roadmap", "market", "okr", "business", "stakeholder"}},
		{"analysis", []string{"analy", "research", "data", "evidence", "summar", "compare"}},
		{"debrief", []string{"debrief", "retrospective", "post mortem", "lessons learned"}},
		{"quality", []string{"quality", "accura", "verif", "concise", "style", "tone", "checklist"}},
	}
}

// guessCategory weighs words: three for the name, title and description, one for
// the beginning of the text.
func guessCategory(d draft, class contracts.OverlayArtifactClass) (contracts.OverlayCategory, string) {
	if class == contracts.ClassPostTask {
		return "debrief", "it is a look back"
	}
	about := " " + words(d.name+" "+d.title+" "+d.description+" "+strings.Join(d.tags, " "))
	text := " " + words(d.body[:min(len(d.body), 4000)])
	best, score, because := contracts.OverlayCategory("quality"), 0, "no word of it points elsewhere"
	for _, c := range categoryWords() {
		sum, found := 0, []string(nil)
		for _, w := range c.words {
			n := 3*min(1, strings.Count(about, " "+w)) + min(2, strings.Count(text, " "+w))
			if n > 0 {
				sum, found = sum+n, append(found, w)
			}
		}
		if sum > score {
			best, score, because = c.category, sum, "it speaks of "+strings.Join(found, ", ")
		}
	}
	return best, because
}

// words lowers a text and sets what is neither letter nor digit to spaces.
func words(s string) string {
	return oneLine(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return ' '
	}, s))
}

// tokenTarget is the estimate with a little room, within what a header allows.
func tokenTarget(tokens int) int { return min(450, max(40, (tokens+9)/10*10)) }
