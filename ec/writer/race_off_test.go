//go:build !race

package writer_test

// How many scripts are cut, and which of the disks are recovered: every fifth,
// which meets each kind of cut in turn.
const (
	seeds  = 2
	stride = 5
)
