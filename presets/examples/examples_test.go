package examples_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/evidence"
	"github.com/elnor/promptlab/presets/examples"
)

func TestGuidedVerificationExamplesAreWhole(t *testing.T) {
	facts := map[string]*regexp.Regexp{
		"a decision": regexp.MustCompile(`decided to \w+`),
		"an owner":   regexp.MustCompile(`\p{Lu}\p{L}+ \p{Lu}\p{L}+ (owns|leads|is responsible)`),
		"a date":     regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`),
		"a risk":     regexp.MustCompile(`(worry|risk) is \w+`),
	}
	inputs, ids, slices := map[string]bool{}, map[string]bool{}, map[string]int{}
	for i, line := range bytes.Split(bytes.TrimSpace(examples.GuidedVerification), []byte("\n")) {
		row, err := contracts.Decode[contracts.DatasetRow](line, contracts.Client)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		for what, p := range facts {
			if !p.MatchString(row.InputText) {
				t.Errorf("%s does not name %s: %q", row.ExampleID, what, row.InputText)
			}
		}
		signal, problems := evidence.ParseSignal(row.ExpectedSignal)
		if len(problems) > 0 || len(signal.Checks()) != 4 {
			t.Errorf("%s has %d checks and problems %v, want 4 and none", row.ExampleID, len(signal.Checks()), problems)
		}
		score, _, _ := signal.Score("It is done.\nDecision: go\nOwner: Ada Berg\nDeadline: 2026-12-01\nRisk: none")
		if poor, _, _ := signal.Score(row.InputText); score != 1 || poor != 0 {
			t.Errorf("%s gives %.2f to a full answer and %.2f to the request itself, want 1 and 0", row.ExampleID, score, poor)
		}
		key := strings.ToLower(strings.Join(strings.Fields(row.InputText), " "))
		if inputs[key] || ids[row.ExampleID] || row.ExampleID == "" {
			t.Errorf("line %d (%s) is there twice", i+1, row.ExampleID)
		}
		inputs[key], ids[row.ExampleID] = true, true
		slices[row.Slice]++
	}
	if len(inputs) < 72 {
		t.Errorf("there are %d examples, want at least 72", len(inputs))
	}
	for _, s := range []string{"release", "incident", "policy"} {
		if slices[s] < 20 {
			t.Errorf("slice %s has %d examples, want at least 20", s, slices[s])
		}
	}
}
