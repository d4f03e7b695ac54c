package contracts

import "time"

// ModelVersionStatus says where a version of a model stands.
type ModelVersionStatus string

// The states of a version.
const (
	ModelActive   ModelVersionStatus = "active"   // answers on its routes
	ModelProposed ModelVersionStatus = "proposed" // configured, and answers only the jobs that try it
	ModelPrevious ModelVersionStatus = "previous" // was active before the one that is
	ModelRetired  ModelVersionStatus = "retired"  // rolled back, withdrawn or older
)

// Values lists the set.
func (ModelVersionStatus) Values() []string {
	return []string{string(ModelActive), string(ModelProposed), string(ModelPrevious), string(ModelRetired)}
}

// ModelType is what a model of the registry is.
type ModelType string

// The types.
const (
	ModelChat      ModelType = "chat"
	ModelSimulator ModelType = "simulator" // needs no evidence, and is none
)

// Values lists the set.
func (ModelType) Values() []string { return []string{string(ModelChat), string(ModelSimulator)} }

// ObservedModel is a model as the configuration has it.
type ObservedModel struct {
	Name        string          `json:"name" pattern:"^[a-z0-9][a-z0-9._-]{0,63}$"`
	DisplayName string          `json:"display_name" maxLength:"100"`
	Type        ModelType       `json:"type"`
	Adapter     string          `json:"adapter" maxLength:"50"` // the protocol that it is spoken to by
	BaseModel   string          `json:"base_model" maxLength:"200"`
	Routes      List[ModelRole] `json:"routes"`
	Model       string          `json:"model" maxLength:"200"` // exact
	Fingerprint string          `json:"fingerprint" pattern:"^[0-9a-f]{64}$"`
	Parameters  Map[string]     `json:"parameters" default:"{}"`
	DocsPage    string          `json:"docs_page,omitempty" maxLength:"500"`
	DocsChecked string          `json:"docs_checked_on,omitempty" maxLength:"10"`
}

// RegisteredModel is one model of the registry: what may answer under a name,
// what did before, and what is to become of it.
type RegisteredModel struct {
	SchemaVersion int             `json:"schema_version"`
	Name          string          `json:"name"`
	DisplayName   string          `json:"display_name"`
	Type          ModelType       `json:"type"`
	Adapter       string          `json:"adapter"` // of the active version
	BaseModel     string          `json:"base_model"`
	Routes        List[ModelRole] `json:"routes"`         // that the name may be used for
	ActiveVersion string          `json:"active_version"` // a version_id
	// ConfiguredVersion is what the configuration held when the server started;
	// empty: the name is not configured any more.
	ConfiguredVersion string `json:"configured_version,omitempty"`
	RollbackTo        string `json:"rollback_to,omitempty"` // where a rollback leads; empty: nowhere
	Deprecated        bool   `json:"deprecated" default:"false"`
	DeprecationNote   string `json:"deprecation_note,omitempty"`
	DeprecatedAt      *Time  `json:"deprecated_at,omitempty"`
	UpdatedAt         Time   `json:"updated_at"`
	Notice            string `json:"notice,omitempty"` // what wants a person now; told, not kept

	Versions List[ModelVersion] `json:"versions"` // oldest first
}

// ModelVersion is one exact model with the parameters that it is used with.
type ModelVersion struct {
	VersionID   string             `json:"version_id"` // NAME@N
	ParentID    string             `json:"parent_id,omitempty"`
	Status      ModelVersionStatus `json:"status"`
	Adapter     string             `json:"adapter"`
	BaseModel   string             `json:"base_model"`
	Model       string             `json:"model"` // exact
	Fingerprint string             `json:"fingerprint"`
	Parameters  Map[string]        `json:"parameters" default:"{}"`
	Changelog   string             `json:"changelog,omitempty"`
	ObservedAt  Time               `json:"observed_at"`
	ActivatedAt *Time              `json:"activated_at,omitempty"` // the last time
	ActivatedBy string             `json:"activated_by,omitempty"`
	RetiredAt   *Time              `json:"retired_at,omitempty"` // by a rollback; evidence has to be younger
	RetiredWhy  string             `json:"retired_why,omitempty"`
	EvidenceRef string             `json:"evidence_ref,omitempty"` // the job whose replay it was activated on
	DocsPage    string             `json:"docs_page,omitempty"`
	DocsChecked string             `json:"docs_checked_on,omitempty"`
}

// Version finds a version by its id.
func (m *RegisteredModel) Version(id string) (ModelVersion, bool) {
	for _, v := range m.Versions {
		if v.VersionID == id {
			return v, id != ""
		}
	}
	return ModelVersion{}, false
}

// Clone gives a copy that may be changed.
func (m *RegisteredModel) Clone() *RegisteredModel {
	c := *m
	c.Routes = append(List[ModelRole](nil), m.Routes...)
	c.Versions = append(List[ModelVersion](nil), m.Versions...)
	return &c
}

// ModelList is the registry, by name.
type ModelList struct {
	Items List[RegisteredModel] `json:"items"`
}

// ModelActivation asks that the configured version of a model be used.
type ModelActivation struct {
	ReplayJobID UUID   `json:"replay_job_id" format:"uuid"` // a measured job that this very version has answered
	Changelog   string `json:"changelog" default:"" maxLength:"2000"`
	DocsPage    string `json:"docs_page,omitempty" maxLength:"500" pattern:"^https?://[^\\s]+$"`
	DocsChecked string `json:"docs_checked_on,omitempty" pattern:"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"` // a day
}

// ModelRollback asks that the version before the active one be used again.
type ModelRollback struct {
	Reason string `json:"reason" default:"" maxLength:"2000"`
}

// ModelDeprecation says that a model should not be relied on any more, or, with
// undo, that it may be again.
type ModelDeprecation struct {
	Note string `json:"note" default:"" maxLength:"2000"`
	Undo bool   `json:"undo" default:"false"`
}

// ActiveModels says for each model of the registry which version may answer.
// Receivers ignore what they do not know.
type ActiveModels struct {
	Items List[ActiveModel] `json:"items" default:"[]"`
}

// ActiveModel is the version of a model that may answer.
type ActiveModel struct {
	Name        string `json:"name" maxLength:"100"`
	Fingerprint string `json:"fingerprint" maxLength:"64"`
}

// IsDay says whether a text is a day such as 2026-01-31.
func IsDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}
