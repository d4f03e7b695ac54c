package bench

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// point is what one size of data costs.
type point struct {
	n                     size
	start, search, commit float64 // seconds; commit is processor time
	packet                float64 // processor time in seconds
	memory                float64 // MB
}

// library: what 10,000 overlays and 100,000 sessions cost, and how it grows to
// there: everything is measured with a hundredth and a tenth of them too.
func library(t *testing.T, b *board) {
	program := filepath.Join(t.TempDir(), "promptlab")
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	var points []point
	for _, share := range []int{100, 10, 1} {
		n := size{overlays: whole.overlays / share, sessions: whole.sessions / share}
		dir := t.TempDir()
		fill(t, memory(dir), n)
		p := point{n: n}
		p.start, p.memory = start(t, program, dir, b, share == 1)
		s := serve(t, dir)
		p.search = lookup(t, s, b, n, share == 1)
		p.packet, p.commit = packetCost(t, s, n), commitCost(t, s)
		if share == 1 {
			grown(t, s, b)
		}
		s.stop()
		points = append(points, p)
	}
	curve(b, points)
}

// curve compares each size with the one before: ten times the data may cost ten
// times as much and a little more for the logarithm; a packet no more at all.
// Processor time is compared where the clock would show what else the machine does.
func curve(b *board, points []point) {
	const noise = 1.3 // what the same work may differ by from one round to the next
	for _, m := range []struct {
		name  string
		of    func(point) float64
		unit  func(float64) string
		grows bool
	}{
		{"start", func(p point) float64 { return p.start }, secondsText, true},
		{"memory", func(p point) float64 { return p.memory }, func(v float64) string { return fmt.Sprintf("%.0f MB", v) }, true},
		{"search", func(p point) float64 { return p.search }, secondsText, true},
		{"commit", func(p point) float64 { return p.commit }, secondsText, true},
		{"packet", func(p point) float64 { return p.packet }, secondsText, false},
	} {
		holds := true
		worst := 0.0
		for i := 1; i < len(points); i++ {
			a, z := points[i-1], points[i]
			most := noise
			if m.grows {
				most *= float64(z.n.sessions) * math.Log(float64(z.n.sessions)) / (float64(a.n.sessions) * math.Log(float64(a.n.sessions)))
			}
			growth := m.of(z) / m.of(a)
			worst, holds = max(worst, growth), holds && growth <= most
		}
		goal := "<= n log n"
		if !m.grows {
			goal = "does not grow"
		}
		b.add(line{"curve " + m.name, fmt.Sprintf("%s, %s, %s", m.unit(m.of(points[0])), m.unit(m.of(points[1])), m.unit(m.of(points[2]))), "1x, 10x, 100x",
			fmt.Sprintf("%.2fx", worst), goal, verdict(holds)})
	}
	b.note("curve: 100 overlays and 1,000 sessions, ten and a hundred times as many; the ratio is the larger growth of the two steps. Packet and commit are processor time a request, client included, " +
		"at 16 clients; a packet of 200 sessions by turns. Search is the median.")
}

func secondsText(v float64) string { return ms(seconds(v)) }

// packetCost is the processor time of a packet, client included.
func packetCost(t *testing.T, s *server, n size) float64 {
	t.Helper()
	seam := *s
	seam.token = s.seam
	turn := make([]int, 16) // each client's own
	one := func(who int) error {
		turn[who]++
		k := chatKey((who*97 + turn[who]*31) % min(n.sessions, 200))
		q := url.Values{"workspace_id": {k.WorkspaceID}, "surface_kind": {string(k.SurfaceKind)}, "surface_id": {k.SurfaceID}}
		_, _, err := seam.get("/internal/doc17/overlay-packet?"+q.Encode(), "")
		return err
	}
	return costOf(t, one)
}

// commitCost is the processor time of a durable activation, client included.
func commitCost(t *testing.T, s *server) float64 {
	t.Helper()
	return costOf(t, toggles(s, string(styleID(1))))
}

// costOf gives the processor time of work done by 16 clients: the median of some rounds.
func costOf(t *testing.T, work func(int) error) float64 {
	t.Helper()
	const rounds, span = 7, 300 * time.Millisecond
	var all []float64
	for i := range rounds + 1 {
		used := processorTime()
		each, _, err := crowd(16, span, work)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 { // the first one opens connections and unpacks sessions
			all = append(all, (processorTime()-used).Seconds()/float64(len(each)))
		}
	}
	return median(all)
}

// grown: updates of overlays in the large library. There is no goal of its own.
func grown(t *testing.T, s *server, b *board) {
	update := func(who int) error {
		id := string(styleID(who))
		_, err := s.send(http.MethodPut, "/api/overlays/"+id, overlayJSON(id, int(time.Now().UnixNano())))
		return err
	}
	each, rate, err := crowd(clients, 3*time.Second, update)
	if err != nil {
		t.Fatal(err)
	}
	b.note("updates of overlays in the library of %s: %.0f/s by 64 clients in one round of 3 s, p50 %s, p99 %s, max %s.",
		strconv.Itoa(whole.overlays), rate, ms(median(each)), ms(at(each, 0.99)), ms(at(each, 1)))
}
