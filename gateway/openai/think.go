package openai

import "strings"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	white      = " \t\r\n"
)

// splitter parts a leading block of reasoning from the text, which some servers
// leave there. It takes the text in pieces of any size, so a delimiter may come
// in parts; only what cannot be a delimiter any more is given out.
type splitter struct {
	at   place
	held string // may be the beginning of a delimiter
}

type place int

const (
	atStart  place = iota // nothing but white space came
	inBlock               // between the delimiters
	atAnswer              // the block is over; the white space behind it is not the answer's
	inAnswer
)

// feed takes a piece and gives what is certain by now.
func (s *splitter) feed(piece string) (text, thought string) {
	if s.at == inAnswer {
		return piece, ""
	}
	buf := s.held + piece
	s.held = ""
	if s.at == atStart {
		rest := strings.TrimLeft(buf, white)
		switch {
		case strings.HasPrefix(rest, thinkOpen):
			s.at, buf = inBlock, rest[len(thinkOpen):]
		case strings.HasPrefix(thinkOpen, rest):
			s.held = buf
			return "", ""
		default:
			s.at = inAnswer
			return buf, ""
		}
	}
	if s.at == inBlock {
		before, after, found := strings.Cut(buf, thinkClose)
		if !found {
			keep := overlap(buf, thinkClose)
			s.held = buf[len(buf)-keep:]
			return "", buf[:len(buf)-keep]
		}
		s.at, thought, buf = atAnswer, before, after
	}
	if buf = strings.TrimLeft(buf, white); buf != "" {
		s.at = inAnswer
	}
	return buf, thought
}

// close gives what was held back. closed is false when the block never ended.
func (s *splitter) close() (text, thought string, closed bool) {
	held := s.held
	s.held = ""
	if s.at == inBlock {
		return "", held, false
	}
	return held, "", true
}

// overlap gives the length of the longest end of s that a delimiter begins with.
func overlap(s, delimiter string) int {
	for n := min(len(s), len(delimiter)-1); n > 0; n-- {
		if strings.HasSuffix(s, delimiter[:n]) {
			return n
		}
	}
	return 0
}
