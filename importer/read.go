package importer

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// Interesting says whether a file found in a folder may be a prompt file, by its
// name alone.
func Interesting(p string) bool {
	low := strings.ToLower(path.Base(p))
	if low == ".cursorrules" || low == ".windsurfrules" || low == ".clinerules" {
		return true
	}
	switch path.Ext(low) {
	case ".md", ".mdc", ".markdown", ".json":
		return !aboutRepository(low)
	default:
		return false
	}
}

// aboutRepository finds the texts that every repository has and that instruct nobody.
func aboutRepository(name string) bool {
	switch strings.TrimSuffix(strings.TrimSuffix(name, ".md"), ".markdown") {
	case "readme", "changelog", "license", "contributing", "code_of_conduct", "security", "package.json", "package-lock.json", "tsconfig.json":
		return true
	}
	return false
}

// Most gives how many bytes a file may have, by its name.
func Most(p string) int {
	switch strings.ToLower(path.Ext(p)) {
	case ".tar":
		return MaxBundle
	case ".json":
		return MaxJSON
	default:
		return MaxText
	}
}

// read recognises a file by name and content and reads it.
func read(f File) reading {
	low := strings.ToLower(path.Base(f.Path))
	most := Most(f.Path)
	switch {
	case len(f.Data) > most:
		return refuse("", fmt.Sprintf("is larger than %d bytes", most))
	case len(f.Data) == 0:
		return refuse("", "is empty")
	case strings.HasSuffix(low, ".tar"), isTar(f.Data):
		return readBundle(f)
	}
	if isUTF16(f.Data) {
		text, ok := fromUTF16(f.Data)
		if !ok {
			return refuse("", "is UTF-16 with half a character in it; save it as UTF-8 and import it again")
		}
		f.Data = text
		r := read(f)
		r.notes = append(r.notes, "the file is UTF-16; it was read as the same text in UTF-8")
		return r
	}
	if why := notText(f.Data); why != "" {
		return refuse("", why)
	}
	text := contracts.Normalize(string(f.Data))
	if strings.HasSuffix(low, ".json") {
		return readJSON(f.Path, text)
	}
	if t := strings.TrimSpace(text); t[0] == '{' || t[0] == '[' {
		if r := readJSON(f.Path, text); !r.foreign {
			return r
		}
	}
	if doc, err := frontmatter.Parse(f.Data); err == nil {
		return reading{format: FormatOverlay, drafts: []draft{exact(doc)}}
	}
	switch {
	case low == "skill.md":
		return readSkill(f.Path, text)
	case strings.HasSuffix(low, ".mdc"):
		return readRule(f.Path, text)
	case strings.HasSuffix(low, ".instructions.md"), strings.HasSuffix(low, ".prompt.md"):
		return readInstructions(f.Path, text)
	default:
		return readMarkdown(f.Path, text)
	}
}

// isUTF16 tells UTF-16 by its mark.
func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff})
}

// fromUTF16 decodes a text with its mark; false when it is no whole text.
func fromUTF16(b []byte) ([]byte, bool) {
	text, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(b)
	return text, err == nil && !bytes.ContainsRune(text, utf8.RuneError)
}

// notText says why bytes are no text; it is empty for text.
func notText(b []byte) string {
	if bytes.IndexByte(b, 0) >= 0 {
		return "is a binary file"
	}
	if !utf8.Valid(b) {
		at := 0
		for at < len(b) {
			r, n := utf8.DecodeRune(b[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return fmt.Sprintf("is not valid UTF-8 (line %d); save it as UTF-8 and import it again", 1+bytes.Count(b[:at], []byte("\n")))
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\ufeff")))) == 0 {
		return "holds no text"
	}
	return ""
}

// exact makes a draft of one of our own files. The mark of a preset stays with the
// pack: what is imported belongs to the person.
func exact(doc frontmatter.Document) draft {
	d := draft{exact: true, fm: doc.Frontmatter, body: doc.Body}
	if d.fm.Preset {
		d.fm.Preset = false
		d.lose("preset: true", "only the pack that comes with the program may say so; the overlay becomes yours")
	}
	return d
}
