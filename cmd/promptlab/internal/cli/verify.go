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

func (a *app) verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify", Short: "Check that the data on the disk is whole and unchanged", Args: exactly(),
		Long: `Follows the hash chain of the audit, reads every document, and compares what is
derived with what it is derived from. Beside a running server only the audit is
checked. Exit code 1 names the file, and the line where there is one.`,
		Example: "  promptlab verify\n  promptlab verify --json",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, _, err := config.Load(a.configInput(c.Flags()))
			if err != nil {
				return err
			}
			if err := home.Guard(cfg.Memory, a.UserHome); err != nil {
				return err
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
	return c
}

func showVerify(s term.Screen, r VerifyReport) {
	for _, p := range r.Problems {
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		s.Printf("%s\n", term.Line(at+": "+p.Message))
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
