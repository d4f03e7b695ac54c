package cli

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// SessionReport says what a look at one session's receipts found.
type SessionReport struct {
	OK         bool                          `json:"ok"`
	Running    bool                          `json:"running"` // a server has the data open: it was only read
	SessionKey contracts.OverlaySessionKey   `json:"session_key"`
	Receipts   int                           `json:"receipts"`
	Recomputed int                           `json:"packets_recomputed"`
	Problems   contracts.List[VerifyProblem] `json:"problems"`
	Notes      contracts.List[VerifyProblem] `json:"notes"` // what cannot be checked any more; no failure
}

func (a *app) verifySession(ctx context.Context, memory, name string) error {
	file, err := sessionFile(name)
	if err != nil {
		return err
	}
	r, err := a.Servers.VerifySession(ctx, memory, file)
	if err != nil {
		if fault.Of(err) == fault.NotFound {
			return advice{told{err, "there is no session " + term.Short(name, 60) + " in " + memory}, "see which there are: promptlab sessions list --json"}
		}
		return err
	}
	r.OK = len(r.Problems) == 0
	if err := a.answer(r, func(s term.Screen) { showSessionReport(s, r) }); err != nil {
		return err
	}
	if !r.OK {
		return silent{Failed}
	}
	return nil
}

// sessionFile gives the name of a session's file from any form of its key.
func sessionFile(name string) (string, error) {
	if raw, err := hex.DecodeString(name); err == nil && len(raw) == 32 {
		return strings.ToLower(name), nil
	}
	if strings.HasPrefix(strings.TrimSpace(name), "{") {
		key, err := contracts.Decode[contracts.OverlaySessionKey]([]byte(name), contracts.Client)
		if err == nil {
			key, err = key.Canonical("")
		}
		if err != nil {
			return "", misuse("--session: " + err.Error())
		}
		return key.FileName(), nil
	}
	token, _, _ := strings.Cut(name, ".") // the id of a receipt names its session
	key, err := contracts.ParseSessionToken(token)
	if err != nil {
		return "", misuse("--session is not a session's key; keys are shown by: promptlab sessions show, promptlab sessions list --json")
	}
	return key.FileName(), nil
}

func showSessionReport(s term.Screen, r SessionReport) {
	for _, p := range r.Problems {
		s.Printf("%s %s\n", s.Paint(term.Red, "differs:"), term.Line(p.String()))
	}
	for _, n := range r.Notes {
		s.Printf("%s %s\n", s.Paint(term.Yellow, "not checked:"), term.Line(n.String()))
	}
	where := ""
	if r.SessionKey.SurfaceID != "" {
		where = placeOf(r.SessionKey) + ": "
	}
	s.Printf("%s%s", where, count(r.Receipts, "receipt", "receipts"))
	s.Printf(", %s computed again from the texts of then.\n", count(r.Recomputed, "packet", "packets"))
	switch {
	case !r.OK:
		s.Printf("%s.\n", count(len(r.Problems), "thing differs", "things differ"))
	case len(r.Notes) > 0:
		s.Printf("Nothing differs; %s cannot be checked any more.\n", count(len(r.Notes), "thing", "things"))
	default:
		s.Printf("All of it is as it was recorded.\n")
	}
}
