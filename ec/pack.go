package ec

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"time"

	"github.com/elnor/promptlab/contracts"
)

// pack appends a value of ours in as few bytes as is easy: fields in order
// without their names, numbers and lengths as varints, UUIDs and hashes as bytes.
// unpack reads what the same build of the program has packed.
func pack[T any](b []byte, v *T) []byte { return packValue(b, reflect.ValueOf(v).Elem()) }

// unpack reads what pack appended and gives the rest. Empty lists are nil. It
// panics when b was not packed, and takes no more memory than in proportion to b.
func unpack[T any](b []byte, v *T) []byte { return unpackValue(b, reflect.ValueOf(v).Elem()) }

func packValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*contracts.Time); ok {
			return binary.AppendVarint(b, t.UnixMilli())
		}
		for i := range v.NumField() {
			b = packValue(b, v.Field(i))
		}
		return b
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len())) //nolint:gosec // a length
		for i := range v.Len() {
			b = packValue(b, v.Index(i))
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return packValue(append(b, 1), v.Elem())
	case reflect.String:
		return packText(b, v.String())
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	default:
		panic(fmt.Sprintf("ec: no rule to pack %s", v.Type())) // our own types only
	}
}

func unpackValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*contracts.Time); ok {
			ms, rest := unpackInt(b)
			*t = contracts.At(time.UnixMilli(ms))
			return rest
		}
		for i := range v.NumField() {
			b = unpackValue(b, v.Field(i))
		}
		return b
	case reflect.Slice:
		n, b := unpackUint(b)
		if n == 0 {
			return b
		}
		if n > uint64(len(b)) {
			panic("ec: a list that is longer than what it is read from")
		}
		v.Set(reflect.MakeSlice(v.Type(), int(n), int(n))) //nolint:gosec // a length that pack wrote
		for i := range v.Len() {
			b = unpackValue(b, v.Index(i))
		}
		return b
	case reflect.Pointer:
		if b[0] == 0 {
			return b[1:]
		}
		v.Set(reflect.New(v.Type().Elem()))
		return unpackValue(b[1:], v.Elem())
	case reflect.String:
		s, rest := unpackText(b)
		v.SetString(s)
		return rest
	case reflect.Bool:
		v.SetBool(b[0] == 1)
		return b[1:]
	case reflect.Int:
		i, rest := unpackInt(b)
		v.SetInt(i)
		return rest
	case reflect.Uint64:
		i, rest := unpackUint(b)
		v.SetUint(i)
		return rest
	default:
		panic(fmt.Sprintf("ec: no rule to unpack %s", v.Type())) // our own types only
	}
}

func unpackUint(b []byte) (uint64, []byte) {
	n, used := binary.Uvarint(b)
	if used <= 0 {
		panic("ec: a number that does not end")
	}
	return n, b[used:]
}

func unpackInt(b []byte) (int64, []byte) {
	n, used := binary.Varint(b)
	if used <= 0 {
		panic("ec: a number that does not end")
	}
	return n, b[used:]
}

// The forms of a text, in the two low bits before its length.
const (
	asText = iota // 0
	asHash        // 64 hex digits
	asUUID
)

func packText(b []byte, s string) []byte {
	var raw [32]byte
	switch {
	case len(s) == 64 && unhex(raw[:], s):
		return append(append(b, asHash), raw[:]...)
	case len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' && unhex(raw[:16], s):
		return append(append(b, asUUID), raw[:16]...)
	}
	b = binary.AppendUvarint(b, uint64(len(s))<<2) // the two low bits: asText
	return append(b, s...)
}

// unhex decodes lower-case hex digits that fill to exactly; hyphens are skipped.
func unhex[T string | []byte](to []byte, s T) bool {
	n := 0
	for i := range len(s) {
		var digit byte
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digit = c - '0'
		case c >= 'a' && c <= 'f':
			digit = c - 'a' + 10
		case c == '-':
			continue
		default:
			return false
		}
		if n == 2*len(to) {
			return false
		}
		to[n/2] = to[n/2]<<4 | digit
		n++
	}
	return n == 2*len(to)
}

func unpackText(b []byte) (string, []byte) {
	switch b[0] {
	case asHash:
		return hex.EncodeToString(b[1:33]), b[33:]
	case asUUID:
		var out [36]byte
		hex.Encode(out[:], b[1:5])
		hex.Encode(out[9:], b[5:7])
		hex.Encode(out[14:], b[7:9])
		hex.Encode(out[19:], b[9:11])
		hex.Encode(out[24:], b[11:17])
		out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
		return string(out[:]), b[17:]
	}
	head, b := unpackUint(b)
	return string(b[:head>>2]), b[head>>2:]
}
