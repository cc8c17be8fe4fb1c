package main

import (
	"fmt"

	checks "almandine-checks"

	"github.com/redis/go-redis/v9"
)

func main() {
	type namedCase struct {
		name string
		work func(*redis.Client)
	}
	named := []namedCase{
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
	var cases []checks.Case
	for _, protocol := range []int{2, 3} {
		if protocol == 3 {
			named = append(named, namedCase{"client-side caching", clientSideCaching})
		}
		for _, one := range named {
			options := redis.Options{Addr: checks.Address, Protocol: protocol, PoolSize: 40}
			cases = append(cases, checks.Case{Name: fmt.Sprintf("%s, RESP%d", one.name, protocol), Work: with(options, one.work)})
		}
	}
	for _, one := range named {
		options := redis.Options{Addr: checks.SecureAddress, Protocol: 3, PoolSize: 40, TLSConfig: checks.TLS()}
		cases = append(cases, checks.Case{Name: one.name + ", TLS", Work: with(options, one.work)})
	}
	checks.Run(cases)
}

func with(options redis.Options, work func(*redis.Client)) func() {
	return func() {
		r := redis.NewClient(&options)
		defer r.Close()
		equal(r.FlushAll(ctx).Val(), "OK")
		work(r)
	}
}
