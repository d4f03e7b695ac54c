package term

import (
	"fmt"
	"strings"
)

// Progress is one line that says how far a long piece of work is: rewritten in
// place on a terminal, and written anew elsewhere when there is something to tell:
// another stage, another step of few, another quarter of many.
type Progress struct {
	s    Screen
	last string // what was written last elsewhere
	open bool   // a line is on the terminal
}

// NewProgress makes a progress line.
func NewProgress(s Screen) *Progress { return &Progress{s: s} }

const barWidth = 24

// Show says where the work is. Done of total makes the bar; total 0 has none.
func (p *Progress) Show(stage string, done, total int, facts ...string) {
	detail := strings.Join(facts, " · ")
	if !p.s.TTY {
		count := ""
		if total > 0 {
			count = fmt.Sprintf("%d/%d", done, total)
		}
		if mark := stage + milestone(done, total); mark != p.last {
			p.last = mark
			p.s.Printf("%s\n", Line(join(stage, count, detail)))
		}
		return
	}
	bar := ""
	if total > 0 {
		n := min(max(done, 0), total) * barWidth / total
		bar = fmt.Sprintf("%s%s %d/%d", strings.Repeat("█", n), strings.Repeat("░", barWidth-n), done, total)
	}
	p.s.Printf("\r\x1b[2K%s", p.s.Paint(Dim, Short(join(stage, bar, detail), 118)))
	p.open = true
}

// milestone changes when a line is worth writing anew.
func milestone(done, total int) string {
	const few, parts = 12, 4
	switch {
	case total <= 0:
		return ""
	case total <= few:
		return fmt.Sprint(done)
	default:
		return fmt.Sprint(done * parts / total)
	}
}

// End leaves the last line standing and goes to the next.
func (p *Progress) End() {
	if p.open {
		p.s.Printf("\n")
	}
	p.open = false
}

func join(parts ...string) string {
	var some []string
	for _, s := range parts {
		if s != "" {
			some = append(some, s)
		}
	}
	return strings.Join(some, "  ")
}
