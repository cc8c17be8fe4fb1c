// go-redis against a server.
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	checks "almandine-checks"

	"github.com/redis/go-redis/v9"
)

var (
	ctx   = context.Background()
	equal = checks.Equal
)

func stringsAndKeys(r *redis.Client) {
	equal(r.Set(ctx, "a", 1, 100*time.Second).Val(), "OK")
	equal(r.SetNX(ctx, "a", 2, 0).Val(), false)
	equal(checks.Value(r.SetArgs(ctx, "a", 2, redis.SetArgs{Mode: "XX", Get: true}).Result()), "1")
	equal([]int64{r.Incr(ctx, "n").Val(), r.IncrBy(ctx, "n", 5).Val(), r.Decr(ctx, "n").Val()}, []int64{1, 6, 5})
	equal(r.IncrByFloat(ctx, "f", 1.5).Val(), 1.5)
	equal(r.MSet(ctx, "x", 1, "y", 2).Val(), "OK")
	equal(r.MGet(ctx, "x", "none", "y").Val(), []any{"1", nil, "2"})
	equal([]any{r.Append(ctx, "x", "bc").Val(), r.GetRange(ctx, "x", 1, -1).Val(), r.StrLen(ctx, "x").Val()}, []any{int64(3), "bc", int64(3)})
	equal([]int64{r.SetBit(ctx, "b", 7, 1).Val(), r.BitCount(ctx, "b", nil).Val(), r.BitPos(ctx, "b", 1).Val()}, []int64{0, 1, 7})
	equal(checks.Value(r.BitField(ctx, "b", "GET", "u8", "0").Result()), []int64{1})
	equal([]any{r.Expire(ctx, "x", 100*time.Second).Val(), r.TTL(ctx, "x").Val(), r.Persist(ctx, "x").Val()}, []any{true, 100 * time.Second, true})
	equal([]any{r.Rename(ctx, "x", "z").Val(), r.Copy(ctx, "z", "zz", 0, false).Val(), r.Del(ctx, "z", "none").Val()}, []any{"OK", int64(1), int64(1)})
	equal(r.Get(ctx, "none").Err(), redis.Nil)
	binary := string([]byte{0, 255, 13, 10})
	equal(r.Set(ctx, "binary", binary, 0).Val(), "OK")
	equal(r.Restore(ctx, "again", 0, r.Dump(ctx, "binary").Val()).Val(), "OK")
	equal(r.Get(ctx, "again").Val(), binary)
	for n := range 500 {
		r.Set(ctx, fmt.Sprint("key:", n), n, 0)
	}
	seen := map[string]bool{}
	for iterator := r.Scan(ctx, 0, "key:*", 20).Iterator(); iterator.Next(ctx); {
		seen[iterator.Val()] = true
	}
	equal(len(seen), 500)
}

func hashes(r *redis.Client) {
	equal(r.HSet(ctx, "h", "a", 1, "b", 2).Val(), int64(2))
	equal(r.HGetAll(ctx, "h").Val(), map[string]string{"a": "1", "b": "2"})
	equal([]any{r.HMGet(ctx, "h", "a", "none").Val(), r.HIncrBy(ctx, "h", "a", 4).Val(), r.HLen(ctx, "h").Val()}, []any{[]any{"1", nil}, int64(5), int64(2)})
	var scanned struct {
		A int `redis:"a"`
		B int `redis:"b"`
	}
	equal(r.HGetAll(ctx, "h").Scan(&scanned), nil)
	equal(scanned.A*10+scanned.B, 52)
	if !checks.Reference {
		equal(checks.Value(r.HExpire(ctx, "h", 100*time.Second, "a").Result()), []int64{1})
		equal(checks.Value(r.HTTL(ctx, "h", "a").Result()), []int64{100})
	}
}

func lists(r *redis.Client) {
	equal([]int64{r.RPush(ctx, "l", 1, 2, 3).Val(), r.LPush(ctx, "l", 0).Val()}, []int64{3, 4})
	equal(r.LRange(ctx, "l", 0, -1).Val(), []string{"0", "1", "2", "3"})
	equal([]any{r.LPop(ctx, "l").Val(), r.RPopCount(ctx, "l", 2).Val(), r.LMove(ctx, "l", "m", "LEFT", "RIGHT").Val()}, []any{"0", []string{"3", "2"}, "1"})
	equal([]int64{r.LPos(ctx, "m", "1", redis.LPosArgs{}).Val(), r.LInsertBefore(ctx, "m", "1", "0").Val(), r.LLen(ctx, "m").Val()}, []int64{0, 2, 2})
}

func setsAndSortedSets(r *redis.Client) {
	equal([]int64{r.SAdd(ctx, "s", "a", "b").Val(), r.SAdd(ctx, "t", "b").Val()}, []int64{2, 1})
	equal([]any{r.SInter(ctx, "s", "t").Val(), r.SMIsMember(ctx, "s", "a", "z").Val(), r.SCard(ctx, "s").Val()}, []any{[]string{"b"}, []bool{true, false}, int64(2)})
	equal(r.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"}).Val(), int64(2))
	equal(r.ZRangeWithScores(ctx, "z", 0, -1).Val(), []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}})
	equal([]any{r.ZScore(ctx, "z", "b").Val(), r.ZRank(ctx, "z", "b").Val(), r.ZIncrBy(ctx, "z", 1, "a").Val()}, []any{2.5, int64(1), 2.0})
	equal(checks.Value(r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: "z", Start: "+inf", Stop: "-inf", ByScore: true, Rev: true}).Result()), []string{"b", "a"})
	equal(r.ZPopMax(ctx, "z").Val(), []redis.Z{{Score: 2.5, Member: "b"}})
}

func streamsAndOthers(r *redis.Client) {
	id := r.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: map[string]any{"f": "v"}}).Val()
	entry := []redis.XMessage{{ID: id, Values: map[string]any{"f": "v"}}}
	equal(len(r.XRange(ctx, "x", "-", "+").Val()), 1)
	equal(r.XGroupCreate(ctx, "x", "g", "0").Val(), "OK")
	read := r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"x", ">"}, Count: 10}).Val()
	equal([]any{len(read), read[0].Messages[0].ID, read[0].Messages[0].Values}, []any{1, id, entry[0].Values})
	equal([]int64{r.XPending(ctx, "x", "g").Val().Count, r.XAck(ctx, "x", "g", id).Val(), r.XLen(ctx, "x").Val()}, []int64{1, 1, 1})
	equal(checks.Value(r.XInfoStream(ctx, "x").Result()).Length, int64(1))
	equal(checks.Value(r.XInfoGroups(ctx, "x").Result())[0].Name, "g")
	equal(r.GeoAdd(ctx, "g", &redis.GeoLocation{Longitude: 13.361389, Latitude: 38.115556, Name: "Palermo"}).Val(), int64(1))
	equal(r.GeoHash(ctx, "g", "Palermo").Val(), []string{"sqc8b49rny0"})
	equal([]int64{r.PFAdd(ctx, "p", "a", "b").Val(), r.PFCount(ctx, "p").Val()}, []int64{1, 2})
}

func pipelinesAndTransactions(r *redis.Client) {
	var last *redis.IntCmd
	_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 1000 {
			last = p.Incr(ctx, "many")
		}
		return nil
	})
	equal([]any{err, last.Val()}, []any{nil, int64(1000)})
	_, err = r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "t", 1, 0)
		last = p.Incr(ctx, "t")
		return nil
	})
	equal([]any{err, last.Val()}, []any{nil, int64(2)})
	err = r.Watch(ctx, func(tx *redis.Tx) error {
		r.Set(ctx, "t", 10, 0)
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, "t").Err() })
		return err
	}, "t")
	equal(err, redis.TxFailedErr)
	// Each goroutine adds what it has read, as often as it takes.
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for done := 0; done < 25; {
				err := r.Watch(ctx, func(tx *redis.Tx) error {
					n, err := tx.Get(ctx, "shared").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "shared", n+1, 0).Err() })
					return err
				}, "shared")
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					return
				}
			}
		}()
	}
	all.Wait()
	equal(r.Get(ctx, "shared").Val(), "200")
}

func publishSubscribe(r *redis.Client) {
	listener := r.Subscribe(ctx, "news")
	defer listener.Close()
	equal(listener.PSubscribe(ctx, "n*"), nil)
	for range 2 {
		checks.Value(listener.ReceiveTimeout(ctx, 2*time.Second))
	}
	equal(r.Publish(ctx, "news", "hello").Val(), int64(2))
	channel := listener.Channel()
	first, second := <-channel, <-channel
	equal([]string{first.Pattern, first.Payload, second.Pattern, second.Payload}, []string{"", "hello", "n*", "hello"})
	shard := r.SSubscribe(ctx, "shard")
	defer shard.Close()
	checks.Value(shard.Receive(ctx))
	equal(r.SPublish(ctx, "shard", "s").Val(), int64(1))
	equal((<-shard.Channel()).Payload, "s")
	equal([]any{r.PubSubNumSub(ctx, "news").Val(), r.PubSubNumPat(ctx).Val()}, []any{map[string]int64{"news": 1}, int64(1)})
}

func blocking(r *redis.Client) {
	later := func(work func()) {
		go func() {
			// On a busy machine the one that waits may come late, and then $ is behind what is added.
			for range 500 {
				if !strings.Contains(r.Info(ctx, "clients").Val(), "blocked_clients:0\r\n") {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			work()
		}()
	}
	later(func() { r.RPush(ctx, "q", "a") })
	equal(checks.Value(r.BLPop(ctx, 5*time.Second, "none", "q").Result()), []string{"q", "a"})
	later(func() { r.RPush(ctx, "q", "a", "b") })
	equal(checks.Value(r.BRPop(ctx, 5*time.Second, "q").Result()), []string{"q", "b"})
	r.Del(ctx, "q")
	later(func() { r.LPush(ctx, "q", "b") })
	equal(checks.Value(r.BLMove(ctx, "q", "m", "LEFT", "RIGHT", 5*time.Second).Result()), "b")
	later(func() { r.LPush(ctx, "q", "c") })
	equal(checks.Value(r.BRPopLPush(ctx, "q", "m", 5*time.Second).Result()), "c")
	later(func() { r.RPush(ctx, "q", "a", "b", "c") })
	key, elements, err := r.BLMPop(ctx, 5*time.Second, "LEFT", 2, "none", "q").Result()
	equal([]any{key, elements, err}, []any{"q", []string{"a", "b"}, nil})
	r.Del(ctx, "q")
	if !checks.Reference {
		later(func() { r.RPush(ctx, "q", "a", "b", "c") })
		equal(checks.Value(r.BLMoveM(ctx, "q", "many", "LEFT", "RIGHT", 5*time.Second, redis.LMoveMArgs{Count: 2}).Result()), []string{"a", "b"})
		r.Del(ctx, "q", "many")
	}
	scores := []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}}
	later(func() { r.ZAdd(ctx, "z", scores...) })
	equal(*checks.Value(r.BZPopMin(ctx, 5*time.Second, "z").Result()), redis.ZWithKey{Z: scores[0], Key: "z"})
	r.Del(ctx, "z")
	later(func() { r.ZAdd(ctx, "z", scores...) })
	equal(*checks.Value(r.BZPopMax(ctx, 5*time.Second, "z").Result()), redis.ZWithKey{Z: scores[1], Key: "z"})
	r.Del(ctx, "z")
	later(func() { r.ZAdd(ctx, "z", scores...) })
	key, members, err := r.BZMPop(ctx, 5*time.Second, "MIN", 2, "z").Result()
	equal([]any{key, members, err}, []any{"z", scores, nil})
	later(func() { r.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []string{"f", "v"}}) })
	equal(len(checks.Value(r.XRead(ctx, &redis.XReadArgs{Streams: []string{"x", "$"}, Block: 5 * time.Second}).Result())), 1)
	equal(r.XGroupCreate(ctx, "x", "g", "$").Err(), nil)
	later(func() { r.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []string{"f", "w"}}) })
	read := checks.Value(r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"x", ">"}, Block: 5 * time.Second}).Result())
	equal(read[0].Messages[0].Values, map[string]any{"f": "w"})
	equal(r.BLPop(ctx, time.Second, "q").Err(), redis.Nil)
	var all sync.WaitGroup
	var lock sync.Mutex
	var got []string
	for range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			pair, err := r.BRPop(ctx, 5*time.Second, "many").Result()
			lock.Lock()
			defer lock.Unlock()
			if err == nil {
				got = append(got, pair[1])
			}
		}()
	}
	for n := range 20 {
		r.LPush(ctx, "many", fmt.Sprintf("%02d", n))
	}
	all.Wait()
	sort.Strings(got)
	equal([]any{len(got), got[0], got[len(got)-1]}, []any{20, "00", "19"})
}

// Only RESP3 has it.
func clientSideCaching(r *redis.Client) {
	config := &redis.ClientSideCacheConfig{MaxEntries: 100}
	options := *r.Options()
	options.ClientSideCacheConfig = config
	cached := redis.NewClient(&options)
	defer cached.Close()
	r.Set(ctx, "c", "1", 0)
	equal(cached.Get(ctx, "c").Val(), "1")
	r.ConfigResetStat(ctx)
	for range 100 {
		equal(cached.Get(ctx, "c").Val(), "1")
	}
	equal(strings.Contains(r.Info(ctx, "commandstats").Val(), "cmdstat_get:"), false)
	equal(cached.CSCStats().Hits, uint64(100))
	becomes := func(expected string) {
		for range 500 {
			if cached.Get(ctx, "c").Val() == expected {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		panic("the copy was not invalidated")
	}
	r.Set(ctx, "c", "2", 0)
	becomes("2")
	r.FlushAll(ctx)
	becomes("")
}

func theServer(r *redis.Client) {
	equal([]string{r.Ping(ctx).Val(), fmt.Sprint(r.Echo(ctx, "x").Val())}, []string{"PONG", "x"})
	equal(checks.Value(r.ConfigGet(ctx, "maxmemory").Result()), map[string]string{"maxmemory": "0"})
	info := checks.Value(r.ClientInfo(ctx).Result())
	equal([]int{info.DB, info.Resp}, []int{0, r.Options().Protocol})
	equal(len(checks.Value(r.Command(ctx).Result())) > 200, true)
	equal(checks.Value(r.InfoMap(ctx, "server").Result())["Server"]["redis_mode"], "standalone")
	equal(checks.Value(r.SlowLogGet(ctx, 10).Result()) == nil, false)
	equal(checks.Value(r.ACLWhoAmI(ctx).Result()), "default")
	equal(r.Do(ctx, "NOSUCH").Err() != nil, true)
	other := redis.NewClient(&redis.Options{Network: "unix", Addr: checks.Socket, DB: 3, Protocol: r.Options().Protocol})
	defer other.Close()
	equal([]any{other.Set(ctx, "here", 1, 0).Val(), other.DBSize(ctx).Val(), r.Exists(ctx, "here").Val()}, []any{"OK", int64(1), int64(0)})
}
