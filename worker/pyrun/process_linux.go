package pyrun

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes puts the process into a group of its own and lets the kernel kill it
// with the thread that started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// seal keeps descriptors that we inherited ourselves from reaching the process. Go
// opens its own so that they close; those of our parent may be anything.
func seal() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, _ := os.ReadDir("/proc/self/fd") // an old kernel; what could be listed
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// waitEnd waits until the process has ended but leaves it a zombie, so that its
// number, which names the group, cannot be taken by anybody else yet.
func waitEnd(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// reap kills every process that was started with the private folder as its HOME,
// wherever it fled to, and waits for its end. It gives how many had left the group.
func reap(dir string, group int) int {
	mark := []byte("\x00HOME=" + dir + "\x00")
	fled := 0
	// A process may fork while we look: look again until there is nobody.
	for range 20 {
		found := 0
		for _, pid := range processes() {
			pgid, _ := unix.Getpgid(pid) // it may be gone
			if !kill(pid, mark) {
				continue
			}
			found++
			if pgid != group {
				fled++
			}
		}
		if found == 0 {
			break
		}
	}
	return fled
}

func processes() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }() // only read
	names, _ := proc.Readdirnames(-1)   // what could be listed
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill ends a process whose first environment holds mark, and waits a second at
// most for its end. The handle is taken before the look, so the process that is
// killed is the one that was seen.
func kill(pid int, mark []byte) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // only a handle
	} else if !errors.Is(err, unix.ENOSYS) {
		return false // gone
	}
	env, readErr := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if readErr != nil || !bytes.Contains(append([]byte{0}, env...), mark) {
		return false // a zombie's is empty
	}
	if err != nil { // an old kernel without handles
		return unix.Kill(pid, unix.SIGKILL) == nil
	}
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000) // the next look tells
	return true
}
