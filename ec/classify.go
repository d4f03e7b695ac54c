package ec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// Classifier reads an overlay's text and says what it is made of. It must give
// the same answer for the same text and version.
type Classifier interface {
	// Version names the rules. Metadata is derived anew whenever it changes.
	Version() string
	// Classify gives labels of the closed set, and risks worth a second look.
	Classify(fm contracts.OverlayTemplateFrontmatter, body string) (labels, risks []string, err error)
}

// Phrases is the classifier that comes with EC: it looks for the words by which
// a technique gives itself away.
type Phrases struct{}

// Version names the rules.
func (Phrases) Version() string { return "phrases/1" }

// Classify looks each label's phrases up in the folded text.
func (Phrases) Classify(_ contracts.OverlayTemplateFrontmatter, body string) (labels, risks []string, err error) {
	text := strings.Join(strings.Fields(strings.ToLower(body)), " ")
	has := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(text, p) })
	}
	for _, l := range contracts.StructureLabels() {
		if has(phrasesOf(l)...) {
			labels = append(labels, l)
		}
	}
	if has("step by step", "chain of thought", "show your reasoning", "think out loud") {
		risks = append(risks, "chain_of_thought_explicit")
	}
	if has("never refuse", "always comply", "at any cost", "guarantee that") {
		risks = append(risks, "absolute_demand")
	}
	return labels, risks, nil
}

func phrasesOf(label string) []string {
	switch label {
	case "verification_checklist":
		return []string{"checklist", "check each", "verify each", "before you answer, check", "double-check"}
	case "decomposition":
		return []string{"break the task", "break it down", "decompose", "sub-question", "subquestion", "smaller parts"}
	case "step_back":
		return []string{"step back", "general principle", "underlying principle"}
	case "pre_mortem":
		return []string{"pre-mortem", "premortem", "assume it has failed", "imagine it failed"}
	case "counterargument":
		return []string{"counterargument", "counter-argument", "strongest objection", "argue against"}
	case "creative_divergence":
		return []string{"brainstorm", "unusual ideas", "wild ideas", "divergent"}
	case "legal_framework":
		return []string{"statute", "case law", "jurisdiction", "legal authority", "irac"}
	case "code_security":
		return []string{"injection", "vulnerabilit", "secure coding", "untrusted input", "owasp"}
	case "spec_execution":
		return []string{"specification", "acceptance criteria", "implement exactly"}
	case "elicitation":
		return []string{"clarifying question", "ask the user", "ask before"}
	case "architecture_review":
		return []string{"architecture", "interfaces between", "component boundar"}
	case "verification_first":
		return []string{"verify first", "check the claim first", "before accepting"}
	case "diverse_sampling":
		return []string{"distinct alternatives", "several different", "diverse options", "sample several"}
	default:
		return nil
	}
}

// classify fills an overlay's derived metadata. Labels of a preset are the
// pack's; those of another overlay's author stay, and others are added. A
// classifier that fails costs the labels, not the overlay.
func (s *State) classify(o *Overlay) {
	fm := o.Record.Frontmatter
	o.Meta.ClassifierVersion = s.policy.Classifier.Version()
	labels, risks, err := s.tryClassify(o)
	if err != nil {
		o.Meta.DegradedReason = "classifier_failed: " + err.Error()
		return
	}
	o.Meta.RiskFlags = risks
	if fm.Preset {
		return
	}
	for _, l := range labels {
		if slices.Contains(contracts.StructureLabels(), l) && !slices.Contains(o.Meta.StructureLabels, l) {
			o.Meta.StructureLabels = append(o.Meta.StructureLabels, l)
		}
	}
}

func (s *State) tryClassify(o *Overlay) (labels, risks []string, err error) {
	defer func() {
		if p := recover(); p != nil { // a rule's mistake must not stop the writer
			err = fmt.Errorf("it stopped: %v", p)
		}
	}()
	return s.policy.Classifier.Classify(o.Record.Frontmatter, o.Record.Body)
}
