//go:build !race

package writer_test

// How many scripts are cut, and that every disk is recovered.
const (
	seeds  = 2
	stride = 1
)
