package client_test

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
)

// R-HTTP-06: the client keeps no answer, whatever its headers allow: two reads are
// two requests and give what is there at their time, and no file comes of them.
func TestReadsAreNotKept(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TMPDIR"} {
		t.Setenv(name, home)
	}
	t.Chdir(home)
	var calls atomic.Int32
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"If-None-Match", "If-Modified-Since"} {
			if v := r.Header.Get(name); v != "" {
				t.Errorf("R-HTTP-06 the client has kept something: %s: %s", name, v)
			}
		}
		n := calls.Add(1)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("ETag", `"same"`)
		w.Header().Set("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
		_, _ = fmt.Fprintf(w, `{"prompt_lab":%v}`, n > 1)
	})
	for n := int32(1); n <= 3; n++ {
		flags, err := c.Flags(t.Context())
		if err != nil || calls.Load() != n || flags.PromptLab != (n > 1) {
			t.Errorf("R-HTTP-06 read %d: %d requests, %+v, %v; want a request of its own and what it answers", n, calls.Load(), flags, err)
		}
	}
	if files, err := os.ReadDir(home); err != nil || len(files) != 0 {
		t.Errorf("R-HTTP-06 reads left files: %v %v", files, err)
	}
}
