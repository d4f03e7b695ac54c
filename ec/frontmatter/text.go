package frontmatter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/elnor/promptlab/internal/fault"
)

// Sizes in bytes, after normalisation.
const (
	MaxHeader = 16 << 10 // between the fences
	MaxBody   = 32 << 10
	maxFile   = MaxHeader + MaxBody + 64 // 64: fences, byte order mark
)

// Rule codes of this package.
const (
	RuleID       = "invalid_id"
	RuleKey      = "unknown_key"
	RuleYAML     = "unsafe_yaml"
	RuleSchema   = "schema_violation"
	RuleText     = "unsafe_text"
	RuleHidden   = "hidden_character"
	RuleTooLarge = "too_large"
)

// CheckText refuses what no stored text may hold: bytes that are not UTF-8,
// control characters other than newline and tab, and line breaks that not every
// reader sees as one (a lone carriage return, U+0085, U+2028, U+2029). Each kind
// of problem is reported once, at its first place; line numbers count from line.
func CheckText(field, text string, line int) []fault.Detail {
	var out []fault.Detail
	seen := map[string]bool{}
	report := func(at int, format string, args ...any) {
		if what := fmt.Sprintf(format, args...); !seen[what] {
			seen[what] = true
			out = append(out, fault.Detail{Field: field, Rule: RuleText, Message: fmt.Sprintf("line %d: %s", at, what)})
		}
	}
	for i, r := range text {
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				report(line, "is not valid UTF-8")
			}
		case r == '\r':
			report(line, "holds a carriage return that is not part of a CRLF line end")
		case r == '\u0085', r == '\u2028', r == '\u2029':
			report(line, "holds the line separator U+%04X; use a plain newline", r)
		case r != '\t' && unicode.IsControl(r):
			report(line, "holds the control character U+%04X", r)
		}
	}
	return out
}

// CheckHidden finds the first character that a reader cannot see.
func CheckHidden(field, text string, line int) []fault.Detail {
	prev := rune(0)
	for i, r := range text {
		if Hidden(prev, r) {
			at := line + strings.Count(text[:i], "\n")
			return []fault.Detail{{Field: field, Rule: RuleHidden, Message: fmt.Sprintf("line %d: holds the invisible character U+%04X", at, r)}}
		}
		prev = r
	}
	return nil
}

// Hidden says whether r is invisible where it stands: zero width, bidirectional
// control, tag, filler or variation selector. An emoji's own presentation
// selector after a symbol is not hidden; prev is the rune before r, or 0.
func Hidden(prev, r rune) bool {
	if r == '\ufe0e' || r == '\ufe0f' {
		return prev < 0x2000 || unicode.IsLetter(prev) || unicode.Is(hiddenRunes, prev)
	}
	return unicode.Is(hiddenRunes, r)
}

// hiddenRunes is sorted, as unicode.Is needs it.
var hiddenRunes = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, // soft hyphen
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // grapheme joiner
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, // Arabic letter mark
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x200b, Hi: 0x200f, Stride: 1}, // zero width, marks
		{Lo: 0x202a, Hi: 0x202e, Stride: 1}, // embeddings, overrides
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, // joiner, invisible operators, isolates
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // blank Braille pattern
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark inside a text
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // halfwidth filler
		{Lo: 0xfff0, Hi: 0xfffb, Stride: 1}, // annotations
	},
	R32: []unicode.Range32{
		{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1}, // shorthand format controls
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, // musical format controls
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, supplementary selectors
	},
	LatinOffset: 1,
}
