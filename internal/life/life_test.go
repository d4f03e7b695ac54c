package life_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elnor/promptlab/internal/life"
	"github.com/google/go-cmp/cmp"
)

// diary notes what happens, in order. Only one goroutine of a bubble writes at
// a time in these tests, ordered by Run itself, which is what they check.
type diary struct{ ch chan string }

func newDiary() diary { return diary{make(chan string, 100)} } // more than any test writes

func (d diary) note(s string) { d.ch <- s }

func (d diary) all() []string {
	close(d.ch)
	var out []string
	for s := range d.ch {
		out = append(out, s)
	}
	return out
}

// part works until told to stop, then needs a while.
func (d diary) part(name string, while time.Duration, err error) life.Part {
	return life.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		d.note(name + " told")
		time.Sleep(while) // the bubble's clock
		d.note(name + " ended")
		return err
	}}
}

func TestPartsStopInReverseOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := life.Run(ctx, d.part("writer", time.Second, nil), d.part("worker", time.Hour, context.Canceled), d.part("api", 0, nil))
		if err != nil {
			t.Errorf("run of parts that end as told: got %v, want nil", err)
		}
		want := []string{"api told", "api ended", "worker told", "worker ended", "writer told", "writer ended"}
		if diff := cmp.Diff(want, d.all()); diff != "" {
			t.Errorf("order of stopping (-want +got):\n%s", diff)
		}
	})
}

func TestAFailingPartEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		boom, late := errors.New("boom"), errors.New("late")
		failing := life.Part{Name: "worker", Run: func(context.Context) error {
			time.Sleep(time.Second)
			d.note("worker failed")
			return boom
		}}
		err := life.Run(t.Context(), d.part("writer", time.Second, late), failing, d.part("api", time.Second, nil))
		if !errors.Is(err, boom) || !errors.Is(err, late) {
			t.Errorf("error: got %v, want both causes", err)
		}
		for _, want := range []string{"worker: boom", "writer: late"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error: got %v, want it to say %q", err, want)
			}
		}
		want := []string{"worker failed", "api told", "api ended", "writer told", "writer ended"}
		if diff := cmp.Diff(want, d.all()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestAPartMayFinishEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		once := life.Part{Name: "once", Run: func(context.Context) error { d.note("once"); return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := life.Run(ctx, once, d.part("api", 0, nil)); err != nil {
			t.Errorf("run: got %v, want nil", err)
		}
		if got := d.all(); !slices.Equal(got, []string{"once", "api told", "api ended"}) {
			t.Errorf("a part that is done ended the others: %v", got)
		}
		if err := life.Run(t.Context(), once2()); err != nil {
			t.Errorf("run of parts that are all done: got %v, want nil at once", err)
		}
	})
}

func once2() life.Part {
	return life.Part{Name: "once", Run: func(context.Context) error { return nil }}
}

func TestCancelledWithoutBeingToldIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := life.Part{Name: "odd", Run: func(context.Context) error { return context.Canceled }}
		if err := life.Run(t.Context(), p); !errors.Is(err, context.Canceled) {
			t.Errorf("a part that gives up by itself: got %v, want its error", err)
		}
	})
}

func TestValuesReachTheParts(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "v")
	var got any
	err := life.Run(ctx, life.Part{Name: "p", Run: func(ctx context.Context) error { got = ctx.Value(key{}); return nil }})
	if err != nil || got != "v" {
		t.Errorf("value in a part: got %v (%v), want v", got, err)
	}
}
