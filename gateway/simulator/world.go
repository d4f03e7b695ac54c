package simulator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/elnor/promptlab/gateway"
)

// Kind is which world it is.
type Kind string

// The two worlds.
const (
	Helpful Kind = "helpful"
	Null    Kind = "null"
)

// The probabilities that a feature is shown.
const (
	PHigh = 0.9  // helpful world, the text carries the instruction
	PLow  = 0.35 // helpful world, it does not
	PNull = 0.5  // null world, whatever the text says
)

// World answers requests. It has no state: equal requests get equal answers.
type World struct {
	kind Kind
	seed uint64
}

// New makes a world; an unknown kind is an error.
func New(kind Kind, seed uint64) (*World, error) {
	if kind != Helpful && kind != Null {
		return nil, fmt.Errorf("no world is called %q", kind)
	}
	return &World{kind: kind, seed: seed}, nil
}

// Name gives "simulator/helpful" or "simulator/null".
func (w *World) Name() string { return "simulator/" + string(w.kind) }

// Params is what a request says besides its messages.
type Params struct {
	Role      gateway.Role // empty: found out from the messages
	MaxTokens int          // 0: no cap
	Seed      *int64       // tells repeats apart
}

// Answer is what a world says.
type Answer struct {
	Text   string
	Finish gateway.Finish
	Usage  gateway.Usage
}

// Answer answers one request.
func (w *World) Answer(messages []gateway.Message, p Params) Answer {
	var system, user strings.Builder
	for _, m := range messages {
		switch m.Role {
		case gateway.SpeakerSystem, gateway.SpeakerDeveloper:
			system.WriteString(m.Text())
		case gateway.SpeakerUser:
			user.WriteString(m.Text())
		}
	}
	repeat := "-"
	if p.Seed != nil {
		repeat = fmt.Sprint(*p.Seed)
	}
	var text string
	switch {
	case p.Role == gateway.RoleJudge || p.Role == gateway.RoleCritic || p.Role == gateway.RoleRewrite:
		text = w.plain(system.String(), user.String(), repeat)
	case asksForText(user.String()):
		var ok bool
		if text, ok = w.child(user.String(), repeat); !ok {
			text = w.plain(system.String(), user.String(), repeat)
		}
	default:
		text = w.note(system.String(), user.String(), repeat)
	}
	return finish(messages, text, p.MaxTokens)
}

// finish counts tokens, four bytes each, and cuts at the cap.
func finish(messages []gateway.Message, text string, maxTokens int) Answer {
	in := 0
	for _, m := range messages {
		in += 2 + tokens(m.Text())
	}
	a := Answer{Text: text, Finish: gateway.FinishStop}
	if n := tokens(text); maxTokens > 0 && n > maxTokens {
		a.Text, a.Finish = strings.ToValidUTF8(text[:4*maxTokens], ""), gateway.FinishLength
	}
	a.Usage = gateway.Usage{Known: true, Input: int64(in), Output: int64(tokens(a.Text))}
	return a
}

func tokens(s string) int { return (len(s) + 3) / 4 }

func (w *World) plain(parts ...string) string {
	sum := w.sum(append([]string{"plain"}, parts...)...)
	return "[simulated] " + hex.EncodeToString(sum[:6])
}

// note writes the release note that the input asks for.
func (w *World) note(system, input, repeat string) string {
	f := w.facts(input)
	lines := []string{"The change to " + f.topic + " is ready to be announced."}
	var labelled []string
	for _, r := range rules() {
		if w.shows(r, system, input, repeat) {
			labelled = append(labelled, r.label+" "+r.fact(f))
		} else {
			lines = append(lines, r.prose(f))
		}
	}
	return strings.Join(append([]string{strings.Join(lines, " ")}, labelled...), "\n")
}

// shows draws whether a feature appears in the answer.
func (w *World) shows(r rule, system, input, repeat string) bool {
	if w.kind == Null {
		return w.chance("null", r.name, input, system, repeat) < PNull
	}
	if r.carriedBy(system) {
		return w.chance("helpful", r.name, input, "carried", repeat) < PHigh
	}
	return w.chance("helpful", r.name, input, "absent", repeat) < PLow
}

// Carried gives the names of the rules whose instruction a system text carries.
func (w *World) Carried(system string) []string {
	var names []string
	for _, r := range rules() {
		if r.carriedBy(system) {
			names = append(names, r.name)
		}
	}
	return names
}

// Expected gives the mean score of a system text over all possible inputs, when
// a score is the share of the four features that an answer shows.
func (w *World) Expected(system string) float64 {
	if w.kind == Null {
		return PNull
	}
	n := float64(len(w.Carried(system)))
	all := float64(len(rules()))
	return (n*PHigh + (all-n)*PLow) / all
}

// Optimum gives the best mean score that any text can reach.
func (w *World) Optimum() float64 {
	if w.kind == Null {
		return PNull
	}
	return PHigh
}

func (w *World) sum(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], w.seed)
	h.Write(n[:])
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// number gives a draw from 0 to 2^63-1 that depends on the parts alone.
func (w *World) number(parts ...string) int64 {
	sum := w.sum(parts...)
	return int64(binary.LittleEndian.Uint64(sum[:8]) >> 1)
}

// chance gives a draw in [0,1).
func (w *World) chance(parts ...string) float64 {
	return float64(w.number(parts...)>>10) / (1 << 53)
}
