package worker

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// quietTime is how long the queue library does not repeat itself.
const quietTime = time.Minute

// quietLog is the queue library's logger. Its fatal lines end nothing here, and
// while the broker is away it says the same once a minute, not several times a
// second.
type quietLog struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]time.Time // what a line is about -> when it was written last
}

func newQuietLog(log *slog.Logger) *quietLog {
	return &quietLog{log: log, said: map[string]time.Time{}}
}

// Debug implements asynq.Logger.
func (q *quietLog) Debug(args ...any) { q.log.Debug("queue", "text", fmt.Sprint(args...)) }

// Info implements asynq.Logger.
func (q *quietLog) Info(args ...any) { q.log.Debug("queue", "text", fmt.Sprint(args...)) }

// Warn implements asynq.Logger.
func (q *quietLog) Warn(args ...any) { q.once(q.log.Warn, args) }

// Error implements asynq.Logger.
func (q *quietLog) Error(args ...any) { q.once(q.log.Error, args) }

// Fatal implements asynq.Logger.
func (q *quietLog) Fatal(args ...any) { q.once(q.log.Error, args) }

// once writes a line unless one about the same was written a moment ago. What a
// line is about stands before its first colon; the causes behind it vary.
func (q *quietLog) once(write func(string, ...any), args []any) {
	text := fmt.Sprint(args...)
	about, _, _ := strings.Cut(text, ":")
	now := time.Now()
	q.mu.Lock()
	last, seen := q.said[about]
	quiet := seen && now.Sub(last) < quietTime
	if !quiet {
		if len(q.said) >= 64 { // the library knows fewer
			clear(q.said)
		}
		q.said[about] = now
	}
	q.mu.Unlock()
	if !quiet {
		write("queue", "text", text)
	}
}
