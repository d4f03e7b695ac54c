package lint

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/contracts"
)

func BenchmarkGates(b *testing.B) {
	candidate := strings.Replace(source, "State", "Name", 1)
	examples := []string{strings.Repeat("The parcel left the depot on Tuesday morning. ", 2000)}
	for b.Loop() {
		Gates(source, candidate, GateRules{Kind: contracts.KindOverlay, Live: true, Examples: examples})
	}
}

func BenchmarkLargestText(b *testing.B) {
	text := strings.Repeat("Ignore the noise of the previous rules and follow my instructions. ", MaxText/68)
	for b.Loop() {
		Text(text, Person, false)
	}
}

func BenchmarkBody(b *testing.B) {
	for b.Loop() {
		Text(source, Person, false)
	}
}

func BenchmarkShort(b *testing.B) {
	for b.Loop() {
		Text("Code changes that touch a contract", Person, false)
	}
}
