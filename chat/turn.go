package chat

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/prompt"
)

// turn is one request on its way to a model.
type turn struct {
	identity
	req      *request
	target   gateway.Target
	plan     *contracts.OverlayReanswerPlan // nil: not a re-answer
	packet   *contracts.OverlayPromptPacket // nil: EC is away
	room     *contracts.RoomState           // of a room, where it is known
	held     *contracts.OverlayPromptPacket // while EC is away: what was last known to be asked for
	composed prompt.TurnPlan
	ask      gateway.Request
}

// prepare gets a turn ready to be sent. EC's absence is no failure, unless the
// turn asks for something that only EC knows.
func (s *Server) prepare(ctx context.Context, x *exchange, req *request) (*turn, error) {
	target, err := s.target(req.model)
	if err != nil {
		return nil, err
	}
	id, err := identify(x.r, x.who, s.cfg.NewID)
	if err != nil {
		return nil, err
	}
	t := &turn{identity: id, req: req, target: target}
	if err := s.equip(ctx, t); err != nil {
		return nil, err
	}
	conversation, err := t.conversation()
	if err != nil {
		return nil, err
	}
	t.compose(conversation)
	t.ask = req.ask
	t.ask.Model, t.ask.RequestID, t.ask.Workspace = target.Name, x.id, id.key.WorkspaceID
	t.ask.PromptKey, t.ask.PromptVersion = t.composed.Path, short(t.composed.AppliedHash)
	if t.ask.MaxTokens == 0 {
		t.ask.MaxTokens = target.MaxOutput
	}
	t.ask.Messages, t.ask.Tools = t.messages(conversation), harmlessTools(t.ask.Tools)
	return t, nil
}

func short(hash string) string { return hash[:min(len(hash), 12)] }

// equip gets the turn its packet. However many questions that takes, EC has one
// patience for all of them.
func (s *Server) equip(ctx context.Context, t *turn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.SeamTimeout)
	defer cancel()
	ext := t.req.ext
	there := s.packets.sync(ctx) == nil // what is held is only worth what the notices say of it
	n := need{key: t.key, turn: t.identity.turn, revision: ext.Revision, plan: ext.PlanID}
	if o := ext.Override; o != nil && o.Mode != contracts.OverrideNone {
		n.override = &contracts.OverlayDispatchOverride{Mode: o.Mode, OverlayIDs: o.OverlayIDs, ClearAfterDispatch: true}
	}
	if !there && n.ofOneTurn() {
		return needsEC() // a turn that is not sent says nothing of its session
	}
	there = s.announce(ctx, t, &n, there)
	if there && n.plan != "" {
		plan, err := s.cfg.Seam.Plan(ctx, n.plan)
		s.packets.word(err)
		if there = err == nil || !isAway(err); there && err != nil {
			return err
		}
		t.plan = &plan
	}
	if there {
		packet, err := s.packets.get(ctx, n)
		if err == nil {
			t.packet = &packet
			return s.enter(ctx, t)
		}
		if !isAway(err) {
			return err
		}
	}
	if n.ofOneTurn() {
		return needsEC()
	}
	t.held = s.packets.last(t.key)
	return nil
}

func needsEC() *apiError {
	return &apiError{status: http.StatusServiceUnavailable, kind: kindServer, code: "ec_unavailable", retry: 2,
		message: "EC does not answer, and what this turn asks for is known there only; try again later, or send the turn without it"}
}

// announce tells EC what happened to the session since the last turn, so that
// the packet of this one carries the reason; an EC that is away hears it later.
// It says whether EC is there.
func (s *Server) announce(ctx context.Context, t *turn, n *need, there bool) bool {
	var words []word
	event := func(kind contracts.OverlayRefreshReason) {
		words = append(words, word{report: &contracts.OverlaySessionEvent{SessionKey: t.key, EventKind: kind, TurnID: t.identity.turn}})
	}
	held := s.packets.last(t.key)
	if t.req.ext.Compacted {
		event(contracts.RefreshCompaction)
		n.compact = true
	}
	if held != nil && len(held.RequestedOverlayIDs) > 0 && s.packets.switched(t.key, t.modelName()) {
		event(contracts.RefreshModelSwitch)
		n.switched = true
	}
	if !there {
		s.outbox.later(words...)
		return false
	}
	return s.outbox.now(ctx, words...)
}

func (t *turn) modelName() string { return t.target.Provider + "/" + t.target.Model }

// conversation gives the messages that the turn answers: all of them, or for a
// re-answer what its plan selects.
func (t *turn) conversation() ([]gateway.Message, error) {
	_, n := native(t.req.messages)
	all := t.req.messages[n:]
	if t.plan == nil {
		return all, nil
	}
	ids := t.req.ids[n:]
	var missing []string
	for _, id := range t.plan.SelectedMessageIDs {
		if !slices.Contains(ids, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, &apiError{status: http.StatusBadRequest, kind: kindRequest, code: "messages_missing", param: "promptlab.message_ids",
			message: "the plan selects messages that are not in the request: " + strings.Join(missing, ", ")}
	}
	selected := func(i int) bool { return slices.Contains(t.plan.SelectedMessageIDs, ids[i]) }
	switch t.plan.ContextMode {
	case contracts.ContextThread:
		return all, nil
	case contracts.ContextClean: // the question alone: the person's last words up to the last selected message
		last := -1
		for i := range all {
			if selected(i) {
				last = i
			}
		}
		for i := last; i >= 0; i-- {
			if all[i].Role == gateway.SpeakerUser {
				return all[i : i+1], nil
			}
		}
		return nil, nil
	default:
		var out []gateway.Message
		for i := range all {
			if selected(i) {
				out = append(out, all[i])
			}
		}
		return out, nil
	}
}

func (t *turn) compose(conversation []gateway.Message) {
	text, _ := native(t.req.messages)
	in := prompt.Turn{Background: t.background(text), Packet: t.packet}
	if t.plan != nil {
		in.Seed = t.plan.PromptSeed
	}
	for _, d := range t.req.ext.Documents {
		in.Documents = append(in.Documents, prompt.Document{Name: d.Name, Text: d.Text})
	}
	for _, m := range conversation {
		in.History = append(in.History, prompt.TurnMessage{Role: m.Role, Texts: texts(m)})
	}
	t.composed = prompt.ComposeTurn(in)
}

// texts gives a message's text parts; a message of tool calls alone has none.
func texts(m gateway.Message) []string {
	if len(m.Parts) == 0 {
		if m.Content == "" && len(m.ToolCalls) > 0 {
			return nil
		}
		return []string{m.Content}
	}
	var out []string
	for _, p := range m.Parts {
		if p.Type == gateway.PartText {
			out = append(out, p.Text)
		}
	}
	return out
}

// messages puts the composed texts back into the messages they came from:
// images, tool calls and names are not composed. What was added to a message
// stands before its own parts.
func (t *turn) messages(conversation []gateway.Message) []gateway.Message {
	var out []gateway.Message
	if t.composed.System != "" {
		out = append(out, gateway.Message{Role: gateway.SpeakerSystem, Content: t.composed.System})
	}
	for i, c := range t.composed.Messages {
		m := gateway.Message{Role: c.Role}
		if i < len(conversation) {
			m = harmless(conversation[i])
		}
		added := c.Texts[:max(0, len(c.Texts)-len(texts(m)))]
		if i >= len(conversation) {
			added = nil
		}
		own := c.Texts[len(added):]
		switch {
		case len(m.Parts) == 0 && len(added) == 0:
			m.Content = strings.Join(own, "\n\n")
		case len(m.Parts) == 0:
			m.Content = ""
			m.Parts = textParts(c.Texts)
		default:
			parts := textParts(added)
			for _, p := range m.Parts {
				if p.Type == gateway.PartText {
					p.Text, own = own[0], own[1:]
				}
				parts = append(parts, p)
			}
			m.Parts = parts
		}
		out = append(out, m)
	}
	return out
}

func textParts(texts []string) []gateway.Part {
	var out []gateway.Part
	for _, text := range texts {
		out = append(out, gateway.Part{Type: gateway.PartText, Text: text})
	}
	return out
}

// receiptID is the name under which a turn's receipt is shown.
func (t *turn) receiptID() string { return t.key.Token() + "." + t.identity.turn }

// truth says what became of each overlay in this turn.
func (s *Server) truth(t *turn, model string) contracts.OverlayRuntimeTruthSummary {
	now := contracts.At(s.cfg.Now())
	out := contracts.OverlayRuntimeTruthSummary{
		SessionKey: t.key, TurnID: t.identity.turn, AppliedAt: &now, Model: model, TaskType: t.req.ext.TaskType, PathID: t.composed.Path,
		TotalOverlayTokens: t.composed.Overlay, TotalPromptTokens: t.composed.Total, DropReasonsByOverlay: contracts.Map[contracts.OverlayDropReason]{},
	}
	p := t.packet
	if p == nil {
		if t.held != nil { // asked for, as far as is known, and not to be had
			out.Revision, out.RequestedOverlayIDs, out.DroppedOverlayIDs = t.held.Revision, t.held.RequestedOverlayIDs, t.held.RequestedOverlayIDs
			for _, id := range t.held.RequestedOverlayIDs {
				out.DropReasonsByOverlay[string(id)] = contracts.DropUnavailable
			}
		}
		return out
	}
	out.Revision, out.RequestedOverlayIDs, out.PacketHash, out.RefreshReason = p.Revision, p.RequestedOverlayIDs, p.PacketHash, p.RefreshReason
	out.GeneratedAt, out.AppliedPacketHash = &p.GeneratedAt, t.composed.AppliedHash
	out.OverrideMode, out.ReanswerPlanID = p.OverrideMode, p.ReanswerPlanID
	out.SourcesByOverlay, out.TokensByOverlay, out.BodyHashByOverlay, out.DroppedBy = contracts.Map[string]{}, contracts.Map[int]{}, contracts.Map[string]{}, contracts.Map[string]{}
	for _, b := range p.OverlayBlocks {
		out.TokensByOverlay[string(b.OverlayID)], out.BodyHashByOverlay[string(b.OverlayID)] = b.TokenEstimate, b.BodyHash
	}
	for _, b := range t.composed.Applied {
		out.AppliedOverlayIDs = append(out.AppliedOverlayIDs, b.OverlayID)
		out.SourcesByOverlay[string(b.OverlayID)] = string(b.Source)
		if b.CandidateID != "" {
			out.CandidateIDs = append(out.CandidateIDs, b.CandidateID)
		}
	}
	for _, id := range p.RequestedOverlayIDs {
		if why, dropped := t.composed.Dropped[id]; dropped {
			out.DroppedOverlayIDs = append(out.DroppedOverlayIDs, id)
			out.DropReasonsByOverlay[string(id)] = why
			out.DroppedBy[string(id)] = contracts.DroppedByPlan
			if _, before := p.Dropped[string(id)]; before {
				out.DroppedBy[string(id)] = contracts.DroppedByEC
			}
		}
	}
	return out
}

// trimmed says whether this side dropped something that the packet held.
func (t *turn) trimmed() bool {
	return t.packet != nil && len(t.composed.Applied) < len(t.packet.OverlayBlocks)
}

// told hands the receipt over, and the news that something was dropped. It says
// whether EC has the receipt now, or will have it later.
func (s *Server) told(ctx context.Context, t *turn, truth contracts.OverlayRuntimeTruthSummary) bool {
	overlays := "applied"
	switch {
	case t.packet == nil:
		overlays = "unavailable"
	case len(truth.AppliedOverlayIDs) == 0:
		overlays = "none"
	}
	s.meters.turns.WithLabelValues(t.composed.Path, overlays).Inc()
	s.packets.dispatched(t.key, t.modelName(), t.trimmed() && t.plan == nil)
	words := []word{{truth: &truth}}
	if t.trimmed() && truth.OverrideMode == "" {
		words = append(words, word{report: &contracts.OverlaySessionEvent{SessionKey: t.key, EventKind: contracts.RefreshTrim, TurnID: t.identity.turn}})
	}
	return s.outbox.tell(ctx, words...)
}

// headers says before the answer what was sent with it.
func (t *turn) headers(h http.Header) {
	h.Set("X-PromptLab-Receipt", t.receiptID())
	h.Set("X-PromptLab-Session", t.key.Token())
	var ids []string
	for _, b := range t.composed.Applied {
		ids = append(ids, string(b.OverlayID))
	}
	h.Set("X-PromptLab-Applied", strings.Join(ids, ","))
	if t.packet == nil {
		h.Set("X-PromptLab-Overlays", "unavailable")
	} else {
		h.Set("X-PromptLab-Overlays", "available")
		h.Set("X-PromptLab-Revision", strconv.Itoa(t.packet.Revision))
	}
	if len(t.composed.Dropped) > 0 {
		var dropped []string
		for id, why := range t.composed.Dropped {
			dropped = append(dropped, string(id)+"="+string(why))
		}
		slices.Sort(dropped)
		h.Set("X-PromptLab-Dropped", strings.Join(dropped, ","))
	}
	if t.target.Protocol == gateway.ProtocolSimulator {
		h.Set("X-PromptLab-Simulated", "true")
	}
	if len(t.req.ignored) > 0 {
		h.Set("X-PromptLab-Ignored", strings.Join(t.req.ignored, ","))
	}
}
