package e2e

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
)

// feeder keeps a few jobs open and remembers every one that was acknowledged.
type feeder struct {
	s     *system
	ref   string
	mu    sync.Mutex
	acked []contracts.UUID
}

func (f *feeder) run(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	one, steps := 1, 1
	for n := int64(0); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		st, err := f.s.user.Status(ctx)
		if err != nil || st.JobsOpen >= 3 {
			continue
		}
		j, err := f.s.user.CreateJob(ctx, client.JobText{
			ArtifactKind: contracts.KindOverlay, ArtifactID: "notes", DatasetRef: f.ref,
			Options: client.JobOptions{MaxCandidates: &one, MaxSteps: &steps, Seed: &n},
		})
		if err == nil {
			f.mu.Lock()
			f.acked = append(f.acked, j.JobID)
			f.mu.Unlock()
		}
	}
}

// R-SYS-03, R-SYS-04, R-CMD-05, R-WRK-01, R-WRK-10, R-LAB-16: kill -9 of worker,
// EC, Python and Redis (which comes back empty), each at random moments. Every
// acknowledged job ends in exactly one terminal state with at most one accepted
// result, and no process is left behind. -kills N does so N times each.
func TestKills(t *testing.T) {
	s := newSystem(t, options{delay: 3 * time.Millisecond})
	f := &feeder{s: s, ref: s.lab(40)}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx) })
	rng := rand.New(rand.NewPCG(7, uint64(*kills))) //nolint:gosec // chance, not a secret
	victims := map[string]func() bool{
		"worker": func() bool { s.work.kill(syscall.SIGKILL); s.work.start(); return true },
		"ec":     func() bool { s.serve.kill(syscall.SIGKILL); s.serve.start(); return true },
		"redis":  func() bool { s.redis.kill(syscall.SIGKILL); s.redis.start(); return true },
		"python": func() bool {
			for _, pid := range s.pythons() {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
			return false
		},
	}
	done := map[string]int{}
	for round := 0; round < *kills; round++ {
		for _, name := range []string{"worker", "ec", "python", "redis"} {
			moment := time.NewTimer(time.Duration(rng.IntN(1200)) * time.Millisecond)
			<-moment.C
			if name == "python" {
				s.until(2*time.Minute, "a search runs", func() bool { return len(s.pythons()) > 0 })
			}
			if victims[name]() {
				done[name]++
			}
			if name == "ec" {
				s.waitReady()
			}
		}
	}
	stop()
	wg.Wait()
	t.Logf("kills: %v; %d jobs were acknowledged", done, len(f.acked))
	if len(f.acked) == 0 {
		t.Fatal("no job was acknowledged")
	}
	counts := map[contracts.PromptLabJobStatus]int{}
	for _, id := range f.acked {
		counts[s.ended(6*time.Minute, id).Status]++
	}
	t.Logf("ended: %v", counts)
	if counts[contracts.JobCompleted] == 0 {
		t.Error("not one job was completed")
	}
	s.work.kill(syscall.SIGTERM)
	s.serve.kill(syscall.SIGTERM)
	if left := s.pythons(); len(left) > 0 {
		t.Errorf("R-LAB-16 processes are left: %v", left)
	}
	s.once(t, f.acked)
}

// once checks in the audit that each job ended once and got one result.
func (s *system) once(t *testing.T, jobs []contracts.UUID) {
	t.Helper()
	terminal, created := map[string]int{}, map[string]int{}
	for _, e := range s.audit(t) {
		part := strings.Split(e, ":") // job.WHAT:ID:STATUS, candidate.STATE:ID
		if len(part) == 3 && strings.HasPrefix(part[0], "job.") && part[0] != "job.late_result" && contracts.PromptLabJobStatus(part[2]).Terminal() {
			terminal[part[1]]++
		}
		if len(part) == 2 && part[0] == "candidate.pending_review" {
			created[part[1]]++
		}
	}
	for _, id := range jobs {
		if terminal[string(id)] != 1 {
			t.Errorf("R-LAB-08 job %s ended %d times", id, terminal[string(id)])
		}
	}
	for id, n := range created {
		if n != 1 {
			t.Errorf("R-WRK-10 candidate %s was accepted %d times", id, n)
		}
	}
}
