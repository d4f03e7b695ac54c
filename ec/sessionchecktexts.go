package ec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/frontmatter"
)

// textEvent is one text of an overlay as the audit knows it.
type textEvent struct {
	seq  uint64
	at   contracts.Time
	hash string // of the body
}

// version is one text of an overlay as it lies on the disk, or should.
type version struct {
	path  string
	want  string // the body's hash as the audit says; empty where it does not
	title string
	class contracts.OverlayArtifactClass
	hash  string // of the body that is there; empty where there is none
	why   string // why it cannot be read
}

// slot is a place in a packet, with what is known of the block in it.
type slot struct {
	id         contracts.OverlayID
	sources    []contracts.OverlayActivationSource // that it may have come from
	rank       int                                 // 0: follows from the source
	candidates []contracts.UUID                    // whose text it may hold
	absent     bool                                // it may be without a block
}

// textsOf gives the texts of an overlay, oldest first: those of its history, and
// the present one last. Revisions of which nothing is there are among them.
func (k *sessionCheck) textsOf(id contracts.OverlayID) []version {
	if have, ok := k.versions[id]; ok {
		return have
	}
	events := k.texts[id]
	last := len(events)
	if kept, ok, err := one[overlayKept](k.l, keptPath(id)); err == nil && ok {
		last = kept.Revision
	}
	out := make([]version, 0, last)
	for n := 1; n <= last; n++ {
		v := version{path: historyPath(id, n)}
		if i := n - 1 - (last - len(events)); i >= 0 && i < len(events) { // the audit's last is the present one
			v.want = events[i].hash
		}
		if n == last {
			v.path = dirTemplates + string(id) + ".md"
			if k.archivedNow(id) {
				v.path = dirArchived + string(id) + ".md"
			}
		}
		b, ok, err := k.src.Read(v.path)
		doc, bad := frontmatter.Parse(b)
		if n == last && err == nil && (!ok || bad != nil) { // a person has broken or removed it; its text is kept
			v.path = historyPath(id, n)
			b, ok, err = k.src.Read(v.path)
			doc, bad = frontmatter.Parse(b)
		}
		switch {
		case err != nil:
			v.why = err.Error()
		case !ok:
			v.why = "is not there"
		case bad != nil:
			v.why = bad.Error()
		default:
			v.title, v.class, v.hash = doc.Frontmatter.Title, doc.Frontmatter.ArtifactClass, contracts.Hash(doc.Body)
		}
		out = append(out, v)
	}
	k.versions[id] = out
	return out
}

func (k *sessionCheck) archivedNow(id contracts.OverlayID) bool {
	_, live, _ := k.src.Read(dirTemplates + string(id) + ".md")
	_, archived, _ := k.src.Read(dirArchived + string(id) + ".md")
	return archived && !live
}

// inForce gives the text of an overlay that was the present one then: by the
// place in the audit, or without one by the time.
func (k *sessionCheck) inForce(id contracts.OverlayID, seq uint64, at contracts.Time) (version, bool) {
	all, events := k.textsOf(id), k.texts[id]
	for i := len(events) - 1; i >= 0; i-- {
		n := i + len(all) - len(events)
		if e := events[i]; n >= 0 && n < len(all) && (seq > 0 && e.seq <= seq || seq == 0 && !e.at.After(at.Time)) {
			return all[n], true
		}
	}
	return version{}, false
}

// intact says whether a text is the one that was saved; if it is another one,
// that is a problem of its file.
func (k *sessionCheck) intact(id contracts.OverlayID, v version) bool {
	switch {
	case v.hash == "":
		return false
	case v.want != "" && v.want != v.hash:
		k.problem(v.path, "the text of %s has the hash %s; what was saved has %s: it was changed by hand, or damaged", id, v.hash, v.want)
		return false
	}
	return true
}

// mostTries bounds how many packets are tried for one hash.
const mostTries = 100_000

// puzzle is the search for the packet that has a hash.
type puzzle struct {
	key     contracts.OverlaySessionKey
	want    string
	options [][]*contracts.OverlayPromptBlock // by slot; a nil block is none
	tries   int
	found   []contracts.OverlayPromptBlock
	solved  bool
}

// try puts a block into each place that is left, in the given order of slots.
func (p *puzzle) try(order []int, blocks []contracts.OverlayPromptBlock) {
	if len(order) == 0 {
		p.tries++
		if packetOf(p.key, blocks).Hash() == p.want {
			p.found, p.solved = slices.Clone(blocks), true
		}
		return
	}
	for _, b := range p.options[order[0]] {
		next := blocks
		if b != nil {
			next = append(slices.Clip(blocks), *b)
		}
		if p.try(order[1:], next); p.over() {
			return
		}
	}
}

func (p *puzzle) over() bool { return p.solved || p.tries >= mostTries }

// orders tries every order of the slots, beginning with the one that was named.
func (p *puzzle) orders(order []int, from int) {
	if from >= len(order)-1 {
		p.try(order, nil)
		return
	}
	for i := from; i < len(order) && !p.over(); i++ {
		order[from], order[i] = order[i], order[from]
		p.orders(order, from+1)
		order[from], order[i] = order[i], order[from]
	}
}

// recompute finds the packet that has a hash among those that can have been: from
// the texts that were in force, else from all there are. tooMany says that there
// are more of them than are tried.
func (k *sessionCheck) recompute(key contracts.OverlaySessionKey, slots []slot, seq uint64, at contracts.Time, want string) (blocks []contracts.OverlayPromptBlock, solved, tooMany bool) {
	for _, everything := range []bool{false, true} {
		p := puzzle{key: key, want: want}
		order := make([]int, len(slots))
		for i, s := range slots {
			order[i] = i
			p.options = append(p.options, k.blocksFor(s, seq, at, everything))
		}
		if p.orders(order, 0); p.solved {
			return p.found, true, false
		}
		tooMany = p.tries >= mostTries
	}
	return nil, false, tooMany
}

// blocksFor gives the blocks that a slot may hold; nil is none.
func (k *sessionCheck) blocksFor(s slot, seq uint64, at contracts.Time, everything bool) []*contracts.OverlayPromptBlock {
	var out []*contracts.OverlayPromptBlock
	if s.absent {
		out = append(out, nil)
	}
	versions := k.textsOf(s.id)
	if v, ok := k.inForce(s.id, seq, at); ok && !everything {
		versions = []version{v}
	}
	for _, v := range slices.Backward(versions) {
		if v.hash == "" || v.want != "" && v.want != v.hash {
			continue // not a text that was saved
		}
		for _, body := range append([]string{v.hash}, k.candidateHashes(s)...) {
			for _, source := range s.sources {
				b := &contracts.OverlayPromptBlock{OverlayID: s.id, Title: v.title, BodyHash: body, ArtifactClass: v.class, PriorityRank: s.rank, Source: source, PositionHint: contracts.PositionHint}
				if b.PriorityRank == 0 {
					b.PriorityRank = rankOf(source)
				}
				if !slices.ContainsFunc(out, func(x *contracts.OverlayPromptBlock) bool { return x != nil && *x == *b }) {
					out = append(out, b)
				}
			}
		}
	}
	return out
}

// candidateHashes gives the hashes of texts on trial that a block may hold.
func (k *sessionCheck) candidateHashes(s slot) []string {
	var out []string
	for _, id := range s.candidates {
		if c, ok, err := one[contracts.PromptCandidate](k.l, dirCandidates+string(id)+".json"); err == nil && ok && c.ArtifactID == string(s.id) {
			out = append(out, contracts.Hash(c.CandidateText))
		}
	}
	return out
}

// whyNot says why a packet's hash does not follow from the texts: one is gone,
// one was changed, or the hash is another packet's.
func (k *sessionCheck) whyNot(file, name string, slots []slot, seq uint64, at contracts.Time, want string, tooMany bool) {
	whole := true
	var from []string
	for _, s := range slots {
		v, ok := k.inForce(s.id, seq, at)
		switch {
		case !ok:
			whole = false
			k.note(file, "%s cannot be recomputed: the audit does not say which text of %s was in force", name, s.id)
		case v.hash == "":
			whole = false
			k.note(file, "%s cannot be recomputed: the text of %s is gone (%s: %s)", name, s.id, v.path, v.why)
		case !k.intact(s.id, v):
			whole = false
			k.note(file, "%s cannot be recomputed: %s holds another text", name, v.path)
		default:
			from = append(from, v.path)
		}
	}
	switch {
	case whole && tooMany:
		k.note(file, "%s cannot be recomputed: it does not say where its overlays came from, and there are too many ways", name)
	case whole:
		k.problem(file, "%s: the packet hash %s does not follow from the texts of then (%s)", name, want, cmp.Or(strings.Join(from, ", "), "none"))
	}
}
