// Package presets is the pack of overlays that comes with the program: 21 files
// and a manifest, embedded. The manifest is the roster: it alone says which
// files belong, in which version, with which text, and in which order they are
// shown. A file it does not list is neither read nor hashed.
//
// The package knows the pack, not a library: what an installation keeps of a
// person's edits is decided in ec.
package presets

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

//go:embed manifest.json overlays/*.md
var files embed.FS

const manifestName = "manifest.json"

// Pack is a verified preset pack.
type Pack struct {
	ID       string // identity: hash over the manifest and every file it lists
	Version  string
	Overlays []Overlay // in canonical order
}

// Overlay is one preset.
type Overlay struct {
	Frontmatter contracts.OverlayTemplateFrontmatter
	Body        string
	BodyHash    string
}

// Manifest is the pack's roster.
type Manifest struct {
	SchemaVersion int                   `json:"schema_version" minimum:"1" maximum:"1"`
	Version       string                `json:"version" minLength:"1" maxLength:"64"`
	Overlays      contracts.List[Entry] `json:"overlays" minItems:"1" maxItems:"256"`
}

// Entry is one file of the roster.
type Entry struct {
	ID       contracts.OverlayID `json:"id"`
	Version  string              `json:"version" minLength:"1" maxLength:"64"`
	File     string              `json:"file" minLength:"1" maxLength:"200"`
	BodyHash string              `json:"body_hash" minLength:"64" maxLength:"64"`
}

// Load reads and verifies the embedded pack.
func Load() (Pack, error) { return Read(files) }

// Read reads a pack and checks every listed file against the manifest: path,
// id, version and body hash. The error names the file that is wrong.
func Read(fsys fs.FS) (Pack, error) {
	raw, err := fs.ReadFile(fsys, manifestName)
	if err != nil {
		return Pack{}, fmt.Errorf("read preset manifest: %w", err)
	}
	m, err := contracts.Decode[Manifest](raw, contracts.Stored)
	if err != nil {
		return Pack{}, fmt.Errorf("read preset manifest: %w", err)
	}
	identity := sha256.New()
	identity.Write(fmt.Appendf(nil, "%s\x00%d\x00%s", manifestName, len(raw), raw))
	pack := Pack{Version: m.Version}
	seen := map[contracts.OverlayID]bool{}
	for _, e := range m.Overlays {
		if seen[e.ID] {
			return Pack{}, fmt.Errorf("preset manifest: %s is listed twice", e.ID)
		}
		seen[e.ID] = true
		o, src, err := readOverlay(fsys, e)
		if err != nil {
			return Pack{}, err
		}
		identity.Write(fmt.Appendf(nil, "%s\x00%d\x00%s", e.File, len(src), src))
		pack.Overlays = append(pack.Overlays, o)
	}
	pack.ID = hex.EncodeToString(identity.Sum(nil))
	return pack, nil
}

// inside is what a roster may name: files of this package, nothing above or
// beside it.
var inside = regexp.MustCompile(`^overlays/[a-z0-9][a-z0-9-]{0,63}\.md$`)

func readOverlay(fsys fs.FS, e Entry) (Overlay, []byte, error) {
	if !inside.MatchString(e.File) || !fs.ValidPath(e.File) {
		return Overlay{}, nil, fmt.Errorf("preset manifest: %s names the file %q, which is not a file of the pack", e.ID, e.File)
	}
	src, err := fs.ReadFile(fsys, e.File)
	if err != nil {
		return Overlay{}, nil, fmt.Errorf("read preset %s: %w", e.ID, err)
	}
	doc, err := frontmatter.Parse(src)
	if err != nil {
		return Overlay{}, nil, fmt.Errorf("read preset %s: %w", e.ID, err)
	}
	o := Overlay{Frontmatter: doc.Frontmatter, Body: doc.Body, BodyHash: contracts.Hash(doc.Body)}
	switch {
	case doc.Frontmatter.ID != e.ID:
		return Overlay{}, nil, fmt.Errorf("preset %s: its file says that it is %s", e.ID, doc.Frontmatter.ID)
	case !doc.Frontmatter.Preset:
		return Overlay{}, nil, fmt.Errorf("preset %s: its file does not say preset: true", e.ID)
	case doc.Frontmatter.Version != e.Version:
		return Overlay{}, nil, fmt.Errorf("preset %s: the file has version %s, the manifest %s", e.ID, doc.Frontmatter.Version, e.Version)
	case o.BodyHash != e.BodyHash:
		return Overlay{}, nil, fmt.Errorf("preset %s: the text is not the one of version %s; a changed text needs a new version in file and manifest", e.ID, e.Version)
	}
	return o, src, nil
}

// CheckVersions compares a manifest with an earlier one of the same pack: a text
// may not change under an unchanged version, of the overlay or of the pack.
func CheckVersions(before, after Manifest) error {
	old := map[contracts.OverlayID]Entry{}
	for _, e := range before.Overlays {
		old[e.ID] = e
	}
	var wrong []string
	for _, e := range after.Overlays {
		if o, ok := old[e.ID]; ok && o.BodyHash != e.BodyHash && o.Version == e.Version {
			wrong = append(wrong, string(e.ID))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("changed texts without a new version: %s", strings.Join(wrong, ", "))
	}
	if before.Version == after.Version && contracts.HashJSON(before.Overlays) != contracts.HashJSON(after.Overlays) {
		return fmt.Errorf("the pack changed and its version is still %s", after.Version)
	}
	return nil
}
