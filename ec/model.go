package ec

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// ObserveModels says which models the configuration holds now: all of them.
type ObserveModels struct{ Models []contracts.ObservedModel }

// ActivateModel puts the configured version of a model into use.
type ActivateModel struct {
	Name string
	In   contracts.ModelActivation
}

// RollbackModel puts the version before the active one into use again.
type RollbackModel struct {
	Name string
	In   contracts.ModelRollback
}

// DeprecateModel says that a model should not be relied on any more.
type DeprecateModel struct {
	Name string
	In   contracts.ModelDeprecation
}

// Type names the command in the audit.
func (ObserveModels) Type() string { return "model.observe" }

// Type names the command in the audit.
func (ActivateModel) Type() string { return "model.activate" }

// Type names the command in the audit.
func (RollbackModel) Type() string { return "model.rollback" }

// Type names the command in the audit.
func (DeprecateModel) Type() string { return "model.deprecate" }

// ModelPut says that a model of the registry was made or changed.
type ModelPut struct {
	Model   *contracts.RegisteredModel
	What    string
	Version string // that it is about
}

func (ModelPut) event() {}

func (e ModelPut) hash() string {
	v, _ := e.Model.Version(e.Version)
	return v.Fingerprint
}

// ModelPath is where the document of a model lies.
func ModelPath(name string) string { return dirModels + name + ".json" }

// decideModel decides the registry's commands; ok is false for others.
func (s *State) decideModel(c Command) (d decision, ok bool, err error) {
	switch b := c.Body.(type) {
	case ObserveModels:
		d, err = s.observeModels(c, b)
	case ActivateModel:
		d, err = s.activateModel(c, b)
	case RollbackModel:
		d, err = s.rollbackModel(c, b)
	case DeprecateModel:
		d, err = s.deprecateModel(c, b)
	default:
		return decision{}, false, nil
	}
	return d, true, err
}

func (s *State) observeModels(c Command, b ObserveModels) (decision, error) {
	for _, o := range b.Models {
		if _, err := contracts.Check(o, contracts.Client); err != nil {
			return decision{}, err
		}
	}
	events := s.following(c.At, b.Models)
	if len(events) == 0 {
		return unchanged("models", "")
	}
	return changed("models", events...)
}

// following says how the registry follows a configuration. A name that it has
// never seen is taken over as it is; another version under a known name is
// proposed and used by nobody.
func (s *State) following(at contracts.Time, models []contracts.ObservedModel) []Event {
	var events []Event
	configured := map[string]bool{}
	for _, o := range models {
		configured[o.Name] = true
		if e, ok := s.observeModel(at, o); ok {
			events = append(events, e)
		}
	}
	s.models.Scan(func(name string, m *contracts.RegisteredModel) bool {
		if !configured[name] && m.ConfiguredVersion != "" {
			next := m.Clone()
			withdraw(next, -1)
			next.ConfiguredVersion, next.UpdatedAt = "", at
			events = append(events, ModelPut{Model: next, What: "unconfigured", Version: next.ActiveVersion})
		}
		return true
	})
	return events
}

func (s *State) observeModel(at contracts.Time, o contracts.ObservedModel) (ModelPut, bool) {
	old, known := s.models.Get(o.Name)
	if !known {
		m := &contracts.RegisteredModel{SchemaVersion: 1, Name: o.Name, DisplayName: o.DisplayName, Routes: o.Routes, UpdatedAt: at}
		m.Versions = contracts.List[contracts.ModelVersion]{modelVersion(m, o, at)}
		m.ConfiguredVersion = m.Versions[0].VersionID
		use(m, 0, at, string(RoleSystem))
		return ModelPut{Model: m, What: "adopted", Version: m.ActiveVersion}, true
	}
	m := old.Clone()
	m.DisplayName, m.Routes = o.DisplayName, o.Routes
	what := "configured"
	i := slices.IndexFunc(m.Versions, func(v contracts.ModelVersion) bool { return v.Fingerprint == o.Fingerprint })
	switch {
	case i < 0:
		i = len(m.Versions)
		m.Versions = append(m.Versions, modelVersion(m, o, at))
		what = "proposed"
	case m.Versions[i].Status == contracts.ModelRetired, m.Versions[i].Status == contracts.ModelPrevious && m.Versions[i].VersionID != m.RollbackTo:
		m.Versions[i].Status, m.Versions[i].ParentID = contracts.ModelProposed, m.ActiveVersion
		what = "proposed"
	}
	v := &m.Versions[i]
	v.DocsPage, v.DocsChecked = cmp.Or(o.DocsPage, v.DocsPage), cmp.Or(o.DocsChecked, v.DocsChecked)
	withdraw(m, i)
	m.ConfiguredVersion = v.VersionID
	if active, _ := m.Version(m.ActiveVersion); v.VersionID != m.ActiveVersion && simulates(*v) && simulates(active) {
		use(m, i, at, string(RoleSystem)) // nothing ever rests on a simulator's answers
		what = "adopted"
	}
	if bytes.Equal(mustLine(old), mustLine(m)) {
		return ModelPut{}, false
	}
	m.UpdatedAt = at
	return ModelPut{Model: m, What: what, Version: v.VersionID}, true
}

func simulates(v contracts.ModelVersion) bool { return v.Adapter == string(contracts.ModelSimulator) }

// modelVersion makes the next version of a model.
func modelVersion(m *contracts.RegisteredModel, o contracts.ObservedModel, at contracts.Time) contracts.ModelVersion {
	return contracts.ModelVersion{
		VersionID: fmt.Sprintf("%s@%d", m.Name, len(m.Versions)+1), ParentID: m.ActiveVersion, Status: contracts.ModelProposed,
		Adapter: o.Adapter, BaseModel: o.BaseModel, Model: o.Model, Fingerprint: o.Fingerprint, Parameters: o.Parameters,
		ObservedAt: at, DocsPage: o.DocsPage, DocsChecked: o.DocsChecked,
	}
}

// withdraw retires what was proposed and is not configured any more.
func withdraw(m *contracts.RegisteredModel, configured int) {
	for i := range m.Versions {
		if i != configured && m.Versions[i].Status == contracts.ModelProposed {
			m.Versions[i].Status = contracts.ModelRetired
		}
	}
}

// use makes a version the active one; what was active before is where a rollback
// leads.
func use(m *contracts.RegisteredModel, i int, at contracts.Time, by string) {
	before := m.ActiveVersion
	for j := range m.Versions {
		switch m.Versions[j].Status {
		case contracts.ModelPrevious:
			m.Versions[j].Status = contracts.ModelRetired
		case contracts.ModelActive:
			m.Versions[j].Status = contracts.ModelPrevious
		}
	}
	v := &m.Versions[i]
	v.ParentID, m.RollbackTo = before, before
	v.RetiredAt, v.RetiredWhy = nil, ""
	put(m, v, at, by)
}

// put notes in the model's own fields which version is active.
func put(m *contracts.RegisteredModel, v *contracts.ModelVersion, at contracts.Time, by string) {
	v.Status, v.ActivatedAt, v.ActivatedBy = contracts.ModelActive, &at, by
	m.ActiveVersion, m.Adapter, m.BaseModel, m.Type, m.UpdatedAt = v.VersionID, v.Adapter, v.BaseModel, contracts.ModelChat, at
	if simulates(*v) {
		m.Type = contracts.ModelSimulator
	}
}

func (s *State) model(name string) (*contracts.RegisteredModel, error) {
	m, ok := s.models.Get(name)
	if !ok {
		return nil, fault.New(fault.NotFound, "not_found", "there is no model %q in the registry", name)
	}
	return m, nil
}

func (s *State) activateModel(c Command, b ActivateModel) (decision, error) {
	in, err := contracts.Check(b.In, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	if in, err = dated(c, in); err != nil {
		return decision{}, err
	}
	old, err := s.model(b.Name)
	if err != nil {
		return decision{}, err
	}
	i, err := candidateOf(old)
	if err != nil {
		return decision{}, err
	}
	if err := s.replayRecord(in.ReplayJobID, old.Versions[i]); err != nil {
		return decision{}, err
	}
	m := old.Clone()
	v := &m.Versions[i]
	v.EvidenceRef, v.Changelog = string(in.ReplayJobID), in.Changelog
	v.DocsPage, v.DocsChecked = cmp.Or(in.DocsPage, v.DocsPage), cmp.Or(in.DocsChecked, v.DocsChecked)
	use(m, i, c.At, who(c))
	return changed(v.VersionID, ModelPut{Model: m, What: "activated", Version: v.VersionID})
}

// dated completes and checks when the documentation was looked at.
func dated(c Command, in contracts.ModelActivation) (contracts.ModelActivation, error) {
	today := c.At.Format("2006-01-02")
	var bad []fault.Detail
	refuse := func(rule, message string) {
		bad = append(bad, fault.Detail{Field: "docs_checked_on", Rule: rule, Message: message})
	}
	switch {
	case in.DocsPage != "" && in.DocsChecked == "":
		in.DocsChecked = today
	case in.DocsPage == "" && in.DocsChecked != "":
		refuse("alone", "needs docs_page: the page that was looked at")
	case in.DocsChecked != "" && !contracts.IsDay(in.DocsChecked):
		refuse("date", "must be a day such as 2026-01-31")
	case in.DocsChecked > today:
		refuse("future", "lies in the future")
	}
	if bad != nil {
		return in, fault.Validation(bad)
	}
	return in, nil
}

// candidateOf gives the version of a model that waits to be activated.
func candidateOf(m *contracts.RegisteredModel) (int, error) {
	refuse := func(code, format string, args ...any) (int, error) {
		return 0, fault.New(fault.Conflict, code, format, args...)
	}
	i := slices.IndexFunc(m.Versions, func(v contracts.ModelVersion) bool { return v.VersionID == m.ConfiguredVersion })
	switch {
	case i < 0:
		return refuse("nothing_proposed", "the configuration has no model %q now", m.Name)
	case m.Versions[i].Status == contracts.ModelActive:
		return refuse("nothing_proposed", "what the configuration holds, %s, is active already; change the model in config.yaml and start the server again first", m.ConfiguredVersion)
	case m.Versions[i].VersionID == m.RollbackTo:
		return refuse("nothing_proposed", "what the configuration holds, %s, is the version before the active one; go back to it with: promptlab models rollback %s", m.ConfiguredVersion, m.Name)
	case m.Deprecated:
		return refuse("model_deprecated", "the model %q is deprecated; if that is over: promptlab models deprecate %s --undo", m.Name, m.Name)
	}
	return i, nil
}

func (s *State) rollbackModel(c Command, b RollbackModel) (decision, error) {
	in, err := contracts.Check(b.In, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	old, err := s.model(b.Name)
	if err != nil {
		return decision{}, err
	}
	m := old.Clone()
	at := func(id string) *contracts.ModelVersion {
		i := slices.IndexFunc(m.Versions, func(v contracts.ModelVersion) bool { return id != "" && v.VersionID == id })
		if i < 0 {
			return nil
		}
		return &m.Versions[i]
	}
	to, from := at(m.RollbackTo), at(m.ActiveVersion)
	if to == nil || from == nil {
		return decision{}, fault.New(fault.Conflict, "no_rollback_target", "there is no version of %q to go back to", b.Name)
	}
	from.Status, from.RetiredAt, from.RetiredWhy = contracts.ModelRetired, &c.At, in.Reason
	put(m, to, c.At, who(c))
	m.RollbackTo = ""
	if next := at(to.ParentID); next != nil && next.RetiredAt == nil { // what was given up is no way back
		m.RollbackTo, next.Status = next.VersionID, contracts.ModelPrevious
	}
	d, err := changed(to.VersionID, ModelPut{Model: m, What: "rolled_back", Version: to.VersionID})
	if m.ConfiguredVersion != m.ActiveVersion {
		d.receipt.Note = unusedConfiguration(m)
	}
	return d, err
}

func (s *State) deprecateModel(c Command, b DeprecateModel) (decision, error) {
	in, err := contracts.Check(b.In, contracts.Client)
	if err != nil {
		return decision{}, err
	}
	old, err := s.model(b.Name)
	if err != nil {
		return decision{}, err
	}
	if old.Deprecated == !in.Undo && (in.Undo || in.Note == old.DeprecationNote) {
		return unchanged(b.Name, "")
	}
	m := old.Clone()
	what := "deprecated"
	m.Deprecated, m.DeprecationNote, m.DeprecatedAt, m.UpdatedAt = true, in.Note, &c.At, c.At
	if in.Undo {
		what = "undeprecated"
		m.Deprecated, m.DeprecationNote, m.DeprecatedAt = false, "", nil
	}
	return changed(b.Name, ModelPut{Model: m, What: what, Version: m.ActiveVersion})
}

// unusedConfiguration says that the configuration holds a version that is not
// the active one, and what can be done about it.
func unusedConfiguration(m *contracts.RegisteredModel) string {
	active, _ := m.Version(m.ActiveVersion)
	held, ok := m.Version(m.ConfiguredVersion)
	var b strings.Builder
	switch {
	case !ok:
		fmt.Fprintf(&b, "The configuration has no model %s any more; nobody uses it.", m.Name)
		return b.String()
	case held.VersionID == m.RollbackTo:
		fmt.Fprintf(&b, "The configuration holds %s (%s) again while %s (%s) is active, so that nobody uses %s. Go back to it with: promptlab models rollback %s; or ",
			held.VersionID, held.Model, active.VersionID, active.Model, m.Name, m.Name)
	case held.RetiredAt != nil:
		fmt.Fprintf(&b, "The configuration still holds %s (%s), which was rolled back, so that nobody uses %s: ", held.VersionID, held.Model, m.Name)
	default:
		fmt.Fprintf(&b, "The configuration holds %s (%s), which nobody has activated, so that it is not used. Try it with: "+
			"promptlab jobs run --model-route %s --artifact overlay:ID --examples FILE; then: promptlab models activate %s --replay JOB_ID; or ",
			held.VersionID, held.Model, m.Name, m.Name)
	}
	fmt.Fprintf(&b, "put what was there before back into config.yaml (model %s", active.Model)
	if held.Model == active.Model {
		b.WriteString(" with its parameters")
	}
	fmt.Fprintf(&b, "; promptlab models show %s) and start again.", m.Name)
	return b.String()
}
