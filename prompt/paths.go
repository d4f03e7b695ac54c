package prompt

import "github.com/elnor/promptlab/contracts"

// The composing paths there are today. A path's name is recorded beside what it
// composed.
const (
	PathTurn     = "turn"     // a chat turn
	PathRoomTurn = "room"     // a turn in a room or a panel, with its role prompts
	PathTaskTurn = "task"     // a turn of a task
	PathOverride = "override" // a turn with overlays of its own
	PathReanswer = "reanswer" // a second answer to selected turns

	PathReplay = "replay" // a text tried on an example, while searching and measuring
	PathJudge  = "judge"  // an answer graded by a rubric
	PathMeta   = "meta"   // an optimizer's request to edit a text
)

// Contract is a promise that composed text keeps to its reader.
type Contract string

// The host contracts.
const (
	ContractFrame     Contract = "overlay_frame"     // an overlay stands in its frame
	ContractEscape    Contract = "marker_escape"     // foreign text cannot open or close a frame
	ContractDirective Contract = "routing_directive" // said once where an overlay is applied
	ContractData      Contract = "data_not_command"  // foreign text is declared to be material
	ContractDocuments Contract = "document_boundary" // a person's documents stand in frames of their own
	ContractLayers    Contract = "layer_order"       // what outranks an overlay stands before it
	ContractNoMessage Contract = "no_fake_message"   // no overlay is in the conversation
	ContractSeed      Contract = "prompt_seed"       // the request of a re-answer is sent
)

// Path says which contracts a composing path carries, and why it is exempt from
// the others.
type Path struct {
	Name    string
	Carries []Contract
	Exempt  map[Contract]string
	Build   func(text, foreign string) []Message // the real composing function on given texts
}

// Contracts lists every host contract.
func Contracts() []Contract {
	return []Contract{
		ContractFrame, ContractEscape, ContractDirective, ContractData, ContractDocuments, ContractLayers, ContractNoMessage, ContractSeed,
	}
}

// Paths is the registry: every composing function of the system is in it.
func Paths() []Path { return append(turnPaths(), toolPaths()...) }

// turnPaths are the ways of a live turn; one function composes them all.
func turnPaths() []Path {
	all := []Contract{ContractFrame, ContractEscape, ContractDirective, ContractData, ContractDocuments, ContractLayers, ContractNoMessage}
	notReanswer := map[Contract]string{ContractSeed: "not a re-answer"}
	path := func(name string, carries []Contract, exempt map[Contract]string, packet func(*contracts.OverlayPromptPacket)) Path {
		return Path{Name: name, Carries: carries, Exempt: exempt, Build: func(text, foreign string) []Message {
			plan := ComposeTurn(sampleTurn(text, foreign, packet))
			return plan.flat()
		}}
	}
	surface := func(kind contracts.SupportedSurface) func(*contracts.OverlayPromptPacket) {
		return func(p *contracts.OverlayPromptPacket) { p.SessionKey.SurfaceKind = kind }
	}
	return []Path{
		path(PathTurn, all, notReanswer, surface(contracts.SurfaceChat)),
		path(PathRoomTurn, all, notReanswer, surface(contracts.SurfaceRoom)),
		path(PathTaskTurn, all, notReanswer, surface(contracts.SurfaceTask)),
		path(PathOverride, all, notReanswer, func(p *contracts.OverlayPromptPacket) { p.OverrideMode = contracts.OverrideOneTime }),
		path(PathReanswer, append(all, ContractSeed), nil, func(p *contracts.OverlayPromptPacket) {
			p.OverrideMode, p.ReanswerPlanID = contracts.OverrideOneTime, "01890a5d-ac96-774b-bcce-b302099a8057"
		}),
	}
}

// sampleTurn gives a turn with something on every layer.
func sampleTurn(text, foreign string, packet func(*contracts.OverlayPromptPacket)) Turn {
	hash := contracts.Hash(text)
	p := contracts.OverlayPromptPacket{
		SessionKey:    contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceChat, SurfaceID: "t"},
		OverlayBlocks: contracts.List[contracts.OverlayPromptBlock]{{OverlayID: "sample", Body: text, BodyHash: hash, ArtifactClass: contracts.ClassLive}},
		SoftBudget:    contracts.SoftBudget, HardBudget: contracts.HardBudget,
	}
	packet(&p)
	t := Turn{
		Background: Background{Native: foreign, Authority: foreign, Workspace: foreign, RoomRole: foreign, ParticipantRole: foreign, Memory: foreign, Summary: foreign},
		Packet:     &p, History: []TurnMessage{{"user", []string{foreign}}},
		Documents: []Document{{Name: foreign, Text: foreign}},
	}
	if p.ReanswerPlanID != "" {
		t.Seed = sampleSeed
	}
	return t
}

const sampleSeed = "Answer this once more."

// flat gives a plan as plain messages.
func (p *TurnPlan) flat() []Message {
	out := []Message{{"system", p.System}}
	for _, m := range p.Messages {
		out = append(out, Message{m.Role, paragraphs(m.Texts...)})
	}
	return out
}

// notATurn explains what paths that compose no live turn do without.
func notATurn(more map[Contract]string) map[Contract]string {
	out := map[Contract]string{
		ContractDocuments: "holds an artifact and examples, no documents of a person",
		ContractLayers:    "no live turn: nothing outranks anything",
		ContractNoMessage: "no conversation",
		ContractSeed:      "not a re-answer",
	}
	for c, why := range more {
		out[c] = why
	}
	return out
}

// toolPaths are the ways of requests that serve no conversation.
func toolPaths() []Path {
	return []Path{
		{
			Name: PathReplay, Carries: []Contract{ContractFrame, ContractEscape, ContractDirective},
			Exempt: notATurn(map[Contract]string{ContractData: "the example is the request itself, as in live use"}),
			Build:  func(text, foreign string) []Message { return Replay("overlay_template", text, foreign).Messages },
		},
		{
			Name: PathJudge, Carries: []Contract{ContractEscape, ContractData},
			Exempt: notATurn(map[Contract]string{
				ContractFrame:     "a judge applies no overlay",
				ContractDirective: "a judge applies no overlay",
			}),
			Build: func(text, foreign string) []Message { return Judge(text, foreign, foreign).Messages },
		},
		{
			Name: PathMeta, Carries: []Contract{ContractData},
			Exempt: notATurn(map[Contract]string{
				ContractFrame:     "the text is edited, not applied",
				ContractDirective: "the text is edited, not applied",
				ContractEscape:    "stored texts hold no markers; placeholders are masked by the optimizer's adapter",
			}),
			Build: func(text, _ string) []Message {
				return []Message{{"user", MetaTemplates(text, nil, nil).Variation}}
			},
		},
	}
}
