package chat_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elnor/promptlab/chat"
	"github.com/elnor/promptlab/chat/seam"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/ec/ectest"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

// between is a way to EC on which a test can stand.
type between struct {
	*seam.Client
	mu      sync.Mutex
	notices func(after uint64) (contracts.EventList, error)
	packet  func(q chat.PacketQuery, ask func() (contracts.OverlayPromptPacket, error)) (contracts.OverlayPromptPacket, error)
	room    func(ctx context.Context) (contracts.RoomState, error)
	plan    func(ctx context.Context) (contracts.OverlayReanswerPlan, error)
	usage   func(ctx context.Context)
	truth   func(tell func() error) error
}

func hook[F any](b *between, f *F) F {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *f
}

func (b *between) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *between) Notices(ctx context.Context, after uint64) (contracts.EventList, error) {
	if f := hook(b, &b.notices); f != nil {
		return f(after)
	}
	return b.Client.Notices(ctx, after)
}

func (b *between) Packet(ctx context.Context, q chat.PacketQuery) (contracts.OverlayPromptPacket, error) {
	if f := hook(b, &b.packet); f != nil {
		return f(q, func() (contracts.OverlayPromptPacket, error) { return b.Client.Packet(ctx, q) })
	}
	return b.Client.Packet(ctx, q)
}

func (b *between) Plan(ctx context.Context, id contracts.UUID) (contracts.OverlayReanswerPlan, error) {
	if f := hook(b, &b.plan); f != nil {
		return f(ctx)
	}
	return b.Client.Plan(ctx, id)
}

func (b *between) Room(ctx context.Context, key contracts.OverlaySessionKey) (contracts.RoomState, error) {
	if f := hook(b, &b.room); f != nil {
		return f(ctx)
	}
	return b.Client.Room(ctx, key)
}

func (b *between) Usage(ctx context.Context, rows []contracts.UsageRow) error {
	if f := hook(b, &b.usage); f != nil {
		f(ctx)
	}
	return b.Client.Usage(ctx, rows)
}

func (b *between) Truth(ctx context.Context, t contracts.OverlayRuntimeTruthSummary) error {
	if f := hook(b, &b.truth); f != nil {
		return f(func() error { return b.Client.Truth(ctx, t) })
	}
	return b.Client.Truth(ctx, t)
}

// newRigBetween makes a rig whose way to EC can be stood on.
func newRigBetween(t *testing.T, wait time.Duration) (*rig, *between) {
	t.Helper()
	r := &rig{t: t, env: ectest.New(t), model: &model{do: plain}, log: &buffer{}, reg: prometheus.NewRegistry(), wait: wait}
	r.startAPI()
	r.install()
	client, err := seam.New(seam.Config{BaseURL: r.api.URL, Token: seamToken})
	if err != nil {
		t.Fatal(err)
	}
	b := &between{Client: client}
	r.serve(b, b)
	return r, b
}

var errAway = fault.New(fault.Unavailable, "ec_unavailable", "away") //nolint:gochecknoglobals // never changed

// R-PKT-19, R-PKT-22: a turn that failed at its model and is sent again carries the
// same refresh reason; a later turn does not.
func TestRetryKeepsItsLabel(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	r.model.says(func(context.Context, gateway.Call, func(gateway.Event) error) (gateway.Reply, error) {
		return gateway.Reply{}, &gateway.Error{Class: gateway.ClassContentFilter, NotBilled: true}
	})
	headers := []string{"X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t", "X-PromptLab-Turn", "t-1"}
	r.read(r.post(hi, headers...), 400)
	r.model.says(plain)
	if c := r.say("t", "again", "X-PromptLab-Turn", "t-1"); c.PromptLab.RefreshReason != string(contracts.RefreshActivation) || r.truth("t").RefreshReason != contracts.RefreshActivation {
		t.Errorf("R-PKT-19 the retry: note %+v, receipt %+v, want the reason %s", c.PromptLab, r.truth("t"), contracts.RefreshActivation)
	}
	if c := r.say("t", "next", "X-PromptLab-Turn", "t-2"); c.PromptLab.RefreshReason != "" {
		t.Errorf("R-PKT-22 the next turn has the reason %q too", c.PromptLab.RefreshReason)
	}
}

// G-044: EC was started again with its clock behind: its notices count on from a
// lower number, and are heard all the same.
func TestNoticesThatCountAnew(t *testing.T) {
	r, b := newRigBetween(t, 0)
	r.activate("t", "o-a")
	r.say("t", "q")
	r.activate("t", "o-b")
	r.say("t", "q")
	r.say("t", "q")
	first := r.env.Feed.Last()
	b.set(func() { // the new life counts from 1
		b.notices = func(after uint64) (contracts.EventList, error) {
			list, err := b.Client.Notices(t.Context(), first)
			out := contracts.EventList{Next: list.Next - first, Missed: after > list.Next-first}
			for _, e := range list.Items {
				if e.Seq -= first; e.Seq > after || out.Missed {
					out.Items = append(out.Items, e)
				}
			}
			return out, err
		}
	})
	r.say("t", "q")
	r.env.Must(ec.DeactivateOverlay{Key: key("t"), OverlayID: "o-b"})
	if c := r.say("t", "q"); !slices.Equal(c.PromptLab.Applied, []string{"o-a"}) {
		t.Errorf("G-044 after an overlay was turned off: applied %v, want o-a alone", c.PromptLab.Applied)
	}
}

// G-044: a packet that was on its way while notices were missed is not held.
func TestPacketOnItsWayWhileNoticesAreMissed(t *testing.T) {
	r, b := newRigBetween(t, 0)
	r.activate("t", "o-a")
	made, goOn := make(chan struct{}), make(chan struct{})
	b.set(func() {
		b.packet = func(q chat.PacketQuery, ask func() (contracts.OverlayPromptPacket, error)) (contracts.OverlayPromptPacket, error) {
			p, err := ask()
			if q.TurnID == "slow" {
				close(made)
				<-goOn
			}
			return p, err
		}
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.post(hi, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t", "X-PromptLab-Turn", "slow")
	}()
	<-made
	r.env.Must(ec.DeactivateOverlay{Key: key("t"), OverlayID: "o-a"})
	b.set(func() {
		b.notices = func(uint64) (contracts.EventList, error) {
			return contracts.EventList{Next: r.env.Feed.Last(), Missed: true}, nil
		}
		b.truth = func(func() error) error { return errAway } // whose notice would tell too
	})
	r.say("other", "q")
	b.set(func() { b.notices = nil })
	close(goOn)
	<-ended
	if c := r.say("t", "q"); len(c.PromptLab.Applied) != 0 {
		t.Errorf("G-044 a packet from before what was missed was used: applied %v", c.PromptLab.Applied)
	}
}

// R-BND-03, R-PKT-22: that bills are being delivered, or that something waits, does
// not take a turn its overlays when its history was shortened.
func TestReportWhileBillsAreDelivered(t *testing.T) {
	r, b := newRigBetween(t, 0)
	r.activate("t", "o-a")
	billing, goOn := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(billing); <-goOn })
	b.set(func() { b.usage = func(context.Context) { once() } })
	r.say("t", "q")
	<-billing
	a := r.post(`{"messages":[{"role":"user","content":"q"}],"promptlab":{"compacted":true}}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t")
	close(goOn)
	if c := r.read(a, 200); c.PromptLab.Overlays != "available" || c.PromptLab.RefreshReason != string(contracts.RefreshCompaction) || len(c.PromptLab.Applied) != 1 {
		t.Errorf("R-BND-03 EC is there, and the turn's note says %+v", c.PromptLab)
	}
}

// R-PKT-16: that history was shortened, or the model changed, while EC was away is
// told when it is back.
func TestWhatHappenedWhileECWasAway(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	r.say("t", "q")
	r.away.Store(true)
	r.read(r.post(`{"messages":[{"role":"user","content":"q"}],"promptlab":{"compacted":true}}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t"), 200)
	r.away.Store(false)
	for {
		last := r.env.Feed.Last()
		if x, _, err := r.env.View().Session(key("t"), true); err == nil && x.SessionState.PendingRefreshReason != "" {
			break
		}
		if err := r.env.Feed.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
	}
	if c := r.say("t", "q"); c.PromptLab.RefreshReason != string(contracts.RefreshCompaction) {
		t.Errorf("R-PKT-16 the first turn after: %+v", c.PromptLab)
	}
}

// R-BND-19, R-BND-03: an EC that takes every question and answers none costs a turn
// one patience, whatever the turn asks for.
func TestSlowEC(t *testing.T) {
	r, b := newRigBetween(t, 400*time.Millisecond)
	var waited time.Duration
	stuck := func(ctx context.Context) {
		began := time.Now()
		<-ctx.Done()
		waited += time.Since(began)
	}
	b.set(func() {
		b.room = func(ctx context.Context) (contracts.RoomState, error) {
			stuck(ctx)
			return contracts.RoomState{}, errAway
		}
		b.plan = func(ctx context.Context) (contracts.OverlayReanswerPlan, error) {
			stuck(ctx)
			return contracts.OverlayReanswerPlan{}, errAway
		}
	})
	room := contracts.OverlaySessionKey{WorkspaceID: "w", SurfaceKind: contracts.SurfaceRoom, SurfaceID: "r", RoomID: "r"}
	r.read(r.post(hi, "X-PromptLab-Session", room.Token()), 200)
	r.read(r.post(`{"messages":[{"role":"user","content":"q"}],"promptlab":{"plan_id":"01890a5d-ac96-774b-bcce-b302099a8057","message_ids":["m"]}}`, "X-PromptLab-Workspace", "w", "X-PromptLab-Thread", "t"), 503)
	if waited > time.Second {
		t.Errorf("R-BND-19 two turns waited %s for EC, want at most 0.4 s each", waited)
	}
}

// R-BND-03: an answer of EC that is not understood is EC's absence, not the client's
// mistake.
func TestAnswersThatAreNotUnderstood(t *testing.T) {
	r, b := newRigBetween(t, 0)
	r.activate("t", "o-a")
	r.say("t", "q")
	b.set(func() {
		b.notices = func(uint64) (contracts.EventList, error) {
			return contracts.EventList{}, fault.New(fault.NotFound, "not_found", "there is no such route")
		}
	})
	if c := r.say("t", "q"); c.PromptLab.Overlays != "unavailable" || len(c.PromptLab.Applied) != 0 {
		t.Errorf("G-044 notices cannot be had, and a held packet was applied: %+v", c.PromptLab)
	}
	for body, where := range map[string]string{`{"surprise":true}`: "notices", `{}`: "packet"} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if where == "packet" && strings.HasSuffix(req.URL.Path, "session-notices") {
				body := `{"items":[],"next":1,"missed":false}`
				w.Write([]byte(body))
				return
			}
			w.Write([]byte(body))
		}))
		defer other.Close()
		client, err := seam.New(seam.Config{BaseURL: other.URL, Token: seamToken})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Packet(t.Context(), chat.PacketQuery{Session: key("t")}); fault.Of(err) != fault.Unavailable {
			t.Errorf("a packet %s: got %v, want that EC is unavailable", body, err)
		}
	}
}

// R-TRU-01: a turn that is cut off at the end of the process hands its receipt and
// its bill over all the same.
func TestTurnsThatAreCutOffAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.activate("t", "o-a")
	asked, goOn := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked); <-goOn })
	r.model.says(func(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		if len(c.Request.Messages) > 1 { // of the session with an overlay
			once()
		}
		return plain(ctx, c, emit)
	})
	answered := make(chan completion, 1)
	go func() { answered <- r.say("t", "q", "X-PromptLab-Turn", "last") }()
	<-asked
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	for r.post(hi).status != 503 { // who stops takes no new turn
		continue
	}
	close(goOn)
	<-answered
	<-stopped
	if tr := r.truth("t"); tr.TurnID != "last" {
		t.Errorf("R-TRU-01 receipt %+v", tr)
	}
	if total := r.env.View().Usage(ec.UsageFilter{}).Total; total.Calls != len(r.model.calls) {
		t.Errorf("booked %+v, want all of %d calls", total, len(r.model.calls))
	}
}

// A body is only read when there is room for it: the memory that turns take is
// bounded.
func TestBodiesInFlightAreBounded(t *testing.T) {
	r := newRig(t)
	goOn := make(chan struct{})
	r.model.says(func(ctx context.Context, c gateway.Call, emit func(gateway.Event) error) (gateway.Reply, error) {
		<-goOn
		return plain(ctx, c, emit)
	})
	var wg sync.WaitGroup
	big := func() int { // says that it is long and sends nothing of it
		req, err := http.NewRequest("POST", r.chat.URL+"/v1/chat/completions", io.NopCloser(&held{goOn}))
		if err != nil {
			t.Error(err)
			return 0
		}
		req.ContentLength = 32 << 20
		req.Header.Set("Authorization", "Bearer "+userToken)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // the body was never sent
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	refused := make(chan struct{}, 64)
	for range 17 {
		wg.Go(func() {
			if big() == 503 {
				refused <- struct{}{}
			}
		})
	}
	<-refused // one of them: 16 of 32 MiB are what fits
	if a := r.do("GET", "/v1/models", ""); a.status != 200 {
		t.Errorf("what needs no room: got %d", a.status)
	}
	close(goOn)
	wg.Wait()
	if n := len(refused); n != 0 {
		t.Errorf("%d more were refused, want one of seventeen", n)
	}
}

// held is a body whose first byte does not come until it is let go.
type held struct{ goOn chan struct{} }

func (h *held) Read([]byte) (int, error) {
	<-h.goOn
	return 0, io.ErrUnexpectedEOF
}
