package contracts

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elnor/promptlab/internal/fault"
)

func token(doc string) string { return base64.RawURLEncoding.EncodeToString([]byte(doc)) }

func TestSessionKeys(t *testing.T) {
	const chat = `{"workspace_id":"w","surface_kind":"chat","surface_id":"t1"}`
	want, err := ParseSessionToken(token(chat))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(want.JSON()), `{"surface_id":"t1","surface_kind":"chat","thread_id":"t1","workspace_id":"w"}`; got != want {
		t.Errorf("G-004 G-008 canonical form is %s, want %s", got, want)
	}
	t.Run("R-SES-01 every spelling reaches the same record", func(t *testing.T) {
		for _, doc := range []string{
			chat, `{ "surface_id" : "t1", "thread_id":"t1", "surface_kind":"chat","workspace_id":"\u0077"}`,
			`{"workspace_id":"w","surface_kind":"chat","surface_id":"t1","thread_id":"","room_id":""}`, string(want.JSON()),
		} {
			got, err := ParseSessionToken(token(doc))
			if err != nil || got != want || got.Token() != want.Token() || got.FileName() != want.FileName() {
				t.Errorf("%s: got %+v, %v; want %+v", doc, got, err, want)
			}
		}
		composed, err1 := ParseSessionToken(token(`{"workspace_id":"\u00e9","surface_kind":"panel","surface_id":"p"}`))
		parts, err2 := ParseSessionToken(token(`{"workspace_id":"e\u0301","surface_kind":"panel","surface_id":"p"}`))
		if err1 != nil || err2 != nil || composed != parts {
			t.Errorf("two spellings of é: %+v, %v and %+v, %v", composed, err1, parts, err2)
		}
	})
	t.Run("R-HTTP-10 R-SES-02 bad tokens are malformed", func(t *testing.T) {
		long := strings.Repeat("x", 201)
		for _, tok := range []string{
			"", "%", token(chat) + "=", token(chat) + "\n", "e30", token(`[]`), token(`{"workspace_id":"w","surface_kind":"chat","surface_id":""}`),
			token(`{"workspace_id":"","surface_kind":"chat","surface_id":"t"}`), token(`{"workspace_id":"w","surface_kind":"chat","surface_id":"t1","thread_id":"t2"}`),
			token(`{"workspace_id":"w","surface_kind":"room","surface_id":"r1","room_id":"r2"}`), token(`{"workspace_id":"w","surface_kind":"prompt_advisor","surface_id":"r1"}`),
			token(`{"workspace_id":"` + long + `","surface_kind":"chat","surface_id":"t"}`), strings.Repeat("A", 20_000), token(chat + chat),
		} {
			if k, err := ParseSessionToken(tok); fault.Of(err) != fault.Malformed {
				t.Errorf("token %.40q: got %+v, %v; want malformed", tok, k, err)
			}
		}
	})
	t.Run("R-STO-14 names are safe and distinct", func(t *testing.T) {
		seen := map[string]string{}
		for _, id := range []string{"a", "A", "../x", "a/b", "a\x00", "a b", "~a", ".", strings.Repeat("a", 200), "é", "con", "a-", "-a"} {
			k, err := OverlaySessionKey{WorkspaceID: id, SurfaceKind: SurfaceChat, SurfaceID: id}.Canonical("")
			if err != nil {
				t.Fatalf("key of %q: %v", id, err)
			}
			for _, name := range []string{k.FileName(), PinFileName(id)} {
				if strings.ContainsAny(name, "/\\\x00. ") || strings.ToLower(name) != name || len(name) > 80 || seen[name] != "" {
					t.Errorf("id %q: file name %q is unsafe or that of %q", id, name, seen[name])
				}
				seen[name] = id
			}
		}
		a := OverlaySessionKey{WorkspaceID: "a", SurfaceKind: SurfaceChat, SurfaceID: `b","c`}
		b := OverlaySessionKey{WorkspaceID: `a","b`, SurfaceKind: SurfaceChat, SurfaceID: "c"}
		if a.FileName() == b.FileName() {
			t.Error("two keys have one file")
		}
	})
	t.Run("G-104 every bad part is named", func(t *testing.T) {
		_, err := OverlaySessionKey{SurfaceKind: "moon", SurfaceID: "a\xff"}.Canonical("session_key")
		want := map[string]string{"session_key.workspace_id": "min_length", "session_key.surface_kind": "enum", "session_key.surface_id": "utf8"}
		if d := cmp.Diff(want, rulesOfError(t, err)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("G-008 a mismatch names its field", func(t *testing.T) {
		_, err := OverlaySessionKey{WorkspaceID: "w", SurfaceKind: SurfaceTask, SurfaceID: "1", TaskID: "2"}.Canonical("session_key")
		if got := rulesOfError(t, err)["session_key.task_id"]; got != "surface_mismatch" {
			t.Errorf("got %v", err)
		}
	})
}

// A token that parses is spelled in one way.
func FuzzSessionToken(f *testing.F) {
	f.Add(token(`{"workspace_id":"w","surface_kind":"chat","surface_id":"t1"}`))
	f.Add(token(`{"workspace_id":"\u2028<","surface_kind":"room","surface_id":"e\u0301"}`))
	f.Fuzz(func(t *testing.T, tok string) {
		k, err := ParseSessionToken(tok)
		if err != nil {
			return
		}
		again, err := ParseSessionToken(k.Token())
		if err != nil || again != k || again.Token() != k.Token() {
			t.Errorf("token of %+v gives %+v, %v", k, again, err)
		}
	})
}

// R-PKT-11, G-021: the hash covers what reaches the prompt and nothing else.
func TestPacketHashScope(t *testing.T) {
	hash := func(change func(*OverlayPromptPacket)) string {
		p := OverlayPromptPacket{
			SessionKey: OverlaySessionKey{WorkspaceID: "w", SurfaceKind: SurfaceChat, SurfaceID: "t", ThreadID: "t"}, Revision: 1, SoftBudget: 800, HardBudget: 1200,
			OverlayBlocks: List[OverlayPromptBlock]{{OverlayID: "a", Title: "A", BodyHash: "1", PriorityRank: 10}, {OverlayID: "b", Title: "B", BodyHash: "2", PriorityRank: 10}},
		}
		change(&p)
		return p.Hash()
	}
	base := hash(func(*OverlayPromptPacket) {})
	same := map[string]func(*OverlayPromptPacket){
		"revision": func(p *OverlayPromptPacket) { p.Revision = 7 }, "reason": func(p *OverlayPromptPacket) { p.RefreshReason = RefreshManual },
		"warnings": func(p *OverlayPromptPacket) { p.Warnings = List[string]{"x: y"} }, "time": func(p *OverlayPromptPacket) { p.GeneratedAt = Time{}.add(1) },
	}
	differs := map[string]func(*OverlayPromptPacket){
		"order": func(p *OverlayPromptPacket) {
			p.OverlayBlocks[0], p.OverlayBlocks[1] = p.OverlayBlocks[1], p.OverlayBlocks[0]
		},
		"body": func(p *OverlayPromptPacket) { p.OverlayBlocks[0].BodyHash = "3" }, "title": func(p *OverlayPromptPacket) { p.OverlayBlocks[0].Title = "C" },
		"rank": func(p *OverlayPromptPacket) { p.OverlayBlocks[0].PriorityRank = 9 }, "source": func(p *OverlayPromptPacket) { p.OverlayBlocks[0].Source = FromManual },
		"session": func(p *OverlayPromptPacket) { p.SessionKey.SurfaceID = "u" }, "budget": func(p *OverlayPromptPacket) { p.HardBudget = 1 },
		"class": func(p *OverlayPromptPacket) { p.OverlayBlocks[0].ArtifactClass = ClassAdvisor }, "set": func(p *OverlayPromptPacket) { p.OverlayBlocks = p.OverlayBlocks[:1] },
	}
	for what, change := range same {
		if hash(change) != base {
			t.Errorf("another %s changes the packet hash", what)
		}
	}
	for what, change := range differs {
		if hash(change) == base {
			t.Errorf("another %s leaves the packet hash as it was", what)
		}
	}
}

func (t Time) add(d int) Time { return At(t.Time.AddDate(0, 0, d)) }

func TestSessionDocuments(t *testing.T) {
	const key = `{"workspace_id":"w","surface_kind":"chat","surface_id":"t","thread_id":"t"}`
	state := `{"session_key":` + key + `,"revision":0,"updated_at":"2026-01-01T00:00:00Z"}`
	plan := `{"selected_message_ids":["m"]}`
	entry := `{"activation_id":"0190a0a0-0000-7000-8000-000000000000","overlay_id":"a","source":"manual","activated_at":"2026-01-01T00:00:00Z","overlay_body_hash":"x"}`
	t.Run("R-CON-03 defaults", func(t *testing.T) {
		a, err := Decode[ActiveOverlay]([]byte(entry), Stored)
		if err != nil || a.PriorityRank != 10 || !a.ActiveForSurface || a.ArtifactClass != ClassLive || a.ActivatedBy != "user" {
			t.Errorf("a minimal entry: got %+v, %v", a, err)
		}
		p, err := Decode[OverlayReanswerPlanRequest]([]byte(plan), Client)
		want := OverlayReanswerPlanRequest{SelectedMessageIDs: List[string]{"m"}, ContextMode: "selected_turns_only", OverrideMode: OverrideUseActive, OverlayIDs: List[OverlayID]{}}
		if d := cmp.Diff(want, p); d != "" || err != nil {
			t.Errorf("R-REA-02 a minimal plan request: %v (-want +got):\n%s", err, d)
		}
		o, err := Decode[OverlayDispatchOverride]([]byte(`{}`), Client)
		if err != nil || !o.ClearAfterDispatch || o.Mode != OverrideNone {
			t.Errorf("an empty override: got %+v, %v", o, err)
		}
	})
	cases := []struct {
		name   string
		decode func(string) error
		good   []string
		bad    []string
	}{
		{"R-CON-08 R-REA-01 selected_message_ids", decodeField[OverlayReanswerPlanRequest](t, plan, "selected_message_ids"), []string{`["a"]`, `["1","2","3","4","5","6","7","8"]`}, []string{`[]`, `["1","2","3","4","5","6","7","8","9"]`}},
		{"R-CON-08 priority_rank", decodeField[ActiveOverlay](t, entry, "priority_rank"), []string{"1", "20"}, []string{"0", "21"}},
		{"R-CON-07 activation_id", decodeField[ActiveOverlay](t, entry, "activation_id"), nil, []string{`"x"`, `""`}},
		{"hard_blocked_pairs", decodeField[OverlaySessionState](t, state, "hard_blocked_pairs"), []string{`[]`, `[["a","b"]]`}, []string{`[["a"]]`, `[["a","b","c"]]`, `[["A","b"]]`}},
		{"R-TRU-09 drop reasons", decodeField[OverlayRuntimeTruthSummary](t, `{"session_key":`+key+`,"revision":0}`, "drop_reasons_by_overlay"), []string{`{"a":"hard_budget"}`}, []string{`{"a":"mood"}`, `{"a":null}`}},
		{"G-104 key parts", decodeField[OverlaySessionKey](t, key, "workspace_id"), []string{`"w"`}, []string{`""`, `"` + strings.Repeat("w", 201) + `"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range c.good {
				if err := c.decode(v); err != nil {
					t.Errorf("value %s: got %v, want accepted", v, err)
				}
			}
			for _, v := range c.bad {
				if err := c.decode(v); fault.Of(err) != fault.Invalid {
					t.Errorf("value %s: got %v, want a validation fault", v, err)
				}
			}
		})
	}
}

// R-SES-01: the short way to a file's name gives the name of the key's canonical form.
func TestFileNamesOfPlainAndOtherKeysAreOfOneForm(t *testing.T) {
	for _, part := range []string{"team-1", `a"b`, `a\b`, "é", "a\u2028b", "<a&b>", "\x7f", "a\tb", strings.Repeat("x", 200), ""} {
		k := OverlaySessionKey{WorkspaceID: part, SurfaceKind: SurfaceChat, SurfaceID: part + "2"}
		sum := sha256.Sum256(canonicalJSON([]string{part, "chat", part + "2"}))
		if got, want := k.FileName(), hex.EncodeToString(sum[:]); got != want {
			t.Errorf("file name of %q: got %s, want %s", part, got, want)
		}
	}
}
