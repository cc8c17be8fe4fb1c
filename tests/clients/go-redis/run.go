package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
)

var (
	address = "127.0.0.1:" + os.Getenv("ALMANDINE_PORT")
	socket  = os.Getenv("ALMANDINE_SOCKET")
	// Set when the server is redis-server 7.0, which lacks what came later.
	reference = os.Getenv("ALMANDINE_REFERENCE") == "1"
	failed    int
)

// Cases in their order, and the closing line that `cargo xtask clients` counts.
func main() {
	type namedCase struct {
		name string
		work func(*redis.Client)
	}
	cases := []namedCase{
		{"strings and keys", stringsAndKeys},
		{"hashes", hashes},
		{"lists", lists},
		{"sets and sorted sets", setsAndSortedSets},
		{"streams, positions, HyperLogLogs", streamsAndOthers},
		{"pipelines and transactions", pipelinesAndTransactions},
		{"publish and subscribe", publishSubscribe},
		{"blocking", blocking},
		{"the server", theServer},
	}
	tried := 0
	for _, protocol := range []int{2, 3} {
		if protocol == 3 {
			cases = append(cases, namedCase{"client-side caching", clientSideCaching})
		}
		for _, one := range cases {
			tryOne(fmt.Sprintf("%s, RESP%d", one.name, protocol), protocol, one.work)
			tried++
		}
	}
	fmt.Printf("%d passed, %d failed\n", tried-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func tryOne(name string, protocol int, work func(*redis.Client)) {
	r := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, PoolSize: 40})
	defer r.Close()
	defer func() {
		if why := recover(); why != nil {
			failed++
			fmt.Printf("FAILED: %s\n%v\n%s\n", name, why, debug.Stack())
			return
		}
		fmt.Println("ok:", name)
	}()
	equal(r.FlushAll(ctx).Val(), "OK")
	work(r)
}
