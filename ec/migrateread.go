package ec

import (
	"encoding/json"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/elnor/promptlab/contracts"
)

// Only the migration reads documents leniently: older releases had no schema for
// them that we know. A field of an unusable form counts as absent; a document
// without what identifies it is not understood.

// oldDoc is a JSON object of an older release.
type oldDoc map[string]json.RawMessage

// field reads the first of some fields that has a usable value. Names are given
// in snake case and found in camel case too.
func field[T any](d oldDoc, names ...string) (v T, ok bool) {
	for _, n := range names {
		for k, raw := range d {
			if snake(k) == n && string(raw) != "null" {
				var out T
				if json.Unmarshal(raw, &out) == nil {
					return out, true
				}
			}
		}
	}
	return v, false
}

func text(d oldDoc, names ...string) string {
	s, _ := field[string](d, names...)
	return s
}

// instant reads a time in any zone.
func instant(d oldDoc, otherwise contracts.Time, names ...string) contracts.Time {
	if t, err := time.Parse(time.RFC3339Nano, text(d, names...)); err == nil {
		return contracts.At(t)
	}
	return otherwise
}

// snake gives the present spelling of a key: camelCase and hyphens are old ones.
func snake(key string) string {
	var b strings.Builder
	for i, r := range key {
		switch {
		case r == '-':
			b.WriteByte('_')
		case unicode.IsUpper(r):
			if i > 0 {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// slug gives the present spelling of an overlay's id: underscores are old ones.
func slug(id string) contracts.OverlayID {
	return contracts.OverlayID(strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(strings.TrimSpace(id), ".md")), "_", "-"))
}

var goodSlug = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// oldIDs reads a list of overlays: ids, or objects with one.
func oldIDs(raw []json.RawMessage) (out []contracts.OverlayID) {
	for _, r := range raw {
		if id := slug(idOf(r)); goodSlug.MatchString(string(id)) {
			out = append(out, id)
		}
	}
	return out
}

func idOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var d oldDoc
	if json.Unmarshal(raw, &d) == nil {
		return text(d, "overlay_id", "id")
	}
	return ""
}

// oldPins reads a list of pins; where it lies says whose they are.
func oldPins(p string, body []byte, at contracts.Time) (contracts.PinnedOverlayStore, bool) {
	out := contracts.PinnedOverlayStore{Scope: contracts.PinWorkspace, UpdatedAt: at, UpdatedBy: string(RoleUser)}
	name := strings.TrimSuffix(path.Base(p), ".json")
	if name == "global" && path.Dir(p)+"/" == dirPins {
		out.Scope = contracts.PinUntilOff
	}
	var d oldDoc
	var raw []json.RawMessage
	if json.Unmarshal(body, &raw) != nil {
		if json.Unmarshal(body, &d) != nil {
			return out, false
		}
		raw, _ = field[[]json.RawMessage](d, "overlay_ids", "overlays", "pinned_overlays", "pinned", "ids", "pins")
	}
	out.OverlayIDs = oldIDs(raw)
	out.UpdatedAt = instant(d, at, "updated_at")
	if by := text(d, "updated_by"); by != "" {
		out.UpdatedBy = by
	}
	if out.Scope == contracts.PinWorkspace {
		if out.WorkspaceID = text(d, "workspace_id"); out.WorkspaceID == "" {
			out.WorkspaceID = name
		}
	}
	out, err := contracts.Check(out, contracts.Stored)
	return out, err == nil
}

// oldDefaults reads what moderators and surfaces bring along.
func oldDefaults(body []byte, at contracts.Time) (Defaults, bool) {
	out := Defaults{SchemaVersion: 1}
	var d oldDoc
	if json.Unmarshal(body, &d) != nil {
		return out, false
	}
	moderators, _ := field[[]oldDoc](d, "moderators")
	for _, m := range moderators {
		ids, _ := field[[]json.RawMessage](m, "overlay_ids", "overlays")
		v := contracts.ModeratorDefaults{
			ModeratorID: text(m, "moderator_id", "id"), OverlayIDs: oldIDs(ids), AppliesTo: text(m, "applies_to"),
			UpdatedAt: instant(m, at, "updated_at"), UpdatedBy: string(RoleUser),
		}
		if !slices.Contains([]string{"rooms", "panels"}, v.AppliesTo) {
			v.AppliesTo = "both"
		}
		if _, err := contracts.Check(v, contracts.Stored); err == nil {
			out.Moderators = append(out.Moderators, v)
		}
	}
	surfaces, _ := field[[]oldDoc](d, "surfaces")
	for _, m := range surfaces {
		ids, _ := field[[]json.RawMessage](m, "overlay_ids", "overlays")
		adopted, _ := field[[]string](m, "moderator_ids")
		v := contracts.SurfaceDefaults{
			WorkspaceID: text(m, "workspace_id"), SurfaceKind: contracts.SupportedSurface(text(m, "surface_kind")), SurfaceID: text(m, "surface_id"),
			OverlayIDs: oldIDs(ids), ModeratorIDs: adopted, UpdatedAt: instant(m, at, "updated_at"), UpdatedBy: string(RoleUser),
		}
		if _, err := contracts.Check(v, contracts.Stored); err == nil {
			out.Surfaces = append(out.Surfaces, v)
		}
	}
	return out, true
}

// oldKey reads a session's key: an object, a token, fields of the document
// itself, or a file name that is a token.
func oldKey(file string, d oldDoc) (contracts.OverlaySessionKey, bool) {
	for _, spelled := range []string{text(d, "session_key", "key"), strings.TrimSuffix(file, ".json")} {
		if k, err := contracts.ParseSessionToken(spelled); err == nil {
			return k, true
		}
	}
	m, ok := field[oldDoc](d, "session_key", "key")
	if !ok {
		m = d
	}
	k := contracts.OverlaySessionKey{
		WorkspaceID: text(m, "workspace_id"), SurfaceKind: contracts.SupportedSurface(text(m, "surface_kind", "surface")), SurfaceID: text(m, "surface_id"),
	}
	for _, s := range []struct {
		kind  contracts.SupportedSurface
		field string
	}{{contracts.SurfaceTask, "task_id"}, {contracts.SurfaceRoom, "room_id"}, {contracts.SurfaceChat, "thread_id"}} {
		id := text(m, s.field)
		if id != "" && (k.SurfaceKind == "" || k.SurfaceKind == s.kind) {
			k.SurfaceKind = s.kind
			if k.SurfaceID == "" {
				k.SurfaceID = id
			}
		}
	}
	k, err := k.Canonical("")
	return k, err == nil
}

// oldSession reads a session with all that was on in it.
func oldSession(file string, body []byte, at contracts.Time) (x Session, ok bool) {
	var d oldDoc
	if json.Unmarshal(body, &d) != nil {
		return x, false
	}
	if inner, wrapped := field[oldDoc](d, "session_state", "state"); wrapped {
		d = inner
	}
	key, ok := oldKey(file, d)
	if !ok {
		return x, false
	}
	updated := instant(d, at, "updated_at")
	x = Session{file: key.FileName(), Kept: SessionKept{SchemaVersion: 1, CreatedAt: updated, ActiveAt: at}}
	x.SessionKey, x.UpdatedAt, x.UpdatedBy = key, updated, string(RoleSystem)
	if by := text(d, "updated_by"); by != "" {
		x.UpdatedBy = by
	}
	if r, _ := field[int](d, "revision"); r > 0 {
		x.Revision = r
	}
	raw, _ := field[[]json.RawMessage](d, "active_overlays", "overlays", "overlay_ids")
	for i, r := range raw {
		if a, ok := oldEntry(r, updated); ok {
			a.ActivationID = contracts.DeriveID("migrated:"+x.file, "activation:"+string(a.OverlayID), i)
			x.ActiveOverlays = append(x.ActiveOverlays, a)
		}
	}
	return x, true
}

func oldEntry(raw json.RawMessage, at contracts.Time) (a contracts.ActiveOverlay, ok bool) {
	var d oldDoc
	_ = json.Unmarshal(raw, &d) // an entry may be no more than an id
	a = contracts.ActiveOverlay{
		OverlayID: slug(idOf(raw)), Source: contracts.OverlayActivationSource(text(d, "source")), ArtifactClass: contracts.ClassLive,
		ActiveForSurface: true, ActivatedAt: instant(d, at, "activated_at"), ActivatedBy: string(RoleUser), OverlayBodyHash: text(d, "overlay_body_hash"),
	}
	if !slices.Contains(a.Source.Values(), string(a.Source)) {
		a.Source = contracts.FromManual
	}
	a.PriorityRank = rankOf(a.Source)
	if by := text(d, "activated_by"); by != "" {
		a.ActivatedBy = by
	}
	if on, said := field[bool](d, "active_for_surface"); said {
		a.ActiveForSurface = on
	}
	scopes, _ := field[[]contracts.OverlayPinScope](d, "pin_scopes")
	if scope, _ := field[contracts.OverlayPinScope](d, "requested_scope", "pin_scope"); scope != "" {
		scopes = append(scopes, scope)
	}
	setScopes(&a, scopes)
	return a, goodSlug.MatchString(string(a.OverlayID))
}

// bodyOf gives the text behind a file's header.
func bodyOf(file []byte) string {
	src := contracts.Normalize(string(file))
	if rest, ok := strings.CutPrefix(src, "---\n"); ok {
		if _, body, closed := strings.Cut("\n"+rest, "\n---\n"); closed {
			return body
		}
	}
	return src
}

// modernFile brings an overlay file's header to the present keys: old spellings
// of keys and of the id are changed, keys that are unknown now are dropped,
// required ones that an older release did not have are added. A file without a
// header comes back as it is.
func modernFile(file []byte, id contracts.OverlayID) []byte {
	src := contracts.Normalize(string(file))
	header := strings.TrimPrefix(strings.TrimSuffix(src, bodyOf(file)), "---\n")
	header, ok := strings.CutSuffix(header, "---\n")
	if !ok {
		return file
	}
	var out []string
	seen, known, drop := map[string]bool{}, headerKeys(), false
	for line := range strings.Lines(header) {
		key, value, isKey := strings.Cut(line, ":")
		if isKey && key != "" && !strings.HasPrefix(key, "-") && !strings.ContainsAny(key, " \t#\"'") {
			now := snake(key)
			if drop = !known[now] || seen[now] || now == "preset"; !drop { // only the pack makes presets
				seen[now] = true
				line = now + ":" + value
			}
			if now == "id" {
				line = "id: " + string(id) + "\n"
			}
		}
		if !drop {
			out = append(out, line)
		}
	}
	for _, need := range []struct{ key, value string }{
		{"id", string(id)}, {"title", strings.ReplaceAll(string(id), "-", " ")}, {"description", "An overlay of an earlier release"}, {"artifact_class", string(contracts.ClassLive)},
		{"category", "quality"}, {"supported_surfaces", "[chat, room, panel, task]"}, {"live_token_target", "450"},
	} {
		if !seen[need.key] {
			out = append(out, need.key+": "+need.value+"\n")
		}
	}
	return []byte("---\n" + strings.Join(out, "") + "---\n" + bodyOf(file))
}

// headerKeys are the keys of a header, as its contract declares them.
func headerKeys() map[string]bool {
	out := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[contracts.OverlayTemplateFrontmatter]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = true
	}
	return out
}
