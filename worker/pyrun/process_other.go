//go:build unix && !linux

package pyrun

import "syscall"

// attributes puts the process into a group of its own. This system cannot tie it
// to our life; the adapter leaves when its standard input ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// seal does nothing: there is no one call for it here.
func seal() {}

// waitEnd does not wait here: the group is killed after the process was collected.
func waitEnd(int) error { return nil }

// reap finds nobody here: descendants that left the group are not known.
func reap(string, int) int { return 0 }
