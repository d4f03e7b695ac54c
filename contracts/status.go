package contracts

// Status is what the system says about itself: flags, gates, what is missing.
type Status struct {
	Flags      Flags         `json:"flags"`
	Gates      List[Gate]    `json:"gates"`
	Revision   uint64        `json:"revision"`
	Overlays   int           `json:"overlays"`
	JobsOpen   int           `json:"jobs_open"`
	Simulated  bool          `json:"simulated"`
	StoreError string        `json:"store_error,omitempty"`
	Warnings   List[Warning] `json:"warnings"`
}

// Gate is a condition that some action needs.
type Gate struct {
	Name   string `json:"name"`
	Open   bool   `json:"open"`
	Reason string `json:"reason,omitempty"`
}

// LiveEvent is one message of the event stream: a durable change, or progress.
type LiveEvent struct {
	Seq      uint64        `json:"seq"`      // place in the stream; grows, also across restarts
	Revision uint64        `json:"revision"` // of the view that shows the change; 0 for progress
	Type     string        `json:"type"`
	JobID    UUID          `json:"job_id,omitempty"`
	Overlay  OverlayID     `json:"overlay_id,omitempty"`
	At       Time          `json:"at"`
	Status   string        `json:"status,omitempty"`
	Phase    JobPhase      `json:"phase,omitempty"`
	Progress *TaskProgress `json:"progress,omitempty"`
	// Session is the URL token of the session that changed; a held packet of
	// another revision is out of date, and none is current once it is pruned.
	Session         string `json:"session,omitempty"`
	SessionRevision *int   `json:"session_revision,omitempty" minimum:"0"`
	PendingRefresh  bool   `json:"pending_refresh,omitempty"`
}

// EventList answers a client that asks for events from time to time.
type EventList struct {
	Items List[LiveEvent] `json:"items"`
	Next  uint64          `json:"next"` // ask for what comes after this
	// Missed says that events between what was known and the first of these are
	// not kept any more, or that the number is of another life.
	Missed bool `json:"missed"`
}
