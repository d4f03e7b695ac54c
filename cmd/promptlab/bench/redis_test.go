package bench

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/ec/dispatch/broker"
)

// redisServer starts a real Redis that keeps nothing and ends with the test; ok
// is false when none is installed.
func redisServer(t *testing.T) (url string, ok bool) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", false
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close() // free for Redis
	cmd := exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // by the signal
	})
	url = fmt.Sprintf("redis://127.0.0.1:%d/0", port)
	b, err := broker.Open(broker.Config{RedisURL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.Health(ctx)
		if err == nil {
			return url, true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("redis does not answer: %v", err)
		}
	}
}
