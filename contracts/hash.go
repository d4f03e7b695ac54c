package contracts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Normalize gives the form of a text that is stored and hashed: a leading byte
// order mark is dropped and CRLF becomes LF. Nothing else changes.
func Normalize(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// Hash is the one content hash of the system: sha256, lower-case hex, over the
// UTF-8 bytes of the normalised text. Body, source, candidate and rewrite
// hashes are all this function.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(Normalize(text)))
	return hex.EncodeToString(sum[:])
}

// HashJSON hashes a value's JSON form (struct field order, sorted map keys).
func HashJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("contracts: hash of a value that cannot be marshalled: %v", err)) // our own types only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// EstimatorVersion names the token estimate below.
const EstimatorVersion = "codepoints/4@1"

// EstimateTokens is the one estimate of a text's size in tokens: code points
// divided by four, rounded up, at least 1.
func EstimateTokens(text string) int {
	return max(1, (utf8.RuneCountInString(text)+3)/4)
}

// DeriveID gives a name-based UUID (version 5): the same command, purpose and
// ordinal always give the same id, so that a repeated command makes no second
// object.
func DeriveID(commandID, purpose string, ordinal int) UUID {
	ns := uuid.NewSHA1(uuid.NameSpaceURL, []byte("promptlab:"+purpose))
	return UUID(uuid.NewSHA1(ns, fmt.Appendf(nil, "%s/%d", commandID, ordinal)).String())
}

// HashBytes hashes raw bytes: files and other documents as a whole.
func HashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
