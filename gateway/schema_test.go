package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elnor/promptlab/gateway"
)

// R-GWO-01, R-GWO-06: whatever the server promised, the answer is held against
// the schema, and one that was cut is no answer.
func TestStructuredAnswersAreHeldAgainstTheirSchema(t *testing.T) {
	for _, c := range []struct {
		name, text string
		finish     gateway.Finish
		malformed  bool
	}{
		{"of the shape", `{"score":0.5,"maximum":"abc"}`, gateway.FinishStop, false},
		{"in a fence", "```json\n{\"score\":0.5}\n```", gateway.FinishStop, false},
		{"R-GWO-06 cut, although it parses", `{"score":0.5}`, gateway.FinishLength, true},
		{"R-GWO-06 of unknown end", `{"score":0.5}`, gateway.FinishUnknown, true},
		{"refused", `{"score":0.5}`, gateway.FinishRefusal, true},
		{"a bound that no strict mode checks", `{"score":1.5}`, gateway.FinishStop, true},
		{"a text too long", `{"score":1,"maximum":"abcd"}`, gateway.FinishStop, true},
		{"a field too many", `{"score":1,"x":1}`, gateway.FinishStop, true},
		{"a field missing", `{}`, gateway.FinishStop, true},
		{"another type", `{"score":"1"}`, gateway.FinishStop, true},
		{"prose", `I would say ` + canary, gateway.FinishStop, true},
		{"two values", `{"score":1}{"score":0}`, gateway.FinishStop, true},
		{"cut JSON", `{"score":1`, gateway.FinishStop, true},
		{"nothing", ``, gateway.FinishStop, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
				return gateway.Reply{Text: c.text, Finish: c.finish, ServedModel: "m1"}, nil
			}}
			m := model("one", gateway.RoleJudge)
			m.Profile = "vllm" // whose strict mode is in use and is not believed
			r := newRig(t, a, m)
			req := ask(gateway.RoleJudge)
			req.Schema = shape(t)
			resp, err := r.Do(t.Context(), req, gateway.Unlimited())
			if err != nil || resp.Malformed != c.malformed || resp.Complete() == c.malformed || resp.Text != c.text {
				t.Errorf("%s ended by %s: response %+v, error %v; want malformed %t and the text as it came", c.text, c.finish, resp, err, c.malformed)
			}
			if row := r.taken()[0]; row.Malformed != c.malformed || a.n != 1 {
				t.Errorf("the row says malformed %t after %d calls", row.Malformed, a.n)
			}
			if err := req.Schema.Check(c.text); err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("R-GWV-03 %v holds the answer", err)
			}
		})
	}
}

func TestFreeTextHasNoShape(t *testing.T) {
	a := &stub{do: func(context.Context, int, gateway.Call) (gateway.Reply, error) {
		return gateway.Reply{Text: "so far", Finish: gateway.FinishLength}, nil
	}}
	r := newRig(t, a, model("one", gateway.RoleTask))
	resp, err := r.Do(t.Context(), ask(gateway.RoleTask), gateway.Unlimited())
	// R-GWT-03, R-GWT-13: a flag says that the text is not whole; the text itself
	// is what the model wrote.
	if err != nil || resp.Complete() || resp.Finish != gateway.FinishLength || resp.Text != "so far" || resp.Malformed {
		t.Errorf("response %+v, error %v", resp, err)
	}
}

func TestBadSchemas(t *testing.T) {
	readable := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(readable, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, doc := range map[string]string{
		"no JSON": `{`, "no schema": `{"type":7}`, "another document": `{"$ref":"file://` + readable + `"}`, "a remote one": `{"$ref":"https://example.com/x.json"}`,
	} {
		if _, err := gateway.NewSchema("x/1", doc); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := gateway.NewSchema("", `{}`); err == nil {
		t.Error("R-GWO-04 a schema without an id is taken")
	}
}

func FuzzSchemaCheck(f *testing.F) {
	f.Add("```json\n{\"score\":1e400}```")
	f.Add(`[[[[`)
	s, err := gateway.NewSchema("x/1", `{"type":"object","properties":{"score":{"type":"number","minimum":0,"maximum":1}},"required":["score"]}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := s.Check(text); err == nil && !strings.Contains(text, "{") {
			t.Errorf("%q passes as an object", text)
		}
	})
}
