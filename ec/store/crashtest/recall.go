package crashtest

import (
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/elnor/promptlab/ec/store"
)

// recallFormat names the short form that the workloads keep: path and text, so
// that one that is not of what lies there now is seen.
const recallFormat = "checker"

func short(p string, body []byte) ([]byte, error) { return append([]byte(p+"|"), body...), nil }

// recalls holds what a start would go by against the files.
func (c *checker) recalls(s *store.Store, files state) error {
	for p, got := range s.Recall(recallFormat) {
		c.recalled++
		body, there := files[p]
		if want, _ := short(p, []byte(body)); !there || string(got) != string(want) {
			return fmt.Errorf("recalled of %s is %q, which holds %q (%t)", p, got, body, there)
		}
	}
	return nil
}

// learn does what the caller of a store does at its start: it takes what is
// recalled and reads the rest.
func (r *run) learn() {
	r.known = maps.Collect(r.s.Recall(recallFormat))
	for p := range r.documents() {
		if body, ok, err := r.s.Read(p); r.known[p] == nil && ok && err == nil {
			r.known[p], _ = short(p, body)
		}
	}
}

// documents gives the documents there are, with what was known of them at the
// start: perhaps too old, which is the store's to notice.
func (r *run) documents() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		list, err := r.s.List("")
		if err != nil {
			return // a fault, which is judged elsewhere
		}
		for _, p := range list {
			if !strings.HasSuffix(p, ".jsonl") && !yield(p, r.known[p]) {
				return
			}
		}
	}
}

// remember keeps the short forms. That it cannot is no reason to stop.
func (r *run) remember() error {
	if err := r.s.Remember(recallFormat, r.documents(), short); err != nil {
		return r.s.Err()
	}
	return nil
}
