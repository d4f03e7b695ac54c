package home

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Ready is what a running server says about itself. Parts that do not run are left out.
type Ready struct {
	API       string `json:"api,omitempty"`
	Console   string `json:"console,omitempty"`
	Chat      string `json:"chat,omitempty"`
	Dashboard string `json:"dashboard,omitempty"`
	PID       int    `json:"pid"`
	ChatPID   int    `json:"chat_pid,omitempty"` // of a chat endpoint that is a process of its own
	OwnChat   string `json:"own_chat,omitempty"` // the server's, while Chat is that of another process
}

// ReadyFile is where Ready is kept.
func (h Home) ReadyFile() string { return filepath.Join(h.RunDir(), "ready.json") }

// WriteReady tells clients where the server is; it is called when everything
// answers. A server without a chat endpoint leaves what one of its own process has
// said.
func (h Home) WriteReady(r Ready) error {
	if was, err := h.ReadReady(); err == nil && was.ChatPID != 0 && r.Chat == "" {
		r.Chat, r.ChatPID = was.Chat, was.ChatPID
	}
	return h.write(r)
}

func (h Home) write(r Ready) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode ready.json: %w", err)
	}
	return writeFile(h.ReadyFile(), append(b, '\n'))
}

// ReadReady reads what the last server said; fs.ErrNotExist means that none runs.
func (h Home) ReadReady() (Ready, error) {
	b, err := os.ReadFile(h.ReadyFile())
	if err != nil {
		return Ready{}, fmt.Errorf("read ready.json: %w", err)
	}
	var r Ready
	if err := json.Unmarshal(b, &r); err != nil {
		return Ready{}, fmt.Errorf("read ready.json: %w", err)
	}
	return r, nil
}

// RemoveReady takes back what the server of process pid has said; what a chat
// endpoint of its own process has said stays.
func (h Home) RemoveReady(pid int) error {
	r, err := h.ReadReady()
	if err != nil || r.PID != pid {
		return nil //nolint:nilerr // gone, or somebody else's
	}
	if r.ChatPID != 0 {
		return h.write(Ready{Chat: r.Chat, ChatPID: r.ChatPID})
	}
	if err := os.Remove(h.ReadyFile()); err != nil {
		return fmt.Errorf("remove ready.json: %w", err)
	}
	return nil
}

// AddChat says where a chat endpoint of its own process answers, beside what the
// server of this home says.
func (h Home) AddChat(chat Ready) error {
	r, err := h.ReadReady()
	if err != nil { // no server runs here
		r = Ready{}
	}
	if r.ChatPID == 0 {
		r.OwnChat = r.Chat
	}
	r.Chat, r.ChatPID = chat.Chat, chat.PID
	return h.write(r)
}

// RemoveChat takes a chat endpoint's word back, if it is the one of process pid.
func (h Home) RemoveChat(pid int) error {
	r, err := h.ReadReady()
	if err != nil || r.ChatPID != pid {
		return nil //nolint:nilerr // gone, or somebody else's
	}
	r.Chat, r.OwnChat, r.ChatPID = r.OwnChat, "", 0
	if r == (Ready{}) {
		if err := os.Remove(h.ReadyFile()); err != nil {
			return fmt.Errorf("remove ready.json: %w", err)
		}
		return nil
	}
	return h.write(r)
}
