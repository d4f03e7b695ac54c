package api

// Routes lists what the router answers, as "METHOD /path/:param".
func (s *Server) Routes() []string {
	var out []string
	for _, r := range s.router.Routes() {
		out = append(out, r.Method+" "+r.Path)
	}
	return out
}

// MaxStreams is the cap of open event streams.
const MaxStreams = maxStreams

// ByRouterOnly makes the packet go the router's way, always.
func (s *Server) ByRouterOnly() { s.packetOp.path = "" }
