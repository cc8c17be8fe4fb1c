// rueidis: its scripts, its cache on the client's side, and locks that are both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var (
	ctx     = context.Background()
	options = rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Getenv("ALMANDINE_PORT")}}
	failed  int
)

func main() {
	cases := []struct {
		name string
		work func(rueidis.Client)
	}{
		{"scripts", scripts},
		{"many scripts together", manyScripts},
		{"copies that scripts change", copies},
		{"copies that are read in a transaction", copiesOfScripts},
		{"rueidislock", locks},
		{"rueidislock by many", manyLocks},
		{"rueidislock without a cache", plainLocks},
	}
	for _, one := range cases {
		tryOne(one.name, one.work)
	}
	fmt.Printf("%d passed, %d failed\n", len(cases)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func tryOne(name string, work func(rueidis.Client)) {
	defer func() {
		if why := recover(); why != nil {
			failed++
			fmt.Printf("FAILED: %s\n%v\n%s\n", name, why, debug.Stack())
			return
		}
		fmt.Printf("ok: %s\n", name)
	}()
	client, err := rueidis.NewClient(options)
	must(err)
	defer client.Close()
	must(client.Do(ctx, client.B().Flushall().Build()).Error())
	must(client.Do(ctx, client.B().ScriptFlush().Build()).Error())
	work(client)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("%v, not %v", got, wanted))
	}
}

func until(what string, holds func() bool) {
	for start := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			panic("never: " + what)
		}
	}
}

func scripts(c rueidis.Client) {
	add := rueidis.NewLuaScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	for i := int64(1); i <= 3; i++ {
		sum, err := add.Exec(ctx, c, []string{"sum"}, []string{"5"}).AsInt64()
		must(err)
		equal(sum, 5*i)
	}
	get := rueidis.NewLuaScriptReadOnly("return {KEYS[1], redis.call('GET', KEYS[1]), false, {ok = 'fine'}}")
	values, err := get.Exec(ctx, c, []string{"sum"}, nil).ToArray()
	must(err)
	text, err := values[1].ToString()
	must(err)
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
	must(c.Do(ctx, c.B().Hset().Key("hash").FieldValue().FieldValue("a", "1").Build()).Error())
	fields, err := rueidis.NewLuaScript(three).Exec(ctx, c, []string{"hash"}, nil).AsStrMap()
	must(err)
	equal(fields, map[string]string{"a": "1"})
}

func manyScripts(c rueidis.Client) {
	script := rueidis.NewLuaScript("return redis.call('APPEND', KEYS[1], ARGV[1])")
	var calls []rueidis.LuaExec
	for i := 0; i < 500; i++ {
		calls = append(calls, rueidis.LuaExec{Keys: []string{"key" + strconv.Itoa(i%50)}, Args: []string{"x"}})
	}
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for _, result := range script.ExecMulti(ctx, c, calls...) {
				if result.Error() != nil {
					failed++
				}
			}
		}()
	}
	group.Wait()
	for i := 0; i < 50; i++ {
		length, err := c.Do(ctx, c.B().Strlen().Key("key"+strconv.Itoa(i)).Build()).AsInt64()
		must(err)
		equal(length, int64(40))
	}
}

func copies(c rueidis.Client) {
	must(c.Do(ctx, c.B().Set().Key("copied").Value("0").Build()).Error())
	read := func() (string, bool) {
		result := c.DoCache(ctx, c.B().Get().Key("copied").Cache(), time.Minute)
		text, err := result.ToString()
		must(err)
		return text, result.IsCacheHit()
	}
	other, err := rueidis.NewClient(options)
	must(err)
	defer other.Close()
	change := rueidis.NewLuaScript("return redis.call('INCR', KEYS[1])")
	for i := 1; i <= 20; i++ {
		read()
		_, hit := read()
		equal(hit, true)
		must(change.Exec(ctx, other, []string{"copied"}, nil).Error())
		until("the copy is dropped", func() bool { text, _ := read(); return text == strconv.Itoa(i) })
	}
}

func copiesOfScripts(c rueidis.Client) {
	must(c.Do(ctx, c.B().Set().Key("a").Value("1").Build()).Error())
	sum := rueidis.NewLuaScript("local n = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[2], n + 1) return redis.call('GET', KEYS[2])")
	for i := 0; i < 10; i++ {
		text, err := sum.Exec(ctx, c, []string{"a", "b"}, nil).ToString()
		must(err)
		equal(text, "2")
		// What a client has changed itself it hears behind the reply.
		until("the copy is renewed", func() bool {
			kept, _ := c.DoCache(ctx, c.B().Get().Key("b").Cache(), time.Minute).ToString()
			return kept == "2"
		})
		must(c.Do(ctx, c.B().Del().Key("b").Build()).Error())
		until("the copy is dropped", func() bool {
			return rueidis.IsRedisNil(c.DoCache(ctx, c.B().Get().Key("b").Cache(), time.Minute).Error())
		})
	}
}

func locker(change func(*rueidislock.LockerOption)) rueidislock.Locker {
	option := rueidislock.LockerOption{ClientOption: options, KeyMajority: 1, KeyValidity: 3 * time.Second}
	change(&option)
	made, err := rueidislock.NewLocker(option)
	must(err)
	return made
}

func locks(c rueidis.Client) {
	first, second := locker(func(*rueidislock.LockerOption) {}), locker(func(o *rueidislock.LockerOption) { o.NoLoopTracking = true })
	defer first.Close()
	defer second.Close()
	held, release, err := first.WithContext(ctx, "lock")
	must(err)
	_, _, err = second.TryWithContext(ctx, "lock")
	equal(errors.Is(err, rueidislock.ErrNotLocked), true)
	// It is renewed for longer than it would live.
	time.Sleep(4 * time.Second)
	must(held.Err())
	released := make(chan struct{})
	go func() {
		_, next, err := second.WithContext(ctx, "lock")
		must(err)
		next()
		close(released)
	}()
	time.Sleep(100 * time.Millisecond)
	release()
	<-released
	// One that is taken away is lost at once.
	held, _, err = first.WithContext(ctx, "lock")
	must(err)
	_, taken, err := second.ForceWithContext(ctx, "lock")
	must(err)
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
				must(err)
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
		must(err)
		release()
	}
}
