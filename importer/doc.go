// Package importer reads prompt files of other tools and proposes overlays made
// from them: skills, editor rules, instruction files, plain Markdown, documents
// with installable blocks, exports of prompt managers, and our own files and
// bundles. It reads leniently, because most foreign headers are not the YAML they
// claim to be, and it never loses silently: whatever has no place in an overlay is
// listed in words.
//
// A fenced block of a document is an example unless its info string holds the word
// installable (```markdown installable); only marked blocks are taken, without
// their fence lines.
//
// A bundle is a tar of overlay files in canonical form with a manifest of hashes;
// packing what was unpacked gives the same bytes. It carries texts and headers,
// not who owns them: what comes from a bundle belongs to the person who took it,
// so the mark of a preset is left out.
//
// The package turns bytes into findings. It opens no files, asks no server and
// decides nothing: whether a proposal is saved is the caller's business, and the
// server validates again.
package importer

import (
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// Sizes in bytes of what is read; larger files are refused with words.
const (
	MaxText   = 256 << 10
	MaxJSON   = 4 << 20
	MaxBundle = 64 << 20
)

// MostProposals is how many overlays one file may hold.
const MostProposals = 5000

// Format is a kind of file that is understood.
type Format string

// The formats.
const (
	FormatOverlay      Format = "overlay"       // a file of our own
	FormatBundle       Format = "bundle"        // a tar made by export
	FormatSkill        Format = "skill"         // SKILL.md
	FormatCursorRule   Format = "cursor_rule"   // *.mdc
	FormatInstructions Format = "instructions"  // *.instructions.md
	FormatMarkdown     Format = "markdown"      // AGENTS.md and any other Markdown
	FormatDocument     Format = "document"      // Markdown around installable blocks
	FormatLangfuse     Format = "langfuse"      // JSON of Langfuse prompts
	FormatMLflow       Format = "mlflow"        // JSON of an MLflow prompt registry
	FormatOpenAI       Format = "openai_prompt" // JSON of OpenAI prompt objects
)

// File is a file to read. Path has slashes and only serves names and messages.
type File struct {
	Path  string
	Data  []byte
	Named bool // a person named this very file, it was not found in a folder
}

// Known is an overlay that the library has. Body counts only if Loaded is set.
type Known struct {
	Frontmatter contracts.OverlayTemplateFrontmatter
	Archived    bool
	Body        string
	Loaded      bool
}

// Options say against what a plan is made.
type Options struct {
	As      contracts.OverlayArtifactClass // class of everything that names none; empty guesses
	Library []Known
	Aliases map[string]contracts.OverlayID // earlier names -> the overlay that has them
	// Reciprocal: the other side of a hard conflict is written too, where the library
	// has an overlay that does not name the new one.
	Reciprocal bool
}

// Report is what an import would do, file by file in order of their paths.
type Report struct {
	Files   contracts.List[FileReport] `json:"files"`
	Ignored int                        `json:"ignored"` // files found in folders that are no prompt files
}

// FileReport is what one file gives. Refused is a sentence when it gives nothing.
type FileReport struct {
	Path     string                   `json:"path"`
	Format   Format                   `json:"format,omitempty"`
	Refused  string                   `json:"refused,omitempty"`
	Skipped  bool                     `json:"skipped"` // refused, and nothing was expected of it
	Notes    contracts.List[string]   `json:"notes"`
	Lost     contracts.List[Loss]     `json:"lost"`
	Overlays contracts.List[Proposal] `json:"overlays"`
}

// Loss is something of the source that the overlay does not carry.
type Loss struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Proposal is an overlay as it would be saved.
type Proposal struct {
	Where          string                               `json:"where,omitempty"` // in the file, if it holds several
	Frontmatter    contracts.OverlayTemplateFrontmatter `json:"frontmatter"`
	Body           string                               `json:"body"`
	Tokens         int                                  `json:"estimated_tokens"`
	ClassReason    string                               `json:"class_reason,omitempty"`
	CategoryReason string                               `json:"category_reason,omitempty"`
	Errors         contracts.List[fault.Detail]         `json:"errors"`   // the server would refuse it for these
	Warnings       contracts.List[fault.Detail]         `json:"warnings"` // worth a look, refuse nothing
	Conflict       string                               `json:"conflict,omitempty"`
	Same           bool                                 `json:"same"`     // the library has exactly this already
	Replaces       bool                                 `json:"replaces"` // the conflict is a live overlay with this id
	// Group names what it is saved with at once, all of it or nothing: its bundle, or
	// the first of the files that exclude each other. Empty: it is saved by itself.
	Group string                 `json:"group,omitempty"`
	Notes contracts.List[string] `json:"notes"`
	Lost  contracts.List[Loss]   `json:"lost"`
}

// Takeable says whether the proposal can be created as it stands.
func (p Proposal) Takeable() bool { return len(p.Errors) == 0 && p.Conflict == "" && !p.Same }

// Replaceable says whether the proposal could stand in place of the overlay that it
// is in conflict with.
func (p Proposal) Replaceable() bool { return len(p.Errors) == 0 && p.Replaces }

// draft is a text before it has an id.
type draft struct {
	where       string
	exact       bool // a file of our own: fm stands as it is
	fm          contracts.OverlayTemplateFrontmatter
	name        string // the id is made of it
	title       string
	description string
	version     string
	tags        []string
	inForce     bool // its home calls this version production
	body        string
	notes       []string
	lost        []Loss
}

func (d *draft) lose(what, why string) { d.lost = append(d.lost, Loss{clip(what), why}) }
func (d *draft) note(text string)      { d.notes = append(d.notes, text) }

// reading is what a file holds.
type reading struct {
	format  Format
	refused string
	foreign bool // no prompt file at all: in a folder it is passed over
	notes   []string
	lost    []Loss
	drafts  []draft
}

func refuse(format Format, why string) reading { return reading{format: format, refused: why} }
