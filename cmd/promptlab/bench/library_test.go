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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// library: starting with 10,000 overlays and 100,000 sessions, and searching them.
func library(t *testing.T, b *board) {
	dir := t.TempDir()
	fill(t, memory(dir), whole)
	start(t, dir, b)
	s := serve(t, dir)
	lookup(t, s, b)
	grown(t, s, b)
}

// start: the built program's `up` over the library, until it says that it is
// ready, and the most memory that it took until then.
func start(t *testing.T, dir string, b *board) {
	const runs = 3
	program := filepath.Join(t.TempDir(), "promptlab")
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	empty := t.TempDir()
	var took, peak, none []float64
	for range runs {
		d, _ := startOnce(t, program, empty)
		none = append(none, d.Seconds())
		d, rss := startOnce(t, program, dir)
		took, peak = append(took, d.Seconds()), append(peak, rss)
	}
	b.add(line{"start, 10,000 overlays, 100,000 sessions", fmt.Sprintf("%.2f s", median(took)), fmt.Sprintf("%.2f s empty", median(none)),
		fmt.Sprintf("%.1fx", median(took)/median(none)), "<= 2 s", verdict(median(took) <= 2)})
	b.add(line{"start memory", fmt.Sprintf("%.0f MB", median(peak)), "-", "-", "<= 400 MB", verdict(median(peak) <= 400)})
	b.note("start: `promptlab up` as a process, from exec to the line that says it is ready, files in the page cache; min/median/max of %d: %s s, empty home %s s, peak memory (VmHWM) %s MB.",
		runs, spread(took, "%.2f"), spread(none, "%.2f"), spread(peak, "%.0f"))
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

// lookup: searches over HTTP by one client, and the same in the view alone.
func lookup(t *testing.T, s *server, b *board) {
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
	if err != nil || json.Unmarshal(all10k, &list) != nil || list.Total != whole.overlays || found == 0 {
		t.Fatalf("the library holds %d overlays, want %d; the searches found %d (%v)", list.Total, whole.overlays, found, err)
	}
	p99 := at(all, 0.99)
	b.add(line{"lookup p99", ms(p99), "-", "-", "<= 5 ms", verdict(p99 <= 5*time.Millisecond)})
	b.note("lookup: GET /api/overlays/search with two words, one client over HTTP, %d searches, %.0f found on average: p50 %s, p99 %s, max %s.",
		n, float64(found)/n, ms(median(all)), ms(p99), ms(at(all, 1)))
}

// grown: the same updates as the commit row's, in the large library. There is no
// goal of its own; it shows whether a commit costs more where there is more.
func grown(t *testing.T, s *server, b *board) {
	update := func(who int) error {
		id := fmt.Sprintf("style-%05d", who)
		_, err := s.send(http.MethodPut, "/api/overlays/"+id, overlayJSON(id, int(time.Now().UnixNano())))
		return err
	}
	each, rate, err := crowd(clients, 3*time.Second, update)
	if err != nil {
		t.Fatal(err)
	}
	b.note("commit in the library of 10,000: %.0f/s by 64 clients in one round of 3 s, p50 %s, p99 %s, max %s; compare with the commit row.",
		rate, ms(median(each)), ms(at(each, 0.99)), ms(at(each, 1)))
}
