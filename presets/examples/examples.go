// Package examples holds the replay examples that come with the program: requests
// for short work notes with the checks that a good answer passes.
//
// It deliberately does not know how examples are split, scored or stored.
package examples

import _ "embed"

// GuidedVerification are examples for the overlay guided-verification, one JSON
// object a line, in the shape that jobs run --examples reads.
//
//go:embed guided-verification.jsonl
var GuidedVerification []byte
