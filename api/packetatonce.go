package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/internal/life"
)

// packetAtOnce answers for a packet whose bytes are ready, in front of the
// router: a turn waits for this. The request has passed the same guard by then,
// its parameters the same checks. Whatever needs a command, is not plain or is to
// be refused goes the router's way: false, and nothing has been written.
func (s *Server) packetAtOnce(x *exchange, r *http.Request, where area) bool {
	o := &s.packetOp
	if r.URL.Path != o.path || r.Method != o.method || r.ContentLength != 0 {
		return false
	}
	if _, err := s.guard(x, r, where); err != nil || x.role != o.only {
		x.denied, x.role, x.cookie = "", "", false
		return false
	}
	q, ok := plainQuery(r.URL.RawQuery, o.query)
	if !ok {
		return false
	}
	key, err := contracts.OverlaySessionKey{
		WorkspaceID: q.str(o, "workspace_id"), SurfaceKind: contracts.SupportedSurface(q.str(o, "surface_kind")),
		SurfaceID: q.str(o, "surface_id"), ThreadID: q.str(o, "thread_id"),
	}.Canonical("")
	if err != nil || q.given(o, "plan_id") || q.given(o, "override_mode") || q.given(o, "overlay_ids") || q.str(o, "force_refresh") == "true" {
		return false
	}
	pq := ec.PacketQuery{TurnID: q.str(o, "turn_id"), Now: x.start}
	if revision := q.str(o, "revision"); revision != "" {
		n, err := strconv.Atoi(revision)
		if err != nil {
			return false
		}
		pq.Revision = &n
	}
	p, due, err := s.cfg.Service.View().Packet(key, pq)
	if err != nil || due {
		return false
	}
	x.route, x.ready = o.path, s.packetReady
	s.heard(x.start)
	if x.headed = life.InOnePiece(r.Context(), x.ready.lines); !x.headed {
		setHeaders(x.Header(), where)
	}
	writePacket(x, x, r, p)
	return true
}

// plainValues are parameters in the order in which the operation lists them.
type plainValues struct {
	value [16]string
	there uint16
}

func (q *plainValues) str(o *op, name string) string {
	for i := range o.query {
		if o.query[i].name == name {
			return q.value[i]
		}
	}
	panic("api: no such parameter: " + name) // a mistake of ours
}

func (q *plainValues) given(o *op, name string) bool { return q.str(o, name) != "" }

// plainQuery is parseQuery for a query with nothing wrong in it; it says so when
// there may be.
func plainQuery(raw string, known []param) (q plainValues, ok bool) {
	if len(known) > len(q.value) {
		return q, false
	}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		i := 0
		for i < len(known) && known[i].name != name {
			i++
		}
		if i == len(known) || q.there&(1<<i) != 0 || strings.Contains(pair, ";") {
			return q, false
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			return q, false
		}
		if rule, _ := known[i].check(value); rule != "" {
			return q, false
		}
		q.value[i], q.there = value, q.there|1<<i
	}
	for i, p := range known {
		if p.required && q.there&(1<<i) == 0 {
			return q, false
		}
	}
	return q, true
}
