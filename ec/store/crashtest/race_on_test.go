//go:build race

package crashtest

// raceDetector is on: the checker, which is one goroutine, does less then.
const raceDetector = true
