package ec

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// loadChunk bounds how many documents are held between reading and taking in.
const loadChunk = 4096

// errMissing says that a document went away between the list and the read.
var errMissing = errors.New("the document is gone")

// many reads documents side by side, as many at a time as there are processors,
// and hands them over one after the other in their order. An error is that of the
// first document that has one. A document that read calls errMissing is
// left out.
func many[D, T any](docs []D, read func(D) (T, error), take func(D, T) error) error {
	type result struct {
		v   T
		err error
	}
	results := make([]result, min(len(docs), loadChunk))
	for len(docs) > 0 {
		chunk := docs[:min(len(docs), loadChunk)]
		docs = docs[len(chunk):]
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), len(chunk)) {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(chunk); i = int(next.Add(1)) - 1 {
					results[i].v, results[i].err = read(chunk[i])
				}
			})
		}
		wg.Wait()
		for i, d := range chunk {
			r := &results[i]
			if errors.Is(r.err, errMissing) {
				continue
			}
			if r.err != nil {
				return r.err
			}
			if err := take(d, r.v); err != nil {
				return err
			}
		}
	}
	return nil
}
