package api

import (
	"errors"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/gin-gonic/gin"
)

type paramKind int

const (
	paramString paramKind = iota
	paramBool
	paramInt
)

// param is a query parameter.
type param struct {
	name     string
	kind     paramKind
	enum     []string
	max      int // code points of a string, largest number
	required bool
	deflt    string
	about    string
}

// values are the query parameters of a request, all of them valid.
type values map[string]string

func (v values) str(name string) string { return v[name] }

func (v values) flag(name string) bool { return v[name] == "true" }

func (v values) number(name string) uint64 {
	n, err := strconv.ParseUint(v[name], 10, 63)
	if err != nil {
		return 0 // absent and without a default
	}
	return n
}

// parseQuery reads the query strictly: what is unknown, doubled, or not in its
// one form is refused, all of it in one error.
func parseQuery(u *url.URL, known []param) (values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Malformed, "bad_request", "the query is not well-formed")
	}
	var details []fault.Detail
	bad := func(name, rule, message string) {
		details = append(details, fault.Detail{Field: name, Rule: rule, Message: message})
	}
	out := values{}
	for _, p := range known {
		given, there := q[p.name]
		delete(q, p.name)
		switch {
		case !there && p.required:
			bad(p.name, "required", "is missing")
		case !there:
			out[p.name] = p.deflt
		case len(given) > 1:
			bad(p.name, "duplicate_parameter", "is given twice")
		default:
			if rule, message := p.check(given[0]); rule != "" {
				bad(p.name, rule, message)
			}
			out[p.name] = given[0]
		}
	}
	var unknown []string
	for name := range q {
		unknown = append(unknown, name)
	}
	sort.Strings(unknown)
	for _, name := range unknown[:min(len(unknown), 20)] {
		bad(printable(name), "unknown_parameter", "is not a parameter of this request")
	}
	if len(details) > 0 {
		return nil, badRequest(details)
	}
	return out, nil
}

func (p param) check(v string) (rule, message string) {
	switch {
	case p.kind == paramBool && v != "true" && v != "false":
		return "boolean", "must be true or false"
	case p.kind == paramInt:
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil || strconv.FormatUint(n, 10) != v {
			return "type", "must be a whole number, at least 0"
		}
		if p.max > 0 && n > uint64(p.max) {
			return "maximum", "must be at most " + strconv.Itoa(p.max)
		}
	case p.enum != nil && !slices.Contains(p.enum, v):
		return "enum", "must be one of " + strings.Join(p.enum, ", ")
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "pattern", "must be text without control characters"
	case p.max > 0 && utf8.RuneCountInString(v) > p.max:
		return "max_length", "must not be longer than " + strconv.Itoa(p.max) + " characters"
	}
	return "", ""
}

// document describes the parameter.
func (p param) document() *huma.Param {
	s := &huma.Schema{Type: "string"}
	switch p.kind {
	case paramBool:
		s.Type = "boolean"
	case paramInt:
		s.Type = "integer"
		zero := 0.0
		s.Minimum = &zero
		if p.max > 0 {
			most := float64(p.max)
			s.Maximum = &most
		}
	case paramString:
		if p.max > 0 {
			most := p.max
			s.MaxLength = &most
		}
		for _, e := range p.enum {
			s.Enum = append(s.Enum, e)
		}
		if len(p.enum) == 0 {
			s.Pattern = `^[^\x00-\x1F\x7F]*$` // as check has it: no control characters
		}
	}
	return &huma.Param{Name: p.name, In: "query", Description: p.about, Required: p.required, Schema: s}
}

// printable makes a name of the client's fit for an error message.
func printable(name string) string {
	const most = 64
	q := strconv.QuoteToASCII(name)
	q = q[1 : len(q)-1]
	return q[:min(len(q), most)]
}

// inQuery turns the fault of a document into one of the parameters it came from.
func inQuery(err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Code == "validation_failed" && len(f.Details) > 0 {
		return badRequest(f.Details)
	}
	return err
}

// checkPath refuses ids that cannot be anybody's, so that they are not quoted,
// and session keys that are none.
func checkPath(params gin.Params) error {
	for _, p := range params {
		odd := func(r rune) bool { return r <= ' ' || r > '~' }
		switch p.Key {
		case "session_key":
			if _, err := contracts.ParseSessionToken(p.Value); err != nil {
				return err //nolint:wrapcheck // a fault for the client
			}
			continue
		case "moderator_id": // somebody else's id: any text
			if rule, _ := (param{max: 200}).check(p.Value); rule == "" && p.Value != "" {
				continue
			}
		}
		if p.Value == "" || len(p.Value) > 200 || strings.ContainsFunc(p.Value, odd) {
			return fault.New(fault.NotFound, "not_found", "there is nothing with that id")
		}
	}
	return nil
}

// enumOf lists the values of an enumeration of contracts.
func enumOf[E interface{ Values() []string }]() []string {
	var e E
	return e.Values()
}

func paging() []param {
	return []param{
		{name: "limit", kind: paramInt, max: 1000, deflt: "200", about: "How many at most; 0 is all."},
		{name: "offset", kind: paramInt, max: 1 << 30, about: "How many to leave out at the start."},
	}
}
