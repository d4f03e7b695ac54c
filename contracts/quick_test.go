package contracts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// strictInto is the strict decoder alone; ok says that it found nothing wrong.
func strictInto(t reflect.Type, data []byte, mode Mode) (v reflect.Value, ok bool) {
	v = reflect.New(t).Elem()
	n, err := parseJSON(data)
	if err != nil {
		return v, false
	}
	d := decoder{mode: mode}
	d.value(v, n, "", rules{})
	return v, len(d.details) == 0
}

// compare checks quick against the strict decoder and says whether quick read it.
func compare(t interface{ Fatalf(string, ...any) }, typ reflect.Type, data []byte, mode Mode) bool {
	v := reflect.New(typ).Elem()
	if !decodeQuick(data, v, mode) {
		return false
	}
	want, ok := strictInto(typ, data, mode)
	if !ok {
		t.Fatalf("R-CON-08 mode %d, %s: read the quick way, and the strict decoder refuses it:\n%s", mode, typ, data)
	}
	if !reflect.DeepEqual(v.Interface(), want.Interface()) {
		t.Fatalf("mode %d, %s: the two decoders differ (-strict +quick):\n%s\n%s", mode, typ, cmp.Diff(want.Interface(), v.Interface()), data)
	}
	return true
}

// document draws JSON that is nearly a document of a type: most is right, and
// anything may be wrong, odd or spelt in another way.
func document(t *rapid.T, typ reflect.Type, r rules, depth int) string {
	odd := func(of int) bool { return rapid.IntRange(0, of).Draw(t, "odd") == 0 }
	if odd(60) {
		return rapid.SampledFrom([]string{"null", "{}", "[]", `""`, "0", "-0", "20.0", "2e1", "01", "1.", "99999999999999999999", "tru", `"\ud800"`, `"é\n"`, "\"\x01\"", "\"\xff\"", `[null]`, `{"a":null}`, ""}).Draw(t, "wrong")
	}
	sp := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r"}).Draw(t, "space")
	if typ == timeType {
		return rapid.SampledFrom([]string{`"2026-01-31T09:30:00Z"`, `"2026-01-31T09:30:00.123456Z"`, `"2026-01-31T09:30:00+00:00"`, `"2026-02-30T09:30:00Z"`, `"soon"`}).Draw(t, "time")
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return document(t, typ.Elem(), r, depth)
	case reflect.Struct:
		var parts []string
		for _, f := range fieldsOf(typ).ordered {
			if (f.rules.optional || f.rules.hasDefault) && (depth > 3 || odd(1)) || odd(40) {
				continue
			}
			name, _ := json.Marshal(f.name)
			if odd(80) {
				name = []byte(fmt.Sprintf(`"\u%04x%s"`, f.name[0], f.name[1:]))
			}
			part := sp + string(name) + sp + ":" + sp + document(t, typ.FieldByIndex(f.index).Type, f.rules, depth+1)
			parts = append(parts, part)
			if odd(200) {
				parts = append(parts, part)
			}
		}
		if odd(100) {
			parts = append(parts, `"unknown":1`)
		}
		if odd(20) {
			slices.Reverse(parts)
		}
		return "{" + strings.Join(parts, ",") + sp + "}"
	case reflect.Slice:
		var items []string
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			items = append(items, document(t, typ.Elem(), rules{}, depth+1))
		}
		return "[" + strings.Join(items, sp+",") + sp + "]"
	case reflect.Map:
		var items []string
		for i := range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, fmt.Sprintf(`"k%d":%s`, i*rapid.IntRange(0, 2).Draw(t, "key"), document(t, typ.Elem(), rules{}, depth+1)))
		}
		return "{" + strings.Join(items, ",") + "}"
	case reflect.String:
		texts := []string{"a", "a-b", "Q", "x\ny\"\\", "\u2028", "0123456789abcdef", strings.Repeat("long ", 60), "d9428888-122b-11e1-b85c-61cd3cbb3210", "D9428888-122B-11E1-B85C-61CD3CBB3210"}
		for range 6 {
			switch e, isEnum := reflect.Zero(typ).Interface().(Enum); {
			case r.enum != nil:
				texts = append(texts, r.enum...)
			case isEnum:
				texts = append(texts, e.Values()...)
			case typ == reflect.TypeFor[UUID]():
				texts = append(texts, "d9428888-122b-11e1-b85c-61cd3cbb3210")
			}
		}
		b, _ := json.Marshal(rapid.SampledFrom(texts).Draw(t, "text"))
		return string(b)
	case reflect.Bool:
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
	case reflect.Float64:
		return rapid.SampledFrom([]string{"0", "0.5", "1", "-3.25e-2", "20"}).Draw(t, "float")
	default:
		return rapid.SampledFrom([]string{"1", "2", "10", "20", "0", "-5", "100"}).Draw(t, "int")
	}
}

// R-CON-07, R-CON-08: the quick way accepts nothing that the strict one refuses.
func TestTheQuickWayReadsWhatTheStrictOneReads(t *testing.T) {
	types := Published()
	names := slices.Sorted(maps.Keys(types))
	quickly := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "type")
		mode := rapid.SampledFrom([]Mode{Stored, Client, Peer}).Draw(t, "mode")
		if compare(t, types[name], []byte(document(t, types[name], rules{}, 0)), mode) {
			quickly[name]++
		}
	})
	if len(quickly) == 0 {
		t.Error("no document at all was read the quick way")
	}
}

// What we write ourselves takes the quick way: otherwise a start is slow, and
// nothing else would tell.
func TestOurOwnDocumentsAreReadTheQuickWay(t *testing.T) {
	for file, typ := range map[string]reflect.Type{
		"job_request.json": reflect.TypeFor[PromptLabJobRequest](), "job_result.json": reflect.TypeFor[PromptLabJobResult](), "task_message.json": reflect.TypeFor[TaskMessage](),
	} {
		b, err := os.ReadFile("golden/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, b, "", "  "); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{b, indented.Bytes()} {
			if !compare(t, typ, data, Stored) {
				t.Errorf("%s was not read the quick way:\n%s", file, data)
			}
		}
	}
}

func FuzzQuick(f *testing.F) {
	types := Published()
	names := slices.Sorted(maps.Keys(types))
	for i, name := range names {
		b, err := json.Marshal(reflect.New(types[name]).Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, b)
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		name := names[uint(which)%uint(len(names))]
		for _, mode := range []Mode{Stored, Client, Peer} {
			compare(t, types[name], data, mode)
		}
	})
}
