// Package pyrun runs one Python process for one task: a request goes in on
// standard input, JSON lines come out, and in the end nothing of it is left, no
// process and no file.
//
// Whatever the process says is hostile input: sizes, types and numbers are
// checked here, and its output is a claim that others verify. The package
// deliberately does not know what the process computes, who asked for it, or
// any model, key or data path; it hands on the request's bytes and nothing else.
package pyrun
