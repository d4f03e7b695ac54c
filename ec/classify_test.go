package ec_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/google/go-cmp/cmp"
)

// fakeClassifier answers as a test wants.
type fakeClassifier struct {
	version string
	labels  []string
	fail    bool
	stop    bool
}

func (f fakeClassifier) Version() string { return f.version }

func (f fakeClassifier) Classify(contracts.OverlayTemplateFrontmatter, string) ([]string, []string, error) {
	if f.stop {
		panic("no rule")
	}
	if f.fail {
		return nil, nil, errors.New("no rules")
	}
	return f.labels, []string{"odd"}, nil
}

func TestClassifier(t *testing.T) {
	policy := ec.DefaultPolicy()
	policy.Classifier = fakeClassifier{version: "fake/1", labels: []string{"step_back", "chain_of_thought_explicit", "nonsense"}}
	dir := t.TempDir()
	e := ectest.At(t, dir, policy)
	e.Must(ec.InstallPresets{Pack: shipped(t)})
	rec := ectest.Overlay("mine", body)
	rec.Frontmatter.StructureLabels = contracts.List[string]{"decomposition"}
	e.Must(ec.CreateOverlay{Record: rec})
	meta := func(id contracts.OverlayID) contracts.OverlayMetadata {
		t.Helper()
		d, _, err := e.View().Overlay(id)
		if err != nil {
			t.Fatal(err)
		}
		return d.Metadata
	}
	t.Run("R-CLS-01 R-CLS-07 presets keep their labels", func(t *testing.T) {
		for _, o := range shipped(t).Overlays {
			got := meta(o.Frontmatter.ID)
			if d := cmp.Diff([]string(o.Frontmatter.StructureLabels), []string(got.StructureLabels)); d != "" || got.EvidenceLabel != contracts.LabelNone {
				t.Errorf("%s: %s", o.Frontmatter.ID, d)
			}
			if slices.Contains(o.Frontmatter.StructureLabels, "chain_of_thought_explicit") { // R-CLS-03
				t.Errorf("%s carries the reserved label", o.Frontmatter.ID)
			}
		}
	})
	t.Run("R-CLS-02 R-CLS-03 labels are added, of the closed set only", func(t *testing.T) {
		got := meta("mine")
		if d := cmp.Diff(contracts.List[string]{"decomposition", "step_back"}, got.StructureLabels); d != "" || got.ClassifierVersion != "fake/1" || !slices.Equal(got.RiskFlags, []string{"odd"}) {
			t.Errorf("metadata %+v", got)
		}
	})
	t.Run("R-CLS-04 another version derives anew and touches no file", func(t *testing.T) {
		_, before, _ := e.View().Overlay("mine")
		e.Policy.Classifier = fakeClassifier{version: "fake/2", labels: []string{"pre_mortem"}}
		e.Restart()
		_, after, _ := e.View().Overlay("mine")
		if got := meta("mine"); got.ClassifierVersion != "fake/2" || !slices.Equal(got.StructureLabels, []string{"decomposition", "pre_mortem"}) || before != after {
			t.Errorf("metadata %+v", got)
		}
	})
	t.Run("R-CLS-06 a classifier that fails costs nothing but its labels", func(t *testing.T) {
		for _, f := range []fakeClassifier{{version: "fake/3", fail: true}, {version: "fake/4", stop: true}} {
			e.Policy.Classifier = f
			e.Restart()
			id := "under-" + f.version[5:]
			e.Must(ec.CreateOverlay{Record: ectest.Overlay(id, body)})
			if got := meta(contracts.OverlayID(id)); got.DegradedReason == "" {
				t.Errorf("metadata %+v", got)
			}
		}
	})
	t.Run("R-CLS-03 R-CLS-05 each label is found, and always the same", func(t *testing.T) {
		texts := map[string]string{
			"verification_checklist": "Work through this checklist.", "decomposition": "Decompose the question.", "step_back": "First step back.", "pre_mortem": "Do a pre-mortem.",
			"counterargument": "Give the strongest objection.", "creative_divergence": "Brainstorm freely.", "legal_framework": "Name the statute.", "code_security": "Look for injection.",
			"spec_execution": "Follow the acceptance criteria.", "elicitation": "Ask a clarifying question.", "architecture_review": "Review the architecture.",
			"verification_first": "Verify first.", "diverse_sampling": "Offer several different answers.",
		}
		for _, label := range contracts.StructureLabels() {
			for range 100 {
				got, _, err := ec.Phrases{}.Classify(contracts.OverlayTemplateFrontmatter{}, texts[label])
				if err != nil || !slices.Equal(got, []string{label}) {
					t.Fatalf("%q: %v, %v; want %s", texts[label], got, err, label)
				}
			}
		}
	})
}
