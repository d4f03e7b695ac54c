package ec

import (
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// shortOverlay is what a start need not find out again about an overlay's file. It
// says of which text it was made, and counts for that one only.
type shortOverlay struct {
	FileHash    string
	BodyAt      int // where the text begins in the file
	BodyHash    string
	Frontmatter contracts.OverlayTemplateFrontmatter
	Classifier  string // the version that labels and risks are of; empty: nobody has looked
	Labels      []string
	Risks       []string
}

// pack gives an overlay's short form; nil when its text is not the end of its file
// as it lies there.
func (o *Overlay) pack() []byte {
	if !strings.HasSuffix(o.File, o.Record.Body) {
		return nil
	}
	short := shortOverlay{
		FileHash: o.FileHash, BodyAt: len(o.File) - len(o.Record.Body), BodyHash: o.Record.BodyHash, Frontmatter: o.Record.Frontmatter,
	}
	if o.Meta.DegradedReason == "" {
		short.Classifier, short.Labels, short.Risks = o.Meta.ClassifierVersion, o.Meta.StructureLabels, o.Meta.RiskFlags
	}
	return pack(make([]byte, 0, 1<<10), &short)
}

// recalledOverlay makes of a short form and the file what reading the file would;
// false when the short form is of another text or damaged.
func (s *State) recalledOverlay(packed []byte, file string) (o *Overlay, ok bool) {
	defer func() {
		if recover() != nil { // it was not packed by us; there is still the file
			o, ok = nil, false
		}
	}()
	var short shortOverlay
	hash := contracts.HashBytes([]byte(file))
	if rest := unpack(packed, &short); len(rest) != 0 || short.FileHash != hash || short.BodyAt < 0 || short.BodyAt >= len(file) {
		return nil, false
	}
	o = bareOverlay(short.Frontmatter, file[short.BodyAt:], file)
	o.Record.BodyHash, o.FileHash = short.BodyHash, hash
	if short.Classifier != s.policy.Classifier.Version() {
		s.classify(o)
		return o, true
	}
	o.Meta.ClassifierVersion, o.Meta.StructureLabels, o.Meta.RiskFlags = short.Classifier, short.Labels, short.Risks
	return o, true
}
