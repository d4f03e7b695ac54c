package contracts

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
)

// sessionAPIKeyPrefix begins every session key that a program presents.
const sessionAPIKeyPrefix = "pls-"

// sessionAPIKeyBytes is how much chance is in one: 256 bit.
const sessionAPIKeyBytes = 32

// SessionAPIKey is what is known of a key by which a program names one session
// at the chat endpoint. The key itself is shown once, when it is made; only its
// hash is kept.
type SessionAPIKey struct {
	KeyID      UUID              `json:"key_id"`
	Name       string            `json:"name" default:"" maxLength:"100"` // for people
	SessionKey OverlaySessionKey `json:"session_key"`
	CreatedAt  Time              `json:"created_at"`
	CreatedBy  string            `json:"created_by"`
}

// SessionAPIKeyRequest asks for a key to a session.
type SessionAPIKeyRequest struct {
	SessionKey OverlaySessionKey `json:"session_key"`
	Name       string            `json:"name" default:"" maxLength:"100"`
}

// SessionAPIKeyCreated is a new key. Key is left out where a repeated request
// met the key that its first one made: it is not known any more.
type SessionAPIKeyCreated struct {
	SessionAPIKey
	Key string `json:"key,omitempty"`
}

// SessionAPIKeyList lists the keys that are in force, oldest first.
type SessionAPIKeyList struct {
	Items List[SessionAPIKey] `json:"items"`
	Total int                 `json:"total" minimum:"0"`
}

// SessionAPIKeyLookup asks whose key has a hash: HashSessionAPIKey of what was
// presented.
type SessionAPIKeyLookup struct {
	KeySHA256 string `json:"key_sha256" pattern:"^[0-9a-f]{64}$"`
}

// SessionAPIKeyOwner is the session that a key names.
type SessionAPIKeyOwner struct {
	SessionKey OverlaySessionKey `json:"session_key"`
	KeyID      UUID              `json:"key_id"`
}

// NewSessionAPIKey makes a key by chance.
func NewSessionAPIKey() string {
	raw := make([]byte, sessionAPIKeyBytes)
	_, _ = rand.Read(raw) // never fails: it ends the program instead
	return sessionAPIKeyPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// IsSessionAPIKey says whether a credential has the form of a session's key. It
// does not say that there is one.
func IsSessionAPIKey(s string) bool {
	rest, ok := strings.CutPrefix(s, sessionAPIKeyPrefix)
	if !ok || strings.ContainsAny(rest, "\r\n") { // the decoder skips line ends
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	return err == nil && len(raw) == sessionAPIKeyBytes
}

// HashSessionAPIKey gives the form of a key that is kept and looked up.
func HashSessionAPIKey(key string) string { return HashBytes([]byte(key)) }

// OverlaySessionSummary is one line of a list of sessions.
type OverlaySessionSummary struct {
	SessionKey       OverlaySessionKey `json:"session_key"`
	Token            string            `json:"token"` // the key's form in addresses
	Revision         int               `json:"revision" minimum:"0"`
	ActiveOverlayIDs List[OverlayID]   `json:"active_overlay_ids"` // what the next turn is composed with
	PendingRefresh   bool              `json:"pending_refresh"`
	LastActivityAt   Time              `json:"last_activity_at"`
}

// OverlaySessionList is a page of sessions, the latest activity first. Total
// counts all that match; Next is empty on the last page.
type OverlaySessionList struct {
	Items List[OverlaySessionSummary] `json:"items"`
	Total int                         `json:"total" minimum:"0"`
	Next  string                      `json:"next,omitempty"` // after which the next page begins
}
