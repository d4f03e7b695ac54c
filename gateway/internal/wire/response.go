package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/elnor/promptlab/gateway"
)

const eventStream = "text/event-stream"

// MaxEvent is the largest event of a stream, in bytes. A piece of an answer is
// below a KiB, and the reader's cost grows with the square of an event's size.
const MaxEvent = 1 << 20

// Response is an open answer. It belongs to one goroutine.
type Response struct {
	Status int
	Header http.Header
	ID     string // the provider's request id, cleaned

	profile gateway.Profile
	body    io.ReadCloser
	most    int64
	began   time.Time
	stats   gateway.WireStats
	broken  bool // a read failed before the end
}

// Close ends the answer where it is. Nothing is drained: what an abandoned
// answer still has to say has no bound.
func (r *Response) Close() { _ = r.body.Close() }

// Upstream gives the time since the request was sent.
func (r *Response) Upstream() time.Duration { return time.Since(r.began) }

// Stats tells what came over the wire so far.
func (r *Response) Stats() gateway.WireStats { return r.stats }

// Skip counts an event that was not understood.
func (r *Response) Skip() { r.stats.Malformed++ }

// Fail is the error that an error document stands for, be it the body of an
// error status, of a 2xx or an event of a stream.
func (r *Response) Fail(document []byte) *gateway.Error {
	e := r.profile.Classify(r.Status, r.Header, document, time.Now())
	e.RequestID = r.ID
	return e
}

// Malformed is the error for an answer that cannot be used.
func (r *Response) Malformed(reason string) *gateway.Error {
	return &gateway.Error{Class: gateway.ClassMalformedResponse, Status: r.Status, RequestID: r.ID, Reason: reason}
}

// Truncated is the error for a stream that ended before its answer did.
func (r *Response) Truncated() *gateway.Error {
	return &gateway.Error{Class: gateway.ClassStreamTruncated, Status: r.Status, RequestID: r.ID}
}

// Document reads the whole answer, up to the bound.
func (r *Response) Document() ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.body, r.most+1))
	if err != nil {
		return nil, &gateway.Error{Class: gateway.ClassTransport, RequestID: r.ID}
	}
	if int64(len(body)) > r.most {
		return nil, r.Malformed("answer_too_large")
	}
	return body, nil
}

func (r *Response) isStream() bool {
	kind := r.Header.Get("Content-Type")
	if kind == "" {
		return true // nothing was claimed; what comes will tell
	}
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && media == eventStream
}

// Event is one event of a stream.
type Event struct {
	Type string // as the protocol names it; often empty
	Data []byte
}

// Events reads an event stream to its end. Comments are not events, though they
// count as signs of life. The only error, and then the last pair, is that the
// connection broke or an event is too large; a stream that just ends ends the
// sequence, and whether that was the end of the answer is the protocol's to say.
// An event that the end cut off is not one.
func (r *Response) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range sse.Read((*reader)(r), &sse.ReadConfig{MaxEventSize: MaxEvent}) {
			switch {
			case err != nil && r.broken:
				yield(Event{}, r.cut())
				return
			case err != nil:
				yield(Event{}, r.Malformed("event_too_large"))
				return
			case !yield(Event{Type: e.Type, Data: []byte(e.Data)}, nil):
				return
			}
		}
	}
}

// Follow reads events until the answer has ended; a stream that stops before is
// cut.
func (r *Response) Follow(a *Assembly, take func(Event) error) error {
	for e, err := range r.Events() {
		if err != nil {
			return err
		}
		if err := take(e); err != nil {
			return err
		}
		if a.Ended() {
			return nil
		}
	}
	return r.Truncated()
}

// Decode reads the document of an event. There is none in a keep-alive of
// somebody's own making, which is counted; half a document is an error, because a
// piece that is lost would leave a hole in the answer.
func (r *Response) Decode(e Event, into any) (there bool, err error) {
	switch data := bytes.TrimSpace(e.Data); {
	case len(data) == 0:
		return false, nil
	case json.Unmarshal(data, into) == nil:
		return true, nil
	case bytes.HasPrefix(data, []byte("{")):
		r.Skip()
		return false, Malformed("event")
	default:
		r.Skip()
		return false, nil
	}
}

func (r *Response) cut() *gateway.Error {
	return &gateway.Error{Class: gateway.ClassTransport, RequestID: r.ID}
}

// reader counts what comes.
type reader Response

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if n > 0 {
		r.stats.Bytes += int64(n)
		r.stats.LastByte = time.Now()
	}
	if err != nil && err != io.EOF {
		r.broken = true
	}
	return n, err
}
