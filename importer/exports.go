package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// readJSON reads an export of a prompt manager: one prompt, a list, or a page of a
// list under data, prompts, model_versions or items.
func readJSON(p, text string) reading {
	root, err := parseTree(text)
	if err != nil {
		return reading{refused: err.Error(), foreign: true}
	}
	var r reading
	prompts := pages(root)
	seen := map[Format]bool{}
	for i, n := range prompts {
		if len(r.drafts) == MostProposals {
			r.notes = append(r.notes, fmt.Sprintf("only the first %d prompts were read", MostProposals))
			break
		}
		f := formatOf(n)
		if f == "" {
			if len(prompts) > 1 {
				r.notes = append(r.notes, fmt.Sprintf("entry %d is no prompt that is understood", i+1))
			}
			continue
		}
		seen[f] = true
		r.format = f
		d, why := readPrompt(f, n)
		if why != "" {
			r.notes = append(r.notes, fmt.Sprintf("%s %s", orWord(d.where, fmt.Sprintf("entry %d", i+1)), why))
			continue
		}
		if d.name == "" {
			d.name = baseName(p)
			d.note("the prompt has no name; the file's was taken")
		}
		r.drafts = append(r.drafts, d)
	}
	r.drafts, r.notes = newest(r.drafts, r.notes)
	switch {
	case len(seen) == 0:
		return reading{foreign: true, refused: "is JSON, and no export that is understood (Langfuse prompts, MLflow prompt versions, OpenAI prompt objects)"}
	case seen[FormatOpenAI]:
		r.notes = append(r.notes, "OpenAI documents no export of prompt objects; id, version, variables, instructions, messages and input were read as the API names them")
	}
	if len(r.drafts) == 0 {
		r.refused = "holds no prompt that can become an overlay"
	}
	return r
}

// pages gives the prompts of a document.
func pages(n node) []node {
	if n.kind == 'a' {
		return n.arr
	}
	for _, key := range []string{"data", "prompts", "prompt_versions", "model_versions", "items"} {
		if list := n.at(key); list.kind == 'a' {
			return list.arr
		}
	}
	return []node{n}
}

// formatOf recognises a prompt by its members.
func formatOf(n node) Format {
	if v := n.at("model_version"); v.kind == 'o' {
		n = v
	}
	id, object := n.at("id").str(), n.at("object").str()
	ref := n.at("prompt")
	switch {
	case strings.HasPrefix(id, "pmpt_"), strings.HasPrefix(object, "prompt"),
		ref.kind == 'o' && (ref.has("id") || ref.has("prompt_id")),
		(n.has("instructions") || n.has("messages")) && n.has("version"):
		return FormatOpenAI
	case n.has("template"), tag(n, mlflowText) != "":
		return FormatMLflow
	case n.at("name").kind == 's' && (ref.kind == 's' || ref.kind == 'a'),
		n.at("name").kind == 's' && n.has("lastUpdatedAt") && n.has("versions"):
		return FormatLangfuse
	}
	return ""
}

// readPrompt gives a draft, or says why there is none.
func readPrompt(f Format, n node) (draft, string) {
	switch f {
	case FormatLangfuse:
		return readLangfuse(n)
	case FormatMLflow:
		return readMLflow(n)
	default:
		return readOpenAI(n)
	}
}

// start begins a draft with what all three have.
func start(n node) draft {
	d := draft{name: n.at("name").str(), version: n.at("version").str()}
	if len(d.version) > 64 {
		d.version = ""
	}
	d.title = humanTitle(d.name)
	d.where = "prompt " + clip(orWord(d.name, n.at("id").str()))
	if d.version != "" {
		d.where += " version " + d.version
	}
	return d
}

// rest lists the members that nothing was made of. Bookkeeping that dies with the
// old home, and what is empty, is passed over in silence.
func (d *draft) rest(n node, taken []string, why map[string]string) {
	quiet := []string{
		"id", "object", "type", "prompt_type", "projectId", "createdAt", "updatedAt", "createdBy", "created_at", "updated_at", "created_by",
		"creation_timestamp", "last_updated_timestamp", "user_id", "isActive", "is_default", "uri", "current_stage", "status", "run_id", "source",
	}
	for _, m := range n.obj {
		if slices.Contains(taken, m.name) || slices.Contains(quiet, m.name) || m.node.empty() {
			continue
		}
		reason, known := why[m.name]
		if !known {
			reason = "an overlay has no such field"
		}
		d.lose(joined(m.name, m.node.brief()), reason)
	}
}

const (
	whyModel  = "an overlay does not choose the model or its settings"
	whyLabels = "an overlay has one text in force; there are no labels to deploy by"
	whyCommit = "the library keeps its own history"
)

// readLangfuse reads a prompt as Langfuse's API gives it.
func readLangfuse(n node) (draft, string) {
	d := start(n)
	if n.has("versions") && !n.has("prompt") {
		return d, "is an entry of a list without its text; export the prompt itself"
	}
	if why := d.content(n.at("prompt")); why != "" {
		return d, why
	}
	tags := n.at("tags")
	for _, t := range tags.arr[:min(len(tags.arr), 64)] {
		if t.kind == 's' && t.val != "" {
			d.tags = append(d.tags, oneLine(t.val))
		}
	}
	if strings.Contains(d.body, "@@@langfusePrompt:") {
		d.note("the text refers to another prompt (@@@langfusePrompt:...@@@); put that prompt's text in its place")
	}
	d.rest(n, []string{"name", "version", "prompt", "tags"}, map[string]string{
		"config": whyModel, "labels": whyLabels, "commitMessage": whyCommit, "resolutionGraph": "an overlay is made of no other prompts",
	})
	d.inForce = slices.ContainsFunc(n.at("labels").arr, func(l node) bool { return l.val == "production" })
	return d, ""
}

// The tags in which MLflow's model registry keeps prompts.
const (
	mlflowText   = "mlflow.prompt.text"
	mlflowPrefix = "mlflow.prompt."
	mlflowHidden = "_mlflow_prompt_"
)

// tag gives the value of an MLflow tag, which come as an object or as a list of
// keys and values.
func tag(n node, key string) string {
	tags := n.at("tags")
	for _, t := range tags.arr {
		if t.at("key").str() == key {
			return t.at("value").str()
		}
	}
	return tags.at(key).str()
}

// readMLflow reads a prompt version, in the words of the client or of the registry
// below it.
func readMLflow(n node) (draft, string) {
	if v := n.at("model_version"); v.kind == 'o' {
		n = v
	}
	d := start(n)
	template := n.at("template")
	if template.kind == 0 {
		template = node{kind: 's', val: tag(n, mlflowText)}
		if tag(n, mlflowHidden+"type") == "chat" {
			chat, err := parseTree(template.val)
			if err != nil {
				return d, "says that it is a chat, and its text is no list of messages"
			}
			template = chat
		}
	}
	if why := d.content(template); why != "" {
		return d, why
	}
	d.description = n.at("description").str()
	d.mlflowTags(n.at("tags"))
	d.rest(n, []string{"name", "version", "template", "tags", "description", "variables"}, map[string]string{
		"commit_message": whyCommit, "aliases": whyLabels, "model_config": whyModel, "response_format": "an overlay asks for no format of answers",
	})
	d.inForce = slices.ContainsFunc(n.at("aliases").arr, func(l node) bool { return l.val == "production" || l.at("alias").val == "production" })
	return d, ""
}

// mlflowTags lists a person's tags as lost; the registry's own are its business.
func (d *draft) mlflowTags(tags node) {
	lose := func(key, value string) {
		switch {
		case key == mlflowHidden+"response_format", key == mlflowHidden+"model_config":
			d.lose(joined(key, value), "an overlay does not choose the model or the format of answers")
		case !strings.HasPrefix(key, mlflowPrefix) && !strings.HasPrefix(key, mlflowHidden):
			d.lose("tag "+joined(key, value), "an overlay has no free fields")
		}
	}
	for _, t := range tags.arr {
		lose(t.at("key").str(), t.at("value").str())
	}
	for _, m := range tags.obj {
		lose(m.name, m.node.brief())
	}
}

// readOpenAI reads a prompt object.
func readOpenAI(n node) (draft, string) {
	text, around := n, node{}
	if ref := n.at("prompt"); ref.kind == 'o' && !n.has("instructions") && !n.has("messages") {
		text, around = ref, n
	}
	d := start(text)
	d.rest(around, []string{"prompt"}, nil)
	if id := orWord(text.at("id").str(), text.at("prompt_id").str()); d.name == "" && id != "" {
		d.name, d.title = id, "Prompt "+id
		d.where = "prompt " + clip(id)
		if d.version != "" {
			d.where += " version " + d.version
		}
		d.note("the prompt has no name; its id was taken")
	}
	messages := text.at("messages")
	if messages.kind != 'a' {
		messages = text.at("input")
	}
	instructions := text.at("instructions")
	switch {
	case instructions.kind == 's' && strings.TrimSpace(instructions.val) != "":
		d.body = instructions.val
		if messages.kind == 'a' {
			if why := d.messages(messages.arr, d.body); why != "" {
				return d, why
			}
		} else if messages.kind == 's' && messages.val != "" {
			d.lose("input: "+messages.val, "an overlay holds instructions, not what a user says")
		}
	case instructions.kind == 'a':
		messages.arr = append(slices.Clone(instructions.arr), messages.arr...)
		messages.kind = 'a'
		fallthrough
	case messages.kind == 'a':
		if why := d.messages(messages.arr, ""); why != "" {
			return d, why
		}
	default:
		return d, "is only a reference to a prompt; its text is with the provider, open it there and export it with its instructions"
	}
	for _, v := range text.at("variables").obj {
		d.lose("variable "+joined(v.name, v.node.brief()), "an overlay has no variables; save the text as a recipe instead")
	}
	for _, v := range text.at("variables").arr {
		d.lose("variable "+orWord(v.at("name").str(), v.brief()), "an overlay has no variables; save the text as a recipe instead")
	}
	d.description = text.at("description").str()
	why := map[string]string{}
	for _, k := range []string{"model", "temperature", "top_p", "max_output_tokens", "reasoning", "text", "model_settings", "truncation", "store"} {
		why[k] = whyModel
	}
	why["tools"], why["tool_choice"] = "an overlay gives no tools", "an overlay gives no tools"
	d.rest(text, []string{"name", "version", "prompt_id", "instructions", "messages", "input", "variables", "description"}, why)
	return d, ""
}

// content takes a text, or the instructions of a chat.
func (d *draft) content(n node) string {
	switch {
	case n.kind == 's' && strings.TrimSpace(n.val) != "":
		d.body = n.val
		return ""
	case n.kind == 'a':
		return d.messages(n.arr, "")
	default:
		return "holds no text"
	}
}

// messages takes what the system or the developer says and lists the others. A
// chat that is one message of a user is taken as that.
func (d *draft) messages(list []node, before string) string {
	var system []string
	if before != "" {
		system = append(system, before)
	}
	var lost []Loss
	alone := ""
	for _, m := range list {
		role, text := strings.ToLower(m.at("role").str()), d.said(m.at("content"))
		d.rest(m, []string{"role", "content", "name"}, nil)
		switch {
		case m.at("type").str() == "placeholder":
			lost = append(lost, Loss{clip("placeholder for messages: " + m.at("name").str()), "an overlay holds no conversation"})
		case role == "system" || role == "developer":
			system = append(system, text)
		default:
			alone = text
			lost = append(lost, Loss{clip("message of " + orWord(role, "nobody named") + ": " + text), "an overlay holds instructions, not a conversation"})
		}
	}
	switch {
	case len(system) > 0:
		d.body = strings.Join(system, "\n\n")
		d.lost = append(d.lost, lost...)
		if len(system) > 1 {
			d.note(fmt.Sprintf("%d messages of instructions were joined with empty lines between them", len(system)))
		}
	case len(list) == 1 && strings.TrimSpace(alone) != "":
		d.body = alone
		d.note("the prompt is one message of a user; see whether it instructs, or should become a recipe")
	default:
		return "has no message of the system or the developer"
	}
	if strings.TrimSpace(d.body) == "" {
		return "holds no text"
	}
	return ""
}

// said gives a message's text: a string, or the texts of its parts. Parts that are
// no text are listed as lost.
func (d *draft) said(n node) string {
	if n.kind == 's' {
		return n.val
	}
	if n.kind == 'o' {
		n.arr = []node{n}
	}
	var parts []string
	for _, p := range n.arr {
		switch {
		case p.kind == 's':
			parts = append(parts, p.val)
		case p.at("text").kind == 's':
			parts = append(parts, p.at("text").val)
		case p.at("text").at("value").kind == 's':
			parts = append(parts, p.at("text").at("value").val)
		default:
			d.lose("part of a message: "+orWord(p.at("type").str(), p.brief()), "an overlay is text alone")
		}
	}
	return strings.Join(parts, "\n")
}

// newest keeps one version of each prompt: the one in production, else the highest.
func newest(drafts []draft, notes []string) ([]draft, []string) {
	best := map[string]int{}
	better := func(a, b draft) bool {
		if a.inForce != b.inForce {
			return a.inForce
		}
		x, errX := strconv.Atoi(a.version)
		y, errY := strconv.Atoi(b.version)
		if errX != nil || errY != nil {
			return a.version > b.version
		}
		return x > y
	}
	for i, d := range drafts {
		if at, ok := best[d.name]; !ok || better(d, drafts[at]) {
			best[d.name] = i
		}
	}
	var out []draft
	for i, d := range drafts {
		if at := best[d.name]; at != i {
			notes = append(notes, fmt.Sprintf("%s was left out: %s is taken", d.where, drafts[at].where))
			continue
		}
		out = append(out, d)
	}
	return out, notes
}
