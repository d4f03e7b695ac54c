package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/elnor/promptlab/internal/fault"
)

// FuzzParseQuery: whatever is taken is in its one form, and whatever is refused
// is refused as malformed without repeating the client's values. R-LIB-02
func FuzzParseQuery(f *testing.F) {
	known := append([]param{
		{name: "query", kind: paramString, max: 20},
		{name: "state", kind: paramString, enum: []string{"a", "b"}},
		{name: "include_archived", kind: paramBool, deflt: "false"},
	}, paging()...)
	for _, s := range []string{"", "query=x", "include_archived=true", "include_archived=TRUE", "limit=10&offset=0", "limit=0x1", "limit=18446744073709551616", "a=1;b=2", "%zz", "query=%00", "state=", "query=a&query=b", "%ff=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := parseQuery(&url.URL{RawQuery: raw}, known)
		if err != nil {
			if fault.Of(err) != fault.Malformed || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Fatalf("query %q: got %q, want a printable malformed fault", raw, err)
			}
			return
		}
		given, perr := url.ParseQuery(raw)
		if perr != nil || len(given) > len(known) {
			t.Fatalf("query %q was taken", raw)
		}
		limit, nerr := strconv.Atoi(v["limit"])
		switch {
		case !slices.Contains([]string{"true", "false"}, v["include_archived"]),
			!slices.Contains([]string{"", "a", "b"}, v["state"]),
			nerr != nil || limit < 0 || limit > 1000,
			utf8.RuneCountInString(v["query"]) > 20:
			t.Fatalf("query %q was taken as %v", raw, v)
		}
	})
}
