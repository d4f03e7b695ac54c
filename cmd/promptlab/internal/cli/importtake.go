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

// take is an import on its way into the library.
type take struct {
	cl   *client.Client
	seen *sight
	f    importFlags
	// groups are the overlays that are saved at once, in the order of their first.
	groups []string
	of     map[string][]*member
}

// member is one overlay of a group, and what becomes of it.
type member struct {
	p importer.Proposal
	o *outcome
}

func (t *take) ready(p importer.Proposal) bool {
	return p.Takeable() || t.f.replace && p.Replaceable()
}

// all creates overlays: one by one, and those of a group at once. An error means
// that the server could not be asked any more: what comes after is untried.
func (t *take) all(ctx context.Context, files []importer.FileReport) ([]outcome, error) {
	n := 0
	for _, file := range files {
		n += len(file.Overlays)
	}
	out := make([]outcome, 0, n)
	var broken error
	for _, file := range files {
		for _, p := range file.Overlays {
			out = append(out, outcome{Path: file.Path, ID: p.Frontmatter.ID})
			o := &out[len(out)-1]
			switch {
			case p.Same:
				o.What, o.Reason = "exists", "the library has it already, to the letter"
			case !t.ready(p):
				o.What, o.Reason, o.Details = "refused", whyNot(p), p.Errors
			case !t.f.apply:
				o.What = "would_create"
			case p.Replaces:
				o.What = "replaced"
			default:
				o.What = "created"
			}
			switch {
			case p.Group != "":
				if t.of[p.Group] == nil {
					t.groups = append(t.groups, p.Group)
				}
				t.of[p.Group] = append(t.of[p.Group], &member{p, o})
			case broken != nil:
				o.untried()
			default:
				broken = t.one(ctx, p, o)
			}
		}
	}
	for _, g := range t.groups {
		if err := t.together(ctx, t.of[g], broken); broken == nil {
			broken = err
		}
	}
	return out, broken
}

// saved says that something is sent for an outcome.
func (o *outcome) saved() bool { return o.What == "created" || o.What == "replaced" }

func (o *outcome) untried() {
	if o.saved() {
		o.What, o.Reason = "untried", "something before it went wrong"
	}
}

// one sends an overlay that is saved by itself.
func (t *take) one(ctx context.Context, p importer.Proposal, o *outcome) (err error) {
	text := client.OverlayText{Frontmatter: p.Frontmatter, Body: p.Body, DeclareReciprocal: t.f.reciprocal}
	switch o.What {
	case "replaced":
		_, err = t.cl.UpdateOverlay(ctx, text, t.seen.etags[p.Frontmatter.ID])
	case "created":
		_, err = t.cl.CreateOverlay(ctx, text)
	}
	if no := refusal(err); no != nil {
		o.What, o.Reason, o.Details = "refused", "the server refuses it: "+no.Message, no.Details
		return nil
	}
	if err != nil {
		o.untried()
	}
	return err
}

// together sends the overlays of a group, unless one of them cannot be taken.
func (t *take) together(ctx context.Context, group []*member, broken error) error {
	blocked := slices.ContainsFunc(group, func(m *member) bool { return !m.p.Same && !t.ready(m.p) })
	var bundle client.Bundle
	var sent []*member
	for _, m := range group {
		switch {
		case broken != nil:
			m.o.untried()
		case blocked && (m.o.saved() || m.o.What == "would_create"):
			m.o.What, m.o.Reason = "refused", "another overlay that comes with it cannot be taken, so none of them is"
		case m.o.saved():
			item := client.BundleItem{Record: client.OverlayText{Frontmatter: m.p.Frontmatter, Body: m.p.Body}, Replace: m.p.Replaces}
			if m.p.Replaces {
				item.Match = t.seen.etags[m.p.Frontmatter.ID]
			}
			bundle.Items, sent = append(bundle.Items, item), append(sent, m)
		}
	}
	if len(sent) == 0 {
		return nil
	}
	_, err := t.cl.SaveBundle(ctx, bundle)
	return takenAt(sent, err)
}

// takenAt gives the outcomes of what was sent at once.
func takenAt(sent []*member, err error) error {
	no := refusal(err)
	if err == nil {
		return nil
	}
	for i, m := range sent {
		o := m.o
		if no == nil {
			o.What, o.Reason = "untried", "the server could not be asked; look whether it happened after all"
			continue
		}
		own := fmt.Sprintf("items[%d].record.", i)
		o.What, o.Reason = "refused", "the server refuses what comes together: "+no.Message
		for _, d := range no.Details {
			if field, mine := strings.CutPrefix(d.Field, own); mine {
				d.Field = field
				o.Details = append(o.Details, d)
			}
		}
	}
	if no != nil {
		return nil
	}
	return err
}

// refusal gives what the server says against an overlay; nil for any other error.
func refusal(err error) *fault.Error {
	var no *fault.Error
	if errors.As(err, &no) && (no.Kind == fault.Invalid || no.Kind == fault.Conflict || no.Kind == fault.PreconditionFailed || no.Kind == fault.Malformed) {
		return no
	}
	return nil
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
