package app

import (
	"debug/elf"
	"encoding/hex"
	"os"
)

// buildID names this very program, down to the last line of its code: what one
// build keeps for the next start is not for another one, which may demand more of
// the documents. Empty: it has no name.
func buildID() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // nothing was written
	s := f.Section(".note.go.buildid")
	if s == nil {
		return ""
	}
	note, err := s.Data()
	if err != nil {
		return ""
	}
	return hex.EncodeToString(note)
}
