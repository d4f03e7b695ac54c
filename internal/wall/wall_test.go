package wall

import (
	"net/url"
	"testing"
)

// TestOnlyPlainPathsPass: policy and routing read the same path.
func TestOnlyPlainPathsPass(t *testing.T) {
	for raw, want := range map[string]bool{
		"/": true, "/api/overlays": true, "/dashboard/": true, "/api/prompt-lab/datasets/ds:a@1": true, "/a.b/..c": true,
		"//": false, "/a//b": false, "/a/./b": false, "/a/../b": false, "/a/..": false, "/.": false, "/a//": false, `/a\b`: false,
		"/%2e%2e/metrics": false, "/a/%2E./b": false, "/a%2f%2fb": false, "/a%00b": false, "*": false,
	} {
		u, err := url.ParseRequestURI(raw)
		if err != nil && raw != "*" {
			t.Fatal(err)
		}
		if u == nil {
			u = &url.URL{Path: raw}
		}
		if got := CleanPath(u); got != want {
			t.Errorf("path %q: plain is %v, want %v", raw, got, want)
		}
	}
}
