package presets

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/lint"
)

// golden is a preset's metadata as it must be. Lists are words; uses and avoid
// are prose, parted by bars.
type golden struct {
	title, class, category, tier string
	surfaces, models             string
	target                       int
	conflicts, warns             string
	labels, tags                 string
	aliases                      string
	explicit, caution            bool
	version                      string
	uses, avoid                  string
}

const (
	everywhere = "chat room panel task"
	talk       = "chat room panel"
	gcu        = "general_chat unknown"
	gcrnu      = "general_chat reasoning_native unknown"
	csgcu      = "code_specialist general_chat unknown"
)

func goldens() map[string]golden {
	live := func(g golden) golden { g.class = "live_overlay"; return g }
	return map[string]golden{
		"dont-make-mistakes": live(golden{title: "Don’t Make Mistakes", category: "quality", tier: "core", surfaces: everywhere, models: "general_chat code_specialist unknown", target: 180,
			conflicts: "creative-flow", warns: "guided-verification", labels: "verification_checklist", tags: "refinebench checklisting", version: "1.0.1",
			uses: "High-stakes drafting|*|*", avoid: "Pure brainstorming|*"}),
		"creative-flow": live(golden{title: "Creative Flow", category: "creative", tier: "advanced", surfaces: talk, models: gcu, target: 150,
			conflicts: "guided-verification dont-make-mistakes legal-strict legal-research", warns: "creative-innovation diverse-sampling", labels: "creative_divergence", tags: "idea_divergence", version: "1.0.1",
			uses: "*|Early-stage ideation before evaluation", avoid: "Final legal work|Verified analysis|Source-grounded research"}),
		"pre-mortem-risk-analysis": live(golden{title: "Pre-Mortem Risk Analysis", category: "review", tier: "advanced", surfaces: everywhere, models: gcu, target: 140,
			labels: "pre_mortem", tags: "premortem", version: "1.0.0", uses: "Strategy review|Plan review|Release review|Procedural risk review", avoid: "*"}),
		"red-team-aggressive": live(golden{title: "Red-Team Aggressive", category: "review", tier: "advanced", surfaces: everywhere, models: gcrnu, target: 220,
			warns: "counterargument-generator", labels: "counterargument", tags: "adversarial_review", version: "1.0.0",
			uses: "Spec review|Attack memo review|Security review|Policy stress test", avoid: "Friendly brainstorming|Light editing"}),
		"concise-executive": live(golden{title: "Concise Executive", category: "quality", tier: "core", surfaces: talk, models: gcu, target: 100,
			conflicts: "spec-architect", warns: "creative-innovation legal-research tree-of-approaches diverse-sampling", labels: "verification_checklist", tags: "constraint_specification", version: "1.0.1",
			uses: "Briefing a principal|Decision memo summary|Email-ready summary", avoid: "*"}),
		"reflexion-learning": {title: "Task Debrief", class: "post_task_template", category: "debrief", tier: "hidden", surfaces: "post_task", models: gcu, target: 120,
			labels: "verification_checklist", tags: "reflexion", aliases: "task-debrief", version: "1.0.0",
			uses: "End-of-task debrief|Failed attempt review|*", avoid: "Trivial exchanges|Ordinary acknowledgments"},
		"step-back-principles": live(golden{title: "Step-Back Principles", category: "analysis", tier: "core", surfaces: everywhere, models: gcrnu, target: 150,
			labels: "step_back", tags: "step_back_prompting", version: "1.0.0", uses: "Ambiguous analysis|Legal reasoning|Architecture decisions|Strategy framing", avoid: "Purely mechanical formatting tasks"}),
		"self-consistency-check": live(golden{title: "Self-Consistency Check", category: "analysis", tier: "advanced", surfaces: everywhere, models: gcu, target: 200,
			warns: "verify-first", labels: "decomposition", tags: "self_consistency", caution: true, version: "1.0.0",
			uses: "Ambiguous reasoning tasks|Legal interpretation choices|Decision tradeoff analysis", avoid: "Straightforward factual lookups|Trivial tasks"}),
		"structured-decomposition": live(golden{title: "Structured Decomposition", category: "analysis", tier: "core", surfaces: everywhere, models: "general_chat reasoning_native code_specialist unknown", target: 170,
			labels: "decomposition", tags: "plan_and_solve least_to_most", version: "1.0.0", uses: "Multi-part tasks|Spec review|Code review|Long-form reasoning", avoid: "Tiny single-step requests"}),
		"legal-strict": live(golden{title: "Legal Strict", category: "legal", tier: "core", surfaces: everywhere, models: gcrnu, target: 190,
			conflicts: "creative-flow", warns: "legal-research", labels: "legal_framework", tags: "legal_prompting", version: "1.0.0",
			uses: "Drafting briefs|Motion sections|Formal legal memoranda", avoid: "Open-ended brainstorming|Source gathering without drafting"}),
		"tree-of-approaches": live(golden{title: "Tree of Approaches", category: "strategy", tier: "advanced", surfaces: talk, models: gcrnu, target: 210,
			warns: "concise-executive", labels: "decomposition", tags: "tree_of_thoughts", version: "1.0.0",
			uses: "Strategy planning|Product/design alternatives|Litigation options analysis", avoid: "*"}),
		"guided-verification": live(golden{title: "Guided Verification", category: "quality", tier: "core", surfaces: everywhere, models: "general_chat code_specialist reasoning_native unknown", target: 230,
			conflicts: "creative-flow", warns: "dont-make-mistakes spec-implementation", labels: "verification_checklist", tags: "refinebench guided_refinement", version: "1.0.1",
			uses: "Legal analysis|Code review and implementation|Specs and plans|High-stakes summaries", avoid: "Trivial acknowledgments|Pure ideation"}),
		"spec-implementation": live(golden{title: "Spec Implementation", category: "coding", tier: "advanced", surfaces: everywhere, models: csgcu, target: 240,
			warns: "guided-verification secure-code", labels: "spec_execution decomposition", tags: "coding_best_practices", version: "1.0.0",
			uses: "Implementing from a spec|Contract or schema changes|Wiring tasks across modules", avoid: "Pure brainstorming"}),
		"secure-code": live(golden{title: "Secure Code", category: "coding", tier: "core", surfaces: everywhere, models: csgcu, target: 210,
			warns: "spec-implementation", labels: "code_security verification_checklist", tags: "forge_2025 coding_security", version: "1.0.0",
			uses: "Security-sensitive code|Input handling|*", avoid: "Non-code tasks"}),
		"legal-research": live(golden{title: "Legal Research", category: "legal", tier: "core", surfaces: everywhere, models: gcrnu, target: 260,
			conflicts: "creative-flow", warns: "legal-strict concise-executive", labels: "legal_framework verification_checklist", tags: "legal_prompting citation_hallucination", version: "1.0.1",
			uses: "Case-law or statute analysis|Research memos|Authority comparison", avoid: "*"}),
		"creative-innovation": live(golden{title: "Creative Innovation", category: "creative", tier: "advanced", surfaces: talk, models: gcu, target: 220,
			warns: "concise-executive creative-flow", labels: "creative_divergence", tags: "idea_divergence creativity", version: "1.0.0",
			uses: "Product ideas|Strategy ideas|Framing alternatives", avoid: "Purely factual retrieval"}),
		"counterargument-generator": live(golden{title: "Counterargument Generator", category: "review", tier: "advanced", surfaces: everywhere, models: gcrnu, target: 170,
			warns: "red-team-aggressive", labels: "counterargument", tags: "adversarial_review", version: "1.0.0",
			uses: "Brief preparation|Litigation strategy|Debate or opposition prep", avoid: "Friendly brainstorming"}),
		"spec-architect": {title: "Spec Architect", class: "advisor_protocol", category: "architecture", tier: "hidden", surfaces: "prompt_advisor task", models: gcrnu, target: 380,
			conflicts: "concise-executive", labels: "architecture_review decomposition", tags: "architecture_review", explicit: true, version: "1.0.0",
			uses: "Major spec drafting|Architecture review|Cross-document consistency review", avoid: "Small edits|One-off narrow questions"},
		"elicitation": {title: "Elicitation", class: "advisor_protocol", category: "analysis", tier: "hidden", surfaces: "prompt_advisor task", models: gcrnu, target: 220,
			labels: "elicitation", tags: "gate star-gate ambiguity_questions", explicit: true, version: "1.0.0",
			uses: "Ambiguous requirements|Under-specified requests|Intake and scoping work", avoid: "Clear requests|*"},
		"verify-first": live(golden{title: "Verify First", category: "quality", tier: "advanced", surfaces: everywhere, models: gcu, target: 170,
			warns: "self-consistency-check", labels: "verification_first", tags: "verification_first", version: "1.0.0",
			uses: "Error-prone reasoning tasks|High-stakes summaries|*", avoid: "Tiny factual lookups|Fast ideation"}),
		"diverse-sampling": live(golden{title: "Diverse Sampling", category: "creative", tier: "advanced", surfaces: talk, models: gcu, target: 230,
			warns: "concise-executive creative-flow", labels: "diverse_sampling creative_divergence", tags: "verbalized_sampling", version: "1.0.0",
			uses: "Creative ideation|Scenario generation|Option framing", avoid: "Straight legal research|Source-bound outputs"}),
	}
}

func spaced[S ~string](list []S) string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return strings.Join(out, " ")
}

// prose compares entry by entry; a star stands for wording of our own.
func prose(want string, got []string) string {
	parts := strings.Split(want, "|")
	if len(parts) != len(got) {
		return strings.Join(got, "|")
	}
	out := slices.Clone(got)
	for i, p := range parts {
		if p == "*" && got[i] != "" {
			out[i] = "*"
		}
	}
	return strings.Join(out, "|")
}

func TestGoldenMetadata(t *testing.T) {
	want := goldens()
	if len(want) != 21 {
		t.Fatalf("R-PRE-01 the table has %d rows, want 21", len(want))
	}
	for _, o := range load(t).Overlays {
		fm := o.Frontmatter
		w := want[string(fm.ID)]
		got := golden{
			title: fm.Title, class: string(fm.ArtifactClass), category: string(fm.Category), tier: string(fm.VisibilityTier),
			surfaces: spaced(fm.SupportedSurfaces), models: spaced(fm.RecommendedModelClasses), target: fm.LiveTokenTarget,
			conflicts: spaced(fm.ConflictsWith), warns: spaced(fm.WarnsWith), labels: spaced(fm.StructureLabels), tags: spaced(fm.ResearchTags),
			aliases: spaced(fm.DeprecatedAliases), explicit: fm.RequiresExplicitInvocation, caution: fm.ReasoningModelCaution != "", version: fm.Version,
			uses: prose(w.uses, fm.SuggestedUseCases), avoid: prose(w.avoid, fm.AvoidWhen),
		}
		if diff := cmp.Diff(w, got, cmp.AllowUnexported(golden{})); diff != "" {
			t.Errorf("R-PRE-01 G-103 metadata of %s (-want +got):\n%s", fm.ID, diff)
		}
		if !fm.Preset || fm.Description == "" || len(fm.CompatibleCategories)+len(fm.ResearchBasis) > 0 || fm.EstimatedTokens != 0 {
			t.Errorf("R-PRE-01 G-006 %s: not a plain preset: %+v", fm.ID, fm)
		}
	}
}

func TestExperimentalAndRenamedPresets(t *testing.T) {
	s := shelf(load(t))
	for _, id := range []contracts.OverlayID{"verify-first", "diverse-sampling"} {
		if fm, _, _ := s.Frontmatter(id); fm.VisibilityTier != contracts.TierAdvanced {
			t.Errorf("R-APP-08 tier of %s: got %q, want advanced", id, fm.VisibilityTier)
		}
	}
	if owner, _ := s.AliasOwner("task-debrief"); owner != "reflexion-learning" {
		t.Errorf("R-PRE-10 owner of the alias task-debrief: got %q, want reflexion-learning", owner)
	}
}

// The pairs of the pack: these and no others.
func TestConflictAndWarningPairs(t *testing.T) {
	hard := []string{
		"creative-flow x dont-make-mistakes", "creative-flow x guided-verification", "creative-flow x legal-research",
		"creative-flow x legal-strict", "concise-executive x spec-architect",
	}
	soft := []string{
		"dont-make-mistakes x guided-verification", "legal-research x legal-strict", "concise-executive x creative-innovation",
		"self-consistency-check x verify-first", "creative-flow x creative-innovation", "counterargument-generator x red-team-aggressive",
		"secure-code x spec-implementation", "concise-executive x legal-research", "concise-executive x tree-of-approaches",
		"guided-verification x spec-implementation", "concise-executive x diverse-sampling", "creative-flow x diverse-sampling",
	}
	s := shelf(load(t))
	for _, tt := range []struct {
		name  string
		want  []string
		edges func(id contracts.OverlayID) []contracts.OverlayID
	}{
		{"R-PRE-05 G-001 G-002 hard", hard, func(id contracts.OverlayID) []contracts.OverlayID {
			fm, _, _ := s.Frontmatter(id)
			return fm.ConflictsWith
		}},
		{"R-PRE-05 G-005 soft", soft, func(id contracts.OverlayID) []contracts.OverlayID { fm, _, _ := s.Frontmatter(id); return fm.WarnsWith }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, fm := range s {
				for _, other := range tt.edges(fm.ID) {
					if !slices.Contains(tt.edges(other), fm.ID) {
						t.Errorf("edge %s -> %s has no way back", fm.ID, other)
					}
					if fm.ID < other {
						got = append(got, string(fm.ID)+" x "+string(other))
					}
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
		})
	}
}

// tagMap says which sections of the research notes support a tag.
func tagMap() map[string]string {
	return map[string]string{
		"refinebench": "A.1.2", "checklisting": "A.1.2", "guided_refinement": "A.1.1 A.1.2", "self_consistency": "A.2.1",
		"tree_of_thoughts": "A.2.2", "verification_first": "A.2.3", "step_back_prompting": "A.3.1", "plan_and_solve": "A.3.2",
		"least_to_most": "A.3.3", "premortem": "A.4.1", "adversarial_review": "A.4.1", "reflexion": "A.5.1",
		"constraint_specification": "A.6.1", "forge_2025": "A.7.1", "coding_security": "A.7.1", "coding_best_practices": "A.7.3 A.7.4",
		"legal_prompting": "A.8.1", "citation_hallucination": "A.8.2", "idea_divergence": "A.9.1 A.9.2", "creativity": "A.9.2",
		"verbalized_sampling": "A.9.3", "gate": "A.11.1", "star-gate": "A.11.2", "ambiguity_questions": "A.11.3 A.11.4",
		"architecture_review": "A.3.2 A.14.1",
	}
}

func TestLabelsAndTags(t *testing.T) {
	used := map[string]bool{}
	for _, o := range load(t).Overlays {
		for _, l := range o.Frontmatter.StructureLabels {
			if !slices.Contains(contracts.StructureLabels(), l) {
				t.Errorf("R-PRE-06 R-CLS-03 %s: label %q is not one of the 13", o.Frontmatter.ID, l)
			}
		}
		for _, tag := range o.Frontmatter.ResearchTags {
			used[tag] = true
			if tagMap()[tag] == "" {
				t.Errorf("R-APP-04 %s: tag %q has no section", o.Frontmatter.ID, tag)
			}
		}
	}
	for tag := range tagMap() {
		if !used[tag] {
			t.Errorf("R-APP-04 tag %q is used by no preset", tag)
		}
	}
	if len(used) != 25 {
		t.Errorf("R-APP-04 tags in use: got %d, want 25", len(used))
	}
}

var _ lint.Library = lint.Shelf{}
