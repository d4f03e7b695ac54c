package pyrun

import (
	"cmp"
	"log/slog"
	"os/exec"
	"time"
)

// Jail may confine the process: wrap the command, its attributes or its
// environment. It is asked once, when everything but the jail is set. dir is the
// only folder that the process may write to.
type Jail interface {
	Wrap(cmd *exec.Cmd, dir string) error
}

// Config says how processes are run. Zero values stand for the defaults.
type Config struct {
	Python string   // the interpreter of the adapter's environment
	Args   []string // its arguments; nil: AdapterArgs
	Dir    string   // holds the private temporary folders; "": the system's

	Grace        time.Duration // from SIGTERM to SIGKILL, and from the last event to the end; 0: 2 s
	StartTimeout time.Duration // until the first event; 0: 30 s
	Timeout      time.Duration // for the whole run; 0: 30 min

	MaxLine   int // bytes of one event; 0: 4 MiB
	MaxOutput int // bytes of all events; 0: 16 MiB

	Log  *slog.Logger // nil: silent
	Jail Jail         // nil: none
}

// maxStderr is how much of the end of standard error is kept.
const maxStderr = 64 << 10

// AdapterArgs starts the installed adapter: isolated from the caller's
// environment and folder, and writing no byte code.
func AdapterArgs() []string {
	return []string{"-I", "-B", "-m", "promptlab_adapter"}
}

func (c Config) withDefaults() Config {
	if c.Args == nil {
		c.Args = AdapterArgs()
	}
	c.Grace = cmp.Or(c.Grace, 2*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 30*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Minute)
	c.MaxLine = cmp.Or(c.MaxLine, 4<<20)
	c.MaxOutput = cmp.Or(c.MaxOutput, 16<<20)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// environment is all that the process gets, made from nothing. HOME is the
// private folder; its unique name also marks every descendant, see reap.
func environment(dir string) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + dir, "TMPDIR=" + dir,
		"LANG=C.UTF-8",
		"PYTHONUNBUFFERED=1", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1",
		"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
		"NO_PROXY=127.0.0.1",
	}
}
