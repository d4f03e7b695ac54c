package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/elnor/promptlab/contracts"
	"github.com/elnor/promptlab/ec/dispatch/queue"
)

// canaryKey is a key of ours that nothing removes. When it is gone, everything
// else is gone too.
const canaryKey = "promptlab:canary"

// retention is how long a finished message stays for people to look at.
const retention = 5 * time.Minute

// whereabouts say where a message is in the broker.
type whereabouts int

const (
	nowhere whereabouts = iota // unknown to the broker
	waiting                    // will be picked up
	active                     // a worker has picked it up
	over                       // done or put away: nobody will claim it any more
)

// link is the connection to the broker.
type link struct {
	opt       asynq.RedisConnOpt
	redis     redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
	runID     string
}

func newLink(opt asynq.RedisConnOpt) (*link, error) {
	client, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, errors.New("connect to broker: unknown kind of redis client")
	}
	return &link{
		opt: opt, redis: client,
		client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt),
	}, nil
}

func (l *link) close() error {
	return errors.Join(l.client.Close(), l.inspector.Close(), l.redis.Close())
}

// check asks the broker whether it is there. fresh says that it is another
// process than before or has been emptied: messages may be missing.
func (l *link) check(ctx context.Context) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	info, err := l.redis.Info(ctx, "server").Result()
	if err != nil {
		return false, fmt.Errorf("ask broker: %w", err)
	}
	_, err = l.redis.Get(ctx, canaryKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("ask broker: %w", err)
	}
	emptied := err != nil
	runID := runIDOf(info)
	if !emptied && runID == l.runID {
		return false, nil
	}
	if emptied {
		if err := l.refill(ctx); err != nil {
			return false, err
		}
	}
	l.runID = runID
	return true, nil
}

// refill prepares an empty broker. The client remembers that it has made the
// queue known and would not do it again, so it is replaced.
func (l *link) refill(ctx context.Context) error {
	_ = l.client.Close()
	l.client = asynq.NewClient(l.opt)
	if err := l.redis.SAdd(ctx, "asynq:queues", queue.Name).Err(); err != nil {
		return fmt.Errorf("name queue: %w", err)
	}
	// last: if it is there, the rest is there
	if err := l.redis.Set(ctx, canaryKey, rand.Text(), 0).Err(); err != nil {
		return fmt.Errorf("set canary: %w", err)
	}
	return nil
}

func runIDOf(info string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// send puts a message into the queue. One that is there already is fine.
func (l *link) send(ctx context.Context, kind contracts.TaskKind, m contracts.TaskMessage, timeout time.Duration) error {
	payload, err := queue.Encode(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = l.client.EnqueueContext(ctx, asynq.NewTask(queue.Type(kind), payload),
		asynq.Queue(queue.Name),
		asynq.TaskID(queue.MessageID(m.TaskID, m.Dispatch)),
		asynq.MaxRetry(0), // EC decides about retries
		asynq.Timeout(timeout),
		asynq.Retention(retention))
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// pending gives the ids of the messages that wait to be picked up. One command
// for all: asking for them one by one would take seconds at the cap.
func (l *link) pending(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ids, err := l.redis.LRange(ctx, "asynq:{"+queue.Name+"}:pending", 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list waiting messages: %w", err)
	}
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	return known, nil
}

// find tells where a message is. An answer that makes no sense counts as
// nowhere: what is left of a message after a wipe looks like that. An error
// means that the broker does not answer, so that nothing is known.
func (l *link) find(ctx context.Context, messageID string) (whereabouts, error) {
	info, err := l.inspector.GetTaskInfo(queue.Name, messageID)
	switch {
	case err == nil:
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return nowhere, nil
	default: // the library hides the cause
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := l.redis.Ping(ctx).Err(); err != nil {
			return nowhere, fmt.Errorf("look for message: %w", err)
		}
		return nowhere, nil
	}
	switch info.State {
	case asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating:
		return waiting, nil
	case asynq.TaskStateActive:
		return active, nil
	default: // completed, archived
		return over, nil
	}
}
