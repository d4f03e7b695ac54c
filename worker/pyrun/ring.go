package pyrun

import (
	"strings"
	"sync"
)

// ring keeps the end of what is written to it.
type ring struct {
	mu      sync.Mutex
	max     int
	buf     []byte
	dropped bool
}

// Write never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if over := len(r.buf) - r.max; over > 0 {
		r.buf = append(r.buf[:0], r.buf[over:]...)
		r.dropped = true
	}
	return len(p), nil
}

// redacted gives what was kept as valid UTF-8, without the secret; also not the end
// of one that lost its beginning with what was dropped.
func (r *ring) redacted(secret string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := string(r.buf)
	if secret != "" {
		s = strings.ReplaceAll(s, secret, "[token]")
	}
	for i := 1; r.dropped && i < len(secret); i++ {
		if rest, ok := strings.CutPrefix(s, secret[i:]); ok {
			s = rest
			break
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
