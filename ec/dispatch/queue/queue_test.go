package queue_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/dispatch/queue"
)

const task = contracts.UUID("6f1f0a52-3f6e-4c84-9f9b-0d6e0f9c0a11")

func message() contracts.TaskMessage {
	return contracts.TaskMessage{TaskID: task, Dispatch: 3, Token: strings.Repeat("ab", 32)}
}

// R-SYS-03: a message carries ids and a token and nothing else.
func TestMessageSurvivesTheQueue(t *testing.T) {
	b, err := queue.Encode(message())
	if err != nil {
		t.Fatal(err)
	}
	got, err := queue.Decode(b)
	if err != nil {
		t.Fatalf("decode %s: %v", b, err)
	}
	if d := cmp.Diff(message(), got); d != "" {
		t.Errorf("message changed (-want +got):\n%s", d)
	}
	want := `{"task_id":"` + string(task) + `","dispatch":3,"token":"` + strings.Repeat("ab", 32) + `"}`
	if string(b) != want {
		t.Errorf("encode: got %s, want %s", b, want)
	}
}

func TestMessageIDsDifferByDispatch(t *testing.T) {
	if a, b := queue.MessageID(task, 1), queue.MessageID(task, 2); a == b || a != string(task)+".1" {
		t.Errorf("message ids: got %q and %q", a, b)
	}
}

func TestHostilePayloadsAreRefused(t *testing.T) {
	for name, payload := range map[string]string{
		"empty":       "",
		"not json":    "\x00\x01",
		"no token":    `{"task_id":"` + string(task) + `","dispatch":1}`,
		"short token": `{"task_id":"` + string(task) + `","dispatch":1,"token":"x"}`,
		"bad id":      `{"task_id":"../../etc","dispatch":1,"token":"` + strings.Repeat("a", 64) + `"}`,
		"dispatch 0":  `{"task_id":"` + string(task) + `","dispatch":0,"token":"` + strings.Repeat("a", 64) + `"}`,
		"too long":    `{"x":"` + strings.Repeat("a", 5000) + `"}`,
	} {
		if m, err := queue.Decode([]byte(payload)); err == nil {
			t.Errorf("%s: decoded to %+v, want an error", name, m)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, err := queue.Encode(message())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := queue.Decode(payload)
		if err == nil && (m.Dispatch < 1 || len(m.Token) < 32 || len(m.TaskID) != 36) {
			t.Errorf("decode %q: got %+v without an error", payload, m)
		}
	})
}
