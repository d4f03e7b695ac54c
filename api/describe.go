package api

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
)

// longestID bounds what an address can name.
const longestID = 200

// rolesKey is the document's extension that lists who may call an operation.
const rolesKey = "x-roles"

// describe makes the document's entry of an operation.
func (s *Server) describe(o op) *huma.Operation {
	d := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, DefaultStatus: o.status(),
		Tags: []string{groupOf(o.path)}, Responses: map[string]*huma.Response{},
	}
	if !o.public {
		d.Security = []map[string][]string{{"bearer": {}}, {"cookie": {}}}
		d.Extensions = map[string]any{rolesKey: o.roles()}
	}
	for _, part := range strings.Split(o.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			d.Parameters = append(d.Parameters, pathParam(strings.TrimSuffix(name, "}")))
		}
	}
	for _, p := range o.query {
		d.Parameters = append(d.Parameters, p.document())
	}
	if !reads(o.method) {
		s.describeWrite(o, d)
	}
	s.describeAnswer(o, d)
	for _, status := range o.failures() {
		d.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + strconv.Itoa(status)}
	}
	return d
}

// groupOf parts the operations as a reader looks for them.
func groupOf(path string) string {
	for _, g := range []struct{ prefix, name string }{
		{"/api/overlay-sessions", "Sessions"}, {"/api/overlay-feedback", "Opinions and defaults"}, {"/api/overlay-signals", "Opinions and defaults"},
		{"/api/overlays", "Library"}, {"/api/presets", "Library"}, {"/api/prompt-lab", "Lab"}, {"/internal/doc17", "Seam"},
	} {
		if strings.HasPrefix(path, g.prefix) {
			return g.name
		}
	}
	if strings.HasSuffix(path, "}") && strings.Contains(path, "-defaults/") {
		return "Opinions and defaults"
	}
	return "System"
}

// roles lists who may call an operation.
func (o op) roles() []string {
	where := areaOf(o.path)
	allowed := where.write
	if reads(o.method) {
		allowed = where.read
	}
	var out []string
	for _, r := range allowed {
		if (o.only == "" || o.only == r) && (!o.people || r != ec.RoleAgent) {
			out = append(out, string(r))
		}
	}
	return out
}

func pathParam(name string) *huma.Param {
	one, most := 1, longestID
	p := &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: "string", MinLength: &one, MaxLength: &most}}
	if name == "session_key" || name == "room_key" {
		most = contracts.MaxSessionToken
		p.Description = "The key of the session, or of the room's: unpadded base64url of its JSON, keys sorted."
		p.Schema.Pattern = "^[A-Za-z0-9_-]+$"
	}
	return p
}

func (s *Server) describeWrite(o op, d *huma.Operation) {
	header := func(name, about, pattern string, most int) {
		d.Parameters = append(d.Parameters, &huma.Param{Name: name, In: "header", Description: about, Schema: &huma.Schema{Type: "string", MaxLength: &most, Pattern: pattern}})
	}
	if !o.public {
		header("Idempotency-Key", "Makes the write safe to repeat; the same key with another body is refused.", "^[ -~]*$", longestKey)
	}
	if o.match {
		header("If-Match", "Refuse with 412 unless this is the present ETag; one tag, not a list.", "^[^,]*$", longestTag)
	}
	body := &huma.RequestBody{Required: !o.empty, Content: map[string]*huma.MediaType{}}
	if o.in != nil {
		body.Content["application/json"] = &huma.MediaType{Schema: s.schemas.ref(o.in, o.mode())}
	} else {
		body.Content["application/json"] = &huma.MediaType{Schema: &huma.Schema{Type: "object", AdditionalProperties: false}}
	}
	d.RequestBody = body
}

func (s *Server) describeAnswer(o op, d *huma.Operation) {
	ok := &huma.Response{Description: http.StatusText(o.status()), Content: map[string]*huma.MediaType{}}
	media := o.media
	if media == "" {
		media = "application/json"
	}
	switch {
	case o.out != nil:
		ok.Content["application/json"] = &huma.MediaType{Schema: s.schemas.ref(o.out, contracts.Stored)}
	case media == "application/json":
		ok.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: "object"}}
	}
	if media != "application/json" {
		ok.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	}
	if o.etag {
		ok.Headers = map[string]*huma.Param{"ETag": {Description: "The version of what is shown, quoted: of an overlay the hash of its whole file, of a session its revision, of a packet the hash of its bytes.", Schema: &huma.Schema{Type: "string"}}}
	}
	d.Responses[strconv.Itoa(o.status())] = ok
	if o.repeat {
		d.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{Description: "It was there already; nothing was made.", Content: ok.Content}
	}
	if o.id == "get-overlay-packet" {
		d.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: "The packet with the tag of If-None-Match is still the one."}
	}
	if o.id == "login" {
		d.Responses[strconv.Itoa(http.StatusSeeOther)] = &huma.Response{Description: "Logged in; the way to the start page."}
	}
}

// failures lists the statuses by which an operation can refuse.
func (o op) failures() []int {
	out := []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
	if !o.public || strings.HasPrefix(o.path, "/login") {
		out = append(out, http.StatusUnauthorized)
	}
	if !reads(o.method) {
		out = append(out, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
		if !o.public {
			out = append(out, http.StatusNotFound, http.StatusConflict)
		}
	}
	plan := slices.ContainsFunc(o.query, func(p param) bool { return p.name == "plan_id" })
	if strings.Contains(o.path, "{") || plan {
		out = append(out, http.StatusNotFound)
	}
	if o.match {
		out = append(out, http.StatusPreconditionFailed)
	}
	if o.id == "get-overlay-packet" { // a plan can have been used, or be too old; an override can ask for what is not for the surface
		out = append(out, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// failures describes each status by which we refuse, once.
func (s *Server) failures() map[string]*huma.Response {
	content := map[string]*huma.MediaType{"application/json": {Schema: s.schemas.ref(reflect.TypeFor[contracts.APIError](), contracts.Stored)}}
	out := map[string]*huma.Response{}
	for status, about := range map[int]string{
		http.StatusBadRequest:            "Not well-formed: the JSON, a parameter, a header, the path.",
		http.StatusUnauthorized:          "No credentials, or wrong ones.",
		http.StatusForbidden:             "Not for this role, from another site, or a switch is off (gate_closed).",
		http.StatusNotFound:              "There is nothing with that id.",
		http.StatusConflict:              "Against the present state: taken, archived, excluded by another overlay, over a limit.",
		http.StatusGone:                  "It was there and is too old now.",
		http.StatusPreconditionFailed:    "If-Match does not name the present version.",
		http.StatusRequestEntityTooLarge: "The body is larger than this operation takes.",
		http.StatusMisdirectedRequest:    "Asked under a name that is not ours.",
		http.StatusUnsupportedMediaType:  "The body is not application/json.",
		http.StatusUnprocessableEntity:   "Well-formed, and wrong: every bad field is named in details.",
		http.StatusInternalServerError:   "Our own mistake; the log has the cause under the request id.",
		http.StatusServiceUnavailable:    "Not now; the same request may be repeated with the same Idempotency-Key.",
	} {
		out[strconv.Itoa(status)] = &huma.Response{Description: about, Content: content}
	}
	return out
}
