package ec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// The layout of the data root. Folders end in a slash.
const (
	dirTemplates  = "system/overlays/templates/"
	dirArchived   = "system/overlays/archived/"
	dirHistory    = "system/overlays/history/"
	pathIndex     = "system/overlays/index.json"
	pathMetadata  = "system/overlays/metadata.json"
	pathManifest  = "system/overlays/preset_manifest.json"
	pathInstall   = "system/overlays/install_state.json"
	dirSessions   = "system/overlays/sessions/"
	dirPins       = "system/overlays/pins/"
	dirPlans      = "system/overlays/reanswer_plans/"
	pathDefaults  = "system/overlays/extensions/defaults.json"
	dirRooms      = "system/overlays/extensions/rooms/"
	pathSignals   = "signals/doc17/overlay_feedback.jsonl"
	pathKeys      = "system/keys.json"
	pathFlags     = "system/prompt_lab/feature_flags.json"
	dirQueue      = "system/prompt_lab/worker/queue/"
	dirCandidates = "system/prompt_lab/results/candidates/"
	dirSummaries  = "system/prompt_lab/results/replay_summaries/"
	dirDatasets   = "system/prompt_lab/datasets/"
	pathHoldouts  = "system/prompt_lab/measurements/holdout_uses.json"
	dirRows       = "system/prompt_lab/measurements/"
	dirUsage      = "system/prompt_lab/usage/"
	dirAudit      = "system/audit/"
	dirModels     = "system/models/"
)

// Watched lists the folders whose files people may edit by hand.
func Watched() []string { return []string{dirTemplates, dirArchived} }

// Doc is the new content of one document; a nil Body removes it.
type Doc struct {
	Path string
	Body []byte
}

// Line is one line for a stream.
type Line struct {
	Stream string
	Body   []byte
}

// Change is what a command does to the files, all of it or nothing.
type Change struct {
	Docs  []Doc
	Lines []Line
}

// queueFolder is where a job's document lies in each status.
func queueFolder(status contracts.PromptLabJobStatus) string {
	switch status {
	case contracts.JobQueued:
		return "pending/"
	case contracts.JobRunning:
		return "running/"
	case contracts.JobCompleted, contracts.JobStale:
		return "completed/"
	default:
		return "failed/"
	}
}

func jobPath(j *Job) string {
	return dirQueue + queueFolder(j.Job.Status) + string(j.Job.JobID) + ".json"
}

func overlayPath(o *Overlay) string {
	if o.Archived() {
		return dirArchived + string(o.Record.Frontmatter.ID) + ".md"
	}
	return dirTemplates + string(o.Record.Frontmatter.ID) + ".md"
}

// overlayKept is what is kept of an overlay beside its file.
type overlayKept struct {
	SchemaVersion   int                     `json:"schema_version"`
	Source          contracts.OverlaySource `json:"source"`
	CreatedAt       contracts.Time          `json:"created_at"`
	UpdatedAt       contracts.Time          `json:"updated_at"`
	ArchivedAt      *contracts.Time         `json:"archived_at,omitempty"`
	Revision        int                     `json:"revision"`
	FileHash        string                  `json:"file_hash,omitempty"` // of the file of that revision
	LastLabTestedAt *contracts.Time         `json:"last_lab_tested_at,omitempty"`
}

func keptPath(id contracts.OverlayID) string { return dirHistory + string(id) + "/record.json" }

func historyPath(id contracts.OverlayID, revision int) string {
	return fmt.Sprintf("%s%s/%06d.md", dirHistory, id, revision)
}

func datasetPath(d *contracts.Dataset) string {
	return fmt.Sprintf("%s%s@%d.json", dirDatasets, d.Name, d.Version)
}

func mustJSON(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("ec: encode document: " + err.Error()) // our own types only
	}
	return append(b, '\n')
}

func mustLine(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("ec: encode line: " + err.Error()) // our own types only
	}
	return b
}

// changeOf says what an event does to the files. s is the state after it.
func (s *State) changeOf(e Event, into *Change) {
	put := func(path string, body []byte) { into.Docs = append(into.Docs, Doc{path, body}) }
	switch e := e.(type) {
	case KeysPut:
		put(pathKeys, mustJSON(e.Keys))
	case ModelPut:
		put(ModelPath(e.Model.Name), mustJSON(e.Model))
	case FlagsPut:
		put(pathFlags, mustJSON(e.Flags))
	case RowsPut:
		for _, r := range e.Rows {
			into.Lines = append(into.Lines, Line{dirRows + string(e.JobID) + ".jsonl", mustLine(r)})
		}
	case UsagePut:
		for _, r := range e.Rows {
			into.Lines = append(into.Lines, Line{dirUsage + r.At.Format("2006-01") + ".jsonl", mustLine(r)})
		}
	case SignalPut:
		into.Lines = append(into.Lines, Line{pathSignals, mustLine(e.Line)})
	default: // each knows its own events
		s.libraryChange(e, put)
		s.labChange(e, put)
		liveChange(e, put)
	}
}

// libraryChange says what an event of the library does to the documents.
func (s *State) libraryChange(e Event, put func(path string, body []byte)) {
	switch e := e.(type) {
	case OverlayPut:
		s.overlayChange(e, put)
	case ExternalRefused:
		put(e.Path+rejectedSuffix, e.reason()) // the file itself is the person's
		if e.Replaced != nil {
			id, _, _ := overlayOfPath(e.Path)
			put(rejectedPath(id, e.Replaced), e.Replaced)
		}
	case InstallPut:
		put(pathInstall, mustJSON(e.Install))
		if e.Install.PackID != "" { // before, a manifest there is of an older release
			put(pathManifest, mustJSON(manifestOf(e.Install)))
		}
	case BackupPut:
		put(backupPath(e.Path), e.Body)
	case LegacyTaken:
		if e.Remove {
			put(e.Path, nil)
		}
	}
}

// labChange says what an event of the lab does to the documents.
func (s *State) labChange(e Event, put func(path string, body []byte)) {
	switch e := e.(type) {
	case DatasetPut:
		put(datasetPath(e.Dataset), mustJSON(e.Dataset))
	case HoldoutUsed:
		uses := contracts.Map[int]{}
		s.holdouts.Scan(func(k string, v int) bool { uses[k] = v; return true })
		put(pathHoldouts, mustJSON(uses))
	case JobPut:
		if e.Previous != nil && jobPath(e.Previous) != jobPath(e.Job) {
			put(jobPath(e.Previous), nil)
		}
		put(jobPath(e.Job), mustJSON(e.Job))
	case CandidatePut:
		put(dirCandidates+string(e.Candidate.CandidateID)+".json", mustJSON(e.Candidate))
		if e.Summary != nil {
			put(dirSummaries+string(e.Candidate.CandidateID)+".json", mustJSON(e.Summary))
		}
	}
}

// liveChange says what an event of live sessions does to the documents.
func liveChange(e Event, put func(path string, body []byte)) {
	switch e := e.(type) {
	case SessionPut:
		put(dirSessions+e.Session.file+".json", mustJSON(e.Session))
	case SessionGone:
		put(dirSessions+e.Session.file+".json", nil)
		put(dirSessions+e.Session.file+".truth.json", nil)
	case PinsPut:
		put(dirPins+pinKey(e.Store.Scope, e.Store.WorkspaceID)+".json", mustJSON(e.Store))
	case RoomPut:
		put(roomPath(e.Room), mustJSON(e.Room))
	case DefaultsPut:
		put(pathDefaults, mustJSON(e.Defaults))
	case TruthPut:
		put(dirSessions+e.Truth.SessionKey.FileName()+".truth.json", mustJSON(e.Truth))
	case PlanPut:
		put(dirPlans+string(e.Plan.Plan.PlanID)+".json", mustJSON(e.Plan))
	case PlanGone:
		put(dirPlans+string(e.Plan.Plan.PlanID)+".json", nil)
	}
}

// installedManifest names the pack that is installed and its texts.
type installedManifest struct {
	SchemaVersion int                            `json:"schema_version"`
	PackID        string                         `json:"pack_id"`
	PackVersion   string                         `json:"pack_version"`
	Presets       contracts.List[manifestPreset] `json:"presets"`
}

type manifestPreset struct {
	ID       string `json:"id"`
	Version  string `json:"version"`
	BodyHash string `json:"body_hash"`
}

func manifestOf(i InstallState) installedManifest {
	m := installedManifest{SchemaVersion: 1, PackID: i.PackID, PackVersion: i.PackVersion}
	for _, id := range slices.Sorted(maps.Keys(i.Presets)) {
		m.Presets = append(m.Presets, manifestPreset{id, i.Presets[id].Version, i.Presets[id].BodyHash})
	}
	return m
}

func (s *State) overlayChange(e OverlayPut, put func(string, []byte)) {
	id := e.Overlay.Record.Frontmatter.ID
	if p := e.Previous; p != nil {
		if overlayPath(p) != overlayPath(e.Overlay) {
			put(overlayPath(p), nil)
		}
		if p.FileHash != e.Overlay.FileHash {
			put(historyPath(id, p.Revision), []byte(p.File))
		}
	}
	if e.writesFile() {
		put(overlayPath(e.Overlay), []byte(e.Overlay.File))
		put(historyPath(id, e.Overlay.Revision), []byte(e.Overlay.File)) // a hand may break or remove the file itself
	}
	put(keptPath(id), mustJSON(overlayKept{
		SchemaVersion: 1, Source: e.Overlay.Record.Source, CreatedAt: e.Overlay.Record.CreatedAt, UpdatedAt: e.Overlay.Record.UpdatedAt,
		ArchivedAt: e.Overlay.Record.ArchivedAt, Revision: e.Overlay.Revision, FileHash: e.Overlay.FileHash, LastLabTestedAt: e.Overlay.Meta.LastLabTestedAt,
	}))
}

// Derived renders the documents that can be rebuilt from the others: index and
// metadata of the library. Whoever waits for a processor gets it meanwhile.
func (v *View) Derived() []Doc {
	if v.s.legacy.on {
		return nil // what lies there is of an older release
	}
	var index, meta jsonList
	n := 0
	v.s.overlays.Scan(func(_ string, o *Overlay) bool {
		index.add(indexEntry(o))
		meta.add(o.Meta)
		if n++; n%32 == 0 {
			runtime.Gosched()
		}
		return true
	})
	return []Doc{{pathIndex, index.end()}, {pathMetadata, meta.end()}}
}

// Edition changes whenever Derived may give something else; it is never 0.
func (v *View) Edition() uint64 {
	if v.s.legacy.on {
		return 1
	}
	return v.s.edition + 2
}

// jsonList makes mustJSON of a list, one entry after the other.
type jsonList struct{ b bytes.Buffer }

func (l *jsonList) add(v any) {
	head := ",\n  "
	if l.b.Len() == 0 {
		head = "[\n  "
	}
	l.b.WriteString(head)
	if err := json.Indent(&l.b, mustLine(v), "  ", "  "); err != nil {
		panic("ec: encode document: " + err.Error()) // our own types only
	}
}

func (l *jsonList) end() []byte {
	if l.b.Len() == 0 {
		return []byte("[]\n")
	}
	l.b.WriteString("\n]\n")
	return l.b.Bytes()
}

// overlayOfPath gives the id that a watched file stands for.
func overlayOfPath(path string) (id contracts.OverlayID, archived, ok bool) {
	name, found := strings.CutPrefix(path, dirTemplates)
	if !found {
		name, found = strings.CutPrefix(path, dirArchived)
		archived = true
	}
	slug, md := strings.CutSuffix(name, ".md")
	return contracts.OverlayID(slug), archived, found && md && !strings.Contains(slug, "/")
}
