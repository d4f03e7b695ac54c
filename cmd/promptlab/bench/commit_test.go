package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
)

const clients = 64

// commit: activations and deactivations in turn, each durable when it is
// answered, by 64 clients over HTTP, each in a session of its own, against
// appending one line of 300 bytes at a time and making it durable.
func commit(t *testing.T, b *board) {
	const rounds = 8
	dir := t.TempDir()
	s := serve(t, dir)
	update := openToggles(t, s)
	log, err := os.Create(filepath.Join(dir, "reference.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	lineOf300 := append(bytes.Repeat([]byte("x"), 299), '\n')
	appendOne := func(int) error {
		if _, err := log.Write(lineOf300); err != nil {
			return err
		}
		return datasync(log)
	}
	run := func(n int, span time.Duration, work func(int) error) ([]time.Duration, float64) {
		each, rate, err := crowd(n, span, work)
		if err != nil {
			t.Fatal(err)
		}
		return each, rate
	}
	run(clients, 500*time.Millisecond, update) // connections are open, the heap has its size
	var ours, reference []float64
	var many, single, sync []time.Duration
	for range rounds {
		each, rate := run(1, 500*time.Millisecond, appendOne)
		sync, reference = append(sync, each...), append(reference, rate)
		each, rate = run(clients, time.Second, update)
		many, ours = append(many, each...), append(ours, rate)
		each, _ = run(1, 500*time.Millisecond, update)
		single = append(single, each...)
	}
	r := ratios(ours, reference)
	b.add(line{"commit", fmt.Sprintf("%.0f/s", median(ours)), fmt.Sprintf("%.0f/s", median(reference)), fmt.Sprintf("%.2fx", median(r)), ">= 3x", verdict(median(r) >= 3)})
	p99 := at(many, 0.99)
	b.add(line{"commit p99, 64 clients", ms(p99), "-", "-", "< 500 ms", verdict(p99 < 500*time.Millisecond)})
	one, base := median(single), median(sync)
	times := float64(one) / float64(base)
	b.add(line{"commit p50, 1 client", ms(one), ms(base), fmt.Sprintf("%.2fx", times), "<= 4x", verdict(times <= 4)})
	b.note("commit: an overlay turned on and off in turn, a session a client, clients and server in this process, log lines made and thrown away; reference: append 300 bytes + fdatasync, one goroutine, same disk. "+
		"Ratio min/median/max of %d rounds %s, ours %s per s, reference %s per s; reference p99 %s, one client p99 %s.",
		rounds, spread(r, "%.2f"), spread(ours, "%.0f"), spread(reference, "%.0f"), ms(at(sync, 0.99)), ms(at(single, 0.99)))
}

// openToggles gives work that turns an overlay on and off in the session of who
// does it; each call is one command that changes something.
func openToggles(t *testing.T, s *server) func(who int) error {
	t.Helper()
	const id = "toggled"
	if _, err := s.send(http.MethodPost, "/api/overlays", overlayJSON(id, 0)); err != nil {
		t.Fatal(err)
	}
	return toggles(s, id)
}

func toggles(s *server, id string) func(who int) error {
	on := make([]atomic.Bool, clients)
	return func(who int) error {
		verb := "activate"
		if on[who].Load() {
			verb = "deactivate"
		}
		key := contracts.OverlaySessionKey{WorkspaceID: "bench", SurfaceKind: contracts.SurfaceChat, SurfaceID: fmt.Sprintf("client-%d", who), ThreadID: fmt.Sprintf("client-%d", who)}
		_, err := s.send(http.MethodPost, "/api/overlay-sessions/"+key.Token()+"/"+verb, fmt.Sprintf(`{"overlay_id":%q}`, id))
		on[who].Store(verb == "activate")
		return err
	}
}
