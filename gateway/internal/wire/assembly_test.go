package wire_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/gateway/internal/wire"
)

func offered() gateway.Call {
	return gateway.Call{Request: gateway.Request{Tools: []gateway.Tool{{Name: "f"}}}}
}

// R-GWS-01, R-GWB-03: whatever the pieces and their order, what was handed on is
// what the answer holds, and an answer keeps its bound.
func TestAnAnswerIsItsPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(0, 300).Draw(t, "most")
		var text, reasoning, refusal string
		var calls []gateway.ToolCall
		finished, heard := 0, 0
		a := wire.NewAssembly(offered(), most, func(e gateway.Event) error {
			switch e.Kind {
			case gateway.EventDelta:
				text += e.Text
			case gateway.EventReasoning:
				reasoning += e.Text
			case gateway.EventRefusal:
				refusal += e.Text
			case gateway.EventToolCall:
				if e.Tool.Index == len(calls) {
					calls = append(calls, gateway.ToolCall{ID: e.Tool.ID, Name: e.Tool.Name})
				}
				calls[e.Tool.Index].Arguments += e.Tool.Arguments
				heard += len(e.Tool.ID) + len(e.Tool.Name) + len(e.Tool.Arguments)
			case gateway.EventFinish:
				finished++
			}
			heard += len(e.Text)
			return nil
		})
		opened := 0
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			piece := rapid.StringN(0, 20, 40).Draw(t, "piece")
			var err error
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				err = a.Say(gateway.EventDelta, piece)
			case 1:
				err = a.Say(gateway.EventReasoning, piece)
			case 2:
				err = a.Say(gateway.EventRefusal, piece)
			case 3:
				if _, err = a.Open("c"+piece, "f"); err == nil {
					opened++
				}
			default:
				if opened > 0 {
					err = a.Argue(rapid.IntRange(0, opened-1).Draw(t, "call"), piece)
				}
			}
			if err != nil {
				var e *gateway.Error
				if !errors.As(err, &e) || e.Reason != "answer_too_large" || int64(heard) > most {
					t.Fatalf("error %v after %d bytes of %d", err, heard, most)
				}
				return
			}
		}
		a.Speak()
		for range 2 {
			if err := a.End(); err != nil || finished != 1 || !a.Ended() {
				t.Fatalf("the end was told %d times, error %v", finished, err)
			}
		}
		r, err := a.Reply(gateway.FinishStop, gateway.Usage{Known: true, Input: 1, Output: 1})
		if err != nil || int64(heard) > most || r.Reasoning != strings.TrimSpace(reasoning) || r.Refusal != refusal || len(r.ToolCalls) != len(calls) && r.Finish == gateway.FinishToolCalls {
			t.Fatalf("reply %+v, error %v; heard %q, %q, %q and %d calls", r, err, text, reasoning, refusal, len(calls))
		}
		for i, c := range r.ToolCalls {
			if want := calls[i]; c.ID != want.ID || c.Arguments != want.Arguments && (want.Arguments != "" || c.Arguments != "{}") {
				t.Fatalf("call %+v, heard %+v", c, want)
			}
		}
		want := gateway.FinishStop
		switch {
		case len(calls) > 0:
			want = gateway.FinishToolCalls
		case refusal != "":
			want = gateway.FinishRefusal
		}
		if r.Finish != want || want != gateway.FinishRefusal && r.Text != text {
			t.Fatalf("finish %s of %q, want %s of %q", r.Finish, r.Text, want, text)
		}
	})
}

// An error of the consumer ends whatever it was given, the end too.
func TestAConsumersErrorComesBack(t *testing.T) {
	enough := errors.New("enough")
	a := wire.NewAssembly(offered(), 100, func(gateway.Event) error { return enough })
	_, opened := a.Open("c", "f")
	for what, err := range map[string]error{"text": a.Say(gateway.EventDelta, "x"), "a call": opened, "arguments": a.Argue(0, "x"), "the end": a.End()} {
		if !errors.Is(err, enough) || a.Ended() {
			t.Errorf("%s: error %v, ended %t", what, err, a.Ended())
		}
	}
}

// What is no answer is an error with usage that was told; what is cut has only
// the calls that are whole.
func TestWhatIsNoWholeAnswer(t *testing.T) {
	known := gateway.Usage{Known: true, Input: 1, Output: 1}
	for name, c := range map[string]struct {
		do     func(*wire.Assembly) error
		finish gateway.Finish
		usage  gateway.Usage
		reason string
		calls  int
	}{
		"nothing":                {func(*wire.Assembly) error { return nil }, gateway.FinishStop, known, "no_content", 0},
		"nothing, cut":           {func(*wire.Assembly) error { return nil }, gateway.FinishLength, known, "", 0},
		"calls that are none":    {func(a *wire.Assembly) error { return a.Say(gateway.EventDelta, "x") }, gateway.FinishToolCalls, known, "tool_call", 0},
		"a nameless call":        {func(a *wire.Assembly) error { _, err := a.Open("c", ""); return err }, gateway.FinishToolCalls, known, "tool_call", 0},
		"words without tokens":   {func(a *wire.Assembly) error { return a.Say(gateway.EventDelta, "x") }, gateway.FinishStop, gateway.Usage{}, "", 0},
		"calls of which one cut": {func(a *wire.Assembly) error { return twoCalls(a) }, gateway.FinishLength, known, "", 1},
		"too many calls": {func(a *wire.Assembly) error {
			for range 200 {
				if _, err := a.Open("c", "f"); err != nil {
					return err
				}
			}
			return nil
		}, gateway.FinishToolCalls, known, "too_many_tool_calls", 0},
	} {
		a := wire.NewAssembly(offered(), 1<<20, nil)
		err := c.do(a)
		var r gateway.Reply
		if err == nil {
			in := known
			if c.usage == (gateway.Usage{}) {
				in.Output = 0
			}
			r, err = a.Reply(c.finish, in)
			if r.Usage != c.usage {
				t.Errorf("R-GWL-08 %s: usage %+v, want %+v", name, r.Usage, c.usage)
			}
		}
		var e *gateway.Error
		if errors.As(err, &e); (err == nil) != (c.reason == "") || e != nil && e.Reason != c.reason || len(r.ToolCalls) != c.calls {
			t.Errorf("%s: error %v, %d calls; want reason %q, %d calls", name, err, len(r.ToolCalls), c.reason, c.calls)
		}
	}
	bare := wire.NewAssembly(gateway.Call{}, 100, nil)
	if _, err := bare.Open("c", "f"); gateway.ClassOf(err) != gateway.ClassMalformedResponse {
		t.Errorf("a call that nobody offered tools for: error %v", err)
	}
}

func twoCalls(a *wire.Assembly) error {
	for _, arguments := range []string{`{"a":1}`, `{"b"`} {
		at, err := a.Open("c", "f")
		if err != nil {
			return err
		}
		if err := a.Argue(at, arguments); err != nil || !a.Argued(at) {
			return errors.Join(err, errors.New("not argued"))
		}
	}
	return nil
}

func TestCounts(t *testing.T) {
	for v, ok := range map[float64]bool{0: true, 3: true, -1: false, 1.5: false, 1e15: false, math.Inf(1): false, math.NaN(): false} {
		if n, got := wire.Count(&v); got != ok || ok && n != int64(v) {
			t.Errorf("%g counts as %d, %t", v, n, got)
		}
	}
	if _, ok := wire.Count(nil); ok {
		t.Error("no count is one")
	}
	if got := wire.SchemaName("judge/1 é-A9"); got != "judge_1__-A9" {
		t.Errorf("schema name %q", got)
	}
}
