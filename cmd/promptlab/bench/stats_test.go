package bench

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"
)

// at gives the q-quantile of what was measured, by nearest rank.
func at[T cmp.Ordered](all []T, q float64) T {
	s := slices.Sorted(slices.Values(all))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// median is the 0.5-quantile.
func median[T cmp.Ordered](all []T) T { return at(all, 0.5) }

// spread writes min/median/max.
func spread(all []float64, format string) string {
	return fmt.Sprintf(format+"/"+format+"/"+format, slices.Min(all), median(all), slices.Max(all))
}

// ratios divides round by round: what slows both sides of a round cancels out.
func ratios(ours, reference []float64) []float64 {
	out := make([]float64, len(ours))
	for i := range ours {
		out[i] = ours[i] / reference[i]
	}
	return out
}

// ms writes a duration in milliseconds.
func ms(d time.Duration) string { return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond)) }

// timings collects durations from many goroutines.
type timings struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *timings) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

// crowd lets n goroutines do work again and again for so long; work gets the
// goroutine's number. It gives every duration and the work per second.
func crowd(n int, span time.Duration, work func(who int) error) ([]time.Duration, float64, error) {
	var each timings
	var wg sync.WaitGroup
	failed := make(chan error, n) // one a goroutine
	began := time.Now()
	for who := range n {
		wg.Go(func() {
			for time.Since(began) < span {
				start := time.Now()
				if err := work(who); err != nil {
					failed <- err
					return
				}
				each.add(time.Since(start))
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-failed:
		return nil, 0, err
	default:
	}
	return each.all, float64(len(each.all)) / took.Seconds(), nil
}

// processorTime is what this process has used of its processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
