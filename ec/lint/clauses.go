package lint

import "strings"

// clause is a sentence that binds: it says must, never, only, unless or do not.
type clause struct {
	tokens  []token
	binding uint8 // which of the binding words it has
}

const (
	binds uint8 = 1 << iota
	forbids
	limits
	excepts
)

// splitClauses gives all sentences of a text with their binding words.
func splitClauses(f *folded) []clause {
	var out []clause
	start := 0
	for i := 1; i <= len(f.tokens); i++ {
		if i == len(f.tokens) || f.tokens[i].brk {
			out = append(out, clause{tokens: f.tokens[start:i], binding: binding(f.tokens[start:i])})
			start = i
		}
	}
	return out
}

func binding(tokens []token) uint8 {
	var b uint8
	for i, t := range tokens {
		switch t.key {
		case "must", canon("shall"):
			b |= binds
		case "never", "dont", "cannot", "cant", "mustnt":
			b |= forbids
		case "not":
			if i > 0 && (tokens[i-1].key == "do" || tokens[i-1].key == "must" || tokens[i-1].key == "may" || tokens[i-1].key == canon("shall")) {
				b |= forbids
			}
		case canon("only"):
			b |= limits
		case canon("unless"):
			b |= excepts
		}
	}
	return b
}

// clauses refuses the loss of every binding sentence of the source that the candidate no
// longer has: neither word for word nor in a sentence that binds the same way
// and keeps most of its words.
func clauses(src, cand *folded) []Finding {
	const enough = 0.7
	theirs := splitClauses(cand)
	all := " " + joinKeys(cand.tokens) + " "
	var out []Finding
	for _, c := range splitClauses(src) {
		if c.binding == 0 || strings.Contains(all, " "+joinKeys(c.tokens)+" ") {
			continue
		}
		kept := false
		for _, t := range theirs {
			kept = kept || t.binding&c.binding == c.binding && recall(c.tokens, t.tokens) >= enough
		}
		if !kept {
			from, to := c.tokens[0].start, c.tokens[len(c.tokens)-1].end
			f := gate(RuleClause, from, to, "line %d of the source: a must, never, only, unless or do not is gone or weaker", 1+strings.Count(src.text[:from], "\n"))
			f.InSource = true
			out = append(out, f)
		}
	}
	return out
}

func joinKeys(tokens []token) string {
	keys := make([]string, len(tokens))
	for i, t := range tokens {
		keys[i] = t.key
	}
	return strings.Join(keys, " ")
}

// recall is the share of the longer words of a that stand in b.
func recall(a, b []token) float64 {
	const long = 4
	have := map[string]bool{}
	for _, t := range b {
		have[t.key] = true
	}
	total, found := 0, 0
	for _, t := range a {
		if len(t.key) < long {
			continue
		}
		total++
		if have[t.key] {
			found++
		}
	}
	if total == 0 {
		return 0
	}
	return float64(found) / float64(total)
}
