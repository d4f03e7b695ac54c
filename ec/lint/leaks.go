package lint

import (
	"hash/maphash"
	"regexp"
	"strings"
)

// gramLength is how many words in a row count as copied.
const gramLength = 8

// leaks finds runs of words that the candidate has from an example and not from
// its source. One finding an example is enough.
func leaks(source, candidate string, examples []string) []Finding {
	seed := maphash.MakeSeed()
	type place struct{ from, to int }
	mine := map[uint64]place{}
	grams(seed, candidate, func(h uint64, from, to int) bool {
		mine[h] = place{from, to}
		return true
	})
	grams(seed, source, func(h uint64, _, _ int) bool {
		delete(mine, h)
		return true
	})
	var out []Finding
	for _, e := range examples {
		if len(mine) == 0 {
			break
		}
		grams(seed, e, func(h uint64, _, _ int) bool {
			at, found := mine[h]
			if found {
				out = append(out, gate(RuleLeak, at.from, at.to, "copies %d words in a row from an example", gramLength))
			}
			return !found
		})
	}
	return out
}

// grams calls fn with a hash of every run of gramLength words, until it returns
// false. Case and signs do not count.
func grams(seed maphash.Seed, text string, fn func(hash uint64, from, to int) bool) {
	var ring [gramLength]uint64
	var starts [gramLength]int
	n := 0
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		lower = text
	}
	for i := 0; i < len(lower); {
		if !gramByte(lower[i]) {
			i++
			continue
		}
		j := i
		for j < len(lower) && gramByte(lower[j]) {
			j++
		}
		ring[n%gramLength], starts[n%gramLength] = maphash.String(seed, lower[i:j]), i
		n++
		if n >= gramLength {
			var h uint64
			for k := n - gramLength; k < n; k++ {
				h = h*1099511628211 + ring[k%gramLength]
			}
			if !fn(h, starts[n%gramLength], j) {
				return
			}
		}
		i = j
	}
}

func gramByte(b byte) bool {
	return b >= 0x80 || b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z'
}

var secretShapes = regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAIza[0-9A-Za-z_-]{30,}|` +
	`\beyJ[\w-]{10,}\.[\w-]{10,}\.|-----BEGIN [A-Z ]*PRIVATE KEY|(?i:\b(?:api[_ -]?key|secret|token|password)["']?\s*[:=]\s*["']?[^\s"']*[0-9][^\s"']{6,})`)

var personalShapes = regexp.MustCompile(`[\w.+-]+@[\w-]+\.[A-Za-z][\w.-]*|\+\d[\d ().-]{7,17}\d\b|(?:\(\d{3}\) ?|\b\d{3}[ .-])\d{3}[ .-]\d{4}\b|\b\d{3}-\d{2}-\d{4}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b|\b(?:\d{4}[ -]){3}\d{4}\b`)

// private finds secrets and personal details that the source does not have.
func private(source, candidate string) []Finding {
	var out []Finding
	for _, at := range secretShapes.FindAllStringIndex(candidate, -1) {
		if !strings.Contains(source, candidate[at[0]:at[1]]) {
			out = append(out, gate(RuleSecret, at[0], at[1], "holds what looks like a key or password that the source does not have"))
		}
	}
	for _, at := range personalShapes.FindAllStringIndex(candidate, -1) {
		if !strings.Contains(source, candidate[at[0]:at[1]]) {
			out = append(out, gate(RulePersonal, at[0], at[1], "holds what looks like a personal detail that the source does not have"))
		}
	}
	return out
}
