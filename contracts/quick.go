package contracts

import (
	"reflect"
	"strconv"
	"sync"
	"unicode/utf8"
)

// quick reads a document in one pass, straight into its value, as long as
// nothing is wrong with it. At the first thing that is wrong, or that it does not
// know, it gives up, and the strict decoder says what it is. It accepts nothing
// that the strict decoder refuses, and then gives the same value.
type quick struct {
	data []byte
	at   int
	mode Mode
}

// decodeQuick decodes data into v; false means: not done, and v is spoilt.
func decodeQuick(data []byte, v reflect.Value, mode Mode) bool {
	if !utf8.Valid(data) {
		return false
	}
	q := quick{data: data, mode: mode}
	if !q.value(v, planOf(v.Type()), &rules{}) {
		return false
	}
	q.space()
	return q.at == len(data)
}

// plan is what quick knows of a type, looked up once.
type plan struct {
	kind    reflect.Kind
	special special
	enum    []string
	elem    *plan // of a pointer, list or map
	fields  []quickField
	byName  map[string]int
}

type special int

const (
	ordinary special = iota
	isTime
	isUUID
	isOverlayID
	isPair
)

type quickField struct {
	field
	quoted string // the name in quotes
	plan   *plan
}

var planCache sync.Map // reflect.Type -> *plan

func planOf(t reflect.Type) *plan {
	if c, ok := planCache.Load(t); ok {
		return c.(*plan) //nolint:forcetypeassert // only plans are stored
	}
	p := &plan{kind: t.Kind()}
	switch t {
	case timeType:
		p.special = isTime
	case pairType:
		p.special = isPair
	case reflect.TypeFor[UUID]():
		p.special = isUUID
	case reflect.TypeFor[OverlayID]():
		p.special = isOverlayID
	}
	if e, ok := reflect.Zero(t).Interface().(Enum); ok && p.kind == reflect.String {
		p.enum = e.Values()
	}
	switch {
	case p.special == isTime:
	case p.kind == reflect.Pointer, p.kind == reflect.Slice, p.kind == reflect.Map:
		p.elem = planOf(t.Elem())
	case p.kind == reflect.Struct:
		p.byName = map[string]int{}
		for i, f := range fieldsOf(t).ordered {
			p.fields = append(p.fields, quickField{f, strconv.Quote(f.name), planOf(t.FieldByIndex(f.index).Type)})
			p.byName[f.name] = i
		}
	}
	planCache.Store(t, p)
	return p
}

func (q *quick) space() {
	for q.at < len(q.data) {
		switch q.data[q.at] {
		case ' ', '\n', '\t', '\r':
			q.at++
		default:
			return
		}
	}
}

// next skips white space and then c, if it is there.
func (q *quick) next(c byte) bool {
	q.space()
	if q.at < len(q.data) && q.data[q.at] == c {
		q.at++
		return true
	}
	return false
}

// word skips a word that must stand here.
func (q *quick) word(w string) bool {
	if len(q.data)-q.at >= len(w) && string(q.data[q.at:q.at+len(w)]) == w {
		q.at += len(w)
		return true
	}
	return false
}

func (q *quick) value(v reflect.Value, p *plan, r *rules) bool {
	q.space()
	if p.special == isTime {
		return q.time(v)
	}
	switch p.kind {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		if !q.value(to.Elem(), p.elem, r) {
			return false
		}
		v.Set(to)
		return true
	case reflect.Struct:
		return q.object(v, p)
	case reflect.Slice:
		return q.list(v, p, r)
	case reflect.Map:
		return q.mapping(v, p)
	case reflect.String:
		return q.str(v, p, r)
	case reflect.Bool:
		yes := q.word("true")
		v.SetBool(yes)
		return yes || q.word("false")
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return q.integer(v, r)
	case reflect.Float64:
		return q.float(v, r)
	case reflect.Interface:
		return q.free(v)
	default:
		return false
	}
}

// free reads a value of free form, if it is neither an object nor a list.
func (q *quick) free(v reflect.Value) bool {
	var out any
	switch c := q.data[min(q.at, len(q.data)-1)]; {
	case c == '"':
		var s string
		if !q.str(reflect.ValueOf(&s).Elem(), planOf(reflect.TypeFor[string]()), &rules{}) {
			return false
		}
		out = s
	case c == '-' || c >= '0' && c <= '9':
		var f float64
		if !q.float(reflect.ValueOf(&f).Elem(), &rules{}) {
			return false
		}
		out = f
	case q.word("true"):
		out = true
	case q.word("false"):
		out = false
	default:
		return false
	}
	v.Set(reflect.ValueOf(out))
	return true
}

func (q *quick) object(v reflect.Value, p *plan) bool {
	if !q.next('{') {
		return false
	}
	var seen uint64
	if len(p.fields) > 64 {
		return false
	}
	expect := 0 // our own documents have their fields in order
	for first := true; !q.next('}'); first = false {
		if !first && !q.next(',') {
			return false
		}
		q.space()
		i, ok := q.name(p, expect)
		if !ok || seen&(1<<i) != 0 || !q.next(':') {
			return false
		}
		seen |= 1 << i
		expect = i + 1
		if !q.value(v.FieldByIndex(p.fields[i].index), p.fields[i].plan, &p.fields[i].rules) {
			return false
		}
	}
	for i := range p.fields {
		if seen&(1<<i) == 0 && !q.absent(v, &p.fields[i]) {
			return false
		}
	}
	return true
}

// name reads the name of a field, looking first at the one that is to be
// expected and those behind it.
func (q *quick) name(p *plan, expect int) (int, bool) {
	const ahead = 8
	for i := expect; i < min(expect+ahead, len(p.fields)); i++ {
		if q.word(p.fields[i].quoted) {
			return i, true
		}
	}
	token, plain, ok := q.token()
	if !ok || !plain {
		return 0, false
	}
	i, known := p.byName[string(token)]
	return i, known
}

func (q *quick) absent(v reflect.Value, f *quickField) bool {
	if f.rules.optional && !f.rules.hasDefault && f.rules.clientDefault == "" {
		return true
	}
	d := decoder{mode: q.mode}
	d.absent(v.FieldByIndex(f.index), f.name, f.field)
	return len(d.details) == 0
}

func (q *quick) list(v reflect.Value, p *plan, r *rules) bool {
	if !q.next('[') {
		return false
	}
	t := v.Type()
	if q.next(']') {
		v.Set(reflect.MakeSlice(t, 0, 0))
		return r.minItems == nil || *r.minItems <= 0
	}
	items := rules{maxLength: r.itemMaxLength}
	v.Set(reflect.MakeSlice(t, 0, 4))
	n := 0
	for {
		if n == v.Cap() {
			v.Grow(n)
		}
		v.SetLen(n + 1)
		if !q.value(v.Index(n), p.elem, &items) {
			return false
		}
		n++
		if q.next(']') {
			break
		}
		if !q.next(',') {
			return false
		}
	}
	if r.minItems != nil && n < *r.minItems || r.maxItems != nil && n > *r.maxItems || p.special == isPair && n != 2 {
		return false
	}
	if 2*n <= v.Cap() { // it may be kept for long
		exact := reflect.MakeSlice(t, n, n)
		reflect.Copy(exact, v)
		v.Set(exact)
	}
	return true
}

func (q *quick) mapping(v reflect.Value, p *plan) bool {
	if !q.next('{') {
		return false
	}
	out := reflect.MakeMap(v.Type())
	for first := true; !q.next('}'); first = false {
		if !first && !q.next(',') {
			return false
		}
		q.space()
		token, plain, ok := q.token()
		if !ok || !plain || !q.next(':') {
			return false
		}
		key := reflect.ValueOf(string(token))
		e := reflect.New(v.Type().Elem()).Elem()
		if out.MapIndex(key).IsValid() || !q.value(e, p.elem, &rules{}) {
			return false
		}
		out.SetMapIndex(key, e)
	}
	v.Set(out)
	return true
}
