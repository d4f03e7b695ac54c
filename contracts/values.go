package contracts

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// List is a slice that always serialises as a JSON array, never as null.
type List[T any] []T

// MarshalJSON writes [] for a nil list.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Map is a map that always serialises as a JSON object, never as null.
type Map[V any] map[string]V

// MarshalJSON writes {} for a nil map.
func (m Map[V]) MarshalJSON() ([]byte, error) {
	if len(m) == 0 {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]V(m))
}

// Time is an instant in UTC, written as RFC 3339 with the Z suffix and
// millisecond precision. Input with a numeric offset is refused.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// At makes a Time of t, in UTC and cut to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// ParseTime reads the UTC form; anything else is an error.
func ParseTime(s string) (Time, error) {
	if !strings.HasSuffix(s, "Z") {
		return Time{}, fmt.Errorf("time %q does not end in Z", s)
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return Time{}, fmt.Errorf("parse time: %w", err)
	}
	return At(t), nil
}

// String gives the wire form.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes the wire form.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads the wire form.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("time: %w", err)
	}
	v, err := ParseTime(s)
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// UUID is an RFC 9562 identifier in canonical lower-case form.
type UUID string

// OverlayID names an overlay: a slug of 1 to 64 characters a-z, 0-9 and hyphen.
type OverlayID string

// NanoUSD is money in billionths of a US dollar.
type NanoUSD int64

// USD gives the amount in dollars.
func (n NanoUSD) USD() float64 { return float64(n) / 1e9 }

// FromUSD rounds dollars to NanoUSD.
func FromUSD(usd float64) NanoUSD { return NanoUSD(usd*1e9 + 0.5) }

// Clip cuts a text to so many characters.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:min(len(r), most)])
}
