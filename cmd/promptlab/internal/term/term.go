// Package term writes for people: tables, word differences, a line of progress,
// colour where a terminal shows it and nobody objected. Text that came from
// elsewhere is made harmless first: a prompt may not move the cursor.
//
// It deliberately does not know what it shows.
package term

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/elnor/promptlab/cmd/promptlab/internal/worddiff"
)

// Screen is one stream that a person may look at.
type Screen struct {
	W     io.Writer
	TTY   bool // it is a terminal
	Color bool // colour is wanted
}

// Style is a way to set text apart.
type Style string

// The styles.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint gives text in a style, as it is when colour is not wanted.
func (s Screen) Paint(style Style, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Printf writes a text; the caller cleans what is not its own.
func (s Screen) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.W, format, args...) // nowhere to say that the terminal is gone
}

// Table writes rows under a header, in columns. Cells are cleaned and kept on one line.
func (s Screen) Table(header []string, rows [][]string) {
	w := tabwriter.NewWriter(s.W, 0, 8, 2, ' ', 0)
	line := func(cells []string) {
		for i, c := range cells {
			if i > 0 {
				_, _ = io.WriteString(w, "\t")
			}
			_, _ = io.WriteString(w, Line(c))
		}
		_, _ = io.WriteString(w, "\n")
	}
	line(header)
	for _, r := range rows {
		line(r)
	}
	_ = w.Flush()
}

// Diff writes the difference of two texts: coloured, or with [-marks-]{+around+} it.
func (s Screen) Diff(from, to string) {
	var b strings.Builder
	for _, p := range worddiff.Diff(Clean(from), Clean(to)) {
		switch {
		case p.Op == worddiff.Same:
			b.WriteString(p.Text)
		case s.Color && p.Op == worddiff.Deleted:
			b.WriteString(s.lines("9;31", p.Text))
		case s.Color:
			b.WriteString(s.lines("4;32", p.Text))
		case p.Op == worddiff.Deleted:
			b.WriteString("[-" + p.Text + "-]")
		default:
			b.WriteString("{+" + p.Text + "+}")
		}
	}
	out := b.String()
	if !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	_, _ = io.WriteString(s.W, out)
}

// lines paints every line by itself, so that no colour runs into the margin.
func (s Screen) lines(style Style, text string) string {
	parts := strings.Split(text, "\n")
	for i := range parts {
		parts[i] = s.Paint(style, parts[i])
	}
	return strings.Join(parts, "\n")
}

// Clean makes foreign text harmless for a terminal: control characters, and what is
// invisible or turns the reading direction, are shown as their code.
func Clean(text string) string {
	return clean(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

// Line is Clean for a text that must stay on one line.
func Line(text string) string {
	text = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text)
	return clean(text, func(rune) bool { return false })
}

func clean(text string, keep func(rune) bool) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				fmt.Fprintf(&b, "\\x%02x", text[i])
				continue
			}
			b.WriteRune(r)
		case keep(r):
			b.WriteRune(r)
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Short cuts a text to n characters.
func Short(text string, n int) string {
	text = Line(strings.TrimSpace(text))
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
