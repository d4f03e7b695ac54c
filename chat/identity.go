package chat

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/wall"
)

// The headers by which a client names its session and its turn.
const (
	headerSession   = "X-PromptLab-Session"   // a session's URL token
	headerWorkspace = "X-PromptLab-Workspace" // with headerThread
	headerThread    = "X-PromptLab-Thread"
	headerTurn      = "X-PromptLab-Turn" // a retry names the same one
)

// defaultWorkspace is where turns belong that name none.
const defaultWorkspace = "default"

// keyKept is how long a session key's word is taken without asking EC again. A
// key that was taken back works no longer than this.
const keyKept = 30 * time.Second

const maxKeys = 4096

// caller is who asks.
type caller struct {
	session *contracts.OverlaySessionKey // of a session key; nil: the user
}

// keys knows who may ask: the user by the token, programs by session keys.
type keys struct {
	cfg Config

	mu    sync.Mutex
	known map[string]knownKey // by SHA-256
}

type knownKey struct {
	session contracts.OverlaySessionKey
	at      time.Time
}

func newKeys(cfg Config) *keys { return &keys{cfg: cfg, known: map[string]knownKey{}} }

// authenticate finds out who asks. Comparison takes the same time for every token.
func (k *keys) authenticate(ctx context.Context, r *http.Request) (caller, error) {
	headers := r.Header.Values("Authorization")
	for _, key := range r.Header.Values("X-Api-Key") { // as clients of the messages dialect send it
		headers = append(headers, "Bearer "+key)
	}
	if len(headers) == 0 {
		return caller{}, &apiError{status: http.StatusUnauthorized, kind: kindAuth, code: "unauthenticated",
			message: "an API key is needed: the user token (promptlab token show user) or a session key (promptlab sessions key create)"}
	}
	bad := &apiError{status: http.StatusUnauthorized, kind: kindAuth, code: "invalid_api_key", message: "the API key is not valid"}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	if len(headers) != 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller{}, bad
	}
	hash := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(hash[:], k.cfg.UserToken[:]) == 1 {
		return caller{}, nil
	}
	if other := wall.Match(k.cfg.Others, hash); other != "" {
		return caller{}, &apiError{status: http.StatusForbidden, kind: kindForbidden, code: "forbidden", message: "the role " + other + " may not do this"}
	}
	if !contracts.IsSessionAPIKey(token) {
		return caller{}, bad
	}
	session, err := k.session(ctx, hex.EncodeToString(hash[:]))
	if fault.Of(err) == fault.NotFound || fault.Of(err) == fault.Gone {
		return caller{}, bad
	}
	if err != nil {
		return caller{}, err
	}
	return caller{session: &session}, nil
}

// only admits one role's token.
func (k *keys) only(role string, r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return &apiError{status: http.StatusUnauthorized, kind: kindAuth, code: "unauthenticated", message: "the token of the role " + role + " is needed"}
	}
	if wall.Match(k.cfg.Others, sha256.Sum256([]byte(token))) != role {
		return &apiError{status: http.StatusForbidden, kind: kindForbidden, code: "forbidden", message: "this is for the role " + role}
	}
	return nil
}

// session gives the session of a key: from EC, or while EC is away as it was
// last told.
func (k *keys) session(ctx context.Context, hash string) (contracts.OverlaySessionKey, error) {
	k.mu.Lock()
	have, ok := k.known[hash]
	k.mu.Unlock()
	now := k.cfg.Now()
	if ok && now.Sub(have.at) < keyKept {
		return have.session, nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.SeamTimeout)
	defer cancel()
	owner, err := k.cfg.Seam.SessionOf(ctx, hash)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && isAway(err) && ok:
		return have.session, nil
	case err != nil:
		delete(k.known, hash)
		if isAway(err) {
			return have.session, &apiError{status: http.StatusServiceUnavailable, kind: kindServer, code: "ec_unavailable", err: err,
				message: "whether the session key is valid cannot be found out now; try again, or use the user token"}
		}
		return have.session, err
	}
	if len(k.known) >= maxKeys { // forgetting costs one question each
		clear(k.known)
	}
	k.known[hash] = knownKey{owner.SessionKey, now}
	return owner.SessionKey, nil
}

// identity is the session and the turn of a request.
type identity struct {
	key  contracts.OverlaySessionKey
	turn string
}

// identify reads which session a request belongs to: by header, by key, else a
// thread of its own in the default workspace.
func identify(r *http.Request, who caller, newID func() string) (identity, error) {
	var details []fault.Detail
	one := func(name string) string {
		v := r.Header.Values(name)
		if len(v) > 1 {
			details = append(details, fault.Detail{Field: name, Rule: "duplicate_header", Message: "is given twice"})
		}
		s := strings.Join(v, "")
		if len(s) > 16<<10 {
			details = append(details, fault.Detail{Field: name, Rule: "max_length", Message: "is too long"})
		}
		return s
	}
	token, workspace, thread, turn := one(headerSession), one(headerWorkspace), one(headerThread), one(headerTurn)
	if turn == "" {
		turn = one("Idempotency-Key")
	}
	out := identity{turn: turn}
	if turn == "" {
		out.turn = newID()
	} else if len(turn) > 200 || strings.ContainsFunc(turn, func(c rune) bool { return c <= ' ' || c > '~' }) {
		details = append(details, fault.Detail{Field: headerTurn, Rule: "pattern", Message: "must be 1 to 200 printable characters without spaces"})
	}
	if token != "" && (workspace != "" || thread != "") {
		details = append(details, fault.Detail{Field: headerSession, Rule: "exclusive", Message: "names the session already; leave out " + headerWorkspace + " and " + headerThread})
	}
	var err error
	switch {
	case len(details) > 0:
	case token != "":
		out.key, err = contracts.ParseSessionToken(token)
		if err != nil {
			details = append(details, fault.Detail{Field: headerSession, Rule: "session_key", Message: "is not a session's token; promptlab sessions list shows them"})
		}
	case who.session != nil && workspace == "" && thread == "":
		out.key = *who.session
	default:
		if workspace == "" {
			workspace = defaultWorkspace
		}
		if thread == "" {
			thread = newID()
		}
		out.key, err = contracts.OverlaySessionKey{WorkspaceID: workspace, SurfaceKind: contracts.SurfaceChat, SurfaceID: thread}.Canonical("")
		if err != nil {
			details = append(details, fault.Detail{Field: headerWorkspace, Rule: "session_key", Message: "and " + headerThread + " must be 1 to 200 characters of UTF-8"})
		}
	}
	if len(details) > 0 {
		return out, badRequest(details...)
	}
	if who.session != nil && out.key.FileName() != who.session.FileName() {
		return out, &apiError{status: http.StatusForbidden, kind: kindForbidden, code: "session_mismatch", message: "the key belongs to another session than the headers name"}
	}
	return out, nil
}
