// Package simulator is a small deterministic world that answers like a model,
// so that the demo and the tests need no key and know the right outcome. One
// library, two doors: [Adapter] is the provider "simulator", whose answers cost
// nothing, are marked as simulated and can never be promoted; package
// simulator/simserver is an OpenAI-compatible server for tests only.
//
// It deliberately does not know how answers are scored, where prompts are
// composed, or anything about jobs. It is no language model: what it "reads"
// is written down here.
//
// # The world
//
// Somebody asks for short release or change notes and uses an overlay as system
// text. The house wants four things in every note, each on a line of its own:
//
//	Decision: <what was decided>
//	Owner: <a name>
//	Deadline: <a date, YYYY-MM-DD>
//	Risk: <what may go wrong>
//
// The facts come from the input: "decided to X", "NAME owns it" (or "leads it",
// "is responsible"), an ISO date, "main worry is X" (or "risk is X"). What the
// input does not say is made up from its hash, so any input works. Everything
// else in a note is prose without these labels, so a check that a note contains
// "Decision:" (exactly so, capital and colon) is a check of the feature. An
// example's expected signal is those four checks, one per line:
//
//	contains: Decision:
//	contains: Owner:
//	contains: Deadline:
//	contains: Risk:
//
// # What helps
//
// In the helpful world a feature is shown with probability 0.9 when the system
// text carries its instruction and 0.35 when it does not. The system text
// carries the instruction of a rule when, in lower case, it contains the
// label with its colon ("decision:") or "<label> line" ("decision line"). The
// draw is a hash of world seed, rule, input, carried or not, and the request's
// seed; so two texts that carry the same rules get the same answers, and a test
// knows the optimum: a text that carries all four scores 0.9 on average, one
// that carries none 0.35. Every other instruction is a decoy.
//
// In the null world a feature is shown with probability 0.5 whatever the text
// says; the draw depends on the hash of the whole system text, so texts differ
// by luck alone.
//
// # Requests for a new text
//
// A user message that contains both <prompt> and </prompt> asks for an edited
// text. The texts to edit are looked for in this order: the longest block
// between <NAME> and </NAME> for each NAME of current, current_a, current_b,
// parent, parent_a, parent_b, parent1, parent2, mother, father, text_a, text_b,
// first, second, instruction, curr_param; else the blocks between lines that
// start with BEGIN and END (dashes and the like before them are fine); else the
// longest block between any other pair of equal tags. Of a block that lists
// earlier versions ("text:", the text, "score: 61"; best last) the last one is
// meant. The answer is
//
//	<prompt>
//	the first text, every line kept, plus bullets at its end
//	</prompt>
//
// A child of one text gains one or two bullets from a pool of four that help and
// four that do not; a child of two texts has the bullets of both first. A child
// has at most six pool bullets and stays below 1.28 times the length of its text
// without them; when there is no room, a child of one text exchanges one of
// them. A text needs about 350 bytes to have room for all four that help. The
// request's seed makes another child of the same text. Without a text
// to edit, and for judge, critic and rewrite calls, the answer is "[simulated]"
// and a hash.
package simulator
