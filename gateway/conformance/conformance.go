// Package conformance holds the list of what a model's server may do to us: one
// case, one id, one meaning. The tests here play every case through the whole
// chain, from a scripted server over real TCP by the real adapters to money and
// rows; the tests of the Python side play those that reach it. Each suite holds
// what it plays against the list, in both directions.
//
// It deliberately does not know how a case is played, or what it must come to:
// that is told by the suites.
package conformance

import (
	_ "embed" // the list
	"encoding/json"
	"fmt"
)

//go:embed cases.json
var list []byte

// Case is one thing that may happen.
type Case struct {
	ID      string `json:"id"`
	Meaning string `json:"meaning"`
	Worker  bool   `json:"worker,omitempty"` // it reaches the Python side of a job too
}

// Cases gives the list, in its order.
func Cases() ([]Case, error) {
	var out []Case
	if err := json.Unmarshal(list, &out); err != nil {
		return nil, fmt.Errorf("read the list of cases: %w", err)
	}
	return out, nil
}
