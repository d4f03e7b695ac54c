package presets

import (
	"regexp"
	"strings"
	"testing"
)

// rules holds, for every rule that a preset's text must carry, the words by
// which a reader can tick it: a regular expression over the text on one line, in
// lower case. Groups of a row all have to be there.
func rules() map[string][]string {
	return map[string][]string{
		"dont-make-mistakes": {
			`substance.*rely on.*execute`, `thank-you.*confirmation.*clarification.*normal answer`,
			`one short pass at the end`, `real question head-on`, `assumptions.*proven or said`, `no caveat, step or format is absent.*harm`, `vague, invented or overconfident.*tightened`,
			`out of sight unless asked`, `improve the answer.*must never lengthen it for its own sake`,
		},
		"creative-flow": {
			`brainstorming and early ideas, and nothing else`, `quick, range widely.*quiet the inner critic`,
			`never break an explicit constraint.*required format.*safety rule.*bounds of the deliverable`,
			`different angles rather than a single polished`, `new rather than.*optimised`, `rough but interesting.*one safe`,
			`ideas out, stop, unless ranking or refinement`, `do not slide into verifying or executive summarising unannounced`,
		},
		"pre-mortem-risk-analysis": {
			`imagine that the plan or output has been used and has failed.*before recommending`,
			`risks:.*lead`, `triggers:.*condition.*material`, `responses:.*concrete way to mitigate.*watch`, `practical.*real risks.*long catalogue`,
		},
		"red-team-aggressive": {
			`only for users who want criticism.*adversarial review.*stress test`, `means to break it`, `evidence can carry over guesses`,
			`every major flaw`, `weakness:.*exactly`, `break:.*under pressure`, `evidence:.*concrete fact or scenario`, `fix:.*materially smaller`, `never invent hidden facts`,
		},
		"concise-executive": {
			`brief, direct`, `decide`, `1\. the answer.*2\. why: the main reasons.*3\. the next action.*4\. any caveat that could sink`,
			`do not pad.*process`, `cannot be avoided gets a tight structure.*headline answer`,
		},
		"reflexion-learning": {
			`only once a substantial task is done.*attempt has failed.*explicit request`, `went well`, `failed or is still weak`, `exactly one`,
			`never say that the system logged, saved or learned`, `exception: the runtime expressly requests a structured artifact`,
		},
		"step-back-principles": {
			`do not commit to a specific answer yet`, `in a few words.*should govern.*principles, a framework, or the criteria`, `then apply.*facts or request`, `short and useful.*never for its own sake`,
		},
		"self-consistency-check": {
			`where a cross-check helps.*at least two lines of reasoning before you settle`, `differ in method.*other words does not count`, `compare their outcomes.*resolve it in the open`, `simply answer if the task is easy.*noise`,
		},
		"structured-decomposition": {
			`split.*as few as possible.*useful`, `solve.*order`, `combine`, `prevent omissions and leaps`, `do not cut.*busywork`,
		},
		"legal-strict": {
			`formal legal register`, `1\. issue.*2\. rule.*framework.*3\. application.*4\. conclusion.*5\. qualification:.*record or authority.*discipline`, `drafting and formal analysis.*research grounded in sources.*not replace`,
		},
		"tree-of-approaches": {
			`more than one approach that could work`, `upside`, `downside`, `becomes the better choice`, `recommend the best.*contingent, explain why`,
		},
		"guided-verification": {
			`full checklist only for substantive output.*used, cited, relied on or acted on`, `naturally to acknowledgments, small clarifications and housekeeping`,
			`actually asked`, `assumptions:.*explicit`, `no evidence, dependency, caveat or edge case`, `shape suits the task`, `no claim is unsupported, made up or more certain`, `tighter and clearer`,
			`silently.*only if the user wants`,
		},
		"spec-implementation": {
			`code, wiring, a schema, a command or a route`, `1\. read the spec.*code as it is.*2\. plan so that dependencies come first`, `3\. build in steps of limited size`,
			`4\. verify every contract you changed, every path you touched, and the regressions`, `one blocking ambiguity.*assumption that is safest, briefly, and continue`,
			`never invent interfaces, paths, route names or the ownership of a schema`,
		},
		"secure-code": {
			`defaults that are safe`, `input that is validated`, `no more privilege than needed`, `trust boundaries that are explicit`, `failure that ends in a safe state`,
			`before code or review advice is final`, `input: is it validated`, `injection: traversal`, `unsafe parsers or deserialisation`, `authentication or authorisation`, `secrets:.*sensitive data`, `defaults: dangerous.*silent`,
		},
		"legal-research": {
			`1\. question:.*precision.*2\. framework:.*authorities.*3\. application:.*facts or the issue`, `never fabricate a quotation, a pinpoint citation or a holding`,
			`no authority.*neither given by the user nor retrieved and verified.*plain words.*unverified.*do not feign certainty`,
		},
		"creative-innovation": {
			`differ in substance.*small variants`, `where useful`, `assumed`, `constrains`, `cost`, `domain inspires`, `how far ahead`, `at the end.*novel.*feasible.*high risk`,
		},
		"counterargument-generator": {
			`able adversary.*defeat the current position`, `strongest counterarguments.*straw men`, `each major`, `pressure point`, `persuasive`, `rebuttal or mitigation`,
		},
		"spec-architect": {
			`full protocol is for large architecture drafts, subsystem specs and formal spec reviews`, `list the sections.*interfaces.*seams with owner documents`, `list as the manifest while you draft or review`,
			`flag gaps, conflicts, schema drift and breaches of ownership`, `deferred, in the open and with the reason`, `never call the work complete unless every item.*covered or openly deferred`,
		},
		"elicitation": {
			`sorting the request`, `clear: go ahead`, `partly ambiguous: ask 3 targeted questions at most.*change the output materially`, `blocked: ask for the minimum`,
			`never ask about something the user has already told`, `in a hurry, state assumptions and go on`,
		},
		"verify-first": {
			`candidate answer that looks likeliest and briefly try to break it before you finish`, `make it wrong`, `important check could undercut or refute`, `need revision`, `improve the output`, `do not narrate.*unless someone requests`,
		},
		"diverse-sampling": {
			`variety is the point`, `handful of candidate ideas or framings.*deeper than the wording`, `change the goal, the assumptions, the limits or the line of attack`, `compare them in brief.*choose a direction`,
		},
	}
}

func TestEveryPresetCarriesItsRules(t *testing.T) {
	marks := strings.NewReplacer("**", "", "\n- ", " ", "\n## ", " ", "\n", " ", "## ", " ")
	for _, o := range load(t).Overlays {
		text := strings.ToLower(marks.Replace(o.Body))
		list := rules()[string(o.Frontmatter.ID)]
		if len(list) == 0 {
			t.Errorf("R-PRE-01 %s has no checklist", o.Frontmatter.ID)
		}
		for _, r := range list {
			if !regexp.MustCompile(r).MatchString(text) {
				t.Errorf("R-PRE-01 R-PRE-18 %s does not carry /%s/:\n%s", o.Frontmatter.ID, r, text)
			}
		}
	}
}

// What an optimizer is shown of it needs headings and bullets to keep.
func TestGuidedVerificationIsWellFormed(t *testing.T) {
	for _, o := range load(t).Overlays {
		if o.Frontmatter.ID != "guided-verification" {
			continue
		}
		n := len([]rune(o.Body))
		if h, b := strings.Count(o.Body, "## "), strings.Count(o.Body, "\n- "); n < 650 || n > 800 || h != 3 || b != 6 {
			t.Errorf("guided-verification: %d characters, %d headings, %d bullets; want 650 to 800, 3, 6", n, h, b)
		}
	}
}
