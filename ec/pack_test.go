package ec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elnor/promptlab/contracts"
)

// anything fills a value with what its type can hold.
func anything(t *rapid.T, v reflect.Value) {
	if at, ok := v.Addr().Interface().(*contracts.Time); ok {
		*at = contracts.At(time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "time")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			anything(t, v.Field(i))
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 4).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			anything(t, v.Index(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			anything(t, v.Elem())
		}
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-f]{64}`), rapid.StringMatching(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9a-fA-F-]{36}`), rapid.StringMatching(`[0-9a-f-]{64}`)).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	default:
		t.Fatalf("a session holds a %s now, which pack does not know", v.Type())
	}
}

// R-SES-01: a session that sleeps in memory wakes up as it was, in every field
// that there is.
func TestWhatIsPackedComesBackWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := Session{file: "f"}
		anything(t, reflect.ValueOf(&x.OverlaySessionState).Elem())
		anything(t, reflect.ValueOf(&x.Kept).Elem())
		held := x.storePacked()
		back, _ := recalledSession(recalledDoc{"sessions/f.json", held.packed})
		if d := cmp.Diff(foundSession{held, x.subjects()}, back, cmp.AllowUnexported(foundSession{}, stored{}), cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(stored{}, "whole")); d != "" {
			t.Fatalf("recalled of a session (-as stored +got):\n%s", d)
		}
		got := back.held.session()
		if d := cmp.Diff(x.OverlaySessionState, got.OverlaySessionState, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("packed and unpacked a session's state (-want +got):\n%s", d)
		}
		if d := cmp.Diff(x.Kept, got.Kept, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("packed and unpacked what is kept of a session (-want +got):\n%s", d)
		}
		if got.file != x.file || got.memo == nil {
			t.Fatalf("unpacked: file %q, memo %v", got.file, got.memo)
		}
	})
}

// Whoever asks first unpacks for everybody: two answers would have two packets.
func TestAPackedSessionIsUnpackedOnce(t *testing.T) {
	held := (&Session{file: "f"}).storePacked()
	got := make(chan *Session, 8)
	for range cap(got) {
		go func() { got <- held.session() }()
	}
	first := <-got
	for range cap(got) - 1 {
		if x := <-got; x != first {
			t.Error("two readers got two different sessions")
		}
	}
}

// What was kept by a release with other fields, or other rules for them, is not
// taken for ours.
func TestTheRecallFormatFollowsTheTypes(t *testing.T) {
	type inner struct {
		At contracts.Time `json:"at"`
	}
	of := func(v any) string {
		var b strings.Builder
		madeOf(&b, reflect.TypeOf(v))
		return b.String()
	}
	seen := map[string]bool{}
	all := []any{
		struct{ A string }{}, struct{ B string }{}, struct{ A int }{}, struct{ A *string }{}, struct{ A []string }{},
		struct{ A, B string }{}, struct{ B, A string }{}, struct {
			A string `maxLength:"3"`
		}{}, struct{ A []inner }{}, struct{ A inner }{},
	}
	for _, v := range all {
		seen[of(v)] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d types have %d descriptions", len(all), len(seen))
	}
	if a, b := RecallFormat("x"), RecallFormat("x"); a != b || len(a) != 64 {
		t.Errorf("the format is %q, then %q", a, b)
	}
	if RecallFormat("x") == RecallFormat("y") {
		t.Error("two builds have one format: what one has checked the other might refuse")
	}
}
