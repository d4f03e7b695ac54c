// Package queue is what the dispatcher and the workers must agree on: the name
// of the queue, the names of messages, and the one shape that a message has. It
// deliberately does not know Redis, asynq or the domain.
package queue

import (
	"encoding/json"
	"fmt"

	"github.com/elnor/promptlab/contracts"
)

// Name is the queue that all lab tasks go through.
const Name = "lab"

// maxPayload bounds what a worker reads from Redis; a message has about 150 bytes.
const maxPayload = 4096

// Type gives the name under which a task's message is filed. It is for people
// who look at the queue: workers take their orders from the claim.
func Type(kind contracts.TaskKind) string { return "lab:" + string(kind) }

// MessageID gives the id of the message for one dispatch of a task. It is never
// used twice, so an old message in whatever state cannot block a new one.
func MessageID(task contracts.UUID, dispatch int) string {
	return fmt.Sprintf("%s.%d", task, dispatch)
}

// Encode writes a message.
func Encode(m contracts.TaskMessage) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode task message: %w", err)
	}
	return b, nil
}

// Decode reads a message. Whoever can write to Redis can write anything: a
// message that is too long or of another shape gives a fault.
func Decode(payload []byte) (contracts.TaskMessage, error) {
	if len(payload) > maxPayload {
		return contracts.TaskMessage{}, fmt.Errorf("decode task message: %d bytes are more than %d", len(payload), maxPayload)
	}
	return contracts.Decode[contracts.TaskMessage](payload, contracts.Peer)
}
