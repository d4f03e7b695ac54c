package broker

import (
	"net/http"

	"github.com/hibiken/asynqmon"
)

// redacted stands where a message's bytes would be: they hold a live token.
const redacted = "(not shown)"

// Dashboard gives pages about the queue under rootPath, such as /admin/queue,
// for people to look at. It refuses every method but GET and HEAD, also those
// that a later version of the library may add; cancelling and retrying a job go
// through EC. The caller puts a login in front of it. It works until Close.
func (b *Broker) Dashboard(rootPath string) http.Handler {
	h := asynqmon.New(asynqmon.Options{
		RootPath:         rootPath,
		RedisConnOpt:     b.opt,
		ReadOnly:         true,
		PayloadFormatter: asynqmon.PayloadFormatterFunc(func(string, []byte) string { return redacted }),
		ResultFormatter:  asynqmon.ResultFormatterFunc(func(string, []byte) string { return redacted }),
	})
	b.mu.Lock()
	b.dashboards = append(b.dashboards, h.Close)
	b.mu.Unlock()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the queue is shown, not changed, here", http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	})
}
