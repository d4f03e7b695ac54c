package ec

import (
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
)

// Models lists the registry by name.
func (v *View) Models() contracts.ModelList {
	var out contracts.ModelList
	v.s.models.Scan(func(_ string, m *contracts.RegisteredModel) bool {
		out.Items = append(out.Items, shown(m))
		return true
	})
	return out
}

// Model gives one model of the registry.
func (v *View) Model(name string) (contracts.RegisteredModel, error) {
	m, err := v.s.model(name)
	if err != nil {
		return contracts.RegisteredModel{}, err
	}
	return shown(m), nil
}

// shown is a model as people get it, with what it wants of them.
func shown(m *contracts.RegisteredModel) contracts.RegisteredModel {
	out := *m.Clone()
	switch {
	case m.ConfiguredVersion != m.ActiveVersion:
		out.Notice = unusedConfiguration(m)
	case m.Deprecated:
		out.Notice = strings.TrimSpace("The model " + m.Name + " is in use and deprecated. " + m.DeprecationNote)
	}
	return out
}

// ModelsFollow says whether the registry has to follow a configuration.
func (v *View) ModelsFollow(models []contracts.ObservedModel) bool {
	return len(v.s.following(contracts.Time{}, models)) > 0
}

// ActiveModels says for each model which version may answer.
func (v *View) ActiveModels() contracts.ActiveModels { return v.s.activeModels() }

func (s *State) activeModels() contracts.ActiveModels {
	var out contracts.ActiveModels
	s.models.Scan(func(name string, m *contracts.RegisteredModel) bool {
		if active, ok := m.Version(m.ActiveVersion); ok {
			out.Items = append(out.Items, contracts.ActiveModel{Name: name, Fingerprint: active.Fingerprint})
		}
		return true
	})
	return out
}

// ruling is what a worker is told about models: nothing while the registry is
// empty, since it would take over whatever is configured.
func (s *State) ruling() *contracts.ActiveModels {
	if s.models.Len() == 0 {
		return nil
	}
	list := s.activeModels()
	return &list
}

// ModelActive says whether a version of a model may answer.
func (v *View) ModelActive(name, fingerprint string) bool {
	m, ok := v.s.models.Get(name)
	return ok && slices.ContainsFunc(m.Versions, func(x contracts.ModelVersion) bool {
		return x.VersionID == m.ActiveVersion && x.Fingerprint == fingerprint
	})
}

// modelWarnings tells what of the registry wants a person.
func (s *State) modelWarnings() contracts.List[contracts.Warning] {
	var out contracts.List[contracts.Warning]
	s.models.Scan(func(name string, m *contracts.RegisteredModel) bool {
		if m.ConfiguredVersion == "" { // nobody asks for it
			return true
		}
		w := contracts.Warning{Code: "model_not_active", Subject: name, Message: shown(m).Notice}
		if m.ConfiguredVersion == m.ActiveVersion {
			w.Code = "model_deprecated"
		}
		if w.Message != "" {
			out = append(out, w)
		}
		return true
	})
	return out
}
