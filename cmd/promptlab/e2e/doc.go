// Package e2e holds tests of the whole: the built program as separate processes,
// a real Redis, the real optimizer, real files, and kill -9.
package e2e
