package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/importer"
	"github.com/elnor/promptlab/internal/fault"
)

// takeFile creates a file's overlays: one by one, or those of a bundle at once. An
// error means that the server could not be asked any more: what comes after is
// untried.
func takeFile(ctx context.Context, cl *client.Client, file importer.FileReport, seen *sight, f importFlags) ([]outcome, error) {
	ready := func(p importer.Proposal) bool { return p.Takeable() || f.replace && p.Replaceable() }
	together := file.Format == importer.FormatBundle
	blocked := together && slices.ContainsFunc(file.Overlays, func(p importer.Proposal) bool { return !p.Same && !ready(p) })
	var out []outcome
	var bundle client.Bundle
	for i, p := range file.Overlays {
		o := outcome{Path: file.Path, ID: p.Frontmatter.ID}
		text := client.OverlayText{Frontmatter: p.Frontmatter, Body: p.Body}
		var err error
		switch {
		case p.Same:
			o.What, o.Reason = "exists", "the library has it already, to the letter"
		case !ready(p):
			o.What, o.Reason, o.Details = "refused", whyNot(p), p.Errors
		case blocked:
			o.What, o.Reason = "refused", "another overlay of this bundle cannot be taken, so none of it is"
		case !f.apply:
			o.What = "would_create"
		case p.Replaces:
			o.What = "replaced"
			if !together {
				_, err = cl.UpdateOverlay(ctx, text, seen.etags[p.Frontmatter.ID])
			}
		default:
			o.What = "created"
			if !together {
				_, err = cl.CreateOverlay(ctx, text)
			}
		}
		if together && (o.What == "created" || o.What == "replaced") {
			item := client.BundleItem{Record: text, Replace: p.Replaces}
			if p.Replaces {
				item.Match = seen.etags[p.Frontmatter.ID]
			}
			bundle.Items = append(bundle.Items, item)
		}
		if no := refusal(err); no != nil {
			o.What, o.Reason, o.Details = "refused", "the server refuses it: "+no.Message, no.Details
		} else if err != nil {
			return append(out, untried(file, file.Overlays[i:])...), err
		}
		out = append(out, o)
	}
	if len(bundle.Items) == 0 {
		return out, nil
	}
	_, err := cl.SaveBundle(ctx, bundle)
	return takenAt(out, err)
}

// takenAt gives the outcomes of a bundle that was sent at once.
func takenAt(out []outcome, err error) ([]outcome, error) {
	no := refusal(err)
	if err == nil {
		return out, nil
	}
	sent := 0
	for i := range out {
		o := &out[i]
		if o.What != "created" && o.What != "replaced" {
			continue
		}
		if no == nil {
			o.What, o.Reason = "untried", "the server could not be asked; look whether it happened after all"
			continue
		}
		own := fmt.Sprintf("items[%d].record.", sent)
		sent++
		o.What, o.Reason = "refused", "the server refuses the bundle: "+no.Message
		for _, d := range no.Details {
			if field, mine := strings.CutPrefix(d.Field, own); mine {
				d.Field = field
				o.Details = append(o.Details, d)
			}
		}
	}
	if no != nil {
		return out, nil
	}
	return out, err
}

// refusal gives what the server says against an overlay; nil for any other error.
func refusal(err error) *fault.Error {
	var no *fault.Error
	if errors.As(err, &no) && (no.Kind == fault.Invalid || no.Kind == fault.Conflict || no.Kind == fault.PreconditionFailed || no.Kind == fault.Malformed) {
		return no
	}
	return nil
}

// untried lists what was not asked for any more.
func untried(file importer.FileReport, rest []importer.Proposal) []outcome {
	var out []outcome
	for _, p := range rest {
		out = append(out, outcome{Path: file.Path, ID: p.Frontmatter.ID, What: "untried", Reason: "something before it went wrong"})
	}
	return out
}

func whyNot(p importer.Proposal) string {
	if p.Conflict != "" {
		why := string(p.Frontmatter.ID) + " " + p.Conflict
		if p.Replaceable() {
			why += "; to put this one in its place: --apply --replace"
		}
		return why
	}
	return "it breaks " + count(len(p.Errors), "rule", "rules") + " of the library"
}
