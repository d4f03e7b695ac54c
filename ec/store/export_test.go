package store

// For the tests.
const (
	EverythingAgain = everythingAgain
	StreamChunk     = streamChunk
)
