// rueidis: its scripts, its cache on the client's side, and locks that are both.
package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	checks "almandine-checks"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var (
	ctx     = context.Background()
	options = rueidis.ClientOption{InitAddress: []string{checks.Address}}

	equal, done, eventually = checks.Equal, checks.Done, checks.Eventually
)

func main() {
	checks.Run([]checks.Case{
		{Name: "scripts", Work: with(scripts)},
		{Name: "many scripts together", Work: with(manyScripts)},
		{Name: "scripts whose server forgets them", Work: with(forgottenScripts)},
		{Name: "a limit", Work: with(limit)},
		{Name: "copies that scripts change", Work: with(copies)},
		{Name: "copies that are read in a transaction", Work: with(copiesOfScripts)},
		{Name: "rueidislock", Work: with(locks)},
		{Name: "rueidislock by many", Work: with(manyLocks)},
		{Name: "rueidislock without a cache", Work: with(plainLocks)},
	})
}

func with(work func(rueidis.Client)) func() {
	return func() {
		client := checks.Value(rueidis.NewClient(options))
		defer client.Close()
		done(client.Do(ctx, client.B().Flushall().Build()).Error())
		done(client.Do(ctx, client.B().ScriptFlush().Build()).Error())
		work(client)
	}
}

func scripts(c rueidis.Client) {
	add := rueidis.NewLuaScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	for i := int64(1); i <= 3; i++ {
		sum, err := add.Exec(ctx, c, []string{"sum"}, []string{"5"}).AsInt64()
		done(err)
		equal(sum, 5*i)
	}
	get := rueidis.NewLuaScriptReadOnly("return {KEYS[1], redis.call('GET', KEYS[1]), false, {ok = 'fine'}}")
	values, err := get.Exec(ctx, c, []string{"sum"}, nil).ToArray()
	done(err)
	text, err := values[1].ToString()
	done(err)
	equal(text, "15")
	equal(values[2].IsNil(), true)
	noSha := rueidis.NewLuaScriptNoSha("return redis.error_reply('MINE it failed')")
	_, isError := rueidis.IsRedisErr(noSha.Exec(ctx, c, nil, nil).Error())
	equal(isError, true)
	write := rueidis.NewLuaScriptReadOnly("return redis.call('SET', KEYS[1], 1)")
	if write.Exec(ctx, c, []string{"sum"}, nil).Error() == nil {
		panic("a script that only reads has written")
	}
	three := "redis.setresp(3) return redis.call('HGETALL', KEYS[1])"
	done(c.Do(ctx, c.B().Hset().Key("hash").FieldValue().FieldValue("a", "1").Build()).Error())
	fields, err := rueidis.NewLuaScript(three).Exec(ctx, c, []string{"hash"}, nil).AsStrMap()
	done(err)
	equal(fields, map[string]string{"a": "1"})
}

func manyScripts(c rueidis.Client) {
	script := rueidis.NewLuaScript("return redis.call('APPEND', KEYS[1], ARGV[1])")
	var calls []rueidis.LuaExec
	for i := 0; i < 500; i++ {
		calls = append(calls, rueidis.LuaExec{Keys: []string{"key" + strconv.Itoa(i%50)}, Args: []string{"x"}})
	}
	var group sync.WaitGroup
	var broken atomic.Int64
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for _, result := range script.ExecMulti(ctx, c, calls...) {
				if result.Error() != nil {
					broken.Add(1)
				}
			}
		}()
	}
	group.Wait()
	equal(broken.Load(), int64(0))
	for i := 0; i < 50; i++ {
		length, err := c.Do(ctx, c.B().Strlen().Key("key"+strconv.Itoa(i)).Build()).AsInt64()
		done(err)
		equal(length, int64(40))
	}
}

// A script of a server that has forgotten it is sent again, also in the middle of many.
func forgottenScripts(c rueidis.Client) {
	count := rueidis.NewLuaScript("return redis.call('INCR', KEYS[1])")
	calls := make([]rueidis.LuaExec, 20)
	for i := range calls {
		calls[i].Keys = []string{"count"}
	}
	for round := int64(1); round <= 5; round++ {
		done(c.Do(ctx, c.B().ScriptFlush().Build()).Error())
		for _, result := range count.ExecMulti(ctx, c, calls...) {
			done(result.Error())
		}
		equal(checks.Value(c.Do(ctx, c.B().Get().Key("count").Build()).AsInt64()), 20*round)
	}
}

// A limit as rueidislimiter has it: what was asked for in a window is a sorted set, whose end comes with it.
func limit(c rueidis.Client) {
	take := rueidis.NewLuaScript(`
		local now = redis.call('TIME')
		now = now[1] * 1000000 + now[2]
		redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1] * 1000)
		local used = redis.call('ZCARD', KEYS[1])
		if used >= tonumber(ARGV[2]) then return {0, used} end
		redis.call('ZADD', KEYS[1], now, redis.call('INCR', KEYS[2]))
		redis.call('PEXPIRE', KEYS[1], ARGV[1])
		return {1, used + 1}`)
	ask := func() []int64 {
		return checks.Value(take.Exec(ctx, c, []string{"{rate}", "{rate}:ids"}, []string{"600000", "10"}).AsIntSlice())
	}
	var group sync.WaitGroup
	var allowed atomic.Int64
	for range 8 {
		group.Go(func() {
			for range 5 {
				allowed.Add(ask()[0])
			}
		})
	}
	group.Wait()
	equal(allowed.Load(), int64(10))
	equal(ask(), []int64{0, 10})
	done(c.Do(ctx, c.B().Del().Key("{rate}").Build()).Error())
	equal(ask(), []int64{1, 1})
}

func copies(c rueidis.Client) {
	done(c.Do(ctx, c.B().Set().Key("copied").Value("0").Build()).Error())
	read := func() (string, bool) {
		result := c.DoCache(ctx, c.B().Get().Key("copied").Cache(), time.Minute)
		text, err := result.ToString()
		done(err)
		return text, result.IsCacheHit()
	}
	other, err := rueidis.NewClient(options)
	done(err)
	defer other.Close()
	change := rueidis.NewLuaScript("return redis.call('INCR', KEYS[1])")
	for i := 1; i <= 20; i++ {
		read()
		_, hit := read()
		equal(hit, true)
		done(change.Exec(ctx, other, []string{"copied"}, nil).Error())
		eventually(func() bool { text, _ := read(); return text == strconv.Itoa(i) })
	}
}

func copiesOfScripts(c rueidis.Client) {
	done(c.Do(ctx, c.B().Set().Key("a").Value("1").Build()).Error())
	sum := rueidis.NewLuaScript("local n = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[2], n + 1) return redis.call('GET', KEYS[2])")
	for i := 0; i < 10; i++ {
		text, err := sum.Exec(ctx, c, []string{"a", "b"}, nil).ToString()
		done(err)
		equal(text, "2")
		// What a client has changed itself it hears behind the reply.
		eventually(func() bool {
			kept, _ := c.DoCache(ctx, c.B().Get().Key("b").Cache(), time.Minute).ToString()
			return kept == "2"
		})
		done(c.Do(ctx, c.B().Del().Key("b").Build()).Error())
		eventually(func() bool {
			return rueidis.IsRedisNil(c.DoCache(ctx, c.B().Get().Key("b").Cache(), time.Minute).Error())
		})
	}
}

func locker(change func(*rueidislock.LockerOption)) rueidislock.Locker {
	option := rueidislock.LockerOption{ClientOption: options, KeyMajority: 1, KeyValidity: 3 * time.Second}
	change(&option)
	made, err := rueidislock.NewLocker(option)
	done(err)
	return made
}

func locks(c rueidis.Client) {
	first, second := locker(func(*rueidislock.LockerOption) {}), locker(func(o *rueidislock.LockerOption) { o.NoLoopTracking = true })
	defer first.Close()
	defer second.Close()
	held, release, err := first.WithContext(ctx, "lock")
	done(err)
	_, _, err = second.TryWithContext(ctx, "lock")
	equal(errors.Is(err, rueidislock.ErrNotLocked), true)
	// It is renewed for longer than it would live.
	time.Sleep(4 * time.Second)
	done(held.Err())
	released := make(chan struct{})
	go func() {
		_, next, err := second.WithContext(ctx, "lock")
		done(err)
		next()
		close(released)
	}()
	time.Sleep(100 * time.Millisecond)
	release()
	<-released
	// One that is taken away is lost at once.
	held, _, err = first.WithContext(ctx, "lock")
	done(err)
	_, taken, err := second.ForceWithContext(ctx, "lock")
	done(err)
	<-held.Done()
	taken()
}

func manyLocks(c rueidis.Client) {
	var group sync.WaitGroup
	var inside, most, sum atomic.Int64
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			own := locker(func(o *rueidislock.LockerOption) { o.KeyMajority = 2 })
			defer own.Close()
			for i := 0; i < 10; i++ {
				_, release, err := own.WithContext(ctx, "many")
				done(err)
				if now := inside.Add(1); now > most.Load() {
					most.Store(now)
				}
				sum.Add(1)
				inside.Add(-1)
				release()
			}
		}()
	}
	group.Wait()
	equal(sum.Load(), int64(80))
	equal(most.Load(), int64(1))
}

func plainLocks(c rueidis.Client) {
	own := locker(func(o *rueidislock.LockerOption) { o.ClientOption.DisableCache = true })
	defer own.Close()
	for i := 0; i < 5; i++ {
		_, release, err := own.WithContext(ctx, "plain")
		done(err)
		release()
	}
}
