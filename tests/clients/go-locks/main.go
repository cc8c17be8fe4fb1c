// Locks, limits and queues of Go that are scripts.
package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	checks "almandine-checks"

	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	ctx = context.Background()

	equal, is, done, eventually = checks.Equal, checks.Is, checks.Done, checks.Eventually
)

func main() {
	checks.Run([]checks.Case{
		{Name: "redsync", Work: with(redsyncLocks)},
		{Name: "redsync by many", Work: with(redsyncMany)},
		{Name: "redislock", Work: with(redislockLocks)},
		{Name: "redis_rate", Work: with(rates)},
		{Name: "scripts of go-redis", Work: with(scripts)},
		{Name: "asynq: tasks, results, retries", Work: with(asynqTasks)},
		{Name: "asynq: unique, scheduled, inspected", Work: with(asynqInspected)},
	})
}

func with(work func(*redis.Client)) func() {
	return func() {
		r := redis.NewClient(&redis.Options{Addr: checks.Address})
		defer r.Close()
		done(r.FlushAll(ctx).Err())
		work(r)
	}
}

func redsyncLocks(r *redis.Client) {
	rs := redsync.New(goredis.NewPool(r))
	one := rs.NewMutex("mutex", redsync.WithExpiry(5*time.Second))
	other := rs.NewMutex("mutex", redsync.WithTries(1))
	done(one.Lock())
	var taken *redsync.ErrTaken
	equal(errors.As(other.Lock(), &taken), true)
	extended, err := one.Extend()
	done(err)
	equal(extended, true)
	released, err := one.Unlock()
	done(err)
	equal(released, true)
	done(other.Lock())
	_, err = one.Unlock()
	equal(err != nil, true)
	released, err = other.Unlock()
	done(err)
	equal(released, true)
}

func redsyncMany(r *redis.Client) {
	rs, count := redsync.New(goredis.NewPool(r)), 0
	var all sync.WaitGroup
	var broken atomic.Int32
	for range 10 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 5 {
				mutex := rs.NewMutex("many", redsync.WithTries(1000), redsync.WithRetryDelay(5*time.Millisecond))
				if mutex.Lock() != nil {
					broken.Add(1)
					continue
				}
				count++
				if released, err := mutex.Unlock(); !released || err != nil {
					broken.Add(1)
				}
			}
		}()
	}
	all.Wait()
	equal([]int{count, int(broken.Load())}, []int{50, 0})
}

func redislockLocks(r *redis.Client) {
	locker := redislock.New(r)
	lock, err := locker.Obtain(ctx, "lock", time.Minute, &redislock.Options{Metadata: "who"})
	done(err)
	_, err = locker.Obtain(ctx, "lock", time.Minute, nil)
	is(err, redislock.ErrNotObtained)
	equal(lock.Metadata(), "who")
	left, err := lock.TTL(ctx)
	done(err)
	equal(left > 50*time.Second && left <= time.Minute, true)
	done(lock.Refresh(ctx, time.Hour, nil))
	left, err = lock.TTL(ctx)
	done(err)
	equal(left > 50*time.Minute, true)
	done(lock.Release(ctx))
	is(lock.Release(ctx), redislock.ErrLockNotHeld)
	short, err := locker.Obtain(ctx, "short", 100*time.Millisecond, nil)
	done(err)
	retry := &redislock.Options{RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(20*time.Millisecond), 200)}
	_, err = locker.Obtain(ctx, "short", time.Minute, retry)
	done(err)
	is(short.Release(ctx), redislock.ErrLockNotHeld)
}

func rates(r *redis.Client) {
	limiter, limit := redis_rate.NewLimiter(r), redis_rate.PerMinute(10)
	for n := range 10 {
		result, err := limiter.Allow(ctx, "rate", limit)
		done(err)
		equal([]int{result.Allowed, result.Remaining}, []int{1, 9 - n})
	}
	result, err := limiter.Allow(ctx, "rate", limit)
	done(err)
	equal([]any{result.Allowed, result.Remaining, result.RetryAfter > 0 && result.RetryAfter <= 6*time.Second}, []any{0, 0, true})
	result, err = limiter.AllowN(ctx, "several", limit, 4)
	done(err)
	equal([]int{result.Allowed, result.Remaining}, []int{4, 6})
	result, err = limiter.AllowAtMost(ctx, "several", limit, 100)
	done(err)
	equal([]int{result.Allowed, result.Remaining}, []int{6, 0})
	done(limiter.Reset(ctx, "several"))
	result, err = limiter.AllowN(ctx, "several", limit, 11)
	done(err)
	equal(result.Allowed, 0)
}

func scripts(r *redis.Client) {
	script := redis.NewScript("return {KEYS[1], ARGV[1], redis.call('incrby', KEYS[1], ARGV[2])}")
	for n := range 3 {
		equal(script.Run(ctx, r, []string{"n"}, "a", 2).Val(), []any{"n", "a", int64(2 * (n + 1))})
		if n == 1 {
			done(r.ScriptFlush(ctx).Err())
		}
	}
	equal(script.RunRO(ctx, r, []string{"n"}, "a", 2).Err() != nil, true)
	done(script.Load(ctx, r).Err())
	equal(script.Exists(ctx, r).Val(), []bool{true})
	pipeline := r.Pipeline()
	for range 20 {
		script.EvalSha(ctx, pipeline, []string{"n"}, "b", 1)
	}
	results, err := pipeline.Exec(ctx)
	done(err)
	equal(results[19].(*redis.Cmd).Val(), []any{"n", "b", int64(26)})
}

func asynqTasks(r *redis.Client) {
	options := asynq.RedisClientOpt{Addr: checks.Address}
	client := asynq.NewClient(options)
	defer client.Close()
	var sum, tries atomic.Int64
	mux := asynq.NewServeMux()
	mux.HandleFunc("add", func(_ context.Context, task *asynq.Task) error {
		sum.Add(int64(len(task.Payload())))
		_, err := task.ResultWriter().Write([]byte("result"))
		return err
	})
	mux.HandleFunc("fail", func(context.Context, *asynq.Task) error {
		if tries.Add(1) < 3 {
			return errors.New("on purpose")
		}
		return nil
	})
	server := asynq.NewServer(options, asynq.Config{
		Concurrency:              8,
		Queues:                   map[string]int{"default": 1, "urgent": 5},
		LogLevel:                 asynq.FatalLevel,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		TaskCheckInterval:        20 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
	})
	done(server.Start(mux))
	defer server.Shutdown()
	for n := range 100 {
		queue := []string{"default", "urgent"}[n%2]
		_, err := client.Enqueue(asynq.NewTask("add", []byte("12345")), asynq.Queue(queue), asynq.Retention(time.Minute))
		done(err)
	}
	_, err := client.Enqueue(asynq.NewTask("fail", nil), asynq.MaxRetry(5), asynq.Retention(time.Minute))
	done(err)
	eventually(func() bool { return sum.Load() == 500 && tries.Load() == 3 })
	inspector := asynq.NewInspector(options)
	defer inspector.Close()
	eventually(func() bool {
		info, err := inspector.GetQueueInfo("default")
		done(err)
		return info.Completed == 51 && info.Active == 0 && info.Pending == 0
	})
	completed, err := inspector.ListCompletedTasks("urgent")
	done(err)
	equal([]any{len(completed), string(completed[0].Result)}, []any{30, "result"})
}

func asynqInspected(r *redis.Client) {
	options := asynq.RedisClientOpt{Addr: checks.Address}
	client, inspector := asynq.NewClient(options), asynq.NewInspector(options)
	defer client.Close()
	defer inspector.Close()
	_, err := client.Enqueue(asynq.NewTask("once", nil), asynq.Unique(time.Minute))
	done(err)
	_, err = client.Enqueue(asynq.NewTask("once", nil), asynq.Unique(time.Minute))
	is(err, asynq.ErrDuplicateTask)
	_, err = client.Enqueue(asynq.NewTask("named", nil), asynq.TaskID("id"))
	done(err)
	_, err = client.Enqueue(asynq.NewTask("named", nil), asynq.TaskID("id"))
	is(err, asynq.ErrTaskIDConflict)
	later, err := client.Enqueue(asynq.NewTask("later", nil), asynq.ProcessIn(time.Hour))
	done(err)
	equal(later.State, asynq.TaskStateScheduled)
	done(inspector.RunTask("default", later.ID))
	done(inspector.ArchiveTask("default", "id"))
	info, err := inspector.GetQueueInfo("default")
	done(err)
	equal([]int{info.Size, info.Pending, info.Scheduled, info.Archived}, []int{3, 2, 0, 1})
	done(inspector.PauseQueue("default"))
	done(inspector.DeleteTask("default", "id"))
	removed, err := inspector.DeleteAllPendingTasks("default")
	done(err)
	equal(removed, 2)
	done(inspector.UnpauseQueue("default"))
	done(inspector.DeleteQueue("default", false))
}
