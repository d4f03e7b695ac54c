package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/gateway/simulator"
)

// memoryOf gives everything that is readable in a process's memory.
func memoryOf(t *testing.T, pid int) []byte {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Skipf("the memory of another process cannot be read here: %v", err)
	}
	defer mem.Close()
	var all []byte
	for _, line := range strings.Split(string(maps), "\n") {
		var from, to uint64
		var perm string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perm); n != 3 || !strings.HasPrefix(perm, "rw") || to-from > 512<<20 {
			continue
		}
		part := make([]byte, to-from)
		if n, err := mem.ReadAt(part, int64(from)); err == nil || n > 0 { //nolint:gosec // an address of /proc
			all = append(all, part[:n]...)
		}
	}
	return all
}

// R-SYS-04, R-GWA-01, R-GWB-04, R-SEC-09, R-WRK-01: the optimizer's process has
// the text it edits and nothing else: no key, no path of the data, no example's
// text, no scorer's rule. Its environment, its arguments and its whole memory are
// searched, which covers what it was sent and what it has sent.
func TestTheOptimizerKnowsNothingElse(t *testing.T) {
	s := newSystem(t, options{delay: 30 * time.Millisecond})
	steps := 20 // time enough to find it
	j := s.job(s.lab(60), client.JobOptions{MaxSteps: &steps})
	s.until(time.Minute, "the search runs", func() bool { return len(s.pythons()) > 0 && s.model.Calls() > 60 })
	pids := s.pythons()
	if len(pids) == 0 {
		t.Fatal("the search ended too soon")
	}
	pid := pids[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // it must not end while it is looked at
		t.Fatalf("hold process %d: %v", pid, err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	memory := memoryOf(t, pid)
	if err := s.stillRuns(pid); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(memory, []byte("Prefer plain words to jargon")) {
		t.Fatal("the overlay's text is not found in the optimizer's memory: the search looks in the wrong place")
	}
	secrets := map[string]string{
		"the provider's key": modelKey, "the address of the model": strings.TrimSuffix(s.url, "/v1"), "the data root": s.home.Memory,
		"a scorer's rule": "contains: Decision:", "the worker's token": "", "the name of the key's variable": "E2E_MODEL_KEY",
	}
	secrets["the worker's token"], _ = s.home.Token("worker")
	for i, ex := range simulator.Examples(60, 7) {
		secrets[fmt.Sprintf("the text of example %d", i)] = ex.Input
	}
	for what, secret := range secrets {
		for where, hay := range map[string][]byte{"environment": env, "arguments": args, "memory": memory} {
			if secret == "" || bytes.Contains(hay, []byte(secret)) {
				t.Errorf("R-SYS-04 %s is in the optimizer's %s", what, where)
			}
		}
	}
	_ = syscall.Kill(pid, syscall.SIGCONT) // now it may hear that it is cancelled
	_, _ = s.user.CancelJob(t.Context(), string(j.JobID))
}

func (s *system) stillRuns(pid int) error {
	for _, p := range s.pythons() {
		if p == pid {
			return nil
		}
	}
	return fmt.Errorf("process %d ended while it was looked at", pid)
}
