package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/gin-gonic/gin"
)

// packetRoute puts the packet straight into the router: its bytes are ready, and
// nothing encodes them again.
func (s *Server) packetRoute(path string) {
	s.packetOp = op{
		id: "get-overlay-packet", method: http.MethodGet, path: path, summary: "What the next turn is to be composed with",
		only: ec.RoleSeam, etag: true, out: reflect.TypeFor[contracts.OverlayPromptPacket](),
		query: append(sessionQuery(),
			param{name: "turn_id", max: 200, about: "The turn that the packet is for; a retry names the same one."},
			param{name: "plan_id", max: 36, about: "Of a re-answer that is dispatched."},
			param{name: "override_mode", enum: contracts.OverrideNone.Values(), about: "Of overlays for this dispatch alone; nothing is stored."},
			param{name: "overlay_ids", max: 16 * 65, about: "Of the override, with commas between them."},
			param{name: "revision", kind: paramInt, max: 1 << 30, about: "That the caller knows of; the answer is the newest, whatever it is."},
			param{name: "force_refresh", kind: paramBool, deflt: "false", about: "Built anew, even if nothing has changed."},
		),
	}
	o := s.packetOp
	s.packetReady = s.readyFor(o)
	s.doc.OpenAPI().AddOperation(s.describe(o))
	s.router.Handle(o.method, o.path, func(c *gin.Context) { s.route(o, c, s.packet) })
}

func (s *Server) packet(w http.ResponseWriter, r *http.Request, q values) error {
	if r.ContentLength != 0 {
		return errBody()
	}
	key, err := sessionOf(q)
	if err != nil {
		return err
	}
	pq := ec.PacketQuery{TurnID: q.str("turn_id"), PlanID: uuidOf(q.str("plan_id")), Force: q.flag("force_refresh"), Now: s.cfg.Now()}
	if q.str("revision") != "" {
		n := int(q.number("revision")) //nolint:gosec // bounded
		pq.Revision = &n
	}
	p, err := s.packetFor(r.Context(), actorOf(r), key, pq, overrideOf(q))
	if err != nil {
		return err
	}
	writePacket(exchangeOf(r.Context()), w, r, p)
	return nil
}

func writePacket(x *exchange, w http.ResponseWriter, r *http.Request, p ec.PacketBytes) {
	x.head(1, "Etag", p.ETag)
	if noneMatch(r.Header.Values("If-None-Match"), p.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header()["Content-Type"] = packetType
	x.head(2, "Content-Length", strconv.Itoa(len(p.Body)))
	_, _ = w.Write(p.Body) // the reader may be gone
}

var packetType = []string{"application/json"} //nolint:gochecknoglobals // a constant that Go cannot write; has no room to grow

// packetFor gives the session's packet, a plan's, or one with an override.
func (s *Server) packetFor(ctx context.Context, actor ec.Actor, key contracts.OverlaySessionKey, q ec.PacketQuery, o *contracts.OverlayDispatchOverride) (ec.PacketBytes, error) {
	if o == nil {
		return s.issue(ctx, actor, key, q)
	}
	if q.PlanID != "" {
		return ec.PacketBytes{}, badRequest([]fault.Detail{{Field: "override_mode", Rule: "exclusive", Message: "must be left out with plan_id: the plan says it"}})
	}
	return s.cfg.Service.View().OverrideBytes(key, *o, contracts.At(q.Now))
}

// issue gives a packet, after the command that it may need: the caller reads,
// the change is a command of EC's own, and what it made is what is sent.
func (s *Server) issue(ctx context.Context, actor ec.Actor, key contracts.OverlaySessionKey, q ec.PacketQuery) (ec.PacketBytes, error) {
	p, due, err := s.cfg.Service.View().Packet(key, q)
	if err != nil || !due {
		return p, err
	}
	cmd := ec.Command{ID: "packet:" + key.FileName() + ":" + s.cfg.NewID(), Actor: actor, Body: ec.BuildPacket{Key: key, TurnID: q.TurnID, PlanID: q.PlanID, Force: q.Force}}
	receipt, err := s.cfg.Service.Do(ctx, cmd)
	if err != nil {
		return ec.PacketBytes{}, err
	}
	if receipt.Packet == nil {
		return ec.PacketBytes{}, fault.New(fault.Unavailable, "packet_unavailable", "the packet was built and is not here; ask again")
	}
	return q.Encode(*receipt.Packet), nil
}

// noneMatch says whether a caller has the packet with this tag already.
func noneMatch(headers []string, etag string) bool {
	for _, h := range headers {
		for tag := range strings.SplitSeq(h, ",") {
			if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
				return true
			}
		}
	}
	return false
}
