package importer

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

const (
	manifestName   = "manifest.json"
	bundleVersion  = 1
	maxManifest    = 2 << 20
	maxBundleFile  = frontmatter.MaxHeader + frontmatter.MaxBody + 64
	bundleFileMode = 0o644
)

// manifest is the roster of a bundle. RosterSHA256 is over one line per file: hash,
// two spaces, path, newline, in the order of the list.
type manifest struct {
	SchemaVersion int             `json:"schema_version"`
	RosterSHA256  string          `json:"roster_sha256"`
	Files         []manifestEntry `json:"files"`
}

type manifestEntry struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

func roster(files []manifestEntry) string {
	var b strings.Builder
	for _, f := range files {
		b.WriteString(f.SHA256 + "  " + f.Path + "\n")
	}
	return contracts.HashBytes([]byte(b.String()))
}

// Overlay is what a bundle carries of one overlay.
type Overlay struct {
	Frontmatter contracts.OverlayTemplateFrontmatter
	Body        string
}

// Pack makes a bundle: a tar with the manifest first, then one file per overlay in
// order of ids, each in canonical form (frontmatter.Format) and without the mark of
// a preset. The same overlays give the same bytes, on every machine and day. An id
// that stands twice, or that is none, is an error.
func Pack(overlays []Overlay) ([]byte, error) {
	overlays = slices.Clone(overlays)
	slices.SortFunc(overlays, func(a, b Overlay) int { return strings.Compare(string(a.Frontmatter.ID), string(b.Frontmatter.ID)) })
	m := manifest{SchemaVersion: bundleVersion, Files: []manifestEntry{}}
	var files [][]byte
	for i, o := range overlays {
		name := "overlays/" + string(o.Frontmatter.ID) + ".md"
		if !inBundle.MatchString(name) {
			return nil, fmt.Errorf("the overlay id %q cannot name a file", o.Frontmatter.ID)
		}
		if i > 0 && overlays[i-1].Frontmatter.ID == o.Frontmatter.ID {
			return nil, fmt.Errorf("the overlay %s stands twice in the bundle", o.Frontmatter.ID)
		}
		o.Frontmatter.Preset = false
		b := frontmatter.Format(o.Frontmatter, o.Body)
		files = append(files, b)
		m.Files = append(m.Files, manifestEntry{Path: name, SHA256: contracts.HashBytes(b), Bytes: len(b)})
	}
	m.RosterSHA256 = roster(m.Files)
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(name string, b []byte) error {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b)), Mode: bundleFileMode, ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	}
	if err := put(manifestName, append(head, '\n')); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	for i, f := range m.Files {
		if err := put(f.Path, files[i]); err != nil {
			return nil, fmt.Errorf("write bundle: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	return buf.Bytes(), nil
}

// inBundle is every name that a bundle may hold beside its manifest.
var inBundle = regexp.MustCompile(`^overlays/[a-z0-9-]{1,64}\.md\z`)

// isTar says whether bytes begin like a tar of today's form.
func isTar(b []byte) bool { return len(b) >= 512 && string(b[257:262]) == "ustar" }

// Unpack reads a bundle and verifies it against its manifest: every file listed is
// there once with its hash, and nothing else is. The error is a sentence without a
// subject.
func Unpack(b []byte) ([]Overlay, error) {
	m, files, err := openTar(b)
	if err != nil {
		return nil, err
	}
	if m.SchemaVersion != bundleVersion {
		return nil, fmt.Errorf("is a bundle of form %d; this program reads form %d", m.SchemaVersion, bundleVersion)
	}
	if len(m.Files) > MostProposals {
		return nil, fmt.Errorf("lists more than %d overlays", MostProposals)
	}
	if m.RosterSHA256 != roster(m.Files) {
		return nil, errors.New("has a manifest whose list does not match its own hash; it was changed or damaged")
	}
	out := make([]Overlay, 0, len(m.Files))
	for _, e := range m.Files {
		src, there := files[e.Path]
		switch {
		case !there:
			return nil, fmt.Errorf("lists %q, and it is not there (or listed twice)", clip(e.Path))
		case contracts.HashBytes(src) != e.SHA256 || len(src) != e.Bytes:
			return nil, fmt.Errorf("holds %s with another hash than its manifest says; it was changed or damaged", e.Path)
		}
		delete(files, e.Path)
		doc, err := frontmatter.Parse(src)
		if err != nil {
			return nil, fmt.Errorf("holds %s, which is no overlay file: %w", e.Path, err)
		}
		if "overlays/"+string(doc.Frontmatter.ID)+".md" != e.Path {
			return nil, fmt.Errorf("holds %s, whose header says that it is %s", e.Path, doc.Frontmatter.ID)
		}
		out = append(out, Overlay{doc.Frontmatter, doc.Body})
	}
	for name := range files {
		return nil, fmt.Errorf("holds %s, which its manifest does not list", name)
	}
	return out, nil
}

// openTar reads the entries of a tar. Names are matched, never used as paths.
func openTar(b []byte) (m manifest, files map[string][]byte, err error) {
	if len(b) > MaxBundle {
		return m, nil, fmt.Errorf("is larger than %d bytes", MaxBundle)
	}
	r := tar.NewReader(bytes.NewReader(b))
	files = map[string][]byte{}
	found := false
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, nil, errors.New("is not a readable tar")
		}
		most := int64(maxBundleFile)
		switch {
		case h.Typeflag != tar.TypeReg:
			return m, nil, fmt.Errorf("holds %q, which is no plain file", clip(h.Name))
		case h.Name == manifestName && found, files[h.Name] != nil:
			return m, nil, fmt.Errorf("holds %q twice", clip(h.Name))
		case h.Name == manifestName:
			found, most = true, maxManifest
		case !inBundle.MatchString(h.Name):
			return m, nil, fmt.Errorf("holds %q, which is no name for a bundle's file", clip(h.Name))
		case len(files) == MostProposals:
			return m, nil, fmt.Errorf("holds more than %d files", MostProposals)
		}
		src, err := io.ReadAll(io.LimitReader(r, most+1))
		switch {
		case err != nil:
			return m, nil, errors.New("is not a readable tar")
		case int64(len(src)) > most:
			return m, nil, fmt.Errorf("holds %s with more than %d bytes", h.Name, most)
		case h.Name != manifestName:
			files[h.Name] = src
			continue
		}
		if m, err = readManifest(src); err != nil {
			return m, nil, err
		}
	}
	if !found {
		return m, nil, errors.New("is a tar without manifest.json; only bundles made by overlays export are taken")
	}
	return m, files, nil
}

func readManifest(src []byte) (m manifest, err error) {
	if _, err := parseTree(string(src)); err != nil { // depth, doubled keys
		return m, fmt.Errorf("holds a manifest that %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, errors.New("holds a manifest that cannot be read")
	}
	return m, nil
}

// readBundle reads a bundle as a file of an import.
func readBundle(f File) reading {
	list, err := Unpack(f.Data)
	if err != nil {
		return refuse(FormatBundle, err.Error())
	}
	r := reading{format: FormatBundle}
	for _, o := range list {
		d := exact(frontmatter.Document{Frontmatter: o.Frontmatter, Body: o.Body})
		d.where = "overlays/" + string(o.Frontmatter.ID) + ".md"
		r.drafts = append(r.drafts, d)
	}
	if len(r.drafts) == 0 {
		r.refused = "is a bundle without overlays"
	}
	return r
}
