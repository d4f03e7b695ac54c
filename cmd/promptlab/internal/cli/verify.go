package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
)

// VerifyReport says what a look at the data root found.
type VerifyReport struct {
	OK         bool            `json:"ok"`
	Running    bool            `json:"running"` // a server has it open: only the audit was checked
	AuditLines int             `json:"audit_lines"`
	Revision   uint64          `json:"revision"`
	Files      int             `json:"files"`
	Problems   []VerifyProblem `json:"problems"`
}

// VerifyProblem is one thing that is not as it should be.
type VerifyProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// String gives the place and what is wrong there.
func (p VerifyProblem) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return p.File + ": " + p.Message
}

func (a *app) verifyCommand() *cobra.Command {
	var session string
	c := &cobra.Command{
		Use: "verify", Short: "Check that the data on the disk is whole and unchanged", Args: exactly(),
		Long: `Follows the hash chain of the audit, reads every document, and compares what is
derived with what it is derived from. Beside a running server only the audit is
checked. Exit code 1 names the file, and the line where there is one.

With --session it checks the receipts of one session, also beside a running server: each
is the one that was recorded, and the hash of its packet is computed again from the texts
that were in force then. Where such a text is gone, that is said and is no failure.`,
		Example: "  promptlab verify\n  promptlab verify --json\n  promptlab verify --session eyJzdXJm...ifQ",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, _, err := config.Load(a.configInput(c.Flags()))
			if err != nil {
				return err
			}
			if err := home.Guard(a.UserHome, cfg.Memory); err != nil {
				return err
			}
			if c.Flags().Changed("session") {
				return a.verifySession(c.Context(), cfg.Memory, session)
			}
			r, err := a.Servers.Verify(cfg.Memory)
			if err != nil {
				return err
			}
			r.OK = len(r.Problems) == 0
			if r.Problems == nil {
				r.Problems = []VerifyProblem{}
			}
			if err := a.answer(r, func(s term.Screen) { showVerify(s, r) }); err != nil {
				return err
			}
			if !r.OK {
				return silent{Failed}
			}
			return nil
		},
	}
	addSettings(c)
	c.Flags().StringVar(&session, "session", "", "check this session's receipts: its key as it stands in addresses, its JSON, or the name of its file")
	_ = c.RegisterFlagCompletionFunc("session", a.offer(sessionTokens)) // only fails for unknown flags
	return c
}

func showVerify(s term.Screen, r VerifyReport) {
	for _, p := range r.Problems {
		s.Printf("%s\n", term.Line(p.String()))
	}
	what := fmt.Sprintf("%d audit lines, revision %d, %d files", r.AuditLines, r.Revision, r.Files)
	if r.Running {
		what = fmt.Sprintf("%d audit lines, revision %d (a server runs: only the audit was checked)", r.AuditLines, r.Revision)
	}
	if r.OK {
		s.Printf("Whole and unchanged: %s.\n", what)
		return
	}
	s.Printf("%d problems; checked %s.\n", len(r.Problems), what)
}
