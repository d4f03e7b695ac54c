package evidence

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The split rule. Its name is part of every split's hash, so that another rule
// can never pass for this one.
const (
	splitRule    = "keyed-rank/1"
	holdoutFirst = 30 // the holdout is filled up to here first ...
	devFloor     = 8  // ... while at least this many stay for development
)

// Row is one example of a dataset.
type Row struct {
	ID    string
	Input string
}

// Copy is a row whose input another row already has.
type Copy struct {
	ID string `json:"id"`
	Of string `json:"of"` // the row that stands for the input
}

// Sides is a dataset split in two. Dev and Holdout name one row for each
// distinct input, so that a copied example can neither be counted twice nor
// stand on both sides; they come in keyed order, which is a shuffle.
type Sides struct {
	Dev       []string `json:"dev"`
	Holdout   []string `json:"holdout"`
	Copies    []Copy   `json:"copies"`    // on the side of the row they copy
	Ambiguous []string `json:"ambiguous"` // one id with several inputs: on neither side
	Distinct  int      `json:"distinct"`  // distinct inputs, len(Dev)+len(Holdout)
	Hash      string   `json:"hash"`      // moves when a row, a side or the key changes
}

// Sealed gives every id that must not reach an optimizer: the holdout, copies
// of its rows, and ids that could not be placed.
func (s Sides) Sealed() map[string]bool {
	sealed := make(map[string]bool, len(s.Holdout)+len(s.Ambiguous))
	for _, id := range s.Holdout {
		sealed[id] = true
	}
	for _, c := range s.Copies {
		if sealed[c.Of] {
			sealed[c.ID] = true
		}
	}
	for _, id := range s.Ambiguous {
		sealed[id] = true
	}
	return sealed
}

// NormaliseInput gives the form in which two inputs count as the same example:
// compatibility characters unified (NFKC), case folded, invisible format
// characters dropped, runs of white space made one space. Invalid UTF-8 becomes
// the replacement character.
func NormaliseInput(input string) string {
	s := norm.NFKC.String(strings.ToValidUTF8(input, "\ufffd"))
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	s = norm.NFKC.String(cases.Fold().String(s))
	return strings.Join(strings.Fields(s), " ")
}

// Distinct counts the distinct inputs that Split would place.
func Distinct(rows []Row) int {
	groups, _ := group(rows)
	return len(groups)
}

// HoldoutSize gives how many of so many distinct examples go to the holdout:
// up to 30 first where at least 8 remain for development, and 60 % of whatever
// is beyond.
func HoldoutSize(distinct int) int {
	first := min(max(distinct-devFloor, 0), holdoutFirst)
	beyond := max(distinct-devFloor-holdoutFirst, 0)
	return first + beyond*6/10
}

// distinctFor gives the smallest dataset whose holdout has so many examples.
func distinctFor(pairs int) int {
	n := pairs + devFloor
	for HoldoutSize(n) < pairs {
		n++
	}
	return n
}

// Split divides rows by a keyed hash of the normalised input, never by order.
// The key must be secret and belong to one dataset version: whoever knows it
// can tell where a row will land. Rows with the same input stay together and
// the smallest id stands for them. The same row twice counts once.
func Split(rows []Row, key string) Sides {
	groups, ambiguous := group(rows)
	type placed struct {
		rank [sha256.Size]byte
		ids  []string
	}
	all := make([]placed, 0, len(groups))
	mac := hmac.New(sha256.New, []byte(key))
	for input, ids := range groups {
		mac.Reset()
		mac.Write([]byte(input))
		p := placed{ids: ids}
		mac.Sum(p.rank[:0])
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b placed) int { return bytes.Compare(a.rank[:], b.rank[:]) })

	s := Sides{Dev: []string{}, Holdout: []string{}, Copies: []Copy{}, Ambiguous: ambiguous, Distinct: len(all)}
	sealed := HoldoutSize(len(all))
	ranks := make([]string, len(all))
	for i, p := range all {
		ranks[i] = hex.EncodeToString(p.rank[:])
		if i < sealed {
			s.Holdout = append(s.Holdout, p.ids[0])
		} else {
			s.Dev = append(s.Dev, p.ids[0])
		}
		for _, id := range p.ids[1:] {
			s.Copies = append(s.Copies, Copy{ID: id, Of: p.ids[0]})
		}
	}
	s.Hash = hashJSON(struct {
		Rule  string   `json:"rule"`
		Ranks []string `json:"ranks"`
		Sides Sides    `json:"sides"`
	}{splitRule, ranks, s})
	return s
}

// group puts the ids of each normalised input together, sorted; ids that have
// more than one input are left out and given apart.
func group(rows []Row) (map[string][]string, []string) {
	inputOf := make(map[string]string, len(rows))
	twoInputs := map[string]bool{}
	for _, r := range rows {
		input := NormaliseInput(r.Input)
		if before, seen := inputOf[r.ID]; seen && before != input {
			twoInputs[r.ID] = true
		}
		inputOf[r.ID] = input
	}
	groups := make(map[string][]string, len(inputOf))
	ambiguous := make([]string, 0, len(twoInputs))
	for id, input := range inputOf {
		if twoInputs[id] {
			ambiguous = append(ambiguous, id)
			continue
		}
		groups[input] = append(groups[input], id)
	}
	for _, ids := range groups {
		slices.SortFunc(ids, cmp.Compare[string])
	}
	slices.Sort(ambiguous)
	return groups, ambiguous
}

// hashJSON is the lower-case hex SHA-256 of a value's JSON form; empty when it
// has none (a number that is not finite).
func hashJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
