package lint

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mtibben/confusables"
	"golang.org/x/text/unicode/norm"

	"github.com/elnor/promptlab/ec/frontmatter"
)

// MaxText caps the work on one text, in bytes.
const MaxText = frontmatter.MaxBody

// letter is one rune of the folded text and where it came from.
type letter struct {
	r          rune
	start, end int  // bytes in the original
	odd        bool // folding changed it: a look-alike, a styled or a hidden character stood there
}

// token is a word as matching sees it: lower case, look-alikes resolved, l and 1
// read as i, digits that stand for letters read as letters.
type token struct {
	key        string
	start, end int
	odd        bool // disguised
	brk        bool // a sentence, list item or paragraph begins here
	comma      bool // a comma stands before it
}

// folded is a text prepared for matching. The original is never changed.
type folded struct {
	text   string
	flat   []letter // lower case, compatibility forms resolved, hidden characters gone
	tokens []token
	squash string // all keys without anything between them
	owner  []int  // for each byte of squash, its token
}

func fold(text string) folded {
	f := folded{text: text, flat: flatten(text)}
	f.tokens = tokenize(f.flat)
	var b strings.Builder
	for i, t := range f.tokens {
		for _, r := range t.key {
			if r < utf8.RuneSelf {
				b.WriteByte(byte(alike(leet(r))))
				f.owner = append(f.owner, i)
			}
		}
	}
	f.squash = b.String()
	return f
}

// flatten resolves what Unicode offers to write one letter in many ways.
func flatten(text string) []letter {
	out := make([]letter, 0, len(text))
	prev, hidden := rune(0), false
	for i, r := range text {
		if r < utf8.RuneSelf {
			out = append(out, letter{unicode.ToLower(r), i, i + 1, hidden})
			prev, hidden = r, false
			continue
		}
		end := i + utf8.RuneLen(r)
		if frontmatter.Hidden(prev, r) {
			hidden = true
			continue
		}
		prev = r
		for _, l := range resolve(r) {
			out = append(out, letter{l.r, i, end, l.odd || hidden})
		}
		hidden = false
	}
	return out
}

// resolve gives the plain letters that a non-ASCII rune is or looks like. ASCII
// must not pass here: the confusables table maps m to rn.
func resolve(r rune) []letter {
	var out []letter
	decomposed := norm.NFKD.String(string(r))
	compat := decomposed != norm.NFD.String(string(r))
	for _, d := range decomposed {
		switch {
		case unicode.Is(unicode.Mn, d):
		case d < utf8.RuneSelf:
			out = append(out, letter{r: unicode.ToLower(d), odd: compat})
		default:
			for _, s := range confusables.Skeleton(string(d)) {
				if !unicode.Is(unicode.Mn, s) {
					out = append(out, letter{r: unicode.ToLower(s), odd: s != d})
				}
			}
		}
	}
	return out
}

// leet reads a digit or sign as the letter it stands for in disguised words.
func leet(r rune) rune {
	switch r {
	case '0':
		return 'o'
	case '1', '!', '|':
		return 'i'
	case '3':
		return 'e'
	case '4', '@':
		return 'a'
	case '5', '$':
		return 's'
	case '7':
		return 't'
	default:
		return r
	}
}

// alike joins letters that look the same in some case or font.
func alike(r rune) rune {
	if r == 'l' {
		return 'i'
	}
	return r
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func tokenize(flat []letter) []token {
	var out []token
	brk, comma := true, false
	for i := 0; i < len(flat); {
		if !startsWord(flat, i) {
			b, c := boundary(flat, i)
			brk, comma = brk || b, comma || c
			i++
			continue
		}
		j := i
		for j < len(flat) && inWord(flat, i, j) {
			j++
		}
		t := word(flat[i:j])
		t.brk, t.comma = brk, comma
		out = append(out, t)
		brk, comma = false, false
		i = j
	}
	return out
}

func next(flat []letter, i int) rune {
	if i+1 < len(flat) {
		return flat[i+1].r
	}
	return 0
}

// money and at signs pose as letters anywhere in a word, the others inside one.
func sign(r rune) bool   { return r == '@' || r == '$' }
func stroke(r rune) bool { return r == '!' || r == '|' }

// emphasis is what a renderer takes out of the middle of a word.
func emphasis(r rune) bool { return r == '*' || r == '~' || r == '`' || r == '\\' }

func apostrophe(r rune) bool { return r == '\'' || r == '’' || r == '‘' || r == 'ʼ' || r == '′' }

func startsWord(flat []letter, i int) bool {
	r, after := flat[i].r, next(flat, i)
	return wordRune(r) || sign(r) && (unicode.IsLetter(after) || sign(after)) || stroke(r) && unicode.IsLetter(after)
}

// inWord says whether the word that began at from goes on at i.
func inWord(flat []letter, from, i int) bool {
	r, after := flat[i].r, next(flat, i)
	switch {
	case i == from, wordRune(r):
		return true
	case r == '$', sign(r) && (wordRune(after) || sign(after)):
		return true
	case stroke(r), apostrophe(r):
		return wordRune(after)
	case emphasis(r):
		for i < len(flat) && emphasis(flat[i].r) {
			i++
		}
		return i < len(flat) && wordRune(flat[i].r)
	default:
		return false
	}
}

func word(letters []letter) token {
	t := token{start: letters[0].start, end: letters[len(letters)-1].end}
	alpha, disguised := false, false
	for _, l := range letters {
		alpha = alpha || unicode.IsLetter(l.r)
		disguised = disguised || leet(l.r) != l.r
		t.odd = t.odd || l.odd || emphasis(l.r)
	}
	disguised = disguised && alpha
	t.odd = t.odd || disguised
	var b strings.Builder
	for _, l := range letters {
		r := l.r
		if apostrophe(r) || emphasis(r) {
			continue
		}
		if disguised {
			r = leet(r)
		}
		b.WriteRune(alike(r))
	}
	t.key = b.String()
	return t
}

// boundary says whether a sentence ends at i, and whether a comma stands there.
func boundary(flat []letter, i int) (brk, comma bool) {
	r, after := flat[i].r, next(flat, i)
	switch r {
	case ',':
		return false, true
	case '.', '!', '?', ';', ':':
		return after == 0 || unicode.IsSpace(after) || after == '"' || after == '*', false
	case '\n':
		return after == '\n' || after == '#' || after == '-' || after == '*' || after == '>' || listNumber(flat, i+1), false
	default:
		return false, false
	}
}

func listNumber(flat []letter, i int) bool {
	return i+1 < len(flat) && unicode.IsDigit(flat[i].r) && (flat[i+1].r == '.' || flat[i+1].r == ')')
}

// foldWords gives the keys of a text's words, for comparing texts.
func foldWords(text string) []string {
	toks := tokenize(flatten(text))
	out := make([]string, len(toks))
	for i, t := range toks {
		out[i] = t.key
	}
	return out
}
