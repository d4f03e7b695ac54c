package contracts

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Schema is a JSON Schema (draft 2020-12) as generic JSON.
type Schema map[string]any

// SchemaOf generates the schema of t. Named structs become references with the
// given prefix ("#/$defs/" or "#/components/schemas/"); their definitions are
// collected in defs by type name. The mode is the one by which such a document
// is decoded: a client may leave out server-owned fields, a peer may send fields
// of a later version.
func SchemaOf(t reflect.Type, refPrefix string, mode Mode, defs map[string]Schema) Schema {
	g := schemaGen{prefix: refPrefix, mode: mode, defs: defs}
	return g.of(t, rules{})
}

type schemaGen struct {
	prefix string
	mode   Mode
	defs   map[string]Schema
}

func (g schemaGen) of(t reflect.Type, r rules) Schema {
	if t == timeType {
		return Schema{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem(), r)
	case reflect.Struct:
		return g.structRef(t)
	case reflect.Slice:
		s := Schema{"type": "array", "items": g.of(t.Elem(), rules{maxLength: r.itemMaxLength})}
		setInt(s, "minItems", r.minItems)
		setInt(s, "maxItems", r.maxItems)
		if t == pairType {
			s["minItems"], s["maxItems"] = 2, 2
		}
		return s
	case reflect.Map:
		s := Schema{"type": "object"}
		if t.Elem().Kind() != reflect.Interface {
			s["additionalProperties"] = g.of(t.Elem(), rules{})
		}
		return s
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return bounds(Schema{"type": "integer"}, r)
	case reflect.Float64:
		return bounds(Schema{"type": "number"}, r)
	case reflect.String:
		return stringSchema(t, r)
	default:
		return Schema{}
	}
}

func bounds(s Schema, r rules) Schema {
	if r.minimum != nil {
		s["minimum"] = *r.minimum
	}
	if r.maximum != nil {
		s["maximum"] = *r.maximum
	}
	return s
}

func setInt(s Schema, key string, v *int) {
	if v != nil {
		s[key] = *v
	}
}

func stringSchema(t reflect.Type, r rules) Schema {
	s := Schema{"type": "string"}
	switch {
	case t == reflect.TypeFor[UUID]():
		s["format"] = "uuid"
	case t == reflect.TypeFor[OverlayID]():
		s["pattern"] = "^[a-z0-9-]{1,64}$"
	case r.patternText != "":
		s["pattern"] = r.patternText
	}
	setInt(s, "minLength", r.minLength)
	setInt(s, "maxLength", r.maxLength)
	if e, ok := reflect.New(t).Elem().Interface().(Enum); ok {
		s["enum"] = e.Values()
	}
	if r.enum != nil {
		s["enum"] = r.enum
	}
	return s
}

func (g schemaGen) structRef(t reflect.Type) Schema {
	name := t.Name()
	ref := Schema{"$ref": g.prefix + name}
	if g.defs == nil {
		return ref
	}
	if _, done := g.defs[name]; done {
		return ref
	}
	g.defs[name] = Schema{} // breaks cycles
	props := map[string]any{}
	required := []string{}
	for _, f := range fieldsOf(t).ordered {
		p := g.of(t.FieldByIndex(f.index).Type, f.rules)
		if f.rules.hasDefault {
			var v any
			if err := json.Unmarshal([]byte(f.rules.defaultJSON), &v); err == nil {
				p["default"] = v
			}
		}
		if f.rules.server && g.mode == Client {
			p["description"] = "Set by the server; a client may leave it out."
		}
		props[f.name] = p
		if !f.rules.optional && !f.rules.hasDefault && (!f.rules.server || g.mode != Client) {
			required = append(required, f.name)
		}
	}
	def := Schema{"type": "object", "properties": props}
	if g.mode != Peer {
		def["additionalProperties"] = false
	}
	if len(required) > 0 {
		def["required"] = required
	}
	g.defs[name] = def
	return ref
}

// Published lists the types whose schemas are published, by file name.
func Published() map[string]reflect.Type {
	list := []reflect.Type{
		reflect.TypeFor[APIError](),
		reflect.TypeFor[Dataset](), reflect.TypeFor[DatasetList](), reflect.TypeFor[Flags](),
		reflect.TypeFor[OverlayTemplateFrontmatter](), reflect.TypeFor[OverlayTemplateRecord](),
		reflect.TypeFor[OverlayIndexEntry](), reflect.TypeFor[OverlayMetadata](), reflect.TypeFor[OverlayDetail](),
		reflect.TypeFor[OverlayListResponse](), reflect.TypeFor[OverlayRegistryEvent](),
		reflect.TypeFor[OverlaySessionKey](), reflect.TypeFor[OverlaySessionState](), reflect.TypeFor[PinnedOverlayStore](),
		reflect.TypeFor[OverlaySessionResponse](), reflect.TypeFor[OverlayActivateRequest](), reflect.TypeFor[OverlayDeactivateRequest](),
		reflect.TypeFor[OverlayPinRequest](), reflect.TypeFor[OverlayRefreshRequest](), reflect.TypeFor[OverlayBootstrapRequest](),
		reflect.TypeFor[OverlaySessionEvent](), reflect.TypeFor[OverlayPromptPacket](), reflect.TypeFor[OverlayRuntimeTruthSummary](),
		reflect.TypeFor[OverlayDispatchOverride](), reflect.TypeFor[OverlayReanswerPlan](), reflect.TypeFor[OverlayReanswerPlanRequest](),
		reflect.TypeFor[OverlayFeedback](), reflect.TypeFor[OverlaySignal](), reflect.TypeFor[SignalAck](), reflect.TypeFor[ModeratorDefaults](),
		reflect.TypeFor[SurfaceDefaults](), reflect.TypeFor[OverlayBriefFacts](), reflect.TypeFor[OverlayExplanations](), reflect.TypeFor[RegistryFeed](),
		reflect.TypeFor[OverlayBundleRequest](), reflect.TypeFor[OverlayBundleResponse](),
		reflect.TypeFor[SessionAPIKeyRequest](), reflect.TypeFor[SessionAPIKeyCreated](), reflect.TypeFor[SessionAPIKeyList](),
		reflect.TypeFor[SessionAPIKeyLookup](), reflect.TypeFor[SessionAPIKeyOwner](), reflect.TypeFor[OverlaySessionList](),
		reflect.TypeFor[Room](), reflect.TypeFor[RoomState](), reflect.TypeFor[ModeratorIntervention](), reflect.TypeFor[RouteFacts](),
		reflect.TypeFor[ContextFacts](), reflect.TypeFor[ConfigurationTuple](), reflect.TypeFor[PromptImprovementHint](),
		reflect.TypeFor[ResolvedOperation](), reflect.TypeFor[ObservationFeed](), reflect.TypeFor[SurfaceDefaultsList](), reflect.TypeFor[RoomList](),
		reflect.TypeFor[PromptLabJob](), reflect.TypeFor[PromptLabJobList](), reflect.TypeFor[PromptLabJobRequest](),
		reflect.TypeFor[PromptLabJobResult](), reflect.TypeFor[PromptLabCandidatePayload](),
		reflect.TypeFor[PromptLabReplaySummary](), reflect.TypeFor[PromptCandidate](),
		reflect.TypeFor[PromptCandidateList](), reflect.TypeFor[PromptCandidateDetail](),
		reflect.TypeFor[TaskMessage](), reflect.TypeFor[Task](), reflect.TypeFor[TaskClaim](),
		reflect.TypeFor[TaskHeartbeat](), reflect.TypeFor[TaskRows](), reflect.TypeFor[TaskUsage](),
		reflect.TypeFor[TaskFinish](), reflect.TypeFor[UsageRow](), reflect.TypeFor[UsageResponse](),
		reflect.TypeFor[ModelList](), reflect.TypeFor[RegisteredModel](), reflect.TypeFor[ModelActivation](), reflect.TypeFor[ModelRollback](),
		reflect.TypeFor[ModelDeprecation](), reflect.TypeFor[ActiveModels](),
		reflect.TypeFor[Status](), reflect.TypeFor[LiveEvent](), reflect.TypeFor[NoticeList](), reflect.TypeFor[TaskReport](),
	}
	out := make(map[string]reflect.Type, len(list))
	for _, t := range list {
		out[t.Name()] = t
	}
	return out
}

// messages lists the published types that workers and seams send or are sent;
// their receivers ignore what they do not know.
func messages() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[APIError](), reflect.TypeFor[OverlaySessionEvent](), reflect.TypeFor[OverlayRuntimeTruthSummary](),
		reflect.TypeFor[PromptLabJobRequest](), reflect.TypeFor[PromptLabJobResult](), reflect.TypeFor[PromptLabCandidatePayload](),
		reflect.TypeFor[TaskMessage](), reflect.TypeFor[Task](), reflect.TypeFor[TaskClaim](), reflect.TypeFor[TaskHeartbeat](),
		reflect.TypeFor[TaskRows](), reflect.TypeFor[TaskUsage](), reflect.TypeFor[TaskFinish](), reflect.TypeFor[UsageRow](), reflect.TypeFor[ActiveModels](),
	}
}

// Document gives the published schema of one type: self-contained, indented.
func Document(t reflect.Type) ([]byte, error) {
	mode := Stored
	if slices.Contains(messages(), t) {
		mode = Peer
	}
	defs := map[string]Schema{}
	root := SchemaOf(t, "#/$defs/", mode, defs)
	doc := Schema{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": t.Name(), "$ref": root["$ref"], "$defs": defs}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(string(b)) + "\n"), nil
}
