package wire_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

const canary = "CANARY-7d8e-do-not-tell"

// body is a transport that answers with one body.
type body struct {
	status   int
	kind     string
	encoding string
	r        io.Reader
	closed   bool
	read     int64
	asked    *http.Request
}

func (b *body) RoundTrip(r *http.Request) (*http.Response, error) {
	b.asked = r
	h := http.Header{"Content-Type": {b.kind}, "Request-Id": {"r-1"}}
	if b.encoding != "" {
		h.Set("Content-Encoding", b.encoding)
	}
	return &http.Response{StatusCode: b.status, Header: h, Body: b}, nil
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.read += int64(n)
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func target() gateway.Call {
	return gateway.Call{Target: gateway.Target{BaseURL: "http://model.test/v1"}, Key: "sk-" + canary}
}

func post(t *testing.T, b *body, r wire.Request) (*wire.Response, error) {
	t.Helper()
	return wire.New(wire.Config{MaxResponse: 1000, Transport: b}).Post(t.Context(), target(), r)
}

func stream(t *testing.T, r io.Reader) (*wire.Response, *body) {
	t.Helper()
	b := &body{status: 200, kind: "text/event-stream", r: r}
	res, err := post(t, b, wire.Request{Path: "/x", Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	return res, b
}

func collect(res *wire.Response) (got []string, err error) {
	for e, err := range res.Events() {
		if err != nil {
			return got, err
		}
		got = append(got, e.Type+"|"+string(e.Data))
	}
	return got, nil
}

// R-GWS-02: what an event is, whatever the line ends and the sizes in which the
// bytes come; comments and what the end cut off are none.
func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"data", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"typed", "event: ping\ndata: a\n\ndata: b\n\n", []string{"ping|a", "|b"}},
		{"lines", "data: a\ndata: b\n\n", []string{"|a\nb"}},
		{"comments", ": a\n\n:\n\ndata: b\n: c\n\n", []string{"|b"}},
		{"cut", "data: a\n\ndata: b\n", []string{"|a"}},
		{"cut in a line", "data: a\n\ndata: b", []string{"|a"}},
		{"nothing", "", nil},
		{"blank", "\n\n\n\n", nil},
		{"no space", "data:a\n\n", []string{"|a"}},
		{"mark", "\ufeffdata: a\n\n", []string{"|a"}},
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			in := strings.ReplaceAll(c.in, "\n", end)
			for how, r := range map[string]io.Reader{"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
				res, _ := stream(t, r)
				got, err := collect(res)
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%s, lines ended by %q, %s: error %v, events (-want +got):\n%s", c.name, end, how, err, diff)
				}
				if s := res.Stats(); s.Bytes != int64(len(in)) || s.LastByte.IsZero() != (in == "") {
					t.Errorf("R-GWS-06 %s: stats %+v of %d bytes", c.name, s, len(in))
				}
			}
		}
	}
}

// A connection that breaks is told apart from a stream that ends, also when the
// break comes between events; an endless event is not collected.
func TestBrokenAndEndlessStreams(t *testing.T) {
	broken := func(s string) io.Reader {
		return io.MultiReader(strings.NewReader(s), iotest.ErrReader(errors.New(canary)))
	}
	for _, c := range []struct {
		name   string
		in     io.Reader
		events int
		class  gateway.ErrorClass
		most   int64
	}{
		{"between events", broken("data: a\n\n"), 1, gateway.ClassTransport, 100},
		{"in an event", broken("data: a\n\ndata: b"), 1, gateway.ClassTransport, 100},
		{"at once", broken(""), 0, gateway.ClassTransport, 100},
		{"cut by the other side", io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(io.ErrUnexpectedEOF)), 1, gateway.ClassTransport, 100},
		{"an event without end", io.MultiReader(strings.NewReader("data: "), endless('x')), 0, gateway.ClassMalformedResponse, 3 * wire.MaxEvent},
	} {
		res, b := stream(t, c.in)
		got, err := collect(res)
		if len(got) != c.events || gateway.ClassOf(err) != c.class || b.read > c.most || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %d events, error %v after %d bytes; want %d, %s", c.name, len(got), err, b.read, c.events, c.class)
		}
		// R-GWS-10: closed where it is.
		before := b.read
		if res.Close(); !b.closed || b.read != before {
			t.Errorf("R-GWS-10 %s: closed %t, %d bytes more were read", c.name, b.closed, b.read-before)
		}
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// A consumer that has enough ends the reading.
func TestTheSequenceMayBeLeft(t *testing.T) {
	res, b := stream(t, endlessEvents{})
	n := 0
	for range res.Events() {
		if n++; n == 3 {
			break
		}
	}
	if b.read > 64<<10 {
		t.Errorf("%d bytes were read for three events", b.read)
	}
}

type endlessEvents struct{}

func (endlessEvents) Read(p []byte) (int, error) { return copy(p, "data: a\n\n"), nil }

// What is no 2xx, no stream or too large is an error of its class, and closed.
func TestWhatIsNoAnswer(t *testing.T) {
	for _, c := range []struct {
		name, kind, in string
		status         int
		stream         bool
		class          gateway.ErrorClass
		billed         bool
	}{
		{"a status", "application/json", `{"error":{"code":"insufficient_quota"}}`, 429, false, gateway.ClassProviderQuota, false},
		{"a redirect", "text/html", "", 302, false, gateway.ClassBadRequest, false},
		{"no stream", "application/json", `{}`, 200, true, gateway.ClassMalformedResponse, true},
		{"an error in place of a stream", "application/json", `{"error":{"code":503}}`, 200, true, gateway.ClassOverloaded, true},
		{"too large", "application/json", strings.Repeat("x", 1001), 200, false, gateway.ClassMalformedResponse, true},
	} {
		b := &body{status: c.status, kind: c.kind, r: strings.NewReader(c.in)}
		res, err := post(t, b, wire.Request{Path: "/x", Stream: c.stream})
		if err == nil {
			_, err = res.Document()
			res.Close()
		}
		var e *gateway.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Status != c.status || e.RequestID != "r-1" || e.NotBilled == c.billed || !b.closed {
			t.Errorf("%s: %#v, closed %t; want class %s, billed %t", c.name, e, b.closed, c.class, c.billed)
		}
	}
}

// A stream that was compressed against our wish cannot be read as it comes.
func TestACompressedStreamIsRefused(t *testing.T) {
	for encoding, want := range map[string]gateway.ErrorClass{"": "", "identity": "", "gzip": gateway.ClassMalformedResponse} {
		b := &body{status: 200, kind: "text/event-stream", encoding: encoding, r: strings.NewReader("data: a\n\n")}
		if _, err := post(t, b, wire.Request{Path: "/x", Stream: true}); gateway.ClassOf(err) != want {
			t.Errorf("encoding %q: error %v, want class %q", encoding, err, want)
		}
	}
}

// R-GWB-04: the key is in the header that the profile names and nowhere else.
func TestTheKeysPlace(t *testing.T) {
	c := target()
	if h := wire.Bearer(c); h.Get("Authorization") != "Bearer sk-"+canary || len(h) != 1 {
		t.Errorf("headers %v", len(h))
	}
	c.Target.Profile.KeyHeader = "Api-Key"
	if h := wire.Bearer(c); h.Get("Api-Key") != "sk-"+canary || len(h) != 1 {
		t.Errorf("headers of a profile with its own: %d", len(h))
	}
	if c.Key = ""; len(wire.Bearer(c)) != 0 {
		t.Error("a header without a key")
	}
	own := http.Header{"X-Own": {"1"}}
	b := &body{status: 200, kind: "application/json", r: strings.NewReader("{}")}
	if _, err := post(t, b, wire.Request{Path: "/x?y=1", Header: own, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if b.asked.URL.String() != "http://model.test/v1/x?y=1" || b.asked.Header.Get("X-Own") != "1" || len(own) != 1 || b.asked.GetBody != nil {
		t.Errorf("asked %s with %v; the caller's header has %d entries now", b.asked.URL, b.asked.Header, len(own))
	}
}

// R-GWB-10: a connection that died in the pool is not a reason for the transport
// to send a request again by itself.
func TestOneCallIsOneRequest(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if calls.Add(1) == 1 {
			_, _ = io.WriteString(w, "{}")
			return
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	client := wire.New(wire.Config{})
	c := target()
	c.Target.BaseURL = s.URL
	for range 2 {
		res, err := client.Post(t.Context(), c, wire.Request{Path: "/x", Body: []byte("{}")})
		if err == nil {
			_, _ = res.Document()
			res.Close()
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("R-GWB-10 %d requests for two calls", n)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\n", 3)
	f.Add("event: x\r\ndata\r\n\r\n:\r\rid: \x00\n\nretry: 1\n\n", 1)
	f.Fuzz(func(t *testing.T, in string, size int) {
		whole, _ := stream(t, strings.NewReader(in))
		pieces, _ := stream(t, &slow{in: in, size: max(1, size%7)})
		a, err1 := collect(whole)
		b, err2 := collect(pieces)
		if diff := cmp.Diff(a, b); diff != "" || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q in pieces gives other events (%v, %v):\n%s", in, err1, err2, diff)
		}
	})
}

type slow struct {
	in   string
	size int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.in == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.size)], s.in)
	s.in = s.in[n:]
	return n, nil
}
