package crashtest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elnor/promptlab/ec/store/fsx"
)

// realFS is a file system whose power can be cut: it lies in an image file and
// is told to shut down without writing anything more.
type realFS struct {
	name string
	mkfs []string // the image's path is added
	pkg  string   // where mkfs comes from
	size int64    // of the image, which is sparse
}

func powerCuts() [2]realFS {
	return [2]realFS{
		{"ext4", []string{"mkfs.ext4", "-q", "-F"}, "e2fsprogs", 64 << 20},
		{"xfs", []string{"mkfs.xfs", "-q", "-f"}, "xfsprogs", 320 << 20}, // mkfs.xfs takes no less than 300 MiB
	}
}

// shutdown is FS_IOC_SHUTDOWN, and noFlush its flag that loses even the log.
const (
	shutdown = 0x8004587d
	noFlush  = 2
)

// mountPrefix begins the name of every folder that something is mounted in; the
// number of the process that did it follows.
const mountPrefix = "promptlab-crash-"

// missing says what keeps the power from being cut here; "" when nothing does.
func (f realFS) missing() string {
	if os.Geteuid() != 0 {
		return "needs root"
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "no loop devices"
	}
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(known), "\t"+f.name+"\n") {
		if _, err := exec.LookPath("modprobe"); err != nil || exec.Command("modprobe", f.name).Run() != nil {
			return "the kernel has no " + f.name
		}
	}
	for _, tool := range []struct{ name, pkg string }{{f.mkfs[0], f.pkg}, {"mount", "mount"}, {"umount", "mount"}, {"losetup", "mount"}} {
		if _, err := exec.LookPath(tool.name); err != nil {
			return tool.name + " is missing: package " + tool.pkg
		}
	}
	return ""
}

// disk is a file system in an image, mounted.
type disk struct {
	realFS
	image, at string
}

// mount makes an image and mounts it. Whatever happens, nothing stays mounted.
func (f realFS) mount(t *testing.T) (*disk, error) {
	t.Helper()
	if err := sweep(os.TempDir(), os.Stderr); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", mountPrefix, os.Getpid())) //nolint:usetesting // the name tells the next run whose it was
	if err != nil {
		return nil, err
	}
	d := &disk{realFS: f, image: filepath.Join(dir, "image"), at: filepath.Join(dir, "mnt")}
	t.Cleanup(func() {
		if err := clearAway(dir); err != nil {
			t.Errorf("clear %s away: %v", dir, err)
		}
	})
	image, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(image.Truncate(f.size), image.Close(), os.Mkdir(d.at, 0o700)); err != nil {
		return nil, err
	}
	if err := command(append(f.mkfs, d.image)...); err != nil {
		return nil, err
	}
	return d, d.attach()
}

// attach mounts the image; the loop device goes away with the mount.
func (d *disk) attach() error { return command("mount", "-t", d.name, "-o", "loop", d.image, d.at) }

// detach unmounts, which may take a moment after the last process has gone.
func (d *disk) detach() error {
	var err error
	for range 50 {
		if err = command("umount", d.at); err == nil {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return err
}

// off is the power cut: nothing that is not on the disk gets there any more.
func (d *disk) off() error {
	fd, err := unix.Open(d.at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", d.at, err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, shutdown, noFlush); err != nil {
		return fmt.Errorf("shut %s down: %w", d.name, err)
	}
	return nil
}

func command(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// sweeping is held by the one that sweeps: the file systems are mounted side by
// side.
var sweeping sync.Mutex

// sweep clears away what a run that was killed has left mounted, and tells so.
func sweep(under string, tell io.Writer) error {
	sweeping.Lock()
	defer sweeping.Unlock()
	left, err := filepath.Glob(filepath.Join(under, mountPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), mountPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // not ours, or still at work
		}
		fmt.Fprintf(tell, "power cuts: clearing %s away, which process %d left\n", dir, pid)
		if err := clearAway(dir); err != nil {
			return err
		}
	}
	return nil
}

// clearAway unmounts what is mounted in a folder, as often as it is, lets the
// loop devices of its image go, and removes it.
func clearAway(dir string) error {
	at := filepath.Join(dir, "mnt")
	for range 10 {
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			return err
		}
		if !strings.Contains(string(mounts), " "+at+" ") {
			return errors.Join(looseLoops(filepath.Join(dir, "image")), os.RemoveAll(dir))
		}
		// EINVAL: it went away in this moment.
		if err := unix.Unmount(at, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmount %s: %w", at, err)
			}
		}
	}
	return fmt.Errorf("%s is mounted again and again", at)
}

// looseLoops lets the loop devices of an image go. Those of a mount go with it;
// one stays when mount was killed between the two.
func looseLoops(image string) error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || strings.TrimSpace(string(b)) != image { // it has gone, or is somebody else's
			continue
		}
		dev, _, _ := strings.Cut(strings.TrimPrefix(f, "/sys/block/"), "/")
		if err := command("losetup", "-d", "/dev/"+dev); err != nil {
			if _, again := os.Stat(f); again == nil {
				return err
			}
		}
	}
	return nil
}

// rounds cuts the power of a fresh file system so many times while a child
// writes to it, and gives how many cuts there were and changes acknowledged.
func (f realFS) rounds(t *testing.T, cuts int) (done, total int, err error) {
	t.Helper()
	d, err := f.mount(t)
	if err != nil {
		return 0, 0, err
	}
	r := rand.New(rand.NewPCG(3, uint64(cuts)))
	acked := 0
	for done = range cuts {
		last, err := d.cut(r, "")
		if err != nil {
			return done, total, fmt.Errorf("%s, cut %d: %w", f.name, done, err)
		}
		total += max(0, last-acked)
		if acked, err = recovered(d.root(), max(last, acked)); err != nil {
			return done, total, fmt.Errorf("%s, cut %d: %w", f.name, done, err)
		}
	}
	if total < cuts {
		return cuts, total, fmt.Errorf("%s: only %d changes were acknowledged before %d cuts", f.name, total, cuts)
	}
	return cuts, total, nil
}

func (d *disk) root() string { return filepath.Join(d.at, "data") }

// cut lets a child write, cuts the power under it, and mounts what is left. It
// gives the last change acknowledged.
func (d *disk) cut(r *rand.Rand, bug string) (last int, err error) {
	c, err := start(d.root(), bug)
	if err != nil {
		return 0, err
	}
	var cutErr error
	last = c.write(1+r.IntN(25), time.Duration(r.IntN(3000))*time.Microsecond, func() {
		cutErr = d.off()
		c.kill()
	})
	if cutErr != nil {
		return last, cutErr
	}
	return last, errors.Join(d.detach(), d.attach())
}

// planted lets a store with a mistake write until a power cut has lost something.
// The rig proves nothing before it has shown that it can.
func (f realFS) planted(t *testing.T, bug string) error {
	t.Helper()
	d, err := f.mount(t)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(4, 4))
	acked := 0
	for k := range 80 {
		last, err := d.cut(r, bug)
		if err != nil {
			return err
		}
		if acked, err = recovered(d.root(), max(last, acked)); err != nil {
			t.Logf("%s, %s, cut %d: %v", f.name, bug, k, err)
			return nil
		}
	}
	return fmt.Errorf("%s, %s: 80 cuts lost nothing", f.name, bug)
}

// here skips where the power cannot be cut, and where nobody asked for it.
func (f realFS) here(t *testing.T) {
	t.Helper()
	if *wantDisks == 0 {
		t.Skip("left out; give -args -disks N, or run make crash")
	}
	if why := f.missing(); why != "" {
		t.Skip(why)
	}
}

// A root that was made survives, as do the folders above it that were missing.
func TestRealCutKeepsANewRoot(t *testing.T) {
	for _, f := range powerCuts() {
		t.Run(f.name, func(t *testing.T) {
			f.here(t)
			d, err := f.mount(t)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(d.at, "home", "memory")
			root, err := fsx.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(root.Close(), d.off(), d.detach(), d.attach()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("after a power cut: %v", err)
			}
		})
	}
}

// What a killed run has left mounted goes away with the next one.
func TestRealMountsOfAKilledRunAreClearedAway(t *testing.T) {
	f := powerCuts()[0]
	f.here(t)
	under := t.TempDir()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(under, fmt.Sprintf("%s%d-x", mountPrefix, dead.ProcessState.Pid()))
	mine := filepath.Join(under, fmt.Sprintf("%s%d-y", mountPrefix, os.Getpid()))
	d := &disk{realFS: f, image: filepath.Join(dir, "image"), at: filepath.Join(dir, "mnt")}
	if err := errors.Join(os.MkdirAll(d.at, 0o700), os.Mkdir(mine, 0o700), os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, f.size),
		command(append(f.mkfs, d.image)...), d.attach()); err != nil {
		t.Fatal(errors.Join(err, clearAway(dir)))
	}
	loose := filepath.Join(under, fmt.Sprintf("%s%d-z", mountPrefix, dead.ProcessState.Pid()))
	image := filepath.Join(loose, "image")
	if err := errors.Join(os.Mkdir(loose, 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, f.size), command("losetup", "-f", image)); err != nil {
		t.Fatal(errors.Join(err, clearAway(loose)))
	}
	if err := sweep(under, io.Discard); err != nil {
		t.Fatal(errors.Join(err, clearAway(dir)))
	}
	for _, dir := range []string{dir, loose} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of a dead process is still there: %s, %v", dir, err)
		}
	}
	if out, err := exec.Command("losetup", "-a").Output(); err != nil || strings.Contains(string(out), under) {
		t.Errorf("losetup -a gives %s, %v", out, err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("the folder of a process at work is gone: %v", err)
	}
}
