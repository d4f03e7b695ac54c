package contracts

// OverlayTemplateFrontmatter is the header of an overlay file.
type OverlayTemplateFrontmatter struct {
	ID                         OverlayID              `json:"id"`
	Title                      string                 `json:"title" minLength:"1" maxLength:"200"`
	ArtifactClass              OverlayArtifactClass   `json:"artifact_class"`
	Category                   OverlayCategory        `json:"category"`
	Description                string                 `json:"description" minLength:"1" maxLength:"2000"`
	VisibilityTier             OverlayVisibilityTier  `json:"visibility_tier" default:"advanced"`
	SupportedSurfaces          List[SupportedSurface] `json:"supported_surfaces" minItems:"1" maxItems:"6"`
	RecommendedModelClasses    List[ModelClass]       `json:"recommended_model_classes" default:"[\"unknown\"]" maxItems:"4"`
	ReasoningModelCaution      string                 `json:"reasoning_model_caution,omitempty" maxLength:"2000"`
	ConflictsWith              List[OverlayID]        `json:"conflicts_with" default:"[]" maxItems:"256"`
	WarnsWith                  List[OverlayID]        `json:"warns_with" default:"[]" maxItems:"256"`
	CompatibleCategories       List[OverlayCategory]  `json:"compatible_categories" default:"[]" maxItems:"9"`
	LiveTokenTarget            int                    `json:"live_token_target" minimum:"40" maximum:"450"`
	EstimatedTokens            int                    `json:"estimated_tokens,omitempty" minimum:"1"`
	RequiresExplicitInvocation bool                   `json:"requires_explicit_invocation" default:"false"`
	SuggestedUseCases          List[string]           `json:"suggested_use_cases" default:"[]" maxItems:"64" itemMaxLength:"1000"`
	AvoidWhen                  List[string]           `json:"avoid_when" default:"[]" maxItems:"64" itemMaxLength:"1000"`
	StructureLabels            List[string]           `json:"structure_labels" default:"[]" maxItems:"64" itemMaxLength:"200"`
	ResearchTags               List[string]           `json:"research_tags" default:"[]" maxItems:"64" itemMaxLength:"200"`
	Preset                     bool                   `json:"preset" default:"false"`
	DeprecatedAliases          List[string]           `json:"deprecated_aliases" default:"[]" maxItems:"64" itemMaxLength:"64"`
	Version                    string                 `json:"version" default:"1.0.0" minLength:"1" maxLength:"64"`
	// ResearchBasis lists appendix sections; the one key beyond the closed set.
	ResearchBasis List[string] `json:"research_basis,omitempty" maxItems:"64" itemMaxLength:"200"`
}

// OverlayTemplateRecord is one overlay: header, exact text, and what EC keeps of it.
type OverlayTemplateRecord struct {
	Frontmatter OverlayTemplateFrontmatter `json:"frontmatter"`
	Body        string                     `json:"body" minLength:"1" maxLength:"32768"`
	BodyHash    string                     `json:"body_hash" server:"true"`
	CreatedAt   Time                       `json:"created_at" server:"true"`
	UpdatedAt   Time                       `json:"updated_at" server:"true"`
	ArchivedAt  *Time                      `json:"archived_at,omitempty" server:"true"`
	Source      OverlaySource              `json:"source" server:"true"`
}

// OverlayIndexEntry is an overlay's line in the library index.
type OverlayIndexEntry struct {
	OverlayID         OverlayID              `json:"overlay_id"`
	Title             string                 `json:"title"`
	ArtifactClass     OverlayArtifactClass   `json:"artifact_class"`
	Category          OverlayCategory        `json:"category"`
	VisibilityTier    OverlayVisibilityTier  `json:"visibility_tier"`
	SupportedSurfaces List[SupportedSurface] `json:"supported_surfaces"`
	EstimatedTokens   int                    `json:"estimated_tokens" minimum:"1"`
	ConflictsWith     List[OverlayID]        `json:"conflicts_with"`
	WarnsWith         List[OverlayID]        `json:"warns_with"`
	Preset            bool                   `json:"preset"`
	Archived          bool                   `json:"archived" default:"false"`
	UpdatedAt         Time                   `json:"updated_at"`
}

// OverlayMetadata is what is derived about an overlay: labels, risks, evidence.
type OverlayMetadata struct {
	OverlayID              OverlayID     `json:"overlay_id"`
	StructureLabels        List[string]  `json:"structure_labels" default:"[]"`
	ClassifierVersion      string        `json:"classifier_version"`
	RiskFlags              List[string]  `json:"risk_flags" default:"[]"`
	EvidenceLabel          EvidenceLabel `json:"evidence_label" default:"no_local_evidence"`
	LastFeedbackAt         *Time         `json:"last_feedback_at,omitempty"`
	LastLabTestedAt        *Time         `json:"last_lab_tested_at,omitempty"`
	RecommendationEligible bool          `json:"recommendation_eligible" default:"true"`
	PromptLabEligible      bool          `json:"prompt_lab_eligible" default:"false"`
	DegradedReason         string        `json:"degraded_reason,omitempty"`
}

// OverlayDetail is the answer to a read or write of one overlay.
type OverlayDetail struct {
	Record   OverlayTemplateRecord `json:"record"`
	Metadata OverlayMetadata       `json:"metadata"`
	Warnings List[Warning]         `json:"warnings"`
}

// OverlayBundleItem is one overlay of a bundle that is saved.
type OverlayBundleItem struct {
	Record  OverlayTemplateRecord `json:"record"`
	Replace bool                  `json:"replace" default:"false"` // stands in place of the overlay with its id
	IfMatch string                `json:"if_match,omitempty" maxLength:"200"`
}

// OverlayBundleRequest saves several overlays at once, all of them or none.
type OverlayBundleRequest struct {
	Items List[OverlayBundleItem] `json:"items" minItems:"1" maxItems:"1000"`
}

// OverlayBundleResponse gives the overlays as they were saved.
type OverlayBundleResponse struct {
	Items List[OverlayDetail] `json:"items"`
}

// Warning is something to know that refused nothing.
type Warning struct {
	Code    string `json:"code" maxLength:"100"`
	Subject string `json:"subject,omitempty" maxLength:"4096"`
	Message string `json:"message" maxLength:"4000"`
}

// OverlayListResponse is a page of the library.
type OverlayListResponse struct {
	Items         List[OverlayIndexEntry] `json:"items"`
	Total         int                     `json:"total" minimum:"0"`
	EvidenceState OverlayAdviceState      `json:"evidence_state" default:"available"`
}

// PresetInstallResponse says what an install of the pack did, by overlay id.
type PresetInstallResponse struct {
	PackID    string          `json:"pack_id"`
	Installed List[OverlayID] `json:"installed"`
	Updated   List[OverlayID] `json:"updated"`
	Unchanged List[OverlayID] `json:"unchanged"`
	Kept      List[OverlayID] `json:"kept"` // edited by a person or archived: left alone
}

// OverlayRegistryEvent tells an index that an artifact changed.
type OverlayRegistryEvent struct {
	EventType      RegistryEventType `json:"event_type"`
	OverlayID      OverlayID         `json:"overlay_id,omitempty"`
	PromptRecipeID UUID              `json:"prompt_recipe_id,omitempty" format:"uuid"`
	BodyHash       string            `json:"body_hash,omitempty"`
	CreatedAt      Time              `json:"created_at"`
}
