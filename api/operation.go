package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/gin-gonic/gin"
)

// op describes an operation, for the router and for the document alike.
type op struct {
	id, method, path, summary string

	query   []param
	success int     // 0 is 200
	limit   int64   // body bytes; 0 is smallBody
	empty   bool    // a body may be left out
	etag    bool    // answers carry an ETag
	match   bool    // takes If-Match
	only    ec.Role // nobody else may, though the area lets them in
	people  bool    // the agent is not let in
	peer    bool    // bodies may hold fields of a later version
	repeat  bool    // answers 200 where nothing was made, because it was there
	public  bool    // no credentials
	media   string  // of a successful answer; "" is application/json

	in, out reflect.Type // bodies; nil for none
}

// none is the body of operations that take no fields.
type none struct{}

// call is what a handler gets: everything read, checked and defaulted.
type call[B any] struct {
	actor   ec.Actor
	op      string
	key     string // the client's idempotency key, or one of our own
	request string // hash of what is asked for, where the key is the client's
	ifMatch string
	path    func(name string) string
	query   values
	body    B
}

// command makes the one command of a write. The same key at the same address,
// whose variable part is target, gives the same command, so a repetition changes
// nothing; for another body it is refused. A key says nothing about other
// addresses, operations or roles.
func (c call[B]) command(body ec.Body, target string) ec.Command {
	return ec.Command{ID: strings.Join([]string{string(c.actor.Role), c.op, target, c.key}, ":"), Actor: c.actor, Body: body, Request: c.request}
}

// identify makes a key where the client sent none.
func (c *call[B]) identify(newID func() string) (err error) {
	if c.key == "" {
		c.key = newID()
		return nil
	}
	c.request, err = requestHash(c.body, c.query)
	return err
}

// requestHash is the same for two requests that ask for the same: fields in any
// order, defaults given or left out.
func requestHash(body any, q values) (string, error) {
	b, err := json.Marshal([]any{body, q})
	if err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// reply is what a handler gives back.
type reply[O any] struct {
	body   O
	etag   string // without quotes
	status int    // 0 is the operation's
	cookie *http.Cookie
}

// add registers an operation with a JSON answer. It is the only way in for
// bodies: read once within the limit, decoded by contracts, then h.
func add[B, O any](s *Server, o op, h func(ctx context.Context, c call[B]) (reply[O], error)) {
	o.out = reflect.TypeFor[O]()
	if reflect.TypeFor[B]() != reflect.TypeFor[none]() {
		o.in = reflect.TypeFor[B]()
	}
	s.register(o, func(w http.ResponseWriter, r *http.Request, q values) error {
		c := call[B]{actor: actorOf(r), op: o.id, path: r.PathValue, query: q}
		if err := s.headers(r, o, &c.key, &c.ifMatch); err != nil {
			return err
		}
		if err := readBody(w, r, o, &c.body); err != nil {
			return err
		}
		if err := c.identify(s.cfg.NewID); err != nil {
			return err
		}
		res, err := h(r.Context(), c)
		if err != nil {
			return err
		}
		if res.cookie != nil {
			http.SetCookie(w, res.cookie)
		}
		if res.etag != "" {
			w.Header().Set("ETag", `"`+res.etag+`"`)
		}
		if res.status == 0 {
			res.status = o.status()
		}
		return writeJSON(w, res.status, res.body)
	})
}

func (o op) status() int {
	if o.success != 0 {
		return o.success
	}
	return http.StatusOK
}

// mode is how bodies are decoded.
func (o op) mode() contracts.Mode {
	if o.peer {
		return contracts.Peer
	}
	return contracts.Client
}

// register puts an operation into the router and the document. f returns an
// error instead of answering one; it must not have written anything then.
func (s *Server) register(o op, f func(w http.ResponseWriter, r *http.Request, q values) error) {
	described := s.describe(o)
	s.doc.OpenAPI().AddOperation(described)
	s.doc.Adapter().Handle(described, func(hc huma.Context) { s.route(o, humagin.Unwrap(hc), f) })
}

// route is the way of every request from the router to its operation.
func (s *Server) route(o op, c *gin.Context, f func(w http.ResponseWriter, r *http.Request, q values) error) {
	w, r := c.Writer, c.Request
	x := exchangeOf(r.Context())
	x.route = o.path
	for _, p := range c.Params {
		r.SetPathValue(p.Key, p.Value)
	}
	if o.only != "" && x.role != o.only || o.people && x.role == ec.RoleAgent {
		s.fail(w, r, wrongRole(x.role))
		return
	}
	if x.role == ec.RoleSeam {
		s.heard(s.cfg.Now())
	}
	if err := checkPath(c.Params); err != nil {
		s.fail(w, r, err)
		return
	}
	q, err := parseQuery(r.URL, o.query)
	if err == nil {
		err = f(w, r, q)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

func actorOf(r *http.Request) ec.Actor {
	role := exchangeOf(r.Context()).role
	return ec.Actor{Role: role, Name: string(role)}
}

// headers reads what a write may carry beside its body.
func (s *Server) headers(r *http.Request, o op, key, ifMatch *string) error {
	if reads(r.Method) {
		return nil
	}
	var details []fault.Detail
	one := func(name string) string {
		v := r.Header.Values(name)
		if len(v) > 1 {
			details = append(details, fault.Detail{Field: name, Rule: "duplicate_header", Message: "is given twice"})
		}
		return strings.Join(v, "")
	}
	*key = one("Idempotency-Key")
	if len(*key) > longestKey || strings.ContainsFunc(*key, func(c rune) bool { return c < ' ' || c > '~' }) {
		details = append(details, fault.Detail{Field: "Idempotency-Key", Rule: "pattern", Message: "must be at most 128 printable ASCII characters"})
	}
	match := one("If-Match")
	switch {
	case match == "" || match == "*":
	case !o.match:
		details = append(details, fault.Detail{Field: "If-Match", Rule: "unexpected_header", Message: "is not taken here"})
	case len(match) > longestTag:
		details = append(details, fault.Detail{Field: "If-Match", Rule: "max_length", Message: "must not be longer than 200 characters"})
	case strings.Contains(match, ","):
		details = append(details, fault.Detail{Field: "If-Match", Rule: "pattern", Message: "must be one entity tag"})
	case strings.HasPrefix(match, "W/"):
		*ifMatch = "weak" // matches nothing, which is its meaning
	default:
		*ifMatch = match // a foreign tag matches nothing
		if n := len(match); n >= 2 && match[0] == '"' && match[n-1] == '"' {
			*ifMatch = match[1 : n-1]
		}
	}
	if len(details) > 0 {
		return badRequest(details)
	}
	return nil
}

// Bounds of headers, in characters.
const (
	longestKey = 128
	longestTag = 200
)

func badRequest(details []fault.Detail) error {
	message := details[0].Field + ": " + details[0].Message
	if len(details) > 1 {
		message = fmt.Sprintf("%d parameters are not valid; see details", len(details))
	}
	return fault.New(fault.Malformed, "bad_request", "%s", message).With(details...)
}

// readBody reads the whole body once and decodes it strictly.
func readBody[B any](w http.ResponseWriter, r *http.Request, o op, into *B) error {
	limit := o.limit
	if limit == 0 {
		limit = smallBody
	}
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return fault.Wrap(fault.Malformed, "bad_request", err, "the body ended early")
	}
	switch {
	case reads(r.Method) && len(raw) > 0:
		return errBody()
	case reads(r.Method):
		return nil
	case o.empty && len(raw) == 0:
		raw = []byte("{}") // every field has its default
	}
	*into, err = contracts.Decode[B](raw, o.mode())
	return err //nolint:wrapcheck // a fault for the client
}

func errBody() error { return fault.New(fault.Malformed, "bad_request", "this request takes no body") }

func writeJSON(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the reader may be gone
	return nil
}
