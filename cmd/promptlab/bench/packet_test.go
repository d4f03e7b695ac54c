package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// packetBodies make a session's three overlays that give a packet of about 4 KB.
const packetBody = "Write the note in plain words.\n\n"

// packet: a session's packet over HTTP, with credentials, over kept connections,
// against a bare handler that writes the same bytes; and the same for a caller
// that has the packet already.
func packet(t *testing.T, b *board) {
	const rounds, span = 11, 300 * time.Millisecond
	s := serve(t, t.TempDir())
	path := openPacket(t, s)
	seam := *s
	seam.token = s.seam
	if _, _, err := seam.get(path, ""); err != nil { // this one carries a label, those after it do not
		t.Fatal(err)
	}
	body, head, err := seam.get(path, "")
	if err != nil {
		t.Fatal(err)
	}
	tag := head.Get("ETag")
	bare := bareServer(t, body)

	whole := func(int) error { _, _, err := seam.get(path, ""); return err }
	held := func(int) error { _, _, err := seam.get(path, tag); return err }
	reference := func(int) error { _, _, err := bare.get(path, ""); return err }
	for _, c := range []int{1, 16, 64} {
		var ours, cached, theirs []float64
		var late, lateCached, lateTheirs []float64
		var cpu, cpuCached, cpuTheirs []float64 // microseconds a request
		for range rounds {
			for _, one := range []struct {
				work           func(int) error
				rate, p99, cpu *[]float64
			}{{reference, &theirs, &lateTheirs, &cpuTheirs}, {whole, &ours, &late, &cpu}, {held, &cached, &lateCached, &cpuCached}} {
				used := processorTime()
				each, rate, err := crowd(c, span, one.work)
				if err != nil {
					t.Fatal(err)
				}
				used = processorTime() - used
				*one.rate, *one.p99 = append(*one.rate, rate), append(*one.p99, at(each, 0.99).Seconds())
				*one.cpu = append(*one.cpu, used.Seconds()*1e6/float64(len(each)))
			}
		}
		r, r304, tail := median(ratios(ours, theirs)), median(ratios(cached, theirs)), median(ratios(late, lateTheirs))
		goal, goal304, goalTail := ">= 0.90", ">= 1.0", "<= 1.5x"
		holds, holds304, holdsTail := verdict(r >= 0.9), verdict(r304 >= 1), verdict(tail <= 1.5)
		if c == 1 {
			goal, goal304, goalTail, holds, holds304, holdsTail = "-", "-", "-", "-", "-", "-"
		}
		name := fmt.Sprintf("packet, c = %d", c)
		b.add(line{name, fmt.Sprintf("%.0f/s", median(ours)), fmt.Sprintf("%.0f/s", median(theirs)), fmt.Sprintf("%.2f", r), goal, holds})
		b.add(line{name + ", p99", ms(seconds(median(late))), ms(seconds(median(lateTheirs))), fmt.Sprintf("%.2fx", tail), goalTail, holdsTail})
		b.add(line{fmt.Sprintf("packet-304, c = %d", c), fmt.Sprintf("%.0f/s", median(cached)), fmt.Sprintf("%.0f/s", median(theirs)), fmt.Sprintf("%.2f", r304), goal304, holds304})
		b.note("packet, c = %d: processor time a request, its client included: ours %.1f µs, held %.1f µs, bare %.1f µs; bare/ours %.2f, bare/held %.2f (median of round by round), which another load on the machine does not change.",
			c, median(cpu), median(cpuCached), median(cpuTheirs), median(ratios(cpuTheirs, cpu)), median(ratios(cpuTheirs, cpuCached)))
		b.note("packet, c = %d: min/median/max of %d rounds: ours %s, held %s, bare %s per s; ratio %s, held %s, p99 %s.", c, rounds,
			spread(ours, "%.0f"), spread(cached, "%.0f"), spread(theirs, "%.0f"), spread(ratios(ours, theirs), "%.2f"), spread(ratios(cached, theirs), "%.2f"), spread(ratios(late, lateTheirs), "%.2f"))
	}
	b.note("packet: %d bytes, three overlays; wall, token, role, strict query, log line and metrics included. Client and server share the process and its processors.", len(body))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// openPacket makes a session with three overlays and gives the path of its packet.
func openPacket(t *testing.T, s *server) string {
	t.Helper()
	key := contracts.OverlaySessionKey{WorkspaceID: "bench", SurfaceKind: contracts.SurfaceChat, SurfaceID: "thread-1", ThreadID: "thread-1"}
	for i := range 3 {
		id := fmt.Sprintf("packet-%d", i)
		text := packetBody + strings.Repeat("- Keep names and numbers exactly as they were given.\\n", 16)
		text = strings.ReplaceAll(text, "\n", `\n`)
		record := fmt.Sprintf(`{"frontmatter":{"id":%q,"title":"Title of %s","artifact_class":"live_overlay","category":"quality",`+
			`"description":"What it is for","supported_surfaces":["chat"],"live_token_target":300},"body":"%s"}`, id, id, text)
		if _, err := s.send(http.MethodPost, "/api/overlays", record); err != nil {
			t.Fatal(err)
		}
		if _, err := s.send(http.MethodPost, "/api/overlay-sessions/"+key.Token()+"/activate", fmt.Sprintf(`{"overlay_id":%q}`, id)); err != nil {
			t.Fatal(err)
		}
	}
	q := url.Values{"workspace_id": {key.WorkspaceID}, "surface_kind": {string(key.SurfaceKind)}, "surface_id": {key.SurfaceID}, "revision": {strconv.Itoa(3)}}
	return "/internal/doc17/overlay-packet?" + q.Encode()
}

// bareServer answers every request with the same bytes, by net/http alone.
func bareServer(t *testing.T, body []byte) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})}
	go func() { _ = srv.Serve(ln) }() // until Close
	t.Cleanup(func() { _ = srv.Close() })
	s := &server{base: "http://" + ln.Addr().String(), token: strings.Repeat("x", 43), http: newClient()}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// get reads a path; with a tag it says that the caller holds that version.
func (s *server) get(path, tag string) ([]byte, http.Header, error) {
	req, err := http.NewRequest(http.MethodGet, s.base+path, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	want := http.StatusOK
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
		want = http.StatusNotModified
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("GET %s: %d %.300s", path, resp.StatusCode, body)
	}
	return body, resp.Header, err
}
