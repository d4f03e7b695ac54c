package dispatch_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/elnor/promptlab/ec/dispatch/broker"
)

// redisServer is a Redis that a test can take away and give back.
type redisServer interface {
	Opt() asynq.RedisConnOpt
	Down(t *testing.T, empty bool) // empty: whatever it holds is gone when it is back
	Up(t *testing.T)
}

// onEveryRedis runs a test against the embedded broker and a real one.
func onEveryRedis(t *testing.T, test func(t *testing.T, r redisServer)) {
	t.Parallel() // these tests wait more than they work
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, newEmbedded(t))
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		path, err := exec.LookPath("redis-server")
		if err != nil {
			t.Skip("SKIPPED: redis-server is not installed; `make test` installs it, or: apt-get install redis-server")
		}
		test(t, newReal(t, path))
	})
}

// embedded is the broker behind a gate: closing the gate is its absence.
type embedded struct {
	b      *broker.Broker
	dir    string
	client redis.UniversalClient // past the gate
	gate   *gate
}

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	dir := shortDir(t)
	b, err := broker.Open(broker.Config{Socket: filepath.Join(dir, "inner")})
	if err != nil {
		t.Fatal(err)
	}
	client, ok := b.Redis().MakeRedisClient().(redis.UniversalClient)
	if !ok {
		t.Fatal("the broker's client is of an unknown kind")
	}
	e := &embedded{b: b, dir: dir, client: client}
	e.Up(t)
	t.Cleanup(func() {
		e.gate.close()
		_ = client.Close()
		if err := b.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	return e
}

func (e *embedded) Opt() asynq.RedisConnOpt {
	opt, _ := e.b.Redis().(asynq.RedisClientOpt)
	opt.Addr = filepath.Join(e.dir, "gate")
	return opt
}

func (e *embedded) Down(t *testing.T, empty bool) {
	t.Helper()
	e.gate.close()
	if empty {
		if err := e.client.FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func (e *embedded) Up(t *testing.T) {
	t.Helper()
	e.gate = openGate(t, filepath.Join(e.dir, "gate"), filepath.Join(e.dir, "inner"))
}

// gate passes connections on until it is closed, which cuts them.
type gate struct {
	ln    net.Listener
	mu    sync.Mutex
	conns []net.Conn
	shut  bool
	tasks sync.WaitGroup
}

func openGate(t *testing.T, outer, inner string) *gate {
	t.Helper()
	_ = os.Remove(outer)
	ln, err := net.Listen("unix", outer)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{ln: ln}
	g.tasks.Go(func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("unix", inner)
			if err != nil || !g.keep(a, b) {
				_ = a.Close()
				continue
			}
			g.tasks.Go(func() { pipe(a, b) })
			g.tasks.Go(func() { pipe(b, a) })
		}
	})
	return g
}

func (g *gate) keep(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, conns...)
	return !g.shut
}

func pipe(from, to net.Conn) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (g *gate) close() {
	_ = g.ln.Close()
	g.mu.Lock()
	g.shut = true
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.tasks.Wait()
}

// realRedis is a redis-server process that dies by SIGKILL.
type realRedis struct {
	path, dir string
	cmd       *exec.Cmd
}

func newReal(t *testing.T, path string) *realRedis {
	t.Helper()
	r := &realRedis{path: path, dir: shortDir(t)}
	r.Up(t)
	t.Cleanup(func() { r.kill() })
	return r
}

func (r *realRedis) Opt() asynq.RedisConnOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: filepath.Join(r.dir, "s")}
}

func (r *realRedis) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *realRedis) Down(t *testing.T, empty bool) {
	t.Helper()
	r.kill()
	if empty {
		if err := os.RemoveAll(filepath.Join(r.dir, "appendonlydir")); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *realRedis) Up(t *testing.T) {
	t.Helper()
	sock := filepath.Join(r.dir, "s")
	_ = os.Remove(sock)
	r.cmd = exec.Command(r.path, "--port", "0", "--unixsocket", sock, "--unixsocketperm", "600", "--dir", r.dir, //nolint:gosec // found in PATH
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: sock})
	defer func() { _ = client.Close() }()
	until(t, "redis-server answers", func() bool { return client.Ping(context.Background()).Err() == nil })
}

// shortDir is a temporary folder whose sockets have names that are short enough.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pl") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// until looks again and again, for things that send no event.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(15 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 15 s in vain: %s", what)
		}
	}
}

func clientOf(t *testing.T, opt asynq.RedisConnOpt) redis.UniversalClient {
	t.Helper()
	c, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		t.Fatal("a client of an unknown kind")
	}
	return c
}
