package cli

import (
	"context"
	"log/slog"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/contracts"
)

// Servers starts the long-running parts. Each call works until ctx ends, then stops
// in order and returns; it calls run.Ready once, when everything answers.
type Servers interface {
	// Up runs everything in one process.
	Up(ctx context.Context, run ServerRun) error
	// Serve runs the EC with its API; it needs a queue server.
	Serve(ctx context.Context, run ServerRun) error
	// Worker runs a worker against a queue server and a serve elsewhere.
	Worker(ctx context.Context, run ServerRun) error
	// Chat runs the chat endpoint for a serve elsewhere.
	Chat(ctx context.Context, run ServerRun) error
	// Verify checks the data root at a path.
	Verify(memory string) (VerifyReport, error)
	// Registered reads what a data root keeps of a model; false: nothing.
	Registered(memory, name string) (contracts.RegisteredModel, bool, error)
	// VerifySession checks what is kept of a session, by its file name.
	VerifySession(ctx context.Context, memory, file string) (SessionReport, error)
}

// ServerRun is what a server is started with. The home is open: directories and
// tokens are there (for Worker only what is said at its fields).
type ServerRun struct {
	Config config.Config // Python is set: the interpreter to use
	Home   home.Home
	Env    func(string) (string, bool) // for the provider keys that Config.Models name
	Log    *slog.Logger
	Ready  func(Ready) error

	SplitKey string // secret of a fresh library; empty: by chance, as it should be outside of demo

	ECURL string // Worker, Chat: where serve is
	Token string // Worker: the worker's token
}

// Ready says where a server answers. Parts that do not run are left empty.
type Ready struct {
	home.Ready
	ConsoleLink string // the console's one-time link; shown once, kept nowhere
	Simulated   bool   // answers come from the simulator
	Notices     int    // how many wait to be read
}
