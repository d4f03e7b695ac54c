package api

import (
	"fmt"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// there says whether a system beside this one can be used; one that nobody has
// wired cannot.
func (s *Server) there(available func() bool) bool { return available != nil && available() }

// gates adds to the domain's gates what only this process knows, and what
// follows from both: an action is open only while all that it rests on is.
func (s *Server) gates(own contracts.List[contracts.Gate], flags contracts.Flags) contracts.List[contracts.Gate] {
	truth := contracts.Gate{Name: "runtime_truth", Open: s.truthAvailable(), Reason: "nobody has told what happens to packets within half a minute; what is applied is not known"}
	retrieval := contracts.Gate{Name: "retrieval", Open: s.there(s.cfg.Retrieval), Reason: "similar cases cannot be looked up now"}
	evidence := contracts.Gate{Name: "evidence", Open: s.there(s.cfg.Evidence), Reason: "nobody measures candidates now"}
	var out contracts.List[contracts.Gate]
	for _, g := range own {
		if g.Name != "candidate_apply" {
			out = append(out, g)
		}
	}
	out = append(out, truth, retrieval, evidence,
		all("learned_recommendations", flags.LearnedRecommendations, truth, retrieval),
		all("candidate_apply", flags.CandidateApply, truth, evidence))
	for i := range out {
		if out[i].Open {
			out[i].Reason = ""
		}
	}
	return out
}

// all is open when its flag is on and everything that it needs is open.
func all(name string, flag bool, needs ...contracts.Gate) contracts.Gate {
	var why []string
	if !flag {
		why = append(why, fmt.Sprintf("the flag %s is off; turn it on with: promptlab flags set %s on", name, name))
	}
	for _, g := range needs {
		if !g.Open {
			why = append(why, g.Name+" is not open: "+g.Reason)
		}
	}
	return contracts.Gate{Name: name, Open: len(why) == 0, Reason: strings.Join(why, "; ")}
}
