package frontmatter

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/elnor/promptlab/contracts"
)

// Format writes an overlay file in its one canonical form: keys in the order of
// the contract, empty optional keys left out, then the body byte for byte.
// Parse(Format(fm, body)) gives fm and body back.
func Format(fm contracts.OverlayTemplateFrontmatter, body string) []byte {
	var b strings.Builder
	b.WriteString(fence + "\n")
	for _, f := range fields(fm) {
		b.WriteString(render(f.key, f.value, "\n"))
	}
	b.WriteString(fence + "\n" + body)
	return []byte(b.String())
}

// keyed is a key with its value: string, int, bool, []string (on one line) or
// prose (one line each); nil means the key is left out.
type keyed struct {
	key   string
	value any
}

type prose []string

// fields lists a header in canonical order.
func fields(fm contracts.OverlayTemplateFrontmatter) []keyed {
	return []keyed{
		{"id", string(fm.ID)},
		{"title", fm.Title},
		{"artifact_class", string(fm.ArtifactClass)},
		{"category", string(fm.Category)},
		{"description", fm.Description},
		{"visibility_tier", string(fm.VisibilityTier)},
		{"supported_surfaces", texts(fm.SupportedSurfaces)},
		{"recommended_model_classes", texts(fm.RecommendedModelClasses)}, // [] is not the default: always written
		{"reasoning_model_caution", optional(fm.ReasoningModelCaution)},
		{"conflicts_with", some(texts(fm.ConflictsWith))},
		{"warns_with", some(texts(fm.WarnsWith))},
		{"compatible_categories", some(texts(fm.CompatibleCategories))},
		{"live_token_target", fm.LiveTokenTarget},
		{"estimated_tokens", positive(fm.EstimatedTokens)},
		{"requires_explicit_invocation", onlyTrue(fm.RequiresExplicitInvocation)},
		{"suggested_use_cases", lines(fm.SuggestedUseCases)},
		{"avoid_when", lines(fm.AvoidWhen)},
		{"structure_labels", some(texts(fm.StructureLabels))},
		{"research_tags", some(texts(fm.ResearchTags))},
		{"research_basis", some(texts(fm.ResearchBasis))},
		{"preset", onlyTrue(fm.Preset)},
		{"deprecated_aliases", some(texts(fm.DeprecatedAliases))},
		{"version", version(fm.Version)},
	}
}

// version is always quoted, so that no reader takes 1.0 for a number.
type version string

func texts[S ~string](in []S) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

func some(l []string) any {
	if len(l) == 0 {
		return nil
	}
	return l
}

func lines(l []string) any {
	if len(l) == 0 {
		return nil
	}
	return prose(l)
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func positive(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func onlyTrue(b bool) any {
	if !b {
		return nil
	}
	return true
}

// render writes one key with its value as whole lines ending in newline; it is
// empty for nil.
func render(key string, value any, newline string) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return key + ": " + quote(v, plainText) + newline
	case version:
		return key + ": " + quote(string(v), nil) + newline
	case int:
		return key + ": " + strconv.Itoa(v) + newline
	case bool:
		return key + ": " + strconv.FormatBool(v) + newline
	case []string:
		items := make([]string, len(v))
		for i, s := range v {
			items[i] = quote(s, plainWord)
		}
		return key + ": [" + strings.Join(items, ", ") + "]" + newline
	case prose:
		var b strings.Builder
		b.WriteString(key + ":" + newline)
		for _, s := range v {
			b.WriteString("  - " + quote(s, plainText) + newline)
		}
		return b.String()
	default:
		panic(fmt.Sprintf("frontmatter: no form for a %T", value)) // our own calls only
	}
}

// What may stand without quotes: words on one line that no reader takes for
// anything but text.
var (
	plainText = regexp.MustCompile(`^\pL[\pL\pN ,.;()/'’_-]*$`)
	plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

// quote gives s plain where that is safe, else in double quotes with escapes.
func quote(s string, plain *regexp.Regexp) string {
	if plain != nil && plain.MatchString(s) && !strings.HasSuffix(s, " ") && !boolLike(s) && !strings.EqualFold(s, "null") && len(s) < 1000 {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
