package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheQueueLibrarySaysTheSameOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := newQuietLog(slog.New(slog.NewTextHandler(&out, nil)))
		for range 300 { // five minutes of an outage
			q.Error("Dequeue error: connection refused")
			q.Warn("recoverer: connection refused")
			time.Sleep(time.Second) // of the test's own clock
		}
		if n := strings.Count(out.String(), "Dequeue error"); n != 5 {
			t.Errorf("300 equal errors in five minutes: %d lines, want 5", n)
		}
		if n := strings.Count(out.String(), "recoverer"); n != 5 {
			t.Errorf("300 equal warnings beside them: %d lines, want 5", n)
		}
		for i := range 1000 {
			q.Error(strings.Repeat("x", i))
		}
		if len(q.said) > 64 {
			t.Errorf("%d subjects are remembered, want at most 64", len(q.said))
		}
	})
}
