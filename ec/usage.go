package ec

import (
	"github.com/elnor/promptlab/contracts"
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

func (s *State) bookUsage(b BookUsage) (decision, error) {
	fresh := s.newAttempts(b.Rows)
	if len(fresh) == 0 {
		return unchanged("usage", "")
	}
	return changed("usage", UsagePut{fresh})
}

func (s *State) applyUsage(rows []contracts.UsageRow) {
	for _, r := range rows {
		s.attempts.Set(string(r.AttemptID), struct{}{})
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
