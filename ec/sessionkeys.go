package ec

import (
	"slices"
	"strings"
	"unicode"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// maxSessionKeys bounds how many session keys may be in force at a time.
const maxSessionKeys = 256

// KeptSessionKey is a session key as EC keeps it: whose it is, and the hash by
// which it is known again. A revoked one is forgotten; the audit remembers it.
type KeptSessionKey struct {
	contracts.SessionAPIKey
	SHA256 string `json:"sha256" pattern:"^[0-9a-f]{64}$"`
}

// CreateSessionKey takes in a key to a session. The key itself never reaches EC.
type CreateSessionKey struct {
	Key    contracts.OverlaySessionKey
	Name   string
	SHA256 string // contracts.HashSessionAPIKey of the key
}

// RevokeSessionKey makes a key worthless.
type RevokeSessionKey struct{ KeyID contracts.UUID }

// Type names the command in the audit.
func (CreateSessionKey) Type() string { return "session_key.create" }

// Type names the command in the audit.
func (RevokeSessionKey) Type() string { return "session_key.revoke" }

func (s *State) createSessionKey(c Command, b CreateSessionKey) (decision, error) {
	key, err := b.Key.Canonical("session_key")
	if err != nil {
		return decision{}, err
	}
	kept := KeptSessionKey{
		SessionAPIKey: contracts.SessionAPIKey{
			KeyID: contracts.DeriveID(c.ID, "session-key", 0), Name: strings.TrimSpace(b.Name), SessionKey: key, CreatedAt: c.At, CreatedBy: who(c),
		},
		SHA256: b.SHA256,
	}
	if _, err := contracts.Check(kept, contracts.Stored); err != nil {
		return decision{}, err
	}
	switch {
	case strings.ContainsFunc(kept.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return decision{}, fault.Validation([]fault.Detail{{Field: "name", Rule: "pattern", Message: "must be one line of printable text"}})
	case s.keys.SplitKey == "":
		return decision{}, fault.New(fault.Unavailable, "not_ready", "the library has not got its own keys yet")
	case len(s.keys.SessionKeys) >= maxSessionKeys:
		return decision{}, fault.New(fault.Conflict, "too_many_session_keys", "there are %d session keys; revoke one that is not used any more", maxSessionKeys)
	case slices.ContainsFunc(s.keys.SessionKeys, func(k KeptSessionKey) bool { return k.SHA256 == kept.SHA256 }):
		return decision{}, fault.New(fault.Conflict, "already_exists", "this key is in use; make another one")
	}
	next := s.keys
	next.SessionKeys = append(slices.Clone(next.SessionKeys), kept)
	return changed(string(kept.KeyID), KeysPut{Keys: next, What: "session_key.created:" + string(kept.KeyID)})
}

func (s *State) revokeSessionKey(b RevokeSessionKey) (decision, error) {
	i := slices.IndexFunc(s.keys.SessionKeys, func(k KeptSessionKey) bool { return k.KeyID == b.KeyID })
	if i < 0 {
		return decision{}, noSessionKey(b.KeyID)
	}
	next := s.keys
	next.SessionKeys = slices.Delete(slices.Clone(next.SessionKeys), i, i+1)
	return changed(string(b.KeyID), KeysPut{Keys: next, What: "session_key.revoked:" + string(b.KeyID)})
}

func noSessionKey(id contracts.UUID) error {
	return fault.New(fault.NotFound, "not_found", "there is no session key %q", id)
}

// SessionKeys lists the keys in force, oldest first.
func (v *View) SessionKeys() contracts.SessionAPIKeyList {
	var out contracts.SessionAPIKeyList
	for _, k := range v.s.keys.SessionKeys {
		out.Items = append(out.Items, k.SessionAPIKey)
	}
	out.Total = len(out.Items)
	return out
}

// SessionKey gives a key in force. sameKey says that it is the one with that
// hash: a repeated request to make one brings another hash along.
func (v *View) SessionKey(id contracts.UUID, sha256 string) (key contracts.SessionAPIKey, sameKey bool, err error) {
	for _, k := range v.s.keys.SessionKeys {
		if k.KeyID == id {
			return k.SessionAPIKey, k.SHA256 == sha256, nil
		}
	}
	return contracts.SessionAPIKey{}, false, noSessionKey(id)
}

// ResolveSessionKey gives the session of the key that has this hash. Both are
// hashes of long random keys, so that the time of the comparison tells nothing.
func (v *View) ResolveSessionKey(sha256 string) (contracts.SessionAPIKeyOwner, error) {
	for _, k := range v.s.keys.SessionKeys {
		if k.SHA256 == sha256 {
			return contracts.SessionAPIKeyOwner{SessionKey: k.SessionKey, KeyID: k.KeyID}, nil
		}
	}
	return contracts.SessionAPIKeyOwner{}, fault.New(fault.NotFound, "session_key_unknown", "there is no such session key; it may have been revoked")
}
