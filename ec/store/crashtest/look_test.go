package crashtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What the clients of the killed program would call a loss, and what not.
func TestLookNoticesWhatIsLost(t *testing.T) {
	t.Parallel()
	now := map[string]string{ // what the server shows, by name
		"a": `{"record":{"body":"one"}}`,
		"b": `{"record":{"body":"one","archived_at":"2026-03-01T09:00:00Z"}}`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := now[strings.TrimPrefix(r.URL.Path, "/api/overlays/")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(srv.Close)
	for name, c := range map[string]struct {
		id   string
		kept kept
		lost bool
	}{
		"as acknowledged":                     {"a", kept{acked: shown{body: "one"}}, false},
		"archived as acknowledged":            {"b", kept{acked: shown{"one", true}}, false},
		"never acknowledged, there":           {"a", kept{asked: &shown{body: "one"}}, false},
		"never acknowledged, not there":       {"c", kept{asked: &shown{body: "one"}}, false},
		"never acknowledged, something else":  {"a", kept{asked: &shown{body: "two"}}, true},
		"acknowledged, gone":                  {"c", kept{acked: shown{body: "one"}}, true},
		"acknowledged, the text before":       {"a", kept{acked: shown{body: "two"}}, true},
		"acknowledged, no longer archived":    {"a", kept{acked: shown{"one", true}}, true},
		"between what was and what was asked": {"a", kept{acked: shown{body: "zero"}, asked: &shown{body: "two"}}, true},
	} {
		c.kept.recent = true
		s := &serving{base: srv.URL, client: srv.Client(), known: map[string]*kept{c.id: &c.kept}}
		if err := s.look(rand.New(rand.NewPCG(1, 1))); (err != nil) != c.lost {
			t.Errorf("%s: look gives %v, lost %t", name, err, c.lost)
		}
	}
}
