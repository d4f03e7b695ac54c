package frontmatter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elnor/promptlab/contracts"
)

// anyText draws text that may be stored: traps for YAML and for fences included.
func anyText(minLen int) *rapid.Generator[string] {
	traps := rapid.SampledFrom([]string{"---", "\n---\n", "no", "007", "1.0", "null", "~", "# x", ": ", "- ", "\"", "'", "\\", "{{a}}", "[", "]", "{", "*a", "&a", "!x", "%", "@", "`", "|", ">", "\t", "\n", "\n\n", " ", "2001-12-14", "é", "🙂", "’", "yes", "..."})
	runes := rapid.StringMatching(`[ -~\n\tà-ÿА-я]{0,12}`)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(traps, runes), 1, 8).Draw(t, "parts"), "")
	}).Filter(func(s string) bool { return len(s) >= minLen })
}

func anyHeader(t *rapid.T) contracts.OverlayTemplateFrontmatter {
	texts := func(name string) contracts.List[string] {
		return rapid.SliceOfN(anyText(0), 0, 3).Draw(t, name)
	}
	ids := func(name string) contracts.List[contracts.OverlayID] {
		var out contracts.List[contracts.OverlayID]
		for _, s := range rapid.SliceOfN(rapid.StringMatching(`[a-z0-9-]{1,20}`), 0, 3).Draw(t, name) {
			out = append(out, contracts.OverlayID(s))
		}
		return out
	}
	pick := func(e contracts.Enum, name string) string { return rapid.SampledFrom(e.Values()).Draw(t, name) }
	return contracts.OverlayTemplateFrontmatter{
		ID:                         contracts.OverlayID(rapid.StringMatching(`[a-z0-9-]{1,64}`).Draw(t, "id")),
		Title:                      anyText(1).Draw(t, "title"),
		ArtifactClass:              contracts.OverlayArtifactClass(pick(contracts.OverlayArtifactClass(""), "class")),
		Category:                   contracts.OverlayCategory(pick(contracts.OverlayCategory(""), "category")),
		Description:                anyText(1).Draw(t, "description"),
		VisibilityTier:             contracts.OverlayVisibilityTier(pick(contracts.OverlayVisibilityTier(""), "tier")),
		SupportedSurfaces:          contracts.List[contracts.SupportedSurface]{contracts.SupportedSurface(pick(contracts.SupportedSurface(""), "surface"))},
		RecommendedModelClasses:    rapid.SampledFrom([]contracts.List[contracts.ModelClass]{{}, {"unknown"}, {"general_chat", "unknown"}}).Draw(t, "models"),
		ReasoningModelCaution:      rapid.OneOf(rapid.Just(""), anyText(1)).Draw(t, "caution"),
		ConflictsWith:              ids("conflicts"),
		WarnsWith:                  ids("warns"),
		LiveTokenTarget:            rapid.IntRange(40, 450).Draw(t, "target"),
		EstimatedTokens:            rapid.IntRange(0, 500).Draw(t, "estimate"),
		RequiresExplicitInvocation: rapid.Bool().Draw(t, "explicit"),
		SuggestedUseCases:          texts("uses"),
		AvoidWhen:                  texts("avoid"),
		StructureLabels:            texts("labels"),
		ResearchTags:               texts("tags"),
		ResearchBasis:              texts("basis"),
		Preset:                     rapid.Bool().Draw(t, "preset"),
		DeprecatedAliases:          texts("aliases"),
		Version:                    rapid.OneOf(rapid.SampledFrom([]string{"1.0.0", "1.0", "1", "no"}), anyText(1)).Draw(t, "version"),
	}
}

func TestParseIsTheInverseOfFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fm, body := anyHeader(t), anyText(1).Draw(t, "body")
		src := Format(fm, body)
		doc, err := Parse(src)
		if err != nil {
			t.Fatalf("R-SRC-05 G-066: our own file is refused: %v\n%s", err, src)
		}
		if doc.Body != body {
			t.Fatalf("R-SRC-05 R-SEC-02 body: got %q, want %q", doc.Body, body)
		}
		if diff := cmp.Diff(fm, doc.Frontmatter, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("R-SRC-05 header (-want +got):\n%s", diff)
		}
		if again := Format(doc.Frontmatter, doc.Body); string(again) != string(src) {
			t.Fatalf("format is not canonical:\n%s\nthen\n%s", src, again)
		}
	})
}

// Every field of the contract has a key: a new one cannot be forgotten here.
func TestFormatKnowsEveryField(t *testing.T) {
	fm := contracts.OverlayTemplateFrontmatter{}
	var names []string
	for _, f := range fields(fm) {
		names = append(names, f.key)
	}
	want := []string{"id", "title", "artifact_class", "category", "description", "visibility_tier", "supported_surfaces",
		"recommended_model_classes", "reasoning_model_caution", "conflicts_with", "warns_with", "compatible_categories",
		"live_token_target", "estimated_tokens", "requires_explicit_invocation", "suggested_use_cases", "avoid_when",
		"structure_labels", "research_tags", "research_basis", "preset", "deprecated_aliases", "version"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("R-SRC-01 keys in order (-want +got):\n%s", diff)
	}
	if got := contractKeys(t); len(got) != len(names) {
		t.Errorf("R-SRC-01 the contract has %d keys, the writer knows %d", len(got), len(names))
	}
}
