package ec

import (
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// The documents of the public commands. Recipes and the advisor are not here
// yet; their commands are refused like unknown ones.
type (
	wireType struct {
		CommandType string `json:"command_type" minLength:"1" maxLength:"100"`
	}
	wirePayload[T any] struct {
		CommandType string `json:"command_type"`
		Payload     T      `json:"payload"`
	}
	wireUpdate struct {
		CommandType string                          `json:"command_type"`
		OverlayID   contracts.OverlayID             `json:"overlay_id"`
		Payload     contracts.OverlayTemplateRecord `json:"payload"`
	}
	wireOverlay struct {
		CommandType string              `json:"command_type"`
		OverlayID   contracts.OverlayID `json:"overlay_id"`
	}
	wireActivate struct {
		CommandType string                            `json:"command_type"`
		SessionKey  contracts.OverlaySessionKey       `json:"session_key"`
		OverlayID   contracts.OverlayID               `json:"overlay_id"`
		Source      contracts.OverlayActivationSource `json:"source"`
		PinScope    contracts.OverlayPinScope         `json:"pin_scope,omitempty"`
	}
	wireDeactivate struct {
		CommandType string                      `json:"command_type"`
		SessionKey  contracts.OverlaySessionKey `json:"session_key"`
		OverlayID   contracts.OverlayID         `json:"overlay_id"`
	}
	wirePin struct {
		CommandType string                      `json:"command_type"`
		SessionKey  contracts.OverlaySessionKey `json:"session_key"`
		OverlayID   contracts.OverlayID         `json:"overlay_id"`
		PinScope    contracts.OverlayPinScope   `json:"pin_scope"`
	}
	wireRefresh struct {
		CommandType string                         `json:"command_type"`
		SessionKey  contracts.OverlaySessionKey    `json:"session_key"`
		Reason      contracts.OverlayRefreshReason `json:"reason" default:"manual"`
	}
	wireTruth struct {
		CommandType  string                               `json:"command_type"`
		SessionKey   contracts.OverlaySessionKey          `json:"session_key"`
		RuntimeTruth contracts.OverlayRuntimeTruthSummary `json:"runtime_truth"`
	}
	wireCancel struct {
		CommandType string         `json:"command_type"`
		JobID       contracts.UUID `json:"job_id"`
	}
)

// ParseCommand reads the document of a public command, told apart by its
// command_type. The pack is what overlay.install_presets installs; the document
// itself has no payload. EC's own commands cannot be named by a document.
func ParseCommand(doc []byte, pack Pack) (Body, error) {
	head, err := contracts.Decode[wireType](doc, contracts.Peer)
	if err != nil {
		return nil, err //nolint:wrapcheck // a fault for the sender
	}
	parse, ok := parsers(pack)[head.CommandType]
	if !ok {
		return nil, fault.Validation([]fault.Detail{{Field: "command_type", Rule: "enum", Message: "is not a command that can be sent"}})
	}
	return parse(doc)
}

func parsers(pack Pack) map[string]func([]byte) (Body, error) {
	return map[string]func([]byte) (Body, error){
		InstallPresets{}.Type():    parser(func(wireType) Body { return InstallPresets{Pack: pack} }),
		CreateOverlay{}.Type():     parser(func(w wirePayload[contracts.OverlayTemplateRecord]) Body { return CreateOverlay{Record: w.Payload} }),
		UpdateOverlay{}.Type():     parser(func(w wireUpdate) Body { return UpdateOverlay{OverlayID: w.OverlayID, Record: w.Payload} }),
		ArchiveOverlay{}.Type():    parser(func(w wireOverlay) Body { return ArchiveOverlay{OverlayID: w.OverlayID} }),
		RestoreOverlay{}.Type():    parser(func(w wireOverlay) Body { return RestoreOverlay{OverlayID: w.OverlayID} }),
		DeactivateOverlay{}.Type(): parser(func(w wireDeactivate) Body { return DeactivateOverlay{Key: w.SessionKey, OverlayID: w.OverlayID} }),
		PinOverlay{}.Type():        parser(func(w wirePin) Body { return PinOverlay{Key: w.SessionKey, OverlayID: w.OverlayID, Scope: w.PinScope} }),
		UnpinOverlay{}.Type(): parser(func(w wirePin) Body {
			return UnpinOverlay{Key: w.SessionKey, OverlayID: w.OverlayID, Scope: w.PinScope}
		}),
		RequestRefresh{}.Type(): parser(func(w wireRefresh) Body { return RequestRefresh{Key: w.SessionKey, Reason: w.Reason} }),
		SubmitFeedback{}.Type(): parser(func(w wirePayload[contracts.OverlayFeedback]) Body { return SubmitFeedback{Feedback: w.Payload} }),
		CreateJob{}.Type():      parser(func(w wirePayload[contracts.PromptLabJob]) Body { return CreateJob{Job: w.Payload} }),
		CancelJob{}.Type():      parser(func(w wireCancel) Body { return CancelJob{JobID: w.JobID} }),
		ActivateOverlay{}.Type(): parser(func(w wireActivate) Body {
			return ActivateOverlay{Key: w.SessionKey, OverlayID: w.OverlayID, Source: w.Source, PinScope: w.PinScope}
		}),
		RecordTruth{}.Type(): func(doc []byte) (Body, error) {
			w, err := contracts.Decode[wireTruth](doc, contracts.Client)
			if err == nil && w.SessionKey != w.RuntimeTruth.SessionKey {
				err = fault.Validation([]fault.Detail{{Field: "session_key", Rule: "mismatch", Message: "must be the session of runtime_truth"}})
			}
			if err != nil {
				return nil, err
			}
			return RecordTruth{Truth: w.RuntimeTruth}, nil
		},
	}
}

func parser[W any](body func(W) Body) func([]byte) (Body, error) {
	return func(doc []byte) (Body, error) {
		w, err := contracts.Decode[W](doc, contracts.Client)
		if err != nil {
			return nil, err //nolint:wrapcheck // a fault for the sender
		}
		return body(w), nil
	}
}
