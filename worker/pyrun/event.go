package pyrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/elnor/promptlab/contracts"
)

// protocol is the version that both sides speak.
const protocol = 1

// Limits on what a result may hold.
const (
	maxCandidates   = 64
	maxText         = 64 << 10
	maxDeltaLines   = 20
	maxDelta        = 500
	maxWarnings     = 100
	maxErrorMessage = 500
)

// Event is a checked event of the run. Type is hello, ready, seeds, step, calls,
// candidate or warning; Raw is the whole JSON object.
type Event struct {
	Type string
	Raw  json.RawMessage
}

// Result is what the process says it found. It is checked for form only.
type Result struct {
	Status        string      `json:"status"`       // completed, cancelled, budget or aborted
	EndedBy       string      `json:"ended_by"`     // steps, too_few_seeds, or the status again
	SourceScore   *float64    `json:"source_score"` // in [0,1]; nil: not measured
	Candidates    []Candidate `json:"candidates"`   // best first
	Steps         int         `json:"steps"`
	Seed          int64       `json:"seed"`
	Engine        string      `json:"engine"`
	Promptolution string      `json:"promptolution"`
	Python        string      `json:"python"`
	Warnings      []Warning   `json:"warnings"`
}

// Candidate is a proposed text. Its hash is the content hash of its text.
type Candidate struct {
	Text         string   `json:"text"`
	SHA256       string   `json:"sha256"`
	Score        float64  `json:"score"` // mean over n development rows
	N            int      `json:"n"`
	DeltaSummary []string `json:"delta_summary"`
}

// Warning is a code and how often it came up.
type Warning struct {
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// hello is the first event. The other fields of the early events are checked by
// their Go types alone.
type hello struct {
	Protocol      int     `json:"protocol"`
	PID           int     `json:"pid"`
	Python        string  `json:"python"`
	Promptolution *string `json:"promptolution"`
}

type failureEvent struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"` // not believed: the code decides
}

var (
	codePattern   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	hashPattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9._+-]{0,64}$`)
	statusPattern = regexp.MustCompile(`^(completed|cancelled|budget|aborted)$`)
)

// eventType reads a line's type. The line must be one JSON object in UTF-8.
func eventType(line []byte) (string, error) {
	if !utf8.Valid(line) {
		return "", errors.New("a line is not UTF-8")
	}
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil || head.Type == nil {
		return "", errors.New("a line is not an event")
	}
	return *head.Type, nil
}

// checkProgress checks an event that is neither the first nor the last. known is
// false for a type that nobody knows.
func checkProgress(kind string, line []byte) (known bool, err error) {
	var p struct {
		I        *int     `json:"i"`
		N        *int     `json:"n"`
		Rejected *int     `json:"rejected"`
		Best     *float64 `json:"best"`
		Mean     *float64 `json:"mean"`
		Score    *float64 `json:"score"`
		SHA256   *string  `json:"sha256"`
		Code     *string  `json:"code"`
		Meta     *int     `json:"meta"`
		Measure  *int     `json:"measure"`
		Check    *int     `json:"check"`
		Engine   *string  `json:"engine"`
		Version  *string  `json:"promptolution"`
	}
	switch kind {
	case "ready", "seeds", "step", "calls", "candidate", "warning":
	default:
		return false, nil
	}
	good := json.Unmarshal(line, &p) == nil &&
		count(p.I) && count(p.N) && count(p.Rejected) && count(p.Meta) && count(p.Measure) && count(p.Check) &&
		share(p.Best) && share(p.Mean) && share(p.Score) &&
		matches(p.SHA256, hashPattern) && matches(p.Code, codePattern) &&
		matches(p.Engine, namePattern) && matches(p.Version, namePattern)
	switch kind {
	case "seeds":
		good = good && p.N != nil
	case "step":
		good = good && p.I != nil && p.N != nil
	case "candidate":
		good = good && p.SHA256 != nil && p.Score != nil
	case "warning":
		good = good && p.Code != nil
	}
	if !good {
		return true, fmt.Errorf("a %s event is malformed", kind)
	}
	return true, nil
}

func checkHello(line []byte) error {
	var h hello
	if err := json.Unmarshal(line, &h); err != nil || !namePattern.MatchString(h.Python) || !matches(h.Promptolution, namePattern) {
		return errors.New("the hello event is malformed")
	}
	if h.Protocol != protocol {
		return &Failure{Code: contracts.FailWorkerUnavailable, Retryable: true, Message: fmt.Sprintf("the adapter speaks protocol %d, %d is needed; run make setup", h.Protocol, protocol)}
	}
	return nil
}

// readResult checks the form of a result: sizes, ranges, and that every hash is
// the hash of its text.
func readResult(line []byte) (*Result, error) {
	var r Result
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, errors.New("the result is malformed")
	}
	var bad []string
	check := func(good bool, field string) {
		if !good {
			bad = append(bad, field)
		}
	}
	check(statusPattern.MatchString(r.Status), "status")
	check(codePattern.MatchString(r.EndedBy), "ended_by")
	check(share(r.SourceScore), "source_score")
	check(r.Steps >= 0 && r.Steps < 1<<31, "steps")
	check(namePattern.MatchString(r.Engine), "engine")
	check(namePattern.MatchString(r.Promptolution), "promptolution")
	check(namePattern.MatchString(r.Python), "python")
	check(len(r.Candidates) <= maxCandidates, "candidates")
	check(len(r.Warnings) <= maxWarnings, "warnings")
	for i, c := range r.Candidates {
		at := fmt.Sprintf("candidates[%d].", i)
		check(strings.TrimSpace(c.Text) != "" && len(c.Text) <= maxText, at+"text")
		check(c.SHA256 == contracts.Hash(c.Text), at+"sha256")
		check(share(&c.Score), at+"score")
		check(c.N >= 1 && c.N < 1<<31, at+"n")
		short := len(c.DeltaSummary) <= maxDeltaLines
		for _, d := range c.DeltaSummary {
			short = short && len(d) <= maxDelta
		}
		check(short, at+"delta_summary")
	}
	for i, w := range r.Warnings {
		check(codePattern.MatchString(w.Code) && w.Count >= 0, fmt.Sprintf("warnings[%d]", i))
	}
	if len(bad) > 0 {
		if len(bad) > 10 {
			bad = append(bad[:10], "and more")
		}
		return nil, fmt.Errorf("the result is malformed: %s", strings.Join(bad, ", "))
	}
	return &r, nil
}

// readError turns an error event into the failure that it stands for.
func readError(line []byte) (*Failure, error) {
	var e failureEvent
	if err := json.Unmarshal(line, &e); err != nil || !codePattern.MatchString(e.Code) {
		return nil, errors.New("the error event is malformed")
	}
	return &Failure{Code: e.Code, Message: plain(e.Message), Retryable: contracts.RetryableFailure(e.Code)}, nil
}

func count(n *int) bool { return n == nil || *n >= 0 && *n < 1<<31 }

// share is a number in [0,1]; JSON has no NaN, and the comparison refuses it.
func share(v *float64) bool { return v == nil || *v >= 0 && *v <= 1 }

func matches(s *string, p *regexp.Regexp) bool { return s == nil || p.MatchString(*s) }

// plain makes one short printable line of a foreign text.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) > maxErrorMessage {
		s = strings.ToValidUTF8(s[:maxErrorMessage], "") + "…"
	}
	return s
}
