package simulator

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// rule is one thing that the house wants in every note.
type rule struct {
	name  string
	label string // begins the line, exactly so
	fact  func(facts) string
	prose func(facts) string // the same fact without the label
}

func rules() []rule {
	return []rule{
		{"decision", "Decision:", func(f facts) string { return f.decision },
			func(f facts) string { return "The team will " + f.decision + "." }},
		{"owner", "Owner:", func(f facts) string { return f.owner },
			func(f facts) string { return f.owner + " looks after it." }},
		{"deadline", "Deadline:", func(f facts) string { return f.date },
			func(f facts) string { return "It should be out by " + f.date + "." }},
		{"risk", "Risk:", func(f facts) string { return f.risk },
			func(f facts) string { return "Keep an eye on " + f.risk + "." }},
	}
}

// carriedBy tells whether a system text holds the rule's instruction.
func (r rule) carriedBy(system string) bool {
	s := strings.ToLower(system)
	return strings.Contains(s, r.name+":") || strings.Contains(s, r.name+" line")
}

// facts is what a note speaks of. No field holds a colon or a line break, so
// none can look like a label.
type facts struct{ topic, decision, owner, date, risk string }

var (
	topicPattern    = regexp.MustCompile(`(?i)\bnotes? (?:for|about|on) ([^.;:\n]{1,80})`)
	decisionPattern = regexp.MustCompile(`(?i)\bdecided to ([^.;:\n]{1,120})`)
	ownerPattern    = regexp.MustCompile(`(\p{Lu}[\p{L}'-]+ \p{Lu}[\p{L}'-]+) (?:owns|leads|is responsible)`)
	datePattern     = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}\b`)
	riskPattern     = regexp.MustCompile(`(?i)\b(?:worry|risk) is ([^.;:\n]{1,120})`)
)

// facts reads an input; what it does not say is drawn from its hash.
func (w *World) facts(input string) facts {
	find := func(p *regexp.Regexp, otherwise func() []string) string {
		if m := p.FindStringSubmatch(input); m != nil {
			return strings.TrimSpace(m[len(m)-1])
		}
		from := otherwise()
		return from[w.number("facts", p.String(), input)%int64(len(from))]
	}
	return facts{
		topic:    find(topicPattern, topics),
		decision: find(decisionPattern, decisions),
		owner:    find(ownerPattern, owners),
		date:     find(datePattern, dates),
		risk:     find(riskPattern, risks),
	}
}

func topics() []string {
	return []string{"the export job", "the sign-in page", "the nightly backup", "the search index", "the invoice layout",
		"the mobile menu", "the audit log", "the import wizard", "the rate limiter", "the report builder"}
}

func decisions() []string {
	return []string{"move it to the new queue", "drop the old format", "ship it behind a switch", "cache the first page",
		"split it into two steps", "raise the size limit", "keep both versions for a month", "turn it off by default"}
}

func owners() []string {
	return []string{"Anna Kovac", "Ben Okafor", "Carla Mendes", "David Lindqvist", "Elif Demir", "Farid Rahimi",
		"Grace Sato", "Henrik Moser", "Ines Duarte", "Jonas Petrov"}
}

func risks() []string {
	return []string{"a slow first run", "stale pages after the switch", "a full disk on small machines", "double messages to customers",
		"broken links in old mails", "a longer sign-in", "missing rows in the first report", "time zones in old records"}
}

func dates() []string {
	var out []string
	for month := 1; month <= 12; month++ {
		out = append(out, fmt.Sprintf("2026-%02d-15", month))
	}
	return out
}

// Example is one row for replay in the shape that data set files use.
type Example struct {
	ID             string `json:"id"`
	Input          string `json:"input"`
	ExpectedSignal string `json:"expected_signal"`
}

// Signal is the expected signal of every example: one check per line.
const Signal = "contains: Decision:\ncontains: Owner:\ncontains: Deadline:\ncontains: Risk:"

// Examples makes n examples with distinct inputs; equal arguments give equal
// examples.
func Examples(n int, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 17))
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	var out []Example
	for seen := map[string]bool{}; len(out) < n; {
		input := fmt.Sprintf("Please write short notes on %s for release %d.%d. We decided to %s. %s owns it, it has to be out by 2026-%02d-%02d, and the main worry is %s.",
			pick(topics()), 1+r.IntN(9), r.IntN(40), pick(decisions()), pick(owners()), 1+r.IntN(12), 1+r.IntN(28), pick(risks()))
		if seen[input] {
			continue
		}
		seen[input] = true
		out = append(out, Example{ID: fmt.Sprintf("note-%03d", len(out)+1), Input: input, ExpectedSignal: Signal})
	}
	return out
}
