package openai

import (
	"testing"
	"unicode/utf8"
)

// R-GWS-28, R-GWS-27: wherever a text is cut into pieces, inside delimiters too,
// the same words are reasoning and the same are the answer.
func TestReasoningIsPartedFromTheTextInAnyPieces(t *testing.T) {
	for _, c := range []struct {
		in, text, thought string
		closed            bool
	}{
		{"<think>hm</think>yes", "yes", "hm", true},
		{" \n<think>hm < /think </thin> more</think>\n\n yes <think>no</think>", "yes <think>no</think>", "hm < /think </thin> more", true},
		{"<think></think>yes", "yes", "", true},
		{"yes", "yes", "", true},
		{"  yes <think>no", "  yes <think>no", "", true},
		{"<thin", "<thin", "", true},
		{"<thing>yes", "<thing>yes", "", true},
		{"<think>hm</thin", "", "hm</thin", false},
		{"<think>", "", "", false},
		{"", "", "", true},
		{"<think>h\u00e9</think>\u4e16", "\u4e16", "h\u00e9", true},
	} {
		for i := 0; i <= len(c.in); i++ {
			for j := i; j <= len(c.in); j++ {
				var s splitter
				var text, thought string
				for _, piece := range []string{c.in[:i], c.in[i:j], c.in[j:]} {
					a, b := s.feed(piece)
					text, thought = text+a, thought+b
				}
				a, b, closed := s.close()
				text, thought = text+a, thought+b
				if text != c.text || thought != c.thought || closed != c.closed {
					t.Fatalf("%q cut at %d and %d: text %q, reasoning %q, closed %t; want %q, %q, %t", c.in, i, j, text, thought, closed, c.text, c.thought, c.closed)
				}
			}
		}
	}
}

// Nothing is held back for longer than it may be a delimiter.
func TestWordsAreNotHeldBack(t *testing.T) {
	var s splitter
	if text, _ := s.feed("hello"); text != "hello" {
		t.Errorf("of hello came %q at once", text)
	}
	s = splitter{}
	_, _ = s.feed("<think>")
	if _, thought := s.feed("a long thought <"); thought != "a long thought " || !utf8.ValidString(thought) {
		t.Errorf("of a thought came %q at once", thought)
	}
}
