//go:build race

package writer_test

// Under the race detector, which costs tenfold, the power cuts are fewer.
const (
	seeds  = 1
	stride = 8
)
