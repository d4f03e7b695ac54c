package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func misuse(text string) error { return usageError{errors.New(text)} }

// advice is an error with what a person can do about it.
type advice struct {
	error
	todo string
}

func (a advice) Unwrap() error { return a.error }

// silent is a failure that has been shown already.
type silent struct{ code int }

func (silent) Error() string { return "failed" }

// notRunning says that the home has no server.
type notRunning struct{ dir string }

func (n notRunning) Error() string { return "no server is running in " + n.dir }

// explain tells a person about an error: one sentence, its details, what to do, the
// request id. It gives the exit code.
func (a *app) explain(cmd *cobra.Command, err error) int {
	var shown silent
	if errors.As(err, &shown) {
		return shown.code
	}
	message, todo, code := sentence(cmd, err)
	a.err.Printf("%s %s\n", a.err.Paint(term.Red, "promptlab:"), term.Line(message))
	var f *fault.Error
	if errors.As(err, &f) {
		for _, d := range f.Details {
			if message != d.Field+": "+d.Message { // one that is the message already is not said twice
				a.err.Printf("  %s: %s (%s)\n", term.Line(d.Field), term.Line(d.Message), term.Line(d.Rule))
			}
		}
	}
	if todo != "" {
		a.err.Printf("What to do: %s\n", term.Line(todo))
	}
	if id := problem.RemoteID(err); id != "" {
		a.err.Printf("Request id: %s\n", term.Line(id))
	}
	return code
}

func sentence(cmd *cobra.Command, err error) (message, todo string, code int) {
	var (
		use     usageError
		conf    *config.Error
		f       *fault.Error
		away    *client.Unreachable
		none    notRunning
		guarded *home.Protected
		adv     advice
	)
	switch {
	case errors.As(err, &adv): // whoever gave it knows best
		return adv.Error(), adv.todo, Failed
	case errors.As(err, &use):
		return use.Error(), "see " + cmd.CommandPath() + " --help", Usage
	case errors.As(err, &conf):
		return conf.Error(), "", Usage
	case errors.As(err, &f):
		todo, code := remedy(cmd, f)
		return f.Message, todo, code
	case errors.As(err, &none):
		return none.Error(), "start one with: promptlab up (or name one with --api and --token-file)", Failed
	case errors.As(err, &away):
		return away.Error(), "start the server with: promptlab up (ready.json may be left from one that was killed)", Failed
	case errors.As(err, &guarded):
		return guarded.Error(), "", Usage
	case errors.Is(err, context.Canceled):
		return "stopped before it was done", "", Failed
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "unknown help topic"):
		return err.Error(), "see promptlab --help", Usage
	}
	return err.Error(), systemRemedy(err), Failed
}

// systemRemedy says what helps against what the operating system refused.
func systemRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && strings.Contains(err.Error(), "the chat endpoint"):
		return "stop whatever listens there (another promptlab chat?), or choose another address for it: --chat-listen 127.0.0.1:0 takes a free port"
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop whatever listens there (another promptlab up?), or choose another address: --listen 127.0.0.1:0 takes a free port"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "this place belongs to somebody else or is read-only; correct its owner, or choose another home with --home DIR"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return "a file is where a directory should be; move it away, or choose another home with --home DIR"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full; free some space, or put the data elsewhere with --memory DIR"
	}
	return ""
}

// remedy says what helps against a fault, and the exit code.
func remedy(cmd *cobra.Command, f *fault.Error) (todo string, code int) {
	switch f.Kind {
	case fault.Gate:
		if !strings.Contains(f.Message, "promptlab ") {
			todo = "see which switches are off: promptlab flags list"
		}
		return todo, Refused
	case fault.Malformed, fault.Invalid:
		switch f.Code {
		case "surface_unsupported", "explicit_invocation_required", "class_not_activatable":
			return "choose an overlay that works here: promptlab overlays list; nothing was changed", Failed
		}
		return "correct what is named here and run it again; nothing was changed", Failed
	case fault.Unauthenticated:
		return "the server knows another token; if it was rotated, restart the server, or name the right one with --token-file", Failed
	case fault.Forbidden:
		return "this needs another role; choose it with --role (user, operator)", Failed
	case fault.NotFound:
		if cmd.Name() == "run" { // of jobs: it names an artifact and a dataset
			return "see what there is: promptlab overlays list, promptlab datasets list", Failed
		}
		if p := cmd.Parent(); p != nil && p.HasParent() {
			return "see what there is: " + p.CommandPath() + " list", Failed
		}
	case fault.Conflict, fault.PreconditionFailed:
		switch f.Code {
		case "hard_conflict", "live_limit_exceeded", "hard_budget_exceeded":
			return makeRoom(cmd, f), Failed
		case "overlay_archived":
			return "bring it back first: promptlab overlays restore ID; which ones are archived: promptlab overlays list --archived", Failed
		case "conflict":
			if slices.ContainsFunc(f.Details, func(d fault.Detail) bool { return d.Rule == "duplicate_id" }) {
				return "give it another id, or change the one that is there: promptlab overlays update", Failed
			}
		case "path_conflict":
			return "something else lies where a document belongs; the log and promptlab verify name it", Failed
		case "store_locked":
			return "a server runs on this home already: use that one, stop it first, or choose another home with --home DIR", Failed
		}
		return "it is not as it was; look at it again and repeat if you still want to", Failed
	case fault.Unavailable:
		return "try again in a moment; look first whether it happened after all", Failed
	case fault.Internal:
		return "look for the request id in the server's log", Failed
	}
	return "", Failed
}

// makeRoom says how an overlay that does not fit beside the others comes in.
func makeRoom(cmd *cobra.Command, f *fault.Error) string {
	p := cmd.Parent()
	if p == nil || p.Name() != "sessions" { // a list of defaults
		return "leave one of the two out of the list"
	}
	where := ""
	for _, name := range []string{"workspace", "surface", "id", "key"} {
		if flag := cmd.Flag(name); flag != nil && flag.Changed {
			where += " --" + name + " " + flag.Value.String()
		}
	}
	off := "OVERLAY"
	if f.Code == "hard_conflict" && len(f.Details) == 2 {
		if !strings.HasPrefix(f.Details[1].Message, "on,") {
			return "choose between the two; pins are taken away with: promptlab sessions unpin " + f.Details[1].Field + where
		}
		off = f.Details[1].Field
	}
	todo := "turn one off first: promptlab sessions deactivate " + off + where
	switch {
	case f.Code == "hard_budget_exceeded":
		todo += "; what each one takes: promptlab sessions explain" + where
	case f.Code == "live_limit_exceeded" && cmd.Flag("override-limit") != nil:
		todo += "; or turn it on all the same with --override-limit"
	}
	return todo
}

// missing tells whether an error means that a file is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
