package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
	"github.com/elnor/promptlab/internal/problem"
)

func dial(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := client.New(client.Config{API: srv.URL + "/base/", Token: "secret", Agent: "promptlab/test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTokensGoNoFurtherThanTheyMust(t *testing.T) {
	for _, api := range []string{"http://lab.example:7717", "http://192.168.1.2", "ftp://127.0.0.1", "http://u:p@127.0.0.1", "127.0.0.1:7717", ""} {
		if _, err := client.New(client.Config{API: api, Token: "secret"}); err == nil {
			t.Errorf("New took the address %q", api)
		}
	}
	for _, api := range []string{"http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://lab.example"} {
		if _, err := client.New(client.Config{API: api, Token: "secret"}); err != nil {
			t.Errorf("New refused the address %q: %v", api, err)
		}
	}
	var reached atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer elsewhere.Close()
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.Flags(t.Context()); err == nil || reached.Load() {
		t.Errorf("a redirect gave %v and reached the other server: %v, want an error and no", err, reached.Load())
	}
}

func TestRequestsAreWhatTheyShouldBe(t *testing.T) {
	var got *http.Request
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("ETag", `"e"`)
		_, _ = w.Write([]byte(`{"field_of_tomorrow":1}`))
	})
	if _, err := c.Dataset(t.Context(), "ds:a/b@1?x"); err != nil {
		t.Fatal(err)
	}
	if want := "/base/api/prompt-lab/datasets/ds:a%2Fb@1%3Fx"; got.URL.EscapedPath() != want || got.URL.RawQuery != "" {
		t.Errorf("an odd reference was asked for as %s ? %s, want %s", got.URL.EscapedPath(), got.URL.RawQuery, want)
	}
	if _, err := c.ArchiveOverlay(t.Context(), "a", `"e"`); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Authorization": "Bearer secret", "If-Match": `"e"`, "User-Agent": "promptlab/test", "Content-Type": ""} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("header %s of an archive is %q, want %q", name, v, want)
		}
	}
	if _, etag, err := c.Overlay(t.Context(), "a"); etag != `"e"` || err != nil {
		t.Errorf("ETag is %q (%v), want \"e\"", etag, err)
	}
}

func TestFaultsArriveUnchanged(t *testing.T) {
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r.WithContext(problem.WithRequestID(r.Context(), "id-1")), fault.Validation([]fault.Detail{{Field: "a", Rule: "b", Message: "c"}}))
	})
	_, err := c.Flags(t.Context())
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Invalid || len(f.Details) != 1 || problem.RemoteID(err) != "id-1" {
		t.Errorf("a validation fault arrived as %v with request id %q", err, problem.RemoteID(err))
	}
}

// job answers like a server whose job goes through the given states, one a look;
// an empty state drops the connection.
func job(t *testing.T, states ...contracts.PromptLabJobStatus) (http.HandlerFunc, *atomic.Int32) {
	var looks atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		i := min(int(looks.Add(1))-1, len(states)-1)
		if states[i] == "" {
			panic(http.ErrAbortHandler)
		}
		if err := json.NewEncoder(w).Encode(contracts.PromptLabJob{JobID: "j", Status: states[i]}); err != nil {
			t.Error(err)
		}
	}, &looks
}

func TestWatchSurvivesAServerThatIsAwayForAWhile(t *testing.T) {
	h, _ := job(t, contracts.JobQueued, "", contracts.JobRunning, contracts.JobCompleted)
	var told []contracts.PromptLabJobStatus
	end, err := dial(t, h).Watch(t.Context(), "j", func(s client.Seen) {
		if s.Job != nil {
			told = append(told, s.Job.Status)
		}
	})
	if err != nil || end.Status != contracts.JobCompleted {
		t.Fatalf("Watch = %q, %v, want completed", end.Status, err)
	}
	if len(told) != 3 {
		t.Errorf("Watch told of %v, want each of the three states once", told)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	h, looks := job(t, contracts.JobRunning)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := dial(t, h).Watch(ctx, "j", func(client.Seen) { cancel() })
	if !errors.Is(err, context.Canceled) || looks.Load() == 0 {
		t.Errorf("Watch after cancel: %v, want context.Canceled", err)
	}
}

func TestWatchGivesUpOnAnAnswerThatIsFinal(t *testing.T) {
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, fault.New(fault.NotFound, "not_found", "there is no job"))
	})
	if _, err := c.Watch(t.Context(), "j", func(client.Seen) {}); fault.Of(err) != fault.NotFound {
		t.Errorf("Watch of a job that is not there: %v, want not found", err)
	}
}

// R-LIB-01: a list that is longer than one answer comes whole, and an overlay that
// moved between two answers comes once.
func TestListsComeWhole(t *testing.T) {
	const total = 2500
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		var offset, limit int
		_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &offset)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		list := contracts.OverlayListResponse{Total: total}
		for i := offset; i < min(offset+limit, total); i++ {
			id := i
			if i == 1000 { // somebody saved one that sorts before it
				id = 999
			}
			list.Items = append(list.Items, contracts.OverlayIndexEntry{OverlayID: contracts.OverlayID(fmt.Sprintf("o-%d", id))})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	list, err := c.Overlays(t.Context(), client.OverlayQuery{})
	if err != nil || len(list.Items) != total-1 || list.Total != total || list.Items[total-2].OverlayID != "o-2499" {
		t.Errorf("R-LIB-01 a list of %d: got %d of %d, %v", total, len(list.Items), list.Total, err)
	}
}

// What waits for a decision is never cut off without a word.
func TestJobsAndCandidatesComeWhole(t *testing.T) {
	const total = 2300
	asked := 0
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		var offset, limit int
		_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &offset)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		jobs, candidates := contracts.PromptLabJobList{Total: total}, contracts.PromptCandidateList{Total: total}
		for i := offset; i < min(offset+limit, total); i++ {
			id := contracts.UUID(fmt.Sprint(i))
			jobs.Items, candidates.Items = append(jobs.Items, contracts.PromptLabJob{JobID: id}), append(candidates.Items, contracts.PromptCandidate{CandidateID: id})
		}
		if strings.HasSuffix(r.URL.Path, "/jobs") {
			_ = json.NewEncoder(w).Encode(jobs)
		} else {
			_ = json.NewEncoder(w).Encode(candidates)
		}
	})
	for limit, want := range map[int]int{0: total, 10: 10, 1500: 1500, 5000: total} {
		asked = 0
		list, err := c.Jobs(t.Context(), "", "", limit)
		if err != nil || len(list.Items) != want || list.Total != total || list.Items[want-1].JobID != contracts.UUID(fmt.Sprint(want-1)) || asked != (want+999)/1000 {
			t.Errorf("at most %d jobs: got %d of %d by %d requests, %v; want %d", limit, len(list.Items), list.Total, asked, err, want)
		}
	}
	if list, err := c.Candidates(t.Context(), ""); err != nil || len(list.Items) != total || list.Total != total {
		t.Errorf("candidates: got %d of %d, %v; want all", len(list.Items), list.Total, err)
	}
}

func TestSessionsComeInPages(t *testing.T) {
	const total = 2300
	asked := 0
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		q := r.URL.Query()
		var after, limit int
		_, _ = fmt.Sscan(q.Get("after"), &after)
		_, _ = fmt.Sscan(q.Get("limit"), &limit)
		list := contracts.OverlaySessionList{Total: total}
		for i := after; i < min(after+limit, total); i++ {
			list.Items = append(list.Items, contracts.OverlaySessionSummary{Token: fmt.Sprint(i)})
		}
		if end := after + limit; end < total {
			list.Next = fmt.Sprint(end)
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	for most, want := range map[int]int{0: total, 10: 10, 1000: 1000, 1500: 1500, 5000: total} {
		asked = 0
		list, err := c.Sessions(t.Context(), client.SessionQuery{Most: most})
		if err != nil || len(list.Items) != want || list.Items[want-1].Token != fmt.Sprint(want-1) || asked != (want+999)/1000 {
			t.Errorf("at most %d: got %d by %d requests, %v; want %d", most, len(list.Items), asked, err, want)
		}
	}
}
