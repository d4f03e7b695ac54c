package home

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Roles lists the roles that have a token.
func Roles() []string { return []string{"user", "operator", "seam", "worker", "agent"} }

// TokenFile is where a role's token is.
func (h Home) TokenFile(role string) string { return filepath.Join(h.RunDir(), role+".token") }

// Token reads a role's token. fs.ErrNotExist says that the home was never set up.
func (h Home) Token(role string) (string, error) {
	if !slices.Contains(Roles(), role) {
		return "", noRole(role)
	}
	return ReadToken(h.TokenFile(role))
}

func noRole(role string) error {
	return fmt.Errorf("there is no role %q; the roles are %s", role, strings.Join(Roles(), ", "))
}

// ReadToken reads a token file. One that others may read is refused.
func ReadToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others; run: chmod 600 %s", path, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(token) > 512 || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s does not hold a token", path)
	}
	return token, nil
}

// RotateToken replaces a role's token. The old one is worth nothing to servers that
// start later.
func (h Home) RotateToken(role string) error {
	if !slices.Contains(Roles(), role) {
		return noRole(role)
	}
	return writeFile(h.TokenFile(role), []byte(newToken(role)+"\n"))
}

// makeToken makes a role's token once, whoever comes first, and reads it.
func (h Home) makeToken(role string) (string, error) {
	path := h.TokenFile(role)
	if _, err := os.Lstat(path); err == nil {
		return ReadToken(path)
	}
	// Written whole under another name and linked into place, so that nobody can
	// read half a token and a second process cannot replace the first one's.
	f, err := os.CreateTemp(h.RunDir(), "."+role+".token.*") // O_EXCL, 0600
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, werr := f.WriteString(newToken(role) + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make token: %w", err)
	}
	if err := syncDir(h.RunDir()); err != nil {
		return "", err
	}
	return ReadToken(path)
}

// newToken gives 256 bits of chance with the role in front, so that a person sees
// what a leaked one is worth.
func newToken(role string) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return "pl-" + role + "-" + base64.RawURLEncoding.EncodeToString(b[:])
}

// Tokens answers whose token a request carries. It keeps hashes only.
type Tokens struct{ hashes map[string][sha256.Size]byte }

// Tokens reads every role's token.
func (h Home) Tokens() (Tokens, error) {
	t := Tokens{hashes: map[string][sha256.Size]byte{}}
	for _, role := range Roles() {
		token, err := h.Token(role)
		if err != nil {
			return Tokens{}, err
		}
		t.hashes[role] = sha256.Sum256([]byte(token))
	}
	return t, nil
}

// Role gives the role that a token proves, in the same time for any token.
func (t Tokens) Role(token string) (string, bool) {
	sum := sha256.Sum256([]byte(token))
	found := ""
	for _, role := range Roles() {
		if h, ok := t.hashes[role]; ok && subtle.ConstantTimeCompare(sum[:], h[:]) == 1 {
			found = role
		}
	}
	return found, found != ""
}
