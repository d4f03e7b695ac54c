package cli

import (
	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
)

func (a *app) maintenance() *cobra.Command {
	c := a.talks(&cobra.Command{Use: "maintenance", Short: "What keeps a library tidy; nothing of it happens by itself"})
	c.AddCommand(&cobra.Command{
		Use: "prune", Short: "Forget sessions that nobody has used for two weeks", Args: exactly(),
		Long:    "Forgets sessions that nobody has used for two weeks, with their receipts, and re-answer plans that have long\nexpired. Pins, overlays and feedback stay. It needs the operator's token.",
		Example: "  promptlab maintenance prune",
		RunE: a.as("operator", func(c *cobra.Command, _ []string, cl *client.Client) error {
			p, err := cl.PruneSessions(c.Context())
			if err != nil {
				return err
			}
			return a.answer(p, func(s term.Screen) {
				if p.Sessions+p.Plans == 0 {
					s.Printf("Nothing is old enough to be forgotten.\n")
					return
				}
				s.Printf("Forgotten: %d sessions, %d re-answer plans.\n", p.Sessions, p.Plans)
			})
		}),
	})
	return c
}
