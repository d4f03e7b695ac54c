package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// kept is what a client knows of one overlay: what was acknowledged, and what
// was asked for and never answered, which may have happened or not.
type kept struct {
	acked  shown
	asked  *shown
	recent bool // touched since the last look
}

// shown is what a reader sees of an overlay; the zero value is none.
type shown struct {
	body     string
	archived bool
}

// serving is the real program and what its clients know, which outlives it.
type serving struct {
	program, home string
	cmd           *exec.Cmd
	ended         chan struct{} // closed when the program has ended
	errs          bytes.Buffer
	base, token   string
	client        *http.Client

	mu    sync.Mutex
	known map[string]*kept
	acks  int
	wrong error // the first answer that should not have been
}

// clients is how many write at a time; each has overlays of its own.
const clients, overlaysEach = 8, 12

// serveRounds kills the serving program so many times under load, in so many
// homes at a time.
func serveRounds(t *testing.T, program string, kills, lanes int) (done, acked int, err error) {
	t.Helper()
	type lane struct{ seed, kills int }
	begun := 0
	next := func(figures) (lane, bool) {
		l := lane{seed: begun, kills: min(perFolder, kills-begun)}
		begun += l.kills
		return l, l.kills > 0
	}
	homes := t.TempDir()
	f, err := spread(lanes, next, func(l lane) (figures, error) {
		home := filepath.Join(homes, fmt.Sprint(l.seed))
		defer os.RemoveAll(home)
		s := &serving{program: program, home: home, known: map[string]*kept{}}
		n, err := s.lane(l.seed, l.kills)
		if err != nil {
			err = fmt.Errorf("program, kill %d of lane %d: %w; %s", n, l.seed, err, s.fate())
		}
		return figures{points: n, acks: s.acks}, err
	})
	if err == nil && f.acks < kills {
		err = fmt.Errorf("only %d requests were acknowledged before %d kills", f.acks, kills)
	}
	return f.points, f.acks, err
}

func (s *serving) lane(seed, kills int) (done int, err error) {
	r := rand.New(rand.NewPCG(5, uint64(seed)))
	for done = range kills {
		if err := s.start(); err != nil {
			return done, err
		}
		if err := s.look(r); err != nil {
			return done, err
		}
		if err := s.load(r); err != nil {
			return done, err
		}
		if done%20 == 19 || done == kills-1 {
			if err := s.verify(); err != nil {
				return done, err
			}
		}
	}
	if err := s.start(); err != nil {
		return kills, err
	}
	defer s.kill()
	return kills, s.look(r)
}

// start starts the program and waits until it says where it answers.
func (s *serving) start() error {
	s.errs.Reset()
	// No queue answers there; what is written does not need one.
	s.cmd = exec.Command(s.program, "serve", "--home", s.home, "--redis", "redis://127.0.0.1:1/0", "--listen", "127.0.0.1:0", "--log-level", "error", "--json")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // how it ended stands in its state
		close(s.ended)
	}()
	var ready struct {
		API string `json:"api"`
	}
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		return fmt.Errorf("it does not start: %w", err)
	}
	token, err := os.ReadFile(filepath.Join(s.home, "run", "user.token"))
	if err != nil {
		return err
	}
	s.base, s.token = ready.API, strings.TrimSpace(string(token))
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: 30 * time.Second}
	return nil
}

func (s *serving) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
}

// fate tells of a program what a violation needs: whether it had ended by itself,
// and what it said. It is gone afterwards.
func (s *serving) fate() string {
	if s.ended == nil {
		return "it never ran"
	}
	how := "it was running"
	select {
	case <-s.ended:
		how = "it had ended: " + s.cmd.ProcessState.String()
	case <-time.After(time.Second): // a connection ends before its process does
	}
	s.kill()
	return how + "; it said: " + s.errs.String()[:min(s.errs.Len(), 2000)]
}

// load lets the clients write until the program is killed at a random moment.
func (s *serving) load(r *rand.Rand) error {
	var wg sync.WaitGroup
	for c := range clients {
		own := rand.New(rand.NewPCG(r.Uint64(), uint64(c)))
		wg.Go(func() {
			for s.change(own, c) {
				continue
			}
		})
	}
	more := r.IntN(120)
	if r.IntN(8) == 0 {
		more += 500 // documents are written behind by then
	}
	<-time.After(time.Duration(more) * time.Millisecond)
	s.kill()
	wg.Wait()
	return s.wrong
}

// change asks for one change and notes what came of it; false when the program
// is gone or answered what it should not.
func (s *serving) change(r *rand.Rand, client int) bool {
	id := fmt.Sprintf("kill-%d-%d", client, r.IntN(overlaysEach))
	s.mu.Lock()
	k := s.known[id]
	if k == nil {
		k = &kept{}
		s.known[id] = k
	}
	was := k.acked
	s.mu.Unlock()
	text := fmt.Sprintf("Text %d of %s.\n", r.Uint64(), id)
	front := fmt.Sprintf(`{"id":%q,"title":"T","artifact_class":"live_overlay","category":"quality","description":"d","supported_surfaces":["chat"],"live_token_target":200}`, id)
	record := fmt.Sprintf(`{"frontmatter":%s,"body":%q}`, front, text)
	method, path, will := http.MethodPut, "/api/overlays/"+id, shown{body: text}
	switch {
	case was == shown{}:
		method, path = http.MethodPost, "/api/overlays"
	case was.archived:
		method, path, record, will = http.MethodPost, path+"/restore", "", shown{body: was.body}
	case r.IntN(4) == 0:
		method, path, record, will = http.MethodPost, path+"/archive", "", shown{body: was.body, archived: true}
	}
	s.mu.Lock()
	k.asked, k.recent = &will, true
	s.mu.Unlock()
	status, answer, err := s.ask(method, path, record)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil: // gone: nobody knows whether it happened
		return false
	case status/100 == 2:
		k.acked, k.asked = will, nil
		s.acks++
		return true
	case status >= 500: // it is ending
		return false
	}
	if s.wrong == nil {
		s.wrong = fmt.Errorf("%s %s with %s: status %d: %s", method, path, record, status, answer)
	}
	return false
}

func (s *serving) ask(method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(b), err
}

// look reads every overlay that was touched since the last look, and some
// others, and holds them against what was acknowledged.
func (s *serving) look(r *rand.Rand) error {
	for _, id := range slices.Sorted(maps.Keys(s.known)) {
		k := s.known[id]
		if !k.recent && r.IntN(4) > 0 {
			continue
		}
		got, err := s.read(id)
		if err != nil {
			return err
		}
		if got != k.acked && (k.asked == nil || got != *k.asked) {
			return fmt.Errorf("overlay %s: acknowledged %+v, asked for %+v, found %+v", id, k.acked, k.asked, got)
		}
		*k = kept{acked: got}
	}
	return nil
}

func (s *serving) read(id string) (shown, error) {
	status, answer, err := s.ask(http.MethodGet, "/api/overlays/"+id, "")
	if err != nil || status == http.StatusNotFound {
		return shown{}, err
	}
	var o struct {
		Record struct {
			Body     string `json:"body"`
			Archived string `json:"archived_at"`
		} `json:"record"`
	}
	if err := json.Unmarshal([]byte(answer), &o); err != nil || status != http.StatusOK {
		return shown{}, fmt.Errorf("read %s: status %d: %.300s", id, status, answer)
	}
	return shown{body: o.Record.Body, archived: o.Record.Archived != ""}, nil
}

// verify starts the program once more, lets it end in order, and has it check
// what it left: the chain of the audit, and every document.
func (s *serving) verify() error {
	if err := s.start(); err != nil {
		return err
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if <-s.ended; !s.cmd.ProcessState.Success() {
		return fmt.Errorf("ending in order: %s", s.cmd.ProcessState)
	}
	if out, err := exec.Command(s.program, "verify", "--home", s.home).CombinedOutput(); err != nil {
		return fmt.Errorf("verify: %w: %s", err, out)
	}
	return nil
}
