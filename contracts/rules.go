package contracts

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

var (
	uuidPattern      = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\z`)
	overlayIDPattern = regexp.MustCompile(`^[a-z0-9-]{1,64}\z`)
)

// rules are a field's tags, read once.
type rules struct {
	optional, server     bool
	hasDefault           bool
	defaultJSON          string
	clientDefault        string
	minimum, maximum     *float64
	minLength, maxLength *int
	minItems, maxItems   *int
	itemMaxLength        *int // of each string of a list
	pattern              *regexp.Regexp
	patternText          string
	format               string
	enum                 []string
}

type field struct {
	name  string
	index []int
	rules rules
}

type fieldSet struct {
	ordered []field
	byName  map[string]field
}

var fieldCache sync.Map // reflect.Type -> fieldSet

func fieldsOf(t reflect.Type) fieldSet {
	if c, ok := fieldCache.Load(t); ok {
		return c.(fieldSet) //nolint:forcetypeassert // only fieldSets are stored
	}
	set := fieldSet{byName: map[string]field{}}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous && sf.Tag.Get("json") == "" && sf.Type.Kind() == reflect.Struct { // its fields are ours, as in encoding/json
			for _, f := range fieldsOf(sf.Type).ordered {
				f.index = append([]int{i}, f.index...)
				set.ordered = append(set.ordered, f)
				set.byName[f.name] = f
			}
			continue
		}
		name, opts, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		f := field{name: name, index: []int{i}, rules: rulesOf(sf, opts)}
		set.ordered = append(set.ordered, f)
		set.byName[name] = f
	}
	fieldCache.Store(t, set)
	return set
}

func rulesOf(sf reflect.StructField, opts string) rules {
	r := rules{
		optional:      strings.Contains(opts, "omitempty"),
		server:        sf.Tag.Get("server") == "true" || sf.Tag.Get("client") != "",
		clientDefault: sf.Tag.Get("client"),
		format:        sf.Tag.Get("format"),
		patternText:   sf.Tag.Get("pattern"),
		minimum:       floatTag(sf, "minimum"),
		maximum:       floatTag(sf, "maximum"),
		minLength:     intTag(sf, "minLength"),
		maxLength:     intTag(sf, "maxLength"),
		minItems:      intTag(sf, "minItems"),
		maxItems:      intTag(sf, "maxItems"),
		itemMaxLength: intTag(sf, "itemMaxLength"),
	}
	if e := sf.Tag.Get("enum"); e != "" {
		r.enum = strings.Split(e, ",")
	}
	if r.patternText != "" {
		// $ alone would let a trailing newline through in some dialects; \z does not
		r.pattern = regexp.MustCompile(strings.TrimSuffix(r.patternText, "$") + `\z`)
	}
	if def, ok := sf.Tag.Lookup("default"); ok {
		r.hasDefault = true
		r.defaultJSON = def
		if kindOf(sf.Type) == reflect.String {
			b, _ := json.Marshal(def) //nolint:errchkjson // a string
			r.defaultJSON = string(b)
		}
	}
	return r
}

func kindOf(t reflect.Type) reflect.Kind {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind()
}

func floatTag(sf reflect.StructField, name string) *float64 {
	s := sf.Tag.Get(name)
	if s == "" {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic("contracts: tag " + name + " of " + sf.Name + ": " + err.Error())
	}
	return &f
}

func intTag(sf reflect.StructField, name string) *int {
	f := floatTag(sf, name)
	if f == nil {
		return nil
	}
	i := int(*f)
	return &i
}
