// Package gateway is the one door to models: every call that leaves the house
// for a model goes through [Gateway.Do], or [Gateway.Stream] when the answer is
// wanted piece by piece. One chain serves both: it picks the target, waits for
// its turn, sets money aside, makes at most three attempts, and writes one row
// per attempt.
//
// It deliberately does not know what a prompt means, where an answer goes, how
// rows are stored, or where keys and configuration files live: keys come by a
// [KeyFunc], rows leave by a [Rows], money comes from a [Lender]. It never
// keeps or logs prompt text, answers, keys or what a provider said: its errors
// carry a class from a closed list and nothing a provider wrote.
//
// Adapters (package gateway/openai, gateway/simulator) make exactly one HTTP
// call per attempt and know one wire protocol each; what they share is package
// gateway/internal/wire. Clocks are the chain's alone: an adapter reports
// progress and ends with its context. Tests of the chain run
// under testing/synctest, so the clock is the standard one; chance comes in by
// Config.Rand.
package gateway
