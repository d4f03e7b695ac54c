package term_test

import (
	"strings"
	"testing"

	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
)

func TestForeignTextCannotActOnTheTerminal(t *testing.T) {
	hostile := "a\x1b[2Jb\u202Ec\x00d\x9be\r\nf\xffg\u200b"
	for name, got := range map[string]string{"Clean": term.Clean(hostile), "Line": term.Line(hostile), "Short": term.Short(hostile, 200)} {
		for _, bad := range []string{"\x1b", "\u202e", "\x00", "\r", "\xff", "\u200b"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s(%q) = %q still holds %q", name, hostile, got, bad)
			}
		}
	}
	if got := term.Clean("ä\n\tß"); got != "ä\n\tß" {
		t.Errorf("Clean changed harmless text to %q", got)
	}
}

func TestDiffIsReadableWithAndWithoutColour(t *testing.T) {
	for _, tc := range []struct {
		name  string
		color bool
		want  string
	}{
		{"plain", false, "Keep [-the-]{+every+} source.\n"},
		{"coloured", true, "Keep \x1b[9;31mthe\x1b[0m\x1b[4;32mevery\x1b[0m source.\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			term.Screen{W: &b, Color: tc.color}.Diff("Keep the source.", "Keep every source.")
			if b.String() != tc.want {
				t.Errorf("Diff wrote %q, want %q", b.String(), tc.want)
			}
		})
	}
}

func TestProgressWritesAnewWhereThereIsNoTerminal(t *testing.T) {
	var b strings.Builder
	p := term.NewProgress(term.Screen{W: &b})
	p.Show("searching", 1, 4, "best 0.50")
	p.Show("searching", 2, 4, "best 0.60")
	p.Show("searching", 2, 4, "best 0.60")
	p.Show("measuring", 1, 100)
	p.Show("measuring", 2, 100)
	p.Show("measuring", 26, 100)
	p.Show("done", 0, 0)
	p.End()
	if want := "searching  1/4  best 0.50\nsearching  2/4  best 0.60\nmeasuring  1/100\nmeasuring  26/100\ndone\n"; b.String() != want {
		t.Errorf("progress without a terminal wrote %q, want %q", b.String(), want)
	}
}
