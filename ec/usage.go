package ec

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/internal/fault"
)

// newAttempts drops the rows of attempts that are booked already.
func (s *State) newAttempts(rows []contracts.UsageRow) []contracts.UsageRow {
	var fresh []contracts.UsageRow
	seen := map[contracts.UUID]bool{}
	for _, r := range rows {
		if _, booked := s.attempts.Get(string(r.AttemptID)); !booked && !seen[r.AttemptID] {
			seen[r.AttemptID] = true
			fresh = append(fresh, r)
		}
	}
	return fresh
}

func (s *State) bookUsage(c Command, b BookUsage) (decision, error) {
	if c.Actor.Role == RoleSeam { // a job's calls come with its task, since evidence rests on them
		var bad []fault.Detail
		for i, r := range b.Rows {
			if r.JobID != "" {
				bad = append(bad, fault.Detail{Field: fmt.Sprintf("rows[%d].job_id", i), Rule: "foreign", Message: "a job's calls are booked by its worker"})
			}
		}
		if bad != nil {
			return decision{}, fault.Validation(bad)
		}
	}
	fresh := s.newAttempts(b.Rows)
	if len(fresh) == 0 {
		return unchanged("usage", "")
	}
	return changed("usage", UsagePut{fresh})
}

func (s *State) applyUsage(rows []contracts.UsageRow) {
	for _, r := range rows {
		s.attempts.Set(string(r.AttemptID), struct{}{})
		s.noteAnswer(r)
		day := r.At.Format("2006-01-02")
		key := string(r.JobID) + "\x00" + day + "\x00" + string(r.Feature) + "\x00" + r.Model
		sum := contracts.UsageSum{Day: day, Feature: r.Feature, Model: r.Model, JobID: r.JobID}
		if old, ok := s.usage.Get(key); ok {
			sum = *old
		}
		sum.Calls++
		sum.InputTokens += r.InputTokens
		sum.OutputTokens += r.OutputTokens
		sum.USD += r.Cost.USD()
		if !r.UsageKnown {
			sum.Unknown++
		}
		s.usage.Set(key, &sum)
	}
}

// usageOf sums a job's model calls by role.
func (s *State) usageOf(job contracts.UUID) contracts.List[contracts.RoleUsage] {
	byRole := map[contracts.ModelRole]*contracts.RoleUsage{}
	prefix := string(job) + "\x00"
	s.usage.Ascend(prefix, func(key string, u *contracts.UsageSum) bool {
		if len(key) < len(prefix) || key[:len(prefix)] != prefix {
			return false
		}
		r := byRole[u.Feature]
		if r == nil {
			r = &contracts.RoleUsage{Role: u.Feature}
			byRole[u.Feature] = r
		}
		r.Calls += u.Calls
		r.InputTokens += u.InputTokens
		r.OutputTokens += u.OutputTokens
		r.USD += u.USD
		r.Unknown += u.Unknown
		return true
	})
	var out contracts.List[contracts.RoleUsage]
	for _, role := range contracts.RoleMeta.Values() {
		if r := byRole[contracts.ModelRole(role)]; r != nil {
			out = append(out, *r)
		}
	}
	return out
}

// UsageBy is something that usage is summed by.
type UsageBy string

// What usage can be summed by.
const (
	UsageByDay     UsageBy = "day"
	UsageByFeature UsageBy = "feature"
	UsageByModel   UsageBy = "model"
	UsageByJob     UsageBy = "job"
)

// UsageBys lists them.
func UsageBys() []string {
	return []string{string(UsageByDay), string(UsageByFeature), string(UsageByModel), string(UsageByJob)}
}

// UsageFilter narrows usage and says what it is summed by. The zero value is
// everything, by everything.
type UsageFilter struct {
	Job          contracts.UUID
	Feature      contracts.ModelRole
	Model        string
	Since, Until string    // days as 2026-01-31, both included; empty: no bound
	By           []UsageBy // empty: all four
}

func (f UsageFilter) matches(u *contracts.UsageSum) bool {
	return (f.Job == "" || u.JobID == f.Job) && (f.Feature == "" || u.Feature == f.Feature) && (f.Model == "" || u.Model == f.Model) &&
		(f.Since == "" || u.Day >= f.Since) && (f.Until == "" || u.Day <= f.Until)
}

// key gives a row's place in the answer: what it is not summed by is left empty.
func (f UsageFilter) key(u *contracts.UsageSum) contracts.UsageSum {
	by := func(what UsageBy) bool { return len(f.By) == 0 || slices.Contains(f.By, what) }
	var k contracts.UsageSum
	if by(UsageByDay) {
		k.Day = u.Day
	}
	if by(UsageByFeature) {
		k.Feature = u.Feature
	}
	if by(UsageByModel) {
		k.Model = u.Model
	}
	if by(UsageByJob) {
		k.JobID = u.JobID
	}
	return k
}

// Usage sums model calls. Days come in their order, and within a day features,
// models and jobs.
func (v *View) Usage(f UsageFilter) contracts.UsageResponse {
	var out contracts.UsageResponse
	sums := map[contracts.UsageSum]*contracts.UsageSum{}
	v.s.usage.Scan(func(_ string, u *contracts.UsageSum) bool {
		if !f.matches(u) {
			return true
		}
		key := f.key(u)
		sum := sums[key]
		if sum == nil {
			row := key
			sum = &row
			sums[key] = sum
		}
		sum.Calls += u.Calls
		sum.InputTokens += u.InputTokens
		sum.OutputTokens += u.OutputTokens
		sum.USD += u.USD
		sum.Unknown += u.Unknown
		out.Total.Calls += u.Calls
		out.Total.InputTokens += u.InputTokens
		out.Total.OutputTokens += u.OutputTokens
		out.Total.USD += u.USD
		return true
	})
	for _, sum := range sums {
		out.Rows = append(out.Rows, *sum)
	}
	slices.SortFunc(out.Rows, func(a, b contracts.UsageSum) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Feature, b.Feature), cmp.Compare(a.Model, b.Model), cmp.Compare(a.JobID, b.JobID))
	})
	return out
}
