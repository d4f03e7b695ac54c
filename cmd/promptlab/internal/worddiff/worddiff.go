// Package worddiff compares two texts word by word: what is common is the longest
// common sequence of words, and the rest was deleted or added.
//
// It deliberately does not know how a difference is shown.
package worddiff

import (
	"slices"
	"strings"
	"unicode"
)

// Op says what became of a piece of text.
type Op int

// The operations.
const (
	Same Op = iota
	Deleted
	Added
)

// Piece is a stretch of text with one fate. Same and Deleted pieces together are
// the old text, Same and Added ones the new.
type Piece struct {
	Op   Op
	Text string
}

// Diff compares two texts. Where something was replaced, the deletion comes first.
// Time grows with the product of the lengths of what differs, memory with their sum.
func Diff(from, to string) []Piece {
	a, b := words(from), words(to)
	// Words become numbers: comparing those is what takes the time.
	ids := map[string]int{}
	number := func(list []string) []int {
		out := make([]int, len(list))
		for i, w := range list {
			if _, ok := ids[w]; !ok {
				ids[w] = len(ids)
			}
			out[i] = ids[w]
		}
		return out
	}
	var m marks
	m.a, m.b = make([]bool, len(a)), make([]bool, len(b))
	m.match(number(a), number(b), 0, 0)
	return m.pieces(a, b)
}

// words splits a text into words, runs of spaces, line breaks and single signs.
func words(s string) []string {
	var out []string
	kind := func(r rune) int {
		switch {
		case r == '\n':
			return 0
		case unicode.IsSpace(r):
			return 1
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '_', r == '\'', r == '’':
			return 2
		default:
			return 3
		}
	}
	start, last := 0, -1
	for i, r := range s {
		k := kind(r)
		if i > start && (k != last || k == 0 || k == 3) {
			out = append(out, s[start:i])
			start = i
		}
		last = k
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// marks says of every word of both texts whether it is common.
type marks struct{ a, b []bool }

// match marks a longest common sequence of a and b, which start at the given
// offsets of the whole texts. It halves the problem (Hirschberg), so that no table
// of all pairs is kept.
func (m *marks) match(a, b []int, atA, atB int) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		m.a[atA], m.b[atB] = true, true
		a, b, atA, atB = a[1:], b[1:], atA+1, atB+1
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		m.a[atA+len(a)-1], m.b[atB+len(b)-1] = true, true
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch {
	case len(a) == 0 || len(b) == 0:
		return
	case len(a) == 1:
		if i := slices.Index(b, a[0]); i >= 0 {
			m.a[atA], m.b[atB+i] = true, true
		}
		return
	}
	half := len(a) / 2
	head, tail := lengths(a[:half], b, false), lengths(a[half:], b, true)
	best, cut := -1, 0
	for i := range head {
		if n := head[i] + tail[len(b)-i]; n > best {
			best, cut = n, i
		}
	}
	m.match(a[:half], b[:cut], atA, atB)
	m.match(a[half:], b[cut:], atA+half, atB+cut)
}

// lengths gives, for every i, how long the longest common sequence of a and the
// first i words of b is; of the last i words when backwards.
func lengths(a, b []int, backwards bool) []int {
	at := func(list []int, i int) int {
		if backwards {
			return list[len(list)-1-i]
		}
		return list[i]
	}
	row := make([]int, len(b)+1)
	for i := range a {
		x, diagonal := at(a, i), 0
		for j := range b {
			above := row[j+1]
			if x == at(b, j) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row
}

// pieces joins neighbouring words of one fate. A single space between two changes
// joins them: "one two" to "three four" reads as one replacement, not as two.
func (m *marks) pieces(a, b []string) []Piece {
	var out []Piece
	var del, add strings.Builder
	flush := func() {
		for _, p := range []Piece{{Deleted, del.String()}, {Added, add.String()}} {
			if p.Text != "" {
				out = append(out, p)
			}
		}
		del.Reset()
		add.Reset()
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && !m.a[i]:
			del.WriteString(a[i])
			i++
		case j < len(b) && !m.b[j]:
			add.WriteString(b[j])
			j++
		case a[i] == " " && del.Len() > 0 && add.Len() > 0 && i+1 < len(a) && j+1 < len(b) && !m.a[i+1] && !m.b[j+1]:
			del.WriteString(" ")
			add.WriteString(" ")
			i, j = i+1, j+1
		default:
			flush()
			if n := len(out); n > 0 && out[n-1].Op == Same {
				out[n-1].Text += a[i]
			} else {
				out = append(out, Piece{Same, a[i]})
			}
			i, j = i+1, j+1
		}
	}
	flush()
	return out
}
