package gateway

// EventKind says what a piece of a streamed answer is.
type EventKind string

// The kinds. EventFinish goes from adapter to chain only: a consumer learns of
// the end, of usage and of failures by what Stream returns.
const (
	EventDelta     EventKind = "delta"     // text of the answer
	EventReasoning EventKind = "reasoning" // never a part of the answer
	EventToolCall  EventKind = "tool_call"
	EventRefusal   EventKind = "refusal" // text of a refusal
	EventFinish    EventKind = "finish"  // the provider's own end of the answer
)

// Event is one piece of a streamed answer. It belongs to the attempt that is at
// the provider; with the first one a consumer takes, the attempt is committed
// and neither repeated nor replaced. A piece has no price of its own: usage is
// counted once, at the end.
type Event struct {
	Kind EventKind
	Text string     // of delta, reasoning and refusal; never empty there
	Tool *ToolDelta // of tool_call
}

// ToolDelta is a piece of one tool call. ID and Name come with the first piece
// of an index; Arguments are to be joined.
type ToolDelta struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// EmitReply hands out a whole reply as events, for adapters whose answers come
// in one piece. It ends with the first error of emit.
func EmitReply(r Reply, emit func(Event) error) error {
	var events []Event
	for _, e := range []Event{
		{Kind: EventReasoning, Text: r.Reasoning}, {Kind: EventDelta, Text: r.Text}, {Kind: EventRefusal, Text: r.Refusal},
	} {
		if e.Text != "" {
			events = append(events, e)
		}
	}
	for i, c := range r.ToolCalls {
		events = append(events, Event{Kind: EventToolCall, Tool: &ToolDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments}})
	}
	for _, e := range append(events, Event{Kind: EventFinish}) {
		if err := emit(e); err != nil {
			return err
		}
	}
	return nil
}
