package contracts

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/elnor/promptlab/internal/fault"
)

// Mode says whose document is decoded.
type Mode int

// The modes.
const (
	Stored Mode = iota // our own files: everything required, unknown fields refused
	Client             // the public API: unknown fields refused, server-owned fields may be left out
	Peer               // workers and seams: unknown fields ignored, so that versions may differ
)

// Decode reads one JSON document of type T: defaults applied, bounds checked,
// null and duplicate keys refused. Not JSON gives a malformed fault; otherwise
// all wrong fields are named in one validation fault, and no value is returned.
func Decode[T any](data []byte, mode Mode) (T, error) {
	var out T
	if decodeQuick(data, reflect.ValueOf(&out).Elem(), mode) {
		return out, nil
	}
	return decodeStrict[T](data, mode)
}

// decodeStrict says everything that is wrong with a document.
func decodeStrict[T any](data []byte, mode Mode) (T, error) {
	var zero, out T
	n, err := parseJSON(data)
	if err != nil {
		return zero, err
	}
	d := decoder{mode: mode}
	d.value(reflect.ValueOf(&out).Elem(), n, "", rules{})
	if len(d.details) > 0 {
		return zero, fault.Validation(d.details)
	}
	return out, nil
}

// Check validates a value that did not come from JSON (from YAML, from code):
// it encodes and decodes it, which applies every rule there is.
func Check[T any](v T, mode Mode) (T, error) {
	b, err := json.Marshal(v)
	if err != nil {
		var zero T
		return zero, fmt.Errorf("encode for check: %w", err)
	}
	return Decode[T](b, mode)
}

type decoder struct {
	mode    Mode
	details []fault.Detail
}

func (d *decoder) fail(path, rule, format string, args ...any) {
	const most = 100
	if len(d.details) < most {
		if path == "" {
			path = "body"
		}
		d.details = append(d.details, fault.Detail{Field: path, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

var (
	timeType = reflect.TypeFor[Time]()
	pairType = reflect.TypeFor[OverlayPair]()
)

func (d *decoder) value(v reflect.Value, n node, path string, r rules) {
	if v.Type() == timeType {
		d.time(v, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(p.Elem(), n, path, r)
		v.Set(p)
	case reflect.Struct:
		if !n.isObj {
			d.wrongType(path, "an object", n)
			return
		}
		d.object(v, n, path)
	case reflect.Slice:
		d.list(v, n, path, r)
	case reflect.Map:
		d.mapping(v, n, path)
	case reflect.Interface:
		v.Set(reflect.ValueOf(&[]any{n.plain()}[0]).Elem())
	case reflect.String:
		d.str(v, n, path, r)
	case reflect.Bool:
		b, ok := n.value.(bool)
		if !ok {
			d.wrongType(path, "true or false", n)
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		d.integer(v, n, path, r)
	case reflect.Float64:
		d.number(v, n, path, r)
	default:
		panic("contracts: no rule for " + v.Type().String()) // a type of ours that the decoder does not know
	}
}

func (d *decoder) wrongType(path, want string, n node) {
	d.fail(path, "type", "must be %s, not %s", want, n.kind())
}

func (d *decoder) object(v reflect.Value, n node, path string) {
	fields := fieldsOf(v.Type())
	seen := make(map[string]bool, len(n.object))
	for _, m := range n.object {
		f, known := fields.byName[m.name]
		switch {
		case seen[m.name]:
			d.fail(join(path, m.name), "duplicate_key", "is given twice")
		case !known && d.mode != Peer:
			d.fail(join(path, printable(m.name)), "unknown_key", "is not a field of this document")
		case known && m.value.kind() == "null":
			d.fail(join(path, m.name), "null", "must not be null; leave the field out instead")
		case known:
			d.value(v.FieldByIndex(f.index), m.value, join(path, m.name), f.rules)
		}
		seen[m.name] = true
	}
	for _, f := range fields.ordered {
		if !seen[f.name] {
			d.absent(v.FieldByIndex(f.index), join(path, f.name), f)
		}
	}
}

func (d *decoder) absent(v reflect.Value, path string, f field) {
	switch {
	case f.rules.clientDefault != "" && d.mode == Client:
		v.SetString(f.rules.clientDefault)
	case f.rules.hasDefault:
		n, err := parseJSON([]byte(f.rules.defaultJSON))
		if err != nil {
			panic("contracts: default of " + f.name + ": " + err.Error())
		}
		d.value(v, n, path, f.rules)
	case f.rules.optional, f.rules.server && d.mode == Client:
	default:
		d.fail(path, "required", "is missing")
	}
}

func (d *decoder) list(v reflect.Value, n node, path string, r rules) {
	if !n.isArray {
		d.wrongType(path, "a list", n)
		return
	}
	if r.minItems != nil && len(n.array) < *r.minItems {
		d.fail(path, "min_items", "needs at least %d entries", *r.minItems)
	}
	if r.maxItems != nil && len(n.array) > *r.maxItems {
		d.fail(path, "max_items", "takes at most %d entries", *r.maxItems)
		return
	}
	if v.Type() == pairType && len(n.array) != 2 {
		d.fail(path, "pair", "must have exactly two entries")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.array), len(n.array))
	for i, e := range n.array {
		at := fmt.Sprintf("%s[%d]", path, i)
		if e.kind() == "null" {
			d.fail(at, "null", "must not be null")
			continue
		}
		d.value(out.Index(i), e, at, rules{maxLength: r.itemMaxLength})
	}
	v.Set(out)
}

func (d *decoder) mapping(v reflect.Value, n node, path string) {
	if !n.isObj {
		d.wrongType(path, "an object", n)
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.object))
	for _, m := range n.object {
		key := reflect.ValueOf(m.name)
		if out.MapIndex(key).IsValid() {
			d.fail(join(path, printable(m.name)), "duplicate_key", "is given twice")
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		switch {
		case m.value.kind() != "null":
			d.value(e, m.value, join(path, printable(m.name)), rules{})
		case e.Kind() != reflect.Interface: // free-form values may be null
			d.fail(join(path, printable(m.name)), "null", "must not be null; leave the field out instead")
		}
		out.SetMapIndex(key, e)
	}
	v.Set(out)
}

func (d *decoder) time(v reflect.Value, n node, path string) {
	s, ok := n.value.(string)
	if !ok {
		d.wrongType(path, "a time", n)
		return
	}
	t, err := ParseTime(s)
	if err != nil {
		d.fail(path, "datetime", "must be a UTC time such as 2026-01-31T09:30:00Z")
		return
	}
	v.Set(reflect.ValueOf(t))
}

func (d *decoder) str(v reflect.Value, n node, path string, r rules) {
	s, ok := n.value.(string)
	if !ok {
		d.wrongType(path, "a string", n)
		return
	}
	if v.Type() == reflect.TypeFor[UUID]() {
		if !uuidPattern.MatchString(s) {
			d.fail(path, "uuid", "must be a UUID")
			return
		}
		s = strings.ToLower(s)
	}
	if e, ok := v.Interface().(Enum); ok && r.enum == nil { // a tag may allow fewer values than the type has
		r.enum = e.Values()
	}
	length := utf8.RuneCountInString(s)
	switch {
	case r.enum != nil && !slices.Contains(r.enum, s):
		d.fail(path, "enum", "must be one of %s", strings.Join(r.enum, ", "))
	case r.minLength != nil && length < *r.minLength:
		d.fail(path, "min_length", "must not be shorter than %d", *r.minLength)
	case r.maxLength != nil && length > *r.maxLength:
		d.fail(path, "max_length", "must not be longer than %d characters", *r.maxLength)
	case r.pattern != nil && !r.pattern.MatchString(s):
		d.fail(path, "pattern", "must match %s", r.pattern.String())
	case v.Type() == reflect.TypeFor[OverlayID]() && !overlayIDPattern.MatchString(s):
		d.fail(path, "invalid_id", "must be 1 to 64 characters a-z, 0-9 and hyphen")
	default:
		v.SetString(s)
	}
}

func (d *decoder) integer(v reflect.Value, n node, path string, r rules) {
	num, ok := n.value.(json.Number)
	if !ok {
		d.wrongType(path, "a whole number", n)
		return
	}
	i, err := strconv.ParseInt(num.String(), 10, 64)
	if err != nil { // 20.0 and 2e1 are whole numbers too
		f, ferr := num.Float64()
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			d.fail(path, "type", "must be a whole number")
			return
		}
		i = int64(f)
	}
	if !d.bounds(float64(i), path, r) {
		return
	}
	if v.CanUint() {
		if i < 0 {
			d.fail(path, "minimum", "must be at least 0")
			return
		}
		v.SetUint(uint64(i))
		return
	}
	v.SetInt(i)
}

func (d *decoder) number(v reflect.Value, n node, path string, r rules) {
	num, ok := n.value.(json.Number)
	if !ok {
		d.wrongType(path, "a number", n)
		return
	}
	f, err := num.Float64()
	if err != nil || math.IsInf(f, 0) {
		d.fail(path, "type", "is not a number we can hold")
		return
	}
	if d.bounds(f, path, r) {
		v.SetFloat(f)
	}
}

func (d *decoder) bounds(f float64, path string, r rules) bool {
	if r.minimum != nil && f < *r.minimum {
		d.fail(path, "minimum", "must be at least %s", trim(*r.minimum))
		return false
	}
	if r.maximum != nil && f > *r.maximum {
		d.fail(path, "maximum", "must be at most %s", trim(*r.maximum))
		return false
	}
	return true
}

func trim(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// printable makes a field name of somebody else's fit for an error message.
func printable(name string) string {
	const most = 64
	q := strconv.QuoteToASCII(name)
	q = q[1 : len(q)-1]
	if len(q) > most {
		q = q[:most] + "..."
	}
	return q
}
