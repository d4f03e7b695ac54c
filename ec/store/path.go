package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/elnor/promptlab/ec/store/fsx"
	"github.com/elnor/promptlab/internal/fault"
)

// Names of our own. Nobody's document may use them.
const (
	ecDir      = ".ec"
	lockPath   = ecDir + "/lock"
	keptDir    = ecDir + "/kept" // texts of people that lost their place in a race
	tempPrefix = ".ec-tmp-"
)

// Hashes of a path without a text.
const (
	absent  = ""  // nothing there
	blocked = "!" // something that is not a document: a link, a folder, a giant
)

func hashOf(body []byte) string {
	if body == nil {
		return absent
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// checkPath says what is wrong with the path of a document or stream.
func checkPath(p string) (rule, message string) {
	if err := fsx.Check(p); err != nil {
		return "path", "the path " + err.Error()
	}
	if !utf8.ValidString(p) {
		return "path", "the path is not UTF-8"
	}
	if p == ecDir || strings.HasPrefix(p, ecDir+"/") {
		return "reserved", "the path lies in the store's own folder"
	}
	for seg := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(seg, tempPrefix) {
			return "reserved", "the path looks like one of the store's temporary files"
		}
	}
	return "", ""
}

// validate checks the form of a batch and names everything that is wrong.
func validate(batch []Change) error {
	var bad []fault.Detail
	note := func(rule, message, format string, at ...any) {
		if rule != "" {
			bad = append(bad, fault.Detail{Field: fmt.Sprintf(format, at...), Rule: rule, Message: message})
		}
	}
	for i, c := range batch {
		for k, d := range c.Docs {
			rule, msg := checkPath(d.Path)
			note(rule, msg, "batch[%d].docs[%d].path", i, k)
			if len(d.Body) > MaxDocument {
				note("max_bytes", "the document is too large", "batch[%d].docs[%d].body", i, k)
			}
		}
		for k, l := range c.Lines {
			rule, msg := checkPath(l.Stream)
			note(rule, msg, "batch[%d].lines[%d].stream", i, k)
			rule, msg = checkLine(l.Body)
			note(rule, msg, "batch[%d].lines[%d].body", i, k)
		}
	}
	if bad != nil {
		return fault.Validation(bad)
	}
	return nil
}

func checkLine(b []byte) (rule, message string) {
	switch {
	case len(b) > MaxLine:
		return "max_bytes", "the line is too long"
	case bytes.IndexByte(b, '\n') >= 0:
		return "one_line", "the line holds a newline"
	case !json.Valid(b) || !utf8.Valid(b):
		return "json", "the line is not one JSON value in UTF-8"
	}
	return "", ""
}

// tempName gives a name beside p for a text on its way there (or, with the
// hash of nothing, for what is taken away from there). Recovery reads from it
// which document it belongs to and whether an exchange has happened.
func (s *Store) tempName(p, hash string) string {
	return path.Join(path.Dir(p), fmt.Sprintf("%s%s-%s-%d", tempPrefix, baseTag(p), textTag(hash), s.temps.Add(1)))
}

func baseTag(p string) string { return hashOf([]byte(path.Base(p)))[:16] }

func textTag(hash string) string {
	if hash == absent {
		return "0000000000000000"
	}
	return hash[:16]
}

// tags reads what tempName wrote.
func tags(name string) (base, text string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(name, tempPrefix), "-")
	if len(parts) != 3 || !strings.HasPrefix(name, tempPrefix) {
		return "", "", false
	}
	return parts[0], parts[1], true
}
