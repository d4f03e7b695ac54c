package lint

import "strings"

// class is a set of words that can fill one place of a phrase. A star makes a
// word a prefix.
type class []string

func words(s string) class { return strings.Fields(s) }

func join(classes ...class) class {
	var out class
	for _, c := range classes {
		out = append(out, c...)
	}
	return out
}

// slot is one place of a phrase: its words, and how many other words may stand
// between the place before and this one.
type slot struct {
	words class
	gap   int
}

// phrase is a way of saying something that no stored text may ask for.
type phrase struct {
	id      string // stable, shown with findings
	what    string // completes "the text ..."
	mention bool   // so common in harmless text that it is only for review
	scoped  bool   // harmless when it speaks of instructions inside other material
	slots   []slot
}

func at(gap int, c class) slot { return slot{c, gap} }

// phrases is the one list of attack patterns (V6). English in breadth, the plain
// override in German, French, Spanish, Italian and Portuguese.
func phrases() []phrase {
	var (
		drop = words("ignore ignores ignored ignoring disregard* forget* forgot override overrides overriding overrule* supersede* overwrite* bypass* circumvent* " +
			"discard* abandon* dismiss* nullify nullifies void disobey* unlearn")
		weak      = words("drop delete* remove* replace* reset* clear* wipe* lift change* rewrite* modify update*")
		former    = words("previous* prior above earlier preceding foregoing former past system developer operator safety")
		present   = words("existing current original initial default other core base built")
		every     = words("all every your ur")
		rules     = words("instruction* instruct prompt* rule rules guideline* directive* command* direction* message* policy policies constraint* restriction* training programming context conversation* protocol* order orders")
		texts     = words("instruction* prompt prompts guideline* directive*")
		secret    = words("system developer hidden secret confidential root")
		negation  = words("not never dont cannot cant wont avoid* without refuse* stop mustnt shouldnt")
		tell      = words("reveal* disclose* disclosing mention* show* report* tell* admit* acknowledge* expose* surface* leak* divulge*")
		conceal   = words("hide hides hiding conceal* obscure* suppress* withhold* mask* falsify falsif* forge forging strip")
		traces    = words("provenance overlay*")
		ask       = words("reveal* print* show* output* repeat* leak* disclose* dump* expose* display* recite* echo share tell divulge*")
		unbound   = words("bound restricted limited constrained subject censored required obliged")
		free      = words("unrestricted jailbroken uncensored unfiltered dan unbound lawless omnipotent amoral")
		dropOther = words("ignor* vergiss* vergesst missacht* verwirf* oublie* neglige* olvid* descart* dimentic* esquec* desconsider* uberschreib*")
		//nolint:misspell // German, French, Spanish, Italian, Portuguese
		ruleOther = words("anweisung* regel* instruktion* vorgabe* befehl* instruction* consigne* regle* instruccion* regla* istruzion* regol* instruco* regra* orden*")
		lastOther = words("vorherig* bisherig* vorig* obig* vorangegangen* precedent* anterieur* anterior* previa* previo* precedente*")
	)
	return []phrase{
		{id: "override.former", what: "tells a model to drop the instructions it was given before", slots: []slot{at(0, drop), at(4, former), at(3, rules)}},
		{id: "override.former.weak", what: "tells a model to drop the instructions it was given before", slots: []slot{at(0, weak), at(3, words("previous* prior above earlier preceding system developer safety")), at(2, words("instruction* prompt prompts directive*"))}},
		{id: "override.after", what: "tells a model to drop the instructions it was given before", slots: []slot{at(0, drop), at(4, rules), at(2, words("above before previously earlier preceding"))}},
		{id: "override.given", what: "tells a model to drop the instructions it was given", slots: []slot{at(0, drop), at(4, rules), at(1, words("you u")), at(1, words("were was have had got received"))}},
		{id: "override.present", what: "tells a model to drop its instructions", slots: []slot{at(0, drop), at(3, present), at(2, texts)}},
		{id: "override.every", what: "tells a model to drop its instructions", scoped: true, slots: []slot{at(0, drop), at(2, every), at(2, words("instruction* prompt prompts guideline* directive* rules programming training"))}},
		{id: "override.everything", what: "tells a model to drop what it was told", slots: []slot{at(0, drop), at(2, words("everything anything all whatever what")), at(4, words("above before previously earlier prior told said instructed"))}},
		{id: "override.stop", what: "tells a model to stop following its instructions", slots: []slot{at(0, words("stop cease quit not never dont")), at(1, words("follow* obey* comply* adher* heed* respect* honor* honour*")), at(4, former), at(3, rules)}},
		{id: "override.other", what: "tells a model to drop the instructions it was given before", slots: []slot{at(0, dropOther), at(3, ruleOther), at(2, lastOther)}},
		{id: "override.other.before", what: "tells a model to drop the instructions it was given before", slots: []slot{at(0, dropOther), at(3, lastOther), at(2, ruleOther)}},
		{id: "rank.over", what: "claims to rank above the system's instructions", slots: []slot{at(0, words("take takes taking has have gets given claim claims")), at(2, words("precedence priority")), at(3, words("system developer previous* prior safety earlier")), at(2, rules)}},
		{id: "rank.over.all", what: "claims to rank above all other instructions", slots: []slot{at(0, words("take takes taking has have gets given precedence priority outrank* trump*")), at(4, words("all any every")), at(2, words("instruction* prompt prompts directive*"))}},
		{id: "rank.outrank", what: "claims to rank above the system's instructions", slots: []slot{at(0, words("outrank* trump*")), at(4, former), at(3, rules)}},
		{id: "rank.reset", what: "asks for a reset of the instruction hierarchy", slots: []slot{at(0, words("reset* flatten* invert* reverse* ignore* disregard* override*")), at(3, words("instruction* prompt command*")), at(2, words("hierarchy precedence priorit* order"))}},
		{id: "rank.void", what: "declares earlier instructions void", slots: []slot{at(0, former), at(2, rules), at(3, words("void obsolete invalid cancelled canceled superseded revoked nullified"))}},
		{id: "safety.drop", what: "asks a model to drop its safety rules", slots: []slot{at(0, join(drop, words("disable* deactivat* suspend* unlock* evade* sidestep* remove* skip*"))), at(4, words("safety ethic* moral* moderation censorship alignment")), at(2, words("rule rules filter* polic* check* measure* protocol* setting* layer* system* guideline* training concern* constraint* restriction* instruction* limit* mechanism*"))}},
		{id: "safety.guardrails", what: "asks a model to drop its safeguards", slots: []slot{at(0, join(drop, words("disable* deactivat* suspend* evade* sidestep* remove* drop"))), at(3, words("guardrail* safeguard*"))}},
		{id: "safety.off", what: "asks a model to switch its safety rules off", slots: []slot{at(0, words("turn* switch*")), at(4, words("off")), at(4, words("safety ethic* guardrail* safeguard* moderation filter*"))}},
		{id: "safety.off.after", what: "asks a model to switch its safety rules off", slots: []slot{at(0, words("turn* switch*")), at(4, words("safety ethic* guardrail* safeguard* moderation")), at(3, words("off"))}},
		{id: "safety.disregard", what: "asks a model to disregard safety", slots: []slot{at(0, words("disregard*")), at(1, words("safety"))}},
		{id: "system.override", what: "tries to replace the system prompt", slots: []slot{at(0, join(drop, words("replace* reset*"))), at(3, join(secret, words("base core"))), at(1, words("prompt prompts message messages instruction* directive*"))}},
		{id: "system.rewrite", what: "speaks of changing the system prompt", mention: true, slots: []slot{at(0, words("change* rewrite* modify update* delete* erase*")), at(3, secret), at(1, words("prompt prompts message messages instruction*"))}},
		{id: "system.new", what: "pretends to bring a new system prompt", slots: []slot{at(0, words("new updated replacement real actual")), at(0, words("system developer")), at(0, words("prompt instruction* directive*"))}},
		{id: "reveal.prompt", what: "asks for the hidden instructions", slots: []slot{at(0, ask), at(4, secret), at(2, words("prompt prompts instruction* directive*"))}},
		{id: "reveal.weak", what: "may ask for the hidden instructions", mention: true, slots: []slot{at(0, ask), at(3, words("initial original internal system")), at(1, words("prompt prompts instruction* message messages guideline*"))}},
		{id: "reveal.above", what: "asks for the text before it", slots: []slot{at(0, words("repeat* print* output* recite* echo dump*")), at(3, words("everything words")), at(2, words("above before"))}},
		{id: "hide.trace", what: "asks to keep provenance or the use of overlays out of sight", slots: []slot{at(0, negation), at(2, join(tell, words("record* log logs logging state stating include*"))), at(5, traces)}},
		{id: "hide.truth", what: "asks to keep the truth out of sight", slots: []slot{at(0, negation), at(2, tell), at(3, words("truth"))}},
		{id: "hide.conceal", what: "asks to hide provenance or truth", slots: []slot{at(0, join(conceal, words("omit* remove* drop delete*"))), at(4, traces)}},
		{id: "hide.conceal.truth", what: "asks to hide the truth", slots: []slot{at(0, conceal), at(3, words("truth"))}},
		{id: "hide.instructions", what: "asks to keep its instructions secret", mention: true, slots: []slot{at(0, negation), at(2, tell), at(2, words("these this your the")), at(1, words("instruction* prompt overlay*"))}},
		{id: "role.free", what: "gives the model a role without rules", slots: []slot{at(0, words("you youre u act acting pretend* become* roleplay* behave")), at(6, free)}},
		{id: "role.mode", what: "asks for a mode without rules", slots: []slot{at(0, words("enable* enter* activate* switch* turn* in into")), at(3, words("developer god dan jailbreak* sudo unrestricted unfiltered")), at(0, words("mode"))}},
		{id: "role.unbound", what: "says that rules no longer bind the model", slots: []slot{at(0, words("you youre u assistant model ai")), at(2, words("no not")), at(0, words("longer bound")), at(1, unbound)}},
		{id: "role.norules", what: "asks for answers without rules", slots: []slot{at(0, words("answer* respond* reply act operate behave speak generate comply pretend*")), at(5, words("without no zero")), at(2, words("restriction* filter* filters censorship guardrail* moderation safeguard*"))}},
		{id: "role.jailbreak", what: "speaks of a jailbreak", mention: true, slots: []slot{at(0, words("jailbreak*"))}},
	}
}

// filler are words that may stand anywhere inside a phrase whose spaces are gone.
const filler = "the all of any my your these those that and or to every each both other please now just a an our its is are with for such you were was given have"

// Words around a phrase that make it a mention rather than a demand.
const (
	negators  = "never not dont cannot cant wont mustnt shouldnt refuse* reject* resist* avoid* without decline*"
	reporters = "says said saying asks asking tells telling claims claiming contains containing tries trying attempts attempting attempted requests requesting demands demanding wants wanting instructs reads phrase* examples injection* attack* like such"
	// after a negator these turn the meaning round: "never forget to ignore ..."
	turners = "forget fail hesitate neglect omit stop refuse mind only wait bother worry miss"
	// after a phrase these place the instructions in other material
	places = "in inside within found contained embedded"
)
