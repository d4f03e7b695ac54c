package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/term"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/importer"
)

// exported is what an export tells.
type exported struct {
	Out      string                              `json:"out"`
	SHA256   string                              `json:"sha256"`
	Overlays contracts.List[contracts.OverlayID] `json:"overlays"`
}

func (a *app) exportOverlays() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "export [ID...]", Short: "Write overlays into a bundle that overlays import takes elsewhere, byte for byte",
		Long: `Writes a tar with manifest.json (the hash of every file and of the list) and one file per
overlay, in order of their ids, without times or owners: the same overlays give the same
bytes. Each file is the overlay in canonical form: header keys in their fixed order, then
the exact text. Comments that a person wrote into a stored header are not part of it, and
neither is who owns the overlay: where the bundle is imported it becomes that person's.

Without IDs it takes everything in use except presets, which come with the program; a
preset or an archived overlay is taken when it is named.`,
		ValidArgsFunction: a.complete(overlayIDs),
		Example:           "  promptlab overlays export --out mine.tar\n  promptlab overlays export my-overlay > one.tar",
		RunE:              func(c *cobra.Command, args []string) error { return a.runExport(c.Context(), args, out) },
	}
	c.Flags().StringVar(&out, "out", "", "file to write (else standard output)")
	return c
}

func (a *app) runExport(ctx context.Context, ids []string, out string) error {
	switch {
	case out == "" && a.StdoutTTY:
		return misuse("a bundle is no text for a terminal; name a file with --out")
	case out == "" && a.json:
		return misuse("--json needs --out, because the bundle goes to standard output")
	}
	cl, err := a.connect("user")
	if err != nil {
		return err
	}
	left := 0
	if len(ids) == 0 {
		if ids, left, err = ownOverlays(ctx, cl); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return errors.New("there is nothing to export: the library holds no overlay of your own; name presets to take them along")
	}
	var list []importer.Overlay
	seen := map[contracts.OverlayID]bool{}
	doc := exported{Out: out}
	for _, id := range ids {
		o, _, err := cl.Overlay(ctx, id)
		if err != nil {
			return err
		}
		if fm := o.Record.Frontmatter; !seen[fm.ID] {
			seen[fm.ID] = true
			list = append(list, importer.Overlay{Frontmatter: fm, Body: o.Record.Body})
			doc.Overlays = append(doc.Overlays, fm.ID)
		}
	}
	bundle, err := importer.Pack(list)
	if err != nil {
		return err
	}
	if _, err := importer.Unpack(bundle); err != nil { // never hand out what import would refuse
		return fmt.Errorf("the bundle %w", err)
	}
	if left > 0 {
		a.err.Printf("%s left out; name them to take them along.\n", count(left, "preset was", "presets were"))
	}
	if out == "" {
		_, err := a.Stdout.Write(bundle)
		return err
	}
	if err := replaceFile(a.absolute(out), bundle); err != nil {
		return err
	}
	doc.SHA256 = contracts.HashBytes(bundle)
	return a.answer(doc, func(s term.Screen) {
		s.Printf("%s written to %s (sha256 %s).\n", count(len(doc.Overlays), "overlay", "overlays"), term.Line(out), doc.SHA256)
	})
}

// ownOverlays lists what is in use and no preset, and counts the presets.
func ownOverlays(ctx context.Context, cl *client.Client) (ids []string, presets int, err error) {
	list, err := wholeLibrary(ctx, cl)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range list {
		switch {
		case e.Archived:
		case e.Preset:
			presets++
		default:
			ids = append(ids, string(e.OverlayID))
		}
	}
	return ids, presets, nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".promptlab-export-*")
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the error above says more
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}
