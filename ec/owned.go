package ec

import (
	"slices"
	"strings"
)

// Owner says whose a part of the data root is.
type Owner string

// The owners. All of them are parts of EC: what belongs to another system is
// kept here as a copy or a stand-in, or not at all.
const (
	OwnedByLibrary  Owner = "library"   // overlays, their history, what is derived from them, what was installed
	OwnedBySessions Owner = "sessions"  // live sessions, receipts, pins, plans, what surfaces bring along
	OwnedByFeedback Owner = "feedback"  // what people and surfaces said of overlays
	OwnedByLab      Owner = "lab"       // jobs, datasets, measured rows, switches
	OwnedByEC       Owner = "ec"        // keys, audit, usage, the registry of models
	CopyOfEvidence  Owner = "evidence"  // what is known by ids of the system that judges candidates
	StandIn         Owner = "companion" // kept for another system until it is there
)

// Place is a part of the data root that EC writes: a folder when Path ends in a
// slash, else one file. A stream is appended to, everything else replaced.
type Place struct {
	Path   string
	Ends   string // what names in a folder end in
	Owner  Owner
	Stream bool
}

// Places lists everything that EC writes; nothing else is ever written. A file
// belongs to the first place that takes it.
func Places() []Place {
	return []Place{
		{Path: dirTemplates, Ends: ".md", Owner: OwnedByLibrary},
		{Path: dirTemplates, Ends: ".md" + rejectedSuffix, Owner: OwnedByLibrary},
		{Path: dirArchived, Ends: ".md", Owner: OwnedByLibrary},
		{Path: dirArchived, Ends: ".md" + rejectedSuffix, Owner: OwnedByLibrary},
		{Path: dirHistory, Ends: ".md", Owner: OwnedByLibrary},
		{Path: dirHistory, Ends: "/record.json", Owner: OwnedByLibrary},
		{Path: pathIndex, Owner: OwnedByLibrary},
		{Path: pathMetadata, Owner: OwnedByLibrary},
		{Path: pathManifest, Owner: OwnedByLibrary},
		{Path: pathInstall, Owner: OwnedByLibrary},
		{Path: dirBackup, Owner: OwnedByLibrary},
		{Path: dirSessions, Ends: ".json", Owner: OwnedBySessions},
		{Path: dirPins, Ends: ".json", Owner: OwnedBySessions},
		{Path: dirPlans, Ends: ".json", Owner: OwnedBySessions},
		{Path: pathDefaults, Owner: StandIn},
		{Path: dirRooms, Ends: ".json", Owner: StandIn},
		{Path: pathSignals, Owner: OwnedByFeedback, Stream: true},
		{Path: pathFlags, Owner: OwnedByLab},
		{Path: dirQueue, Ends: ".json", Owner: OwnedByLab},
		{Path: dirDatasets, Ends: ".json", Owner: OwnedByLab},
		{Path: pathHoldouts, Owner: OwnedByLab},
		{Path: dirRows, Ends: ".jsonl", Owner: OwnedByLab, Stream: true},
		{Path: dirCandidates, Ends: ".json", Owner: CopyOfEvidence},
		{Path: dirSummaries, Ends: ".json", Owner: CopyOfEvidence},
		{Path: pathKeys, Owner: OwnedByEC},
		{Path: dirModels, Ends: ".json", Owner: OwnedByEC},
		{Path: dirUsage, Ends: ".jsonl", Owner: OwnedByEC, Stream: true},
		{Path: dirAudit, Ends: ".jsonl", Owner: OwnedByEC, Stream: true},
	}
}

func (p Place) takes(path string, stream bool) bool {
	if p.Stream != stream {
		return false
	}
	name, below := strings.CutPrefix(path, p.Path)
	if !strings.HasSuffix(p.Path, "/") {
		return below && name == ""
	}
	return below && len(name) > len(p.Ends) && strings.HasSuffix(name, p.Ends)
}

// OwnerOf says whose the file at a path is; false: EC does not write there, or
// not in that way.
func OwnerOf(path string, stream bool) (Owner, bool) {
	places := Places()
	i := slices.IndexFunc(places, func(p Place) bool { return p.takes(path, stream) })
	if i < 0 {
		return "", false
	}
	return places[i].Owner, true
}
