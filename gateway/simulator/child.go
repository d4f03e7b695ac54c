package simulator

import (
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Limits of what a child may add to a text.
const (
	maxBullets = 6
	growth     = 1.28 // of the text without pool bullets; below the usual limit of 1.3
)

// pool gives the bullets that children may carry: four that help, four decoys.
func pool() []string {
	return []string{
		"- Add a `Decision:` line.",
		"- Add an `Owner:` line.",
		"- Add a `Deadline:` line.",
		"- Add a `Risk:` line.",
		"- Prefer active verbs.",
		"- Keep sentences short.",
		"- Stay calm and friendly.",
		"- Avoid needless jargon.",
	}
}

var (
	openTag  = regexp.MustCompile(`<([A-Za-z][A-Za-z0-9_-]{0,30})>`)
	scored   = regexp.MustCompile(`(?ms)^text:\n(.*?)\nscore: -?\d+$`)
	beginEnd = regexp.MustCompile(`(?m)^[^\pL\pN\n]*(BEGIN|END)\b.*$`)
)

func textTags() []string {
	return []string{"current", "current_a", "current_b", "parent", "parent_a", "parent_b", "parent1", "parent2",
		"mother", "father", "text_a", "text_b", "first", "second", "instruction", "curr_param"}
}

func asksForText(user string) bool {
	return strings.Contains(user, "<prompt>") && strings.Contains(user, "</prompt>")
}

// child answers a request for an edited text; false means that the request
// holds no text to edit.
func (w *World) child(user, repeat string) (string, bool) {
	parents := parents(user)
	if len(parents) == 0 {
		return "", false
	}
	for i := range parents {
		parents[i] = best(parents[i])
	}
	base, bullets := split(parents[0])
	for _, p := range parents[1:] {
		_, more := split(p)
		bullets = union(bullets, more)
	}
	draw := func(what string, n int) int { return int(w.number("child", what, user, repeat) % int64(n)) }
	for len(bullets) > 0 && !fits(base, bullets) {
		i := draw("trim"+strconv.Itoa(len(bullets)), len(bullets))
		bullets = slices.Delete(bullets, i, i+1)
	}
	exchange := len(parents) == 1 // a child of two keeps what it inherited
	for i := range 1 + draw("how many", 2) {
		bullets = grow(base, bullets, exchange, func(what string, n int) int { return draw(what+strconv.Itoa(i), n) })
	}
	return "<prompt>\n" + render(base, bullets) + "\n</prompt>", true
}

// best takes the last text of a list in which each stands between "text:" and
// "score: NUMBER", as lists of earlier versions do, the best one last.
func best(text string) string {
	all := scored.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return text
	}
	return all[len(all)-1][1]
}

// grow adds a pool bullet, or exchanges one when there is no room.
func grow(base string, bullets []string, exchange bool, draw func(string, int) int) []string {
	fresh := slices.DeleteFunc(pool(), func(b string) bool { return slices.Contains(bullets, b) })
	if len(fresh) == 0 {
		return bullets
	}
	next := append(slices.Clone(bullets), fresh[draw("which", len(fresh))])
	if fits(base, next) {
		return next
	}
	if exchange && len(bullets) > 0 {
		i := draw("out", len(bullets))
		if next = slices.Delete(next, i, i+1); fits(base, next) {
			return next
		}
	}
	return bullets
}

func fits(base string, bullets []string) bool {
	return len(bullets) <= maxBullets && float64(len(render(base, bullets))) <= growth*float64(len(base))
}

func render(base string, bullets []string) string {
	return strings.Join(append([]string{base}, bullets...), "\n")
}

// split parts a text from the pool bullets in it.
func split(text string) (base string, bullets []string) {
	all := pool()
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if b := strings.TrimSpace(line); slices.Contains(all, b) {
			bullets = union(bullets, []string{b})
		} else {
			kept = append(kept, line)
		}
	}
	return strings.TrimRight(strings.Join(kept, "\n"), " \t\r\n"), bullets
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// parents finds the texts to edit, at most two, in the order of the request.
func parents(user string) []string {
	known, other := tagged(user)
	switch {
	case len(known) > 0:
		return inOrder(known)
	case len(fenced(user)) > 0:
		return inOrder(fenced(user))
	default:
		return inOrder(other[:min(1, len(other))])
	}
}

// block is a found text and where it stood.
type block struct {
	at   int
	text string
}

// inOrder takes the two longest blocks and gives their texts as they stood.
func inOrder(blocks []block) []string {
	sort.SliceStable(blocks, func(i, j int) bool { return len(blocks[i].text) > len(blocks[j].text) })
	blocks = blocks[:min(2, len(blocks))]
	sort.Slice(blocks, func(i, j int) bool { return blocks[i].at < blocks[j].at })
	var out []string
	for _, b := range blocks {
		out = append(out, b.text)
	}
	return out
}

// tagged gives the longest block of every known tag, and of the unknown ones
// the longest of all. The goal and the answer's own tag are not texts.
func tagged(user string) (known, other []block) {
	longest := map[string]block{}
	for _, m := range openTag.FindAllStringSubmatchIndex(user, -1) {
		name := user[m[2]:m[3]]
		inner, _, ok := strings.Cut(user[m[1]:], "</"+name+">")
		text := strings.Trim(inner, "\r\n")
		if ok && strings.TrimSpace(text) != "" && len(text) > len(longest[name].text) {
			longest[name] = block{m[0], text}
		}
	}
	for name, b := range longest {
		switch lower := strings.ToLower(name); {
		case slices.Contains(textTags(), lower):
			known = append(known, b)
		case lower != "prompt" && lower != "goal" && lower != "task_desc":
			other = append(other, b)
		}
	}
	byLength := func(s []block) {
		sort.Slice(s, func(i, j int) bool {
			return len(s[i].text) > len(s[j].text) || len(s[i].text) == len(s[j].text) && s[i].at < s[j].at
		})
	}
	byLength(known)
	byLength(other)
	return known, other
}

// fenced gives the blocks between BEGIN and END lines.
func fenced(user string) []block {
	var out []block
	begin := -1
	for _, m := range beginEnd.FindAllStringSubmatchIndex(user, -1) {
		if user[m[2]:m[3]] == "BEGIN" {
			begin = m[1]
			continue
		}
		if begin >= 0 {
			if text := strings.Trim(user[begin:m[0]], "\r\n"); strings.TrimSpace(text) != "" {
				out = append(out, block{begin, text})
			}
			begin = -1
		}
	}
	return out
}
