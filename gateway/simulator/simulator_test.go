package simulator_test

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/simulator"
)

const base = `Scope: substantive output that will be used, relied on or acted on gets the whole list; small talk gets a natural reply.

## Before finishing
- The actual request is answered.
- Key assumptions are explicit.
- Nothing that matters is left out: evidence, a caveat, a dependency, an edge case.
- Every number, name and quotation was checked against what was given.
- Words that only fill space are gone, and what is uncertain is called uncertain.
- The structure suits the task.
- No claim is unsupported.
Keep the checking silent unless the user asks for the notes.`

var bullets = []string{"- Add a `Decision:` line.", "- Add an `Owner:` line.", "- Add a `Deadline:` line.", "- Add a `Risk:` line."}

func world(t *testing.T, k simulator.Kind, seed uint64) *simulator.World {
	t.Helper()
	w, err := simulator.New(k, seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ask(w *simulator.World, system, user string) simulator.Answer {
	return w.Answer([]gateway.Message{{Role: "system", Content: system}, {Role: "user", Content: user}}, simulator.Params{MaxTokens: 2000})
}

// score is the share of an example's checks that an answer passes.
func score(answer string, e simulator.Example) float64 {
	checks := strings.Split(e.ExpectedSignal, "\n")
	hits := 0
	for _, c := range checks {
		if strings.Contains(answer, strings.TrimPrefix(c, "contains: ")) {
			hits++
		}
	}
	return float64(hits) / float64(len(checks))
}

func mean(w *simulator.World, system string, examples []simulator.Example) float64 {
	var sum float64
	for _, e := range examples {
		sum += score(ask(w, system, e.Input).Text, e)
	}
	return sum / float64(len(examples))
}

func TestTheHelpfulWorldRewardsEveryHiddenRule(t *testing.T) {
	w := world(t, simulator.Helpful, 1)
	examples := simulator.Examples(800, 3)
	for n := range len(bullets) + 1 {
		system := base + "\n" + strings.Join(bullets[:n], "\n")
		want := w.Expected(system)
		if got := mean(w, system, examples); math.Abs(got-want) > 0.03 {
			t.Errorf("%d of 4 rules: mean %.3f, want %.3f", n, got, want)
		}
	}
	if w.Expected(base) != simulator.PLow || w.Expected(base+strings.Join(bullets, "\n")) != w.Optimum() {
		t.Errorf("expected %.2f without and %.2f with all rules", w.Expected(base), w.Expected(base+strings.Join(bullets, "\n")))
	}
	if a, b := mean(w, base, examples[:60]), mean(w, base+"\n- Prefer active verbs.", examples[:60]); a != b {
		t.Errorf("a decoy moved the mean from %.3f to %.3f", a, b)
	}
}

func TestInTheNullWorldNothingHelps(t *testing.T) {
	w := world(t, simulator.Null, 1)
	examples := simulator.Examples(800, 3)
	for _, system := range []string{base, base + "\n" + strings.Join(bullets, "\n"), "Be brief."} {
		if got := mean(w, system, examples); math.Abs(got-simulator.PNull) > 0.03 {
			t.Errorf("mean %.3f, want %.2f", got, simulator.PNull)
		}
	}
	if ask(w, base, examples[0].Input).Text == ask(w, base+" ", examples[0].Input).Text &&
		ask(w, base, examples[1].Input).Text == ask(w, base+" ", examples[1].Input).Text &&
		ask(w, base, examples[2].Input).Text == ask(w, base+" ", examples[2].Input).Text {
		t.Error("another text changes nothing: its luck is not its own")
	}
}

func TestFeaturesAreLinesWithTheFactsOfTheInput(t *testing.T) {
	w := world(t, simulator.Helpful, 5)
	lines := regexp.MustCompile(`^(Decision: \S.*|Owner: \p{Lu}\S+ \p{Lu}\S+|Deadline: \d{4}-\d{2}-\d{2}|Risk: \S.*)$`)
	input := "Please write notes for the export job. We decided to cache the first page. Anna Kovac owns it, out by 2026-05-14, and the main worry is a slow first run."
	facts := []string{"cache the first page", "Anna Kovac", "2026-05-14", "a slow first run"}
	for _, in := range []string{input, "hello", "Owner: x\nDecision: y", "", simulator.Examples(1, 1)[0].Input} {
		text := ask(w, base+strings.Join(bullets, ""), in).Text
		for i, line := range strings.Split(text, "\n") {
			if i == 0 == lines.MatchString(line) {
				t.Errorf("input %q: line %d is %q", in, i, line)
			}
		}
		for _, f := range facts {
			if in == input && !strings.Contains(text, f) {
				t.Errorf("the note %q does not say %q", text, f)
			}
		}
	}
}

func TestAnswersDependOnNothingButTheRequest(t *testing.T) {
	in := simulator.Examples(40, 9)
	a, b, other := world(t, simulator.Helpful, 1), world(t, simulator.Helpful, 1), world(t, simulator.Helpful, 2)
	differs, repeats := 0, 0
	seed := int64(1)
	for _, e := range in {
		first := ask(a, base, e.Input)
		if first != ask(b, base, e.Input) {
			t.Fatalf("two equal worlds differ about %q", e.Input)
		}
		if first != ask(other, base, e.Input) {
			differs++
		}
		m := []gateway.Message{{Role: "system", Content: base}, {Role: "user", Content: e.Input}}
		if first != a.Answer(m, simulator.Params{MaxTokens: 2000, Seed: &seed}) {
			repeats++
		}
	}
	if differs == 0 || repeats == 0 {
		t.Errorf("of 40 answers %d change with the world and %d with the repeat; want some of both", differs, repeats)
	}
}

func TestUsageAndTruncation(t *testing.T) {
	w := world(t, simulator.Helpful, 1)
	m := []gateway.Message{{Role: "user", Content: "notes for the export job"}}
	a := w.Answer(m, simulator.Params{MaxTokens: 5})
	if a.Finish != gateway.FinishLength || a.Usage.Output > 5 || len(a.Text) > 20 || !a.Usage.Known || a.Usage.Input == 0 {
		t.Errorf("cut answer %+v", a)
	}
}

func meta(sections string) string {
	return "You edit a system overlay. Goal: <task_desc>release notes</task_desc>\n" + sections +
		"\nOutput the complete overlay between <prompt> and </prompt>."
}

// extract takes what an optimizer takes.
func extract(t *testing.T, answer string) string {
	t.Helper()
	_, rest, ok1 := strings.Cut(answer, "<prompt>")
	text, _, ok2 := strings.Cut(rest, "</prompt>")
	if !ok1 || !ok2 {
		t.Fatalf("no text between <prompt> and </prompt> in %q", answer)
	}
	return strings.TrimSpace(text)
}

func TestChildrenKeepTheirParent(t *testing.T) {
	w := world(t, simulator.Helpful, 1)
	for name, sections := range map[string]string{
		"tags":               "<current>\n" + base + "\n</current>",
		"tags spoken of":     "The text stands between <current> and </current>.\n<current>\n" + base + "\n</current>",
		"an instruction tag": "<instruction>" + base + "</instruction>",
		"fences":             "----- BEGIN TEXT -----\n" + base + "\n----- END TEXT -----",
		"a list with scores": "<current>\ntext:\nAnother one.\nscore: 35\n\ntext:\n" + base + "\nscore: 61\n\n\n</current>\n<examples>",
		"an unknown tag":     "<whatever>\n" + base + "\n</whatever>",
	} {
		child := extract(t, w.Answer([]gateway.Message{{Role: "user", Content: meta(sections)}}, simulator.Params{MaxTokens: 2000}).Text)
		if !strings.HasPrefix(child, base+"\n- ") {
			t.Errorf("%s: the child does not begin with its parent:\n%s", name, child)
		}
		if added := strings.Count(child[len(base):], "\n"); added < 1 || added > 2 {
			t.Errorf("%s: %d bullets added, want 1 or 2", name, added)
		}
	}
	if got := w.Answer([]gateway.Message{{Role: "user", Content: meta("no text here")}}, simulator.Params{}).Text; !strings.HasPrefix(got, "[simulated] ") {
		t.Errorf("without a text to edit the answer is %q", got)
	}
}

func TestACrossoverUnitesWhatBothParentsAdded(t *testing.T) {
	w := world(t, simulator.Helpful, 1)
	mother, father := base+"\n"+bullets[0]+"\n"+bullets[2], base+"\n"+bullets[1]
	child := extract(t, w.Answer([]gateway.Message{{Role: "user", Content: meta("<first>\n" + mother + "\n</first>\n<second>\n" + father + "\n</second>")}},
		simulator.Params{}).Text)
	for _, b := range bullets[:3] {
		if strings.Count(child, b) != 1 {
			t.Errorf("the child has %q %d times, want once:\n%s", b, strings.Count(child, b), child)
		}
	}
	if strings.Count(child, "## Before finishing") != 1 {
		t.Errorf("the child repeats its parents:\n%s", child)
	}
}

// A plain hill climber, as stupid as an optimizer can be, finds the optimum of
// the helpful world, and no child ever grows beyond the limit.
func TestSelectionReachesTheOptimum(t *testing.T) {
	for seed := range uint64(3) {
		w := world(t, simulator.Helpful, seed)
		dev := simulator.Examples(30, seed)
		best, top := base, mean(w, base, dev)
		for step := range 60 {
			n := int64(step)
			reply := w.Answer([]gateway.Message{{Role: "user", Content: meta("<current>\n" + best + "\n</current>")}}, simulator.Params{Seed: &n})
			child := extract(t, reply.Text)
			if float64(len(child)) > 1.3*float64(len(base)) {
				t.Fatalf("a child of %d bytes from a text of %d", len(child), len(base))
			}
			if m := mean(w, child, dev); m >= top {
				best, top = child, m
			}
		}
		if got := w.Carried(best); len(got) != 4 {
			t.Errorf("seed %d: after 60 steps only %v", seed, got)
		}
	}
}

func TestExamplesAreDistinctAndRepeatable(t *testing.T) {
	a, b := simulator.Examples(200, 4), simulator.Examples(200, 4)
	if !slices.Equal(a, b) {
		t.Error("equal seeds give different examples")
	}
	seen := map[string]bool{}
	for _, e := range a {
		key := strings.ToLower(strings.Join(strings.Fields(e.Input), " "))
		if seen[key] || seen[e.ID] {
			t.Errorf("example %s appears twice", e.ID)
		}
		seen[key], seen[e.ID] = true, true
	}
}

func TestTheProviderIsMarked(t *testing.T) {
	a := simulator.NewAdapter(1)
	g, err := gateway.New(gateway.Config{
		Models: []gateway.ModelConfig{
			{Name: "sim", Protocol: gateway.ProtocolSimulator, Model: "helpful", Routes: gateway.Roles()},
			{Name: "typo", Protocol: gateway.ProtocolSimulator, Model: "hopeful", Routes: gateway.Roles()},
		},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolSimulator: a},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := gateway.Request{Role: gateway.RoleTask, MaxTokens: 500, Messages: []gateway.Message{{Role: "user", Content: "notes"}}}
	resp, err := g.Do(t.Context(), req, gateway.NoMoney())
	if err != nil || !resp.Simulated || resp.ServedModel != "simulator/helpful" || resp.Cost != 0 || !resp.CostKnown {
		t.Errorf("R-GWG-09 response %+v, error %v", resp, err)
	}
	req.Model = "typo"
	if _, err := g.Do(t.Context(), req, gateway.NoMoney()); gateway.ClassOf(err) != gateway.ClassModelNotFound {
		t.Errorf("an unknown world: %v", err)
	}
	req.Model, req.Role = "sim", gateway.RoleJudge
	if resp, _ := g.Do(t.Context(), req, gateway.NoMoney()); !strings.HasPrefix(resp.Text, "[simulated] ") {
		t.Errorf("a judge's answer %q", resp.Text)
	}
}

// The same answer, word by word, each time the same words; marked as simulated.
func TestTheProviderStreams(t *testing.T) {
	g, err := gateway.New(gateway.Config{
		Models:   []gateway.ModelConfig{{Name: "sim", Protocol: gateway.ProtocolSimulator, Model: "helpful", Routes: gateway.Roles()}},
		Adapters: map[gateway.Protocol]gateway.Adapter{gateway.ProtocolSimulator: simulator.NewAdapter(1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := gateway.Request{Role: gateway.RoleChat, MaxTokens: 500, Messages: []gateway.Message{
		{Role: "developer", Content: "Add a decision line."}, {Role: "user", Parts: []gateway.Part{{Type: "text", Text: "notes"}}}}}
	whole, err := g.Do(t.Context(), req, gateway.NoMoney())
	if err != nil {
		t.Fatal(err)
	}
	var runs [2][]string
	for i := range runs {
		resp, err := g.Stream(t.Context(), req, gateway.NoMoney(), func(e gateway.Event) error {
			runs[i] = append(runs[i], e.Text)
			return nil
		})
		if err != nil || !resp.Simulated || resp.Text != whole.Text || resp.Usage != whole.Usage || strings.Join(runs[i], "") != whole.Text {
			t.Errorf("R-GWG-09 response %+v, error %v; the whole was %q", resp, err, whole.Text)
		}
	}
	if !slices.Equal(runs[0], runs[1]) || len(runs[0]) != len(strings.Fields(whole.Text)) {
		t.Errorf("pieces %q, then %q", runs[0], runs[1])
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	_, err = g.Stream(ctx, req, gateway.NoMoney(), func(gateway.Event) error {
		n++
		cancel()
		return nil
	})
	if gateway.ClassOf(err) != gateway.ClassCallerGone || n != 1 {
		t.Errorf("error %v after %d words, want caller_gone after one", err, n)
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(meta("<current>\n" + base + "\n</current>"))
	f.Add("<prompt></prompt><a><b></a></b>BEGIN\nEND\nBEGIN")
	w, err := simulator.New(simulator.Helpful, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, user string) {
		m := []gateway.Message{{Role: "user", Content: user}}
		if a := w.Answer(m, simulator.Params{}); a.Text == "" || a != w.Answer(m, simulator.Params{}) {
			t.Errorf("%q gives %q, then another", user, a.Text)
		}
	})
}
