package importer

import (
	"path"
	"strings"

	"github.com/elnor/promptlab/ec/frontmatter"
)

// readSkill reads a SKILL.md.
func readSkill(p, text string) reading {
	h, body, found := cutHeader(text)
	d := draft{name: path.Base(path.Dir(p)), body: body}
	if d.name == "." || d.name == "/" {
		d.name = "skill"
	}
	if !found {
		d.note("the skill has no readable header; its name was taken from the folder")
	}
	d.take(h, func(e entry) string {
		switch strings.ToLower(e.key) {
		case "license":
			return "an overlay has no licence; keep to the one named"
		case "allowed-tools", "tools", "disallowed-tools":
			return "an overlay gives no permission for tools"
		case "compatibility":
			return "an overlay has no needs of its own"
		case "metadata":
			return "an overlay has no free fields"
		case "model", "context", "agent", "hooks":
			return "an overlay does not choose how it is run"
		case "disable-model-invocation", "user-invocable", "argument-hint":
			return "an overlay is turned on by a person, for a session"
		}
		return ""
	})
	for _, folder := range []string{"scripts/", "references/", "assets/"} {
		if strings.Contains(body, folder) {
			d.note("the text speaks of files beside it (" + folder + "); they do not come along")
		}
	}
	return d.reading(FormatSkill)
}

// readRule reads a Cursor rule.
func readRule(p, text string) reading {
	h, body, found := cutHeader(text)
	d := draft{name: baseName(p), title: firstHeading(body), body: body}
	if !found {
		d.note("the rule has no readable header")
	}
	d.take(h, func(e entry) string {
		switch strings.ToLower(e.key) {
		case "globs":
			return "an overlay applies to a session, not to files"
		case "alwaysapply":
			return "an overlay is turned on by a person; pin it to have it always"
		}
		return ""
	})
	return d.reading(FormatCursorRule)
}

// readInstructions reads an instruction file or prompt file of an editor.
func readInstructions(p, text string) reading {
	h, body, _ := cutHeader(text)
	d := draft{name: baseName(p), title: firstHeading(body), body: body}
	d.take(h, func(e entry) string {
		switch strings.ToLower(e.key) {
		case "applyto":
			return "an overlay applies to a session, not to files"
		case "excludeagent", "agent", "mode", "model", "tools":
			return "an overlay does not choose who runs it, or with what"
		}
		return ""
	})
	return d.reading(FormatInstructions)
}

// readMarkdown reads any other Markdown: a document with installable blocks, or a
// text that is taken whole.
func readMarkdown(p, text string) reading {
	blocks := fences(text)
	if r, is := document(text, blocks); is {
		return r
	}
	if len(blocks) == 1 && wholeText(text, blocks[0]) {
		return refuse(FormatMarkdown, "is one fenced block around everything, which is an example; mark it as ```markdown installable, or take the fence lines away")
	}
	h, body, _ := cutHeader(text)
	d := draft{name: baseName(p), title: firstHeading(body), body: body}
	if generic(d.name) {
		if d.title != "" {
			d.name = d.title
		} else if dir := path.Base(path.Dir(p)); dir != "." && dir != "/" {
			d.name = dir + "-" + d.name
		}
	}
	d.take(h, func(entry) string { return "" })
	return d.reading(FormatMarkdown)
}

// generic finds file names that do not say what a text is about.
func generic(name string) bool {
	switch strings.ToLower(name) {
	case "agents", "agent", "claude", "gemini", "copilot-instructions", "cursorrules", "windsurfrules", "clinerules", "index", "prompt", "system", "readme", "rules":
		return true
	}
	return false
}

// take moves what an overlay can carry out of a foreign header, and lists the rest.
// why gives a reason for keys that the format knows.
func (d *draft) take(h header, why func(entry) string) {
	d.notes = append(d.notes, h.notes...)
	for _, e := range h.entries {
		switch low := strings.ToLower(e.key); {
		case e.text() == "" && (low == "globs" || low == "description"): // written out and left empty
		case low == "name" && e.list == nil && e.value != "":
			d.name, d.title = e.value, humanTitle(e.value)
		case low == "title" && e.list == nil && e.value != "":
			d.title = oneLine(e.value)
		case low == "id" && e.list == nil && slug(e.value) == e.value:
			d.name = e.value
		case low == "description" && e.list == nil:
			d.description = strings.TrimSpace(e.value)
		case low == "version" && e.list == nil && e.value != "" && len(e.value) <= 64:
			d.version = e.value
		case low == "tags" && e.list != nil && len(e.list) <= 64:
			d.tags = e.list
		default:
			reason := why(e)
			if reason == "" {
				reason = "an overlay has no such key"
			}
			d.lose(joined(e.key, e.text()), reason)
		}
	}
}

func (d *draft) reading(f Format) reading {
	if strings.TrimSpace(d.body) == "" {
		return refuse(f, "holds no text below its header")
	}
	return reading{format: f, drafts: []draft{*d}}
}

// installable reads the text of a marked block: a file of ours, or any Markdown
// with or without a header.
func installable(text, heading string) draft {
	if doc, err := frontmatter.Parse([]byte(text)); err == nil {
		return exact(doc)
	} else if h, body, found := cutHeader(text); found {
		d := draft{name: heading, title: firstHeading(body), body: body}
		d.take(h, func(entry) string { return "" })
		if h.has("artifact_class") {
			d.note("the block's header is not a valid overlay header, so only what is clear was taken from it (" + clip(err.Error()) + ")")
		}
		return d
	}
	d := draft{name: heading, title: firstHeading(text), body: text}
	if d.title != "" {
		d.name = d.title
	}
	return d
}
