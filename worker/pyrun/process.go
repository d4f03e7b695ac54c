package pyrun

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a started command with our ends of its pipes.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	mu        sync.Mutex
	collected bool // the number may belong to somebody else now

	exited chan struct{} // closed when the process was collected and its group killed
}

// start starts the command on a thread that stays with it: the kernel kills the
// process when the thread that started it ends.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	theirs, err := p.pipes()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		seal()
		err := cmd.Start()
		for _, f := range theirs {
			_ = f.Close() // the child has its own
		}
		started <- err
		if err != nil {
			return
		}
		defer close(p.exited)
		_ = waitEnd(cmd.Process.Pid) // if it cannot wait, Wait below does
		p.signal(syscall.SIGKILL)    // whoever is left of the group
		p.mu.Lock()
		p.collected = true
		p.mu.Unlock()
		_ = cmd.Wait() // the state is read from cmd.ProcessState
	}()
	if err := <-started; err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// pipes connects the command and gives the child's ends.
func (p *process) pipes() ([]*os.File, error) {
	var theirs []*os.File
	undo := func(err error) ([]*os.File, error) {
		for _, f := range theirs {
			_ = f.Close() // never used
		}
		p.close()
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return undo(err)
	}
	p.cmd.Stdin, p.stdin, theirs = r, w, append(theirs, r)
	if r, w, err = os.Pipe(); err != nil {
		return undo(err)
	}
	p.cmd.Stdout, p.stdout, theirs = w, r, append(theirs, w)
	if r, w, err = os.Pipe(); err != nil {
		return undo(err)
	}
	p.cmd.Stderr, p.stderr, theirs = w, r, append(theirs, w)
	return theirs, nil
}

// close closes our ends. Reads and writes that hang end with an error.
func (p *process) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
}

// signal reaches the whole group, as long as its number is surely its own.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.collected {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // a group that is gone needs no signal
	}
}

// drain lets the readers finish what is in the pipes. All writers are dead; if
// one is not, nobody waits for it.
func (p *process) drain(limit time.Duration, readers ...<-chan struct{}) {
	deadline := time.Now().Add(limit)
	_ = p.stdout.SetReadDeadline(deadline) // pipes support deadlines
	_ = p.stderr.SetReadDeadline(deadline) // as above
	for _, done := range readers {
		<-done
	}
}

// copyAll reads to the end, whatever ends it.
func copyAll(to io.Writer, from io.Reader) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, from) // an error is an end
	}()
	return done
}

// private is a folder that exists for one run. The lock on it tells a later
// Sweep that its owner lives.
type private struct {
	path string
	lock *os.File
}

const privatePrefix = "pyrun-"

func newPrivate(base string) (*private, error) {
	path, err := os.MkdirTemp(base, privatePrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		_ = os.RemoveAll(path) // empty
		return nil, err
	}
	return &private{path: path, lock: lock}, nil
}

func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // only a lock
		return nil, err
	}
	return f, nil
}

// remove deletes the folder, also against modes that the process set on it.
func (d *private) remove() error {
	err := os.RemoveAll(d.path)
	if err != nil {
		_ = filepath.WalkDir(d.path, func(path string, e fs.DirEntry, _ error) error {
			if e != nil && e.IsDir() {
				_ = os.Chmod(path, 0o700) // the second removal tells
			}
			return nil
		})
		err = os.RemoveAll(d.path)
	}
	_ = d.lock.Close() // only a lock
	return err
}

// Sweep kills what is left of runs under base whose owner died, and removes their
// folders. Runs that live are left alone. A worker calls it when it starts.
func Sweep(base string) error {
	if base == "" {
		base = os.TempDir()
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return fmt.Errorf("sweep temporary folders: %w", err)
	}
	var all error
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), privatePrefix) {
			continue
		}
		lock, err := lockDir(path)
		if err != nil {
			continue // somebody's run, or not ours to touch
		}
		reap(path, 0)
		all = errors.Join(all, (&private{path: path, lock: lock}).remove())
	}
	return all
}
