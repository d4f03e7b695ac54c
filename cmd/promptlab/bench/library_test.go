package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// start: the built program's `up` over a home, until it says that it is ready,
// and the most memory that it took until then. With tell it makes the lines.
func start(t *testing.T, program, dir string, b *board, tell bool) (took, peak float64) {
	t.Helper()
	const runs = 3
	empty := t.TempDir()
	var all, most, none []float64
	for range runs {
		d, _ := startOnce(t, program, empty)
		none = append(none, d.Seconds())
		d, rss := startOnce(t, program, dir)
		all, most = append(all, d.Seconds()), append(most, rss)
	}
	took, peak = median(all), median(most)
	if !tell {
		return took, peak
	}
	b.add(line{"start, 10,000 overlays, 100,000 sessions", fmt.Sprintf("%.2f s", took), fmt.Sprintf("%.2f s empty", median(none)),
		fmt.Sprintf("%.1fx", took/median(none)), "<= 2 s", verdict(took <= 2)})
	b.add(line{"start memory", fmt.Sprintf("%.0f MB", peak), "-", "-", "<= 400 MB", verdict(peak <= 400)})
	b.note("start: `promptlab up` as a process, from exec to the line that says it is ready, files in the page cache, three overlays a session and the audit of every command; "+
		"min/median/max of %d: %s s, empty home %s s, peak memory (VmHWM) %s MB.", runs, spread(all, "%.2f"), spread(none, "%.2f"), spread(most, "%.0f"))
	return took, peak
}

func startOnce(t *testing.T, program, dir string) (time.Duration, float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "up", "--json", "--home", dir, "--listen", "127.0.0.1:0")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	var ready struct {
		API string `json:"api"`
	}
	err = json.NewDecoder(said).Decode(&ready)
	took := time.Since(began)
	rss := peakMemory(cmd.Process.Pid)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait() // by the signal
	if err != nil || ready.API == "" {
		t.Fatalf("the program did not become ready: %v\n%s", err, errs.Bytes())
	}
	return took, rss
}

// peakMemory gives the most resident memory of a process in MB; 0: not known.
func peakMemory(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // Linux alone
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kb / 1024
		}
	}
	return 0
}

// lookup: searches over HTTP by one client; it gives their median.
func lookup(t *testing.T, s *server, b *board, size size, tell bool) float64 {
	t.Helper()
	const n = 400
	w := words()
	query := func(i int) string { return w[i%len(w)] + " " + w[(i*7+3)%len(w)] }
	var all []time.Duration
	found := 0
	for i := range n + 20 {
		began := time.Now()
		body, err := s.send(http.MethodGet, "/api/overlays/search?limit=50&query="+url.QueryEscape(query(i)), "")
		d := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		var list contracts.OverlayListResponse
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		if i >= 20 { // connections and caches
			all, found = append(all, d), found+list.Total
		}
	}
	all10k, err := s.send(http.MethodGet, "/api/overlays?limit=1", "")
	var list contracts.OverlayListResponse
	if err != nil || json.Unmarshal(all10k, &list) != nil || list.Total != size.overlays || found == 0 {
		t.Fatalf("the library holds %d overlays, want %d; the searches found %d (%v)", list.Total, size.overlays, found, err)
	}
	if !tell {
		return median(all).Seconds()
	}
	p99 := at(all, 0.99)
	b.add(line{"lookup p99", ms(p99), "-", "-", "<= 5 ms", verdict(p99 <= 5*time.Millisecond)})
	b.note("lookup: GET /api/overlays/search with two words, one client over HTTP, %d searches, %.0f found on average: p50 %s, p99 %s, max %s.",
		n, float64(found)/n, ms(median(all)), ms(p99), ms(at(all, 1)))
	return median(all).Seconds()
}
