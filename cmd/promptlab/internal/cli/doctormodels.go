package cli

import (
	"fmt"
	"strings"

	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/gateway"
)

// checkRegistry compares the configured models with the versions that may answer,
// as the library has them on disk: no server needs to run.
func (a *app) checkRegistry(cfg config.Config) Check {
	c := Check{Name: "registry", OK: true}
	var known, waiting, fixes []string
	for _, m := range cfg.Targets() {
		kept, seen, err := a.Servers.Registered(cfg.Memory, m.Name)
		active, _ := kept.Version(kept.ActiveVersion)
		switch {
		case err != nil:
			c.OK, c.Detail, c.Fix = false, "what is kept of the model "+m.Name+" cannot be read", "promptlab verify looks closer"
			return c
		case !seen: // taken over as it is at the next start
			continue
		case active.Fingerprint == m.Fingerprint(), m.Protocol == gateway.ProtocolSimulator && active.Adapter == string(m.Protocol):
			known = append(known, m.Name+" is "+active.VersionID)
			continue
		}
		change := "with other parameters than " + active.VersionID
		if active.Model != m.Model {
			change = "as " + m.Model + " while " + active.VersionID + " (" + active.Model + ") is active"
		}
		waiting = append(waiting, m.Name+" is configured "+change+", so that nobody uses it")
		fix := fmt.Sprintf("with the server running: promptlab jobs run --model-route %s --artifact overlay:ID --examples FILE; then: promptlab models activate %s --replay JOB_ID", m.Name, m.Name)
		if back, ok := kept.Version(kept.RollbackTo); ok && back.Fingerprint == m.Fingerprint() {
			fix = "promptlab models rollback " + m.Name
		}
		fixes = append(fixes, fix+"; or put back what was there (promptlab models show "+m.Name+")")
	}
	switch {
	case len(waiting) > 0:
		c.OK, c.Detail, c.Fix = false, strings.Join(waiting, "; "), strings.Join(fixes, "; ")
	case len(known) > 0:
		c.Detail = "active: " + strings.Join(known, ", ")
	default:
		c.Detail = "no model has been seen yet; those that are configured are taken over at the first start"
	}
	return c
}
