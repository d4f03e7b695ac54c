package chat_test

import (
	"runtime"
	"strings"
	"testing"
)

// A body that is nested deep costs what it weighs, not that at each level.
func TestNestedBody(t *testing.T) {
	r := newRig(t)
	const deep = 2000
	body := `{"user":null,"messages":[` + strings.Repeat(`{"content":`, deep) + `"` + strings.Repeat("x", 256<<10) + `"` + strings.Repeat("}", deep) + `]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if a := r.post(body); a.status != 400 {
		t.Errorf("got %d %.200s, want 400", a.status, a.body)
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / uint64(len(body)); took > 100 {
		t.Errorf("a body of %d bytes took %d times its size", len(body), took)
	}
}
