package contracts

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/elnor/promptlab/internal/fault"
)

// OverlaySessionKey names a session. Its identity is the workspace, the kind of
// surface and the surface's id; what else a key says follows from these.
type OverlaySessionKey struct {
	WorkspaceID string           `json:"workspace_id" minLength:"1" maxLength:"200"`
	SurfaceKind SupportedSurface `json:"surface_kind" enum:"chat,room,panel,task"`
	SurfaceID   string           `json:"surface_id" minLength:"1" maxLength:"200"`
	ThreadID    string           `json:"thread_id,omitempty" maxLength:"200"`
	RoomID      string           `json:"room_id,omitempty" maxLength:"200"`
	TaskID      string           `json:"task_id,omitempty" maxLength:"200"`
}

// Canonical gives the one spelling of a key: Unicode in NFC, the surface's own
// id field filled from surface_id, the fields of other surfaces left out. A
// chat's thread_id, a room's room_id and a task's task_id must not differ from
// surface_id. The fault's fields lie below path, which may be empty.
func (k OverlaySessionKey) Canonical(path string) (OverlaySessionKey, error) {
	out := OverlaySessionKey{WorkspaceID: norm.NFC.String(k.WorkspaceID), SurfaceKind: k.SurfaceKind, SurfaceID: norm.NFC.String(k.SurfaceID)}
	name, given, own := "", "", (*string)(nil)
	switch k.SurfaceKind {
	case SurfaceChat:
		name, given, own = "thread_id", k.ThreadID, &out.ThreadID
	case SurfaceRoom:
		name, given, own = "room_id", k.RoomID, &out.RoomID
	case SurfaceTask:
		name, given, own = "task_id", k.TaskID, &out.TaskID
	}
	if own != nil {
		*own = out.SurfaceID
		if given = norm.NFC.String(given); given != "" && given != out.SurfaceID {
			return k, fault.Validation([]fault.Detail{{Field: join(path, name), Rule: "surface_mismatch", Message: "must be the same as surface_id, or left out"}})
		}
	}
	if details := out.check(path); details != nil {
		return k, fault.Validation(details)
	}
	return out, nil
}

// check applies the bounds again: NFC may have changed a length, and a key that
// comes from code has not been decoded. It is on the way of every request.
func (k OverlaySessionKey) check(path string) []fault.Detail {
	var details []fault.Detail
	bad := func(name, rule, message string) {
		details = append(details, fault.Detail{Field: join(path, name), Rule: rule, Message: message})
	}
	switch k.SurfaceKind {
	case SurfaceChat, SurfaceRoom, SurfacePanel, SurfaceTask:
	default:
		bad("surface_kind", "enum", "must be one of chat, room, panel, task")
	}
	for _, part := range []struct{ name, value string }{{"workspace_id", k.WorkspaceID}, {"surface_id", k.SurfaceID}} {
		switch n := utf8.RuneCountInString(part.value); {
		case n == 0:
			bad(part.name, "min_length", "must not be empty")
		case n > 200:
			bad(part.name, "max_length", "must not be longer than 200 characters")
		case !utf8.ValidString(part.value):
			bad(part.name, "utf8", "must be UTF-8")
		}
	}
	return details
}

// JSON gives the canonical JSON of a canonical key: keys in order, no spaces,
// nothing escaped that need not be.
func (k OverlaySessionKey) JSON() []byte {
	fields := map[string]string{"workspace_id": k.WorkspaceID, "surface_kind": string(k.SurfaceKind), "surface_id": k.SurfaceID}
	for name, v := range map[string]string{"thread_id": k.ThreadID, "room_id": k.RoomID, "task_id": k.TaskID} {
		if v != "" {
			fields[name] = v
		}
	}
	return canonicalJSON(fields)
}

// canonicalJSON encodes with sorted map keys and without HTML escapes.
func canonicalJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("contracts: canonical form: " + err.Error()) // our own types only
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Token gives a canonical key's form in URLs: unpadded base64url of its JSON.
func (k OverlaySessionKey) Token() string { return base64.RawURLEncoding.EncodeToString(k.JSON()) }

// FileName gives the name of the session's file without extension: a hash, so
// that no id can leave its folder, collide or be too long.
func (k OverlaySessionKey) FileName() string {
	var room [256]byte // on the way of every packet, and of every session of a start
	name, plain := room[:0], true
	for i, part := range [...]string{k.WorkspaceID, string(k.SurfaceKind), k.SurfaceID} {
		plain = plain && isPlain(part)
		name = append(append(append(name, `["`[min(i, 1):]...), part...), `",`...)
	}
	name[len(name)-1] = ']'
	if !plain {
		name = canonicalJSON([]string{k.WorkspaceID, string(k.SurfaceKind), k.SurfaceID})
	}
	sum := sha256.Sum256(name)
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

// isPlain says that a text stands in JSON as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// MaxSessionToken bounds a session token: three ids of the longest kind, each
// character escaped, twice.
const MaxSessionToken = 12_000

// ParseSessionToken reads a key from a URL. Any JSON spelling of a key is
// accepted and made canonical; everything else is malformed.
func ParseSessionToken(token string) (OverlaySessionKey, error) {
	var k OverlaySessionKey
	if len(token) > MaxSessionToken {
		return k, badToken(nil)
	}
	doc, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || strings.ContainsAny(token, "\r\n") { // the decoder skips line ends
		return k, badToken(err)
	}
	k, err = Decode[OverlaySessionKey](doc, Client)
	if err == nil {
		k, err = k.Canonical("")
	}
	if err != nil {
		return OverlaySessionKey{}, badToken(err)
	}
	return k, nil
}

func badToken(err error) error {
	return fault.Wrap(fault.Malformed, "bad_session_key", err, "the session key is not the unpadded base64url form of a session key's JSON")
}

// PinFileName gives a file name for a workspace: the id itself where it is a
// plain lower-case name, else a hash behind a tilde, which no plain name has.
func PinFileName(workspaceID string) string {
	plain := len(workspaceID) <= 64 && workspaceID != ""
	for i, r := range workspaceID {
		plain = plain && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || i > 0 && (r == '-' || r == '_'))
	}
	if plain {
		return workspaceID
	}
	sum := sha256.Sum256([]byte(norm.NFC.String(workspaceID)))
	return "~" + hex.EncodeToString(sum[:])
}
