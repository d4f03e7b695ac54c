package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec"
	"github.com/elnor/promptlab/gateway"
	"github.com/elnor/promptlab/internal/fault"
)

const (
	maxWaiting = 10_000 // rows that wait for EC; more are lost and counted
	maxMessage = 500    // rows of one message
	flushEvery = 2 * time.Second
)

// books gives every row of the gateway to the task that it belongs to.
type books struct {
	mu    sync.Mutex
	byJob map[string]*book
}

func newBooks() *books { return &books{byJob: map[string]*book{}} }

// Offer implements gateway.Rows.
func (b *books) Offer(row gateway.Attempt) bool {
	b.mu.Lock()
	open := b.byJob[row.JobID]
	b.mu.Unlock()
	return open != nil && open.add(row)
}

// open sends a job's rows to this book from now on. An older book of the same
// job belongs to a delivery that is over; its late calls are booked too.
func (b *books) open(k *book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byJob[string(k.job)] = k
}

func (b *books) close(k *book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byJob[string(k.job)] == k {
		delete(b.byJob, string(k.job))
	}
}

// book holds a task's usage rows until EC has them, and borrows its money.
type book struct {
	ec  ec.Tasks
	msg contracts.TaskMessage
	job contracts.UUID

	sending sync.Mutex // one message at a time: a repeat must be the same message

	mu        sync.Mutex
	rows      []contracts.UsageRow
	calls     int
	cost      contracts.NanoUSD
	anySimula bool
}

func newBook(tasks ec.Tasks, msg contracts.TaskMessage, job contracts.UUID) *book {
	return &book{ec: tasks, msg: msg, job: job}
}

// add takes a row of the gateway; it never waits for EC.
func (b *book) add(a gateway.Attempt) bool {
	row := a.UsageRow()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	b.cost += row.Cost
	b.anySimula = b.anySimula || row.Simulated
	if len(b.rows) >= maxWaiting {
		return false
	}
	b.rows = append(b.rows, row)
	return true
}

// spent gives the attempts and their cost in dollars so far.
func (b *book) spent() (calls int, usd float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls, b.cost.USD()
}

// simulated tells whether any call was answered by the simulator.
func (b *book) simulated() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.anySimula
}

// run delivers rows from time to time until ctx ends.
func (b *book) run(ctx context.Context) {
	for rest(ctx, flushEvery) {
		_ = b.flush(ctx) // rows stay where they are and are sent with the next ones
	}
}

// flush delivers all rows. Those that are not delivered stay.
func (b *book) flush(ctx context.Context) error {
	b.sending.Lock()
	defer b.sending.Unlock()
	for {
		b.mu.Lock()
		n := min(len(b.rows), maxMessage)
		rows := append([]contracts.UsageRow(nil), b.rows[:n]...)
		b.mu.Unlock()
		if n == 0 {
			return nil
		}
		_, err := b.ec.Usage(ctx, b.msg.TaskID, contracts.TaskUsage{Dispatch: b.msg.Dispatch, Token: b.msg.Token, Rows: rows})
		if err != nil && !over(err) && fault.Of(err) != fault.Invalid {
			return err
		}
		// Delivered, or of a delivery that is over, or refused for good: no
		// second try can change that.
		b.mu.Lock()
		b.rows = b.rows[n:]
		b.mu.Unlock()
		if err != nil {
			return fmt.Errorf("usage rows dropped: %w", err)
		}
	}
}

// Borrow implements gateway.Lender: money comes from EC and nowhere else. While
// EC is away the call waits, as long as its own time allows; the borrow has an
// id, so asking again does not lend twice.
func (b *book) Borrow(ctx context.Context, nanoUSD int64) (int64, error) {
	in := contracts.TaskUsage{
		Dispatch: b.msg.Dispatch, Token: b.msg.Token,
		Borrow: contracts.NanoUSD(nanoUSD), BorrowID: contracts.UUID(uuid.NewString()),
	}
	var granted contracts.NanoUSD
	err := persist(ctx, 10*time.Minute, func(ctx context.Context) error {
		reply, err := b.ec.Usage(ctx, b.msg.TaskID, in)
		granted = reply.Granted
		return err
	})
	if err != nil {
		return 0, errors.Join(errors.New("borrow"), err)
	}
	return int64(granted), nil
}
