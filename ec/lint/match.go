package lint

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// matcher is the phrase list, compiled. It never changes after newMatcher.
type matcher struct {
	phrases  []phrase
	slots    []wordSet // of all phrases, in order
	first    []int     // per phrase: its first slot in slots
	squashed []*regexp.Regexp
	negator  wordSet
	reporter wordSet
	turner   wordSet
	place    wordSet
}

// bits says for one word which slots it can fill.
type bits [4]uint64

func (b *bits) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func newMatcher() *matcher {
	m := &matcher{
		phrases: phrases(),
		negator: newWordSet(words(negators)), reporter: newWordSet(words(reporters)),
		turner: newWordSet(words(turners)), place: newWordSet(words(places)),
	}
	for _, p := range m.phrases {
		m.first = append(m.first, len(m.slots))
		for _, s := range p.slots {
			m.slots = append(m.slots, newWordSet(s.words))
		}
		m.squashed = append(m.squashed, squashedForm(p))
	}
	if len(m.slots) > 64*len(bits{}) {
		panic("lint: more slots than bits") // a mistake in the list, seen by every test
	}
	return m
}

// wordSet is a class, ready to be asked.
type wordSet struct {
	exact    map[string]bool
	prefixes []string
}

func newWordSet(c class) wordSet {
	s := wordSet{exact: map[string]bool{}}
	for _, w := range c {
		if stem, ok := strings.CutSuffix(canon(w), "*"); ok {
			s.prefixes = append(s.prefixes, stem)
		} else {
			s.exact[canon(w)] = true
		}
	}
	return s
}

func (s wordSet) has(key string) bool {
	if s.exact[key] {
		return true
	}
	for _, p := range s.prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// within says whether any word of the set, or its stem, is part of text.
func (s wordSet) within(text string) bool {
	for _, p := range s.prefixes {
		if strings.Contains(text, p) {
			return true
		}
	}
	for w := range s.exact {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// canon brings a word of a list into the form of token keys.
func canon(w string) string { return strings.Map(alike, w) }

// squashedForm matches a phrase whose spaces are gone or are somewhere else. It
// is nil for phrases too short to be told from chance.
func squashedForm(p phrase) *regexp.Regexp {
	const enough = 3
	if len(p.slots) < enough && p.id != "system.override" || p.mention {
		return nil
	}
	fill := "(?:" + strings.Join(words(canon(filler)), "|") + "){0,4}"
	var b strings.Builder
	for i, s := range p.slots {
		if i > 0 {
			b.WriteString(fill)
		}
		alts := make([]string, len(s.words))
		for j, w := range s.words {
			alts[j] = strings.Replace(canon(w), "*", "[a-z]{0,4}", 1)
		}
		b.WriteString("(?:" + strings.Join(alts, "|") + ")")
	}
	return regexp.MustCompile(b.String())
}

// hit is a phrase found, from token to token.
type hit struct {
	phrase      int
	first, last int
	disguised   bool // found only by undoing a disguise
	crosses     int  // sentence ends inside
}

// find gives the phrases of a text: word by word inside sentences, then in the
// squashed text for words that were torn apart or run together.
func (m *matcher) find(f *folded) []hit {
	known := map[string]*bits{}
	can := make([]*bits, len(f.tokens))
	for i, t := range f.tokens {
		b, ok := known[t.key]
		if !ok {
			b = &bits{}
			for s := range m.slots {
				if m.slots[s].has(t.key) {
					b.set(s)
				}
			}
			known[t.key] = b
		}
		can[i] = b
	}
	var out []hit
	for p := range m.phrases {
		for i := range can {
			if !can[i].has(m.first[p]) {
				continue
			}
			if last, ok := m.rest(f, can, p, 1, i, false); ok {
				h := hit{phrase: p, first: i, last: last}
				for _, t := range f.tokens[i : last+1] {
					h.disguised = h.disguised || t.odd
				}
				out = append(out, h)
			}
		}
	}
	return append(out, m.findSquashed(f, can, out)...)
}

// rest fills the slots from s on, after token at; crossing lets it pass the end
// of a sentence.
func (m *matcher) rest(f *folded, can []*bits, p, s, at int, crossing bool) (int, bool) {
	slots := m.phrases[p].slots
	if s == len(slots) {
		return at, true
	}
	for i := at + 1; i <= at+1+slots[s].gap && i < len(can) && (crossing || !f.tokens[i].brk); i++ {
		if can[i].has(m.first[p] + s) {
			if last, ok := m.rest(f, can, p, s+1, i, crossing); ok {
				return last, true
			}
		}
	}
	return 0, false
}

func (m *matcher) findSquashed(f *folded, can []*bits, found []hit) []hit {
	var out []hit
	for p, re := range m.squashed {
		if re == nil || !m.possible(p, f.squash) {
			continue
		}
		for _, at := range re.FindAllStringIndex(f.squash, -1) {
			h := hit{phrase: p, first: f.owner[at[0]], last: f.owner[at[1]-1]}
			if overlaps(found, h) || overlaps(out, h) {
				continue
			}
			// ordinary words on both sides of a sentence end may be chance
			last, whole := m.rest(f, can, p, 1, h.first, true)
			if whole = whole && can[h.first].has(m.first[p]); whole {
				h.last = last
			}
			h.disguised = !whole
			for _, t := range f.tokens[h.first+1 : h.last+1] {
				if t.brk {
					h.crosses++
				}
			}
			out = append(out, h)
		}
	}
	return out
}

// possible is a cheap look before the expression: every slot needs one of its
// words somewhere.
func (m *matcher) possible(p int, squash string) bool {
	for s := range m.phrases[p].slots {
		if !m.slots[m.first[p]+s].within(squash) {
			return false
		}
	}
	return true
}

func overlaps(hits []hit, h hit) bool {
	for _, o := range hits {
		if o.first <= h.last && h.first <= o.last {
			return true
		}
	}
	return false
}

// mentioned says whether the text around a hit speaks of the phrase instead of
// using it: it is quoted, forbidden, or reported. That is never a pass.
func (m *matcher) mentioned(f *folded, h hit, quotes [][2]int) bool {
	from, to := f.tokens[h.first].start, f.tokens[h.last].end
	for _, q := range quotes {
		if q[0] <= from && to <= q[1] {
			return true
		}
	}
	const reach = 10
	for i := h.first; i > 0 && h.first-i < reach && !f.tokens[i].brk && !f.tokens[i].comma; i-- {
		switch word := f.tokens[i-1].key; {
		case m.reporter.has(word):
			return true
		case m.negator.has(word):
			return !m.turned(f, i, h.first)
		}
	}
	return false
}

// turned finds a word after a negator that makes it a demand again.
func (m *matcher) turned(f *folded, from, to int) bool {
	for _, t := range f.tokens[from:min(to, from+4)] {
		if m.turner.has(t.key) {
			return true
		}
	}
	return false
}

// elsewhere says whether the instructions spoken of are placed in other material.
func (m *matcher) elsewhere(f *folded, h hit) bool {
	for i := h.last + 1; i < len(f.tokens) && i <= h.last+2 && !f.tokens[i].brk; i++ {
		if m.place.has(f.tokens[i].key) {
			return true
		}
	}
	return false
}

// quotations finds the stretches between quotation marks, backticks and code
// fences, each within a paragraph.
func quotations(text string) [][2]int {
	const longest = 400
	var out [][2]int
	closing := map[rune]rune{'"': '"', '“': '”', '„': '“', '«': '»', '‹': '›', '`': '`', '‘': '’'}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		end, ok := closing[r]
		if !ok {
			i += size
			continue
		}
		rest := text[i+size:]
		if p := strings.Index(rest, "\n\n"); p >= 0 {
			rest = rest[:p]
		}
		at := strings.IndexRune(rest, end)
		if at < 0 || at > longest {
			i += size
			continue
		}
		out = append(out, [2]int{i, i + size + at + utf8.RuneLen(end)})
		i += size + at + utf8.RuneLen(end)
	}
	return out
}
