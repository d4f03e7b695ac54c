// Package hook lets the store's own checker look inside and plant bugs. Only
// packages below ec/store can reach it; production passes the zero value.
package hook

// Hooks are the store's openings for tests.
type Hooks struct {
	Bugs Bugs
	// Serial writes documents one after the other, so that one seed gives one
	// order of calls.
	Serial bool
	// KeepAtStart bounds the texts that a start keeps for their first reader, in
	// bytes; 0 is the usual bound.
	KeepAtStart int64
	// BeforePlace is called between the look at a document and its rename.
	BeforePlace func(path string)
}

// Bugs are mistakes in the protocol. Each must be caught by the checker; a
// checker that misses one proves nothing about the store.
type Bugs struct {
	NoJournal            bool // documents and lines are written, nothing is journaled
	JournalNotSynced     bool // the journal is written and never synced
	AckBeforeSync        bool // the batch is synced when the next one comes
	InPlace              bool // documents are cut and written over
	TempNotSynced        bool // rename without fsync of the content
	SyncAfterRename      bool // fsync of the content by its name, too late
	NoCRC                bool // a record counts when it is JSON
	TornTailKept         bool // a stream's torn end is written on
	ReplayTwice          bool // lines are appended again without looking
	JournalDroppedEarly  bool // the old journal goes before streams and folders are synced
	FoldersNotSynced     bool // a checkpoint leaves the folders out
	StreamsNotSynced     bool // a checkpoint leaves the streams out
	JournalNameNotSynced bool // a new journal's name is not made durable
	CheckpointTooSoon    bool // a checkpoint does not wait for the documents behind
	RetrySync            bool // a failed fsync is tried again
	GoOnAfterError       bool // an I/O error does not poison
	StopAtBadLine        bool // everything after a bad record is dropped without a question
	TornIsCorrupt        bool // a torn batch is taken for corruption
	ShortWriteUnseen     bool // a short write of the journal counts as whole
	ReplayInPlaceJournal bool // recovery works from the journal as found, which may not be durable
	OnlyLastChange       bool // a batch's later changes overwrite the record of the earlier ones
	EditOverwritten      bool // a document is written whatever lies there
	BackNotSynced        bool // a foreign text is put back, and the way it went is wiped out too soon
	TempsDeleted         bool // recovery deletes temporary files without looking
	StampsIgnored        bool // a recall file is gone by without a look at the documents
}
