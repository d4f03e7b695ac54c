package importer

import (
	"fmt"
	"slices"
	"strings"
)

// block is a fenced block of a Markdown text.
type block struct {
	line    int // of its opening fence, from 1
	end     int // of its closing fence; 0 when there is none
	info    string
	text    string // the lines between, each with its newline
	heading string // the last heading before it
}

// fences finds the fenced blocks of a text. A longer fence may hold shorter ones.
func fences(text string) []block {
	var out []block
	var open *block
	var mark, heading string
	lines := strings.SplitAfter(text, "\n")
	var body strings.Builder
	for i, line := range lines {
		t := strings.TrimRight(line, " \t\n")
		indent := len(t) - len(strings.TrimLeft(t, " "))
		t = t[indent:]
		switch {
		case open != nil:
			if indent <= 3 && len(t) >= len(mark) && strings.Trim(t, mark[:1]) == "" {
				open.end, open.text = i+1, body.String()
				out, open = append(out, *open), nil
				continue
			}
			body.WriteString(line)
		case indent <= 3 && (strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~")):
			n := len(t) - len(strings.TrimLeft(t, t[:1]))
			if info := strings.TrimSpace(t[n:]); t[0] == '~' || !strings.Contains(info, "`") {
				mark = t[:n]
				open = &block{line: i + 1, info: info, heading: heading}
				body.Reset()
			}
		case strings.HasPrefix(t, "#"):
			if h := firstHeading(t); h != "" {
				heading = h
			}
		}
	}
	if open != nil {
		open.text = body.String()
		out = append(out, *open)
	}
	return out
}

// marked says whether a block's info string holds the word installable.
func (b block) marked() bool {
	words := strings.FieldsFunc(strings.ToLower(b.info), func(r rune) bool { return strings.ContainsRune(" \t,{}.", r) })
	return slices.Contains(words, "installable") || slices.Contains(words, "installable=true")
}

// overlayLike says whether a block looks like an overlay file.
func (b block) overlayLike() bool {
	h, _, found := cutHeader(b.text)
	return found && h.has("id") && h.has("artifact_class")
}

// mostExamples is how many examples of a document are named one by one.
const mostExamples = 50

// document reads a text that publishes overlays in blocks: one with a marked block,
// or with a block that is an overlay file. is tells whether the text is one.
func document(text string, blocks []block) (r reading, is bool) {
	r.format = FormatDocument
	examples, alike := 0, 0
	for _, b := range blocks {
		switch where := fmt.Sprintf("block at line %d", b.line); {
		case b.marked() && b.end == 0:
			is = true
			r.notes = append(r.notes, where+" is marked installable and never closed; it was not taken")
		case b.marked() && strings.TrimSpace(b.text) == "":
			is = true
			r.notes = append(r.notes, where+" is marked installable and empty")
		case b.marked():
			is = true
			d := installable(b.text, b.heading)
			if d.where = where; strings.TrimSpace(d.body) == "" {
				r.notes = append(r.notes, where+" holds no text below its header")
				continue
			}
			r.drafts = append(r.drafts, d)
		default:
			examples++
			if b.overlayLike() {
				alike++
			}
			if examples <= mostExamples {
				r.notes = append(r.notes, fmt.Sprintf("%s (%s) is an example: it is not marked installable and was not taken", where, clip(orWord(b.info, "no language"))))
			}
		}
	}
	if !is && alike == 0 {
		return reading{}, false
	}
	if examples > mostExamples {
		r.notes = append(r.notes, fmt.Sprintf("%d further blocks are examples too", examples-mostExamples))
	}
	if len(r.drafts) == 0 {
		r.refused = fmt.Sprintf("holds no usable block that is marked installable (%d blocks are examples); mark one as ```markdown installable to take it", examples)
		return r, true
	}
	if outside(text, blocks) {
		r.lost = append(r.lost, Loss{"the document's own text around its blocks", "only marked blocks are installed"})
	}
	return r, true
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// outside says whether a text says anything besides its blocks.
func outside(text string, blocks []block) bool {
	no := 0
	for line := range strings.SplitSeq(text, "\n") {
		no++
		for len(blocks) > 0 && blocks[0].end != 0 && blocks[0].end < no {
			blocks = blocks[1:]
		}
		if (len(blocks) == 0 || no < blocks[0].line) && strings.TrimSpace(line) != "" {
			return true
		}
	}
	return false
}

// wholeText says whether a block is all that a text holds.
func wholeText(text string, b block) bool { return !outside(text, []block{b}) }
