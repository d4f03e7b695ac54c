package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"slices"
	"sync"

	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/wall"
)

const (
	maxSessions = 64 // browsers logged in at a time; the oldest gives way
	maxCodes    = 16 // login links not used yet; the oldest gives way
)

// keyring knows credentials by their hashes: the tokens of the roles, and for
// the life of this process the browsers' sessions and the unused login codes.
type keyring struct {
	tokens     map[ec.Role][sha256.Size]byte
	cookieName string // with the port: cookies do not tell ports apart

	mu       sync.Mutex
	sessions []secret
	codes    []secret
}

type secret struct {
	hash [sha256.Size]byte
	role ec.Role
}

func newKeyring(tokens map[ec.Role][sha256.Size]byte, host string) *keyring {
	name := "promptlab_session"
	if _, port, err := net.SplitHostPort(host); err == nil {
		name += "_" + port
	}
	return &keyring{tokens: tokens, cookieName: name}
}

// token gives the role that a token proves. It looks at all of them, always.
func (k *keyring) token(token string) (ec.Role, bool) {
	var room [64]byte // on the way of every request
	found := wall.Match(k.tokens, sha256.Sum256(append(room[:0], token...)))
	return found, found != "" && token != ""
}

func (k *keyring) session(value string) (ec.Role, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := find(k.sessions, value)
	if i < 0 {
		return "", false
	}
	return k.sessions[i].role, true
}

// newCode makes a one-time login code for a role.
func (k *keyring) newCode(role ec.Role) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return push(&k.codes, role, maxCodes)
}

// exchange trades a code for a session, once.
func (k *keyring) exchange(code string) (session string, role ec.Role, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := find(k.codes, code)
	if i < 0 {
		return "", "", false
	}
	role = k.codes[i].role
	k.codes = slices.Delete(k.codes, i, i+1)
	return push(&k.sessions, role, maxSessions), role, true
}

// find compares hashes, so its timing says nothing about the secret.
func find(list []secret, value string) int {
	hash := sha256.Sum256([]byte(value))
	return slices.IndexFunc(list, func(s secret) bool {
		return subtle.ConstantTimeCompare(s.hash[:], hash[:]) == 1
	})
}

func push(list *[]secret, role ec.Role, most int) string {
	value := rand.Text() + rand.Text() // 260 bits
	*list = append(*list, secret{sha256.Sum256([]byte(value)), role})
	if len(*list) > most {
		*list = slices.Delete(*list, 0, 1)
	}
	return value
}
