package prompt

// The composing paths there are today. A path's name is recorded beside what it
// composed.
const (
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
	return []Contract{ContractFrame, ContractEscape, ContractDirective, ContractData}
}

// Paths is the registry: every composing function of the system is in it.
func Paths() []Path {
	return []Path{
		{
			Name: PathReplay, Carries: []Contract{ContractFrame, ContractEscape, ContractDirective},
			Exempt: map[Contract]string{ContractData: "the example is the request itself, as in live use"},
			Build:  func(text, foreign string) []Message { return Replay("overlay_template", text, foreign).Messages },
		},
		{
			Name: PathJudge, Carries: []Contract{ContractEscape, ContractData},
			Exempt: map[Contract]string{
				ContractFrame:     "a judge applies no overlay",
				ContractDirective: "a judge applies no overlay",
			},
			Build: func(text, foreign string) []Message { return Judge(text, foreign, foreign).Messages },
		},
		{
			Name: PathMeta, Carries: []Contract{ContractData},
			Exempt: map[Contract]string{
				ContractFrame:     "the text is edited, not applied",
				ContractDirective: "the text is edited, not applied",
				ContractEscape:    "stored texts hold no markers; placeholders are masked by the optimizer's adapter",
			},
			Build: func(text, _ string) []Message {
				return []Message{{"user", MetaTemplates(text, nil, nil).Variation}}
			},
		},
	}
}
