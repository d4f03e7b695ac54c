package contracts

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// token reads a string and gives what is between its quotes; plain says that
// nothing of it is escaped.
func (q *quick) token() (inside []byte, plain, ok bool) {
	if q.at >= len(q.data) || q.data[q.at] != '"' {
		return nil, false, false
	}
	plain = true
	for i := q.at + 1; i < len(q.data); i++ {
		switch c := q.data[i]; {
		case c == '"':
			inside = q.data[q.at+1 : i]
			q.at = i + 1
			return inside, plain, true
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return nil, false, false
		}
	}
	return nil, false, false
}

func (q *quick) str(v reflect.Value, p *plan, r *rules) bool {
	from := q.at
	b, plain, ok := q.token()
	if !ok {
		return false
	}
	enum := p.enum
	if r.enum != nil {
		enum = r.enum
	}
	if enum != nil { // the value of the list costs no memory
		i := slices.IndexFunc(enum, func(s string) bool { return s == string(b) })
		if !plain || i < 0 || !fits(enum[i], r) {
			return false
		}
		v.SetString(enum[i])
		return true
	}
	var s string
	if plain {
		s = string(b)
	} else if json.Unmarshal(q.data[from:q.at], &s) != nil {
		return false
	}
	switch p.special {
	case isUUID:
		ok = plainUUID(s)
	case isOverlayID:
		ok = plainOverlayID(s)
	}
	if !ok || !fits(s, r) {
		return false
	}
	v.SetString(s)
	return true
}

// fits applies a field's rules for strings.
func fits(s string, r *rules) bool {
	if r.minLength != nil || r.maxLength != nil {
		n := utf8.RuneCountInString(s)
		if r.minLength != nil && n < *r.minLength || r.maxLength != nil && n > *r.maxLength {
			return false
		}
	}
	return r.pattern == nil || r.pattern.MatchString(s)
}

// plainOverlayID is overlayIDPattern without a machine.
func plainOverlayID(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// plainUUID finds UUIDs in the form in which they are stored.
func plainUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c < '0' || c > '9' && c < 'a' || c > 'f':
			return false
		}
	}
	return true
}

func (q *quick) time(v reflect.Value) bool {
	b, plain, ok := q.token()
	if !ok || !plain {
		return false
	}
	t, err := ParseTime(string(b))
	if err != nil {
		return false
	}
	*v.Addr().Interface().(*Time) = t //nolint:forcetypeassert // isTime
	return true
}

// number reads a number in JSON's form.
func (q *quick) number() (text string, whole, ok bool) {
	from, whole := q.at, true
	for ; q.at < len(q.data); q.at++ {
		switch c := q.data[q.at]; {
		case c >= '0' && c <= '9', c == '-' && q.at == from:
		case c == '.', c == 'e', c == 'E', c == '+', c == '-':
			whole = false
		default:
			return string(q.data[from:q.at]), whole, json.Valid(q.data[from:q.at])
		}
	}
	return string(q.data[from:q.at]), whole, json.Valid(q.data[from:q.at])
}

func (q *quick) integer(v reflect.Value, r *rules) bool {
	text, whole, ok := q.number()
	if !ok || !whole {
		return false
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !within(float64(i), r) {
		return false
	}
	if v.CanUint() {
		v.SetUint(uint64(i)) //nolint:gosec // checked here
		return i >= 0
	}
	v.SetInt(i)
	return true
}

func (q *quick) float(v reflect.Value, r *rules) bool {
	text, _, ok := q.number()
	if !ok {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !within(f, r) {
		return false
	}
	v.SetFloat(f)
	return true
}

func within(f float64, r *rules) bool {
	return (r.minimum == nil || f >= *r.minimum) && (r.maximum == nil || f <= *r.maximum)
}
