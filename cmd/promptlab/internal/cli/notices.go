package cli

import (
	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
)

func (a *app) notices() *cobra.Command {
	c := a.talks(&cobra.Command{
		Use: "notices", Short: "What you should read once, for instance after an upgrade", Args: exactly(),
		Example: "  promptlab notices\n  promptlab notices dismiss upgrade-from-r3",
		RunE: a.serving(func(c *cobra.Command, _ []string, cl *client.Client) error {
			list, err := cl.Notices(c.Context())
			if err != nil {
				return err
			}
			return a.answer(list, func(s term.Screen) { writeNotices(s, list) })
		}),
	})
	c.AddCommand(&cobra.Command{
		Use: "dismiss NOTICE", Short: "Put a notice away for good", Args: exactly("NOTICE"),
		Example: "  promptlab notices dismiss upgrade-from-r3",
		RunE: a.serving(func(c *cobra.Command, args []string, cl *client.Client) error {
			left, err := cl.DismissNotice(c.Context(), args[0])
			if err != nil {
				return hint(err, "promptlab notices")
			}
			return a.answer(left, func(s term.Screen) { writeNotices(s, left) })
		}),
	})
	return c
}

func writeNotices(s term.Screen, list contracts.NoticeList) {
	if len(list.Items) == 0 {
		s.Printf("Nothing to read.\n")
	}
	for _, n := range list.Items {
		s.Printf("%s\n%s\n", s.Paint(term.Bold, term.Line(n.Title)), term.Line(n.Message))
		for _, d := range n.Details {
			s.Printf("  - %s\n", term.Line(d))
		}
		s.Printf("Read it? promptlab notices dismiss %s\n", term.Line(n.NoticeID))
	}
}
