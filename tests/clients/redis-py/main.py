"""redis-py against a server."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import redis
from redis.cache import CacheConfig

from checks import HOST, PORT, REFERENCE, SOCKET, add, equal, eventually, holds, raises, run

import with_asyncio


def strings(r):
    equal(r.set("a", "1", ex=100), True)
    equal(r.set("a", "2", nx=True), None)
    equal(r.set("a", "2", xx=True, get=True), "1")
    holds(90 < r.ttl("a") <= 100 or r.ttl("a") == -1)
    equal((r.incr("n", 5), r.decr("n"), r.incrbyfloat("f", 1.5)), (5, 4, 1.5))
    equal(r.mset({"x": "1", "y": "2"}), True)
    equal(r.msetnx({"x": "1", "new": "2"}), False)
    equal(r.mget("x", "missing", "y"), ["1", None, "2"])
    equal((r.append("x", "bc"), r.getrange("x", 1, -1), r.setrange("x", 1, "z"), r.strlen("x")), (3, "bc", 3, 3))
    equal((r.getdel("y"), r.getex("x", ex=10), r.getset("x", "v")), ("2", "1zc", "1zc"))
    equal((r.set("e", "v", px=10_000), r.set("e", "w", nx=True)), (True, None))
    equal(r.lcs("x", "e"), "v")
    equal((r.setbit("b", 7, 1), r.getbit("b", 7), r.bitcount("b"), r.bitpos("b", 1), r.bitop("NOT", "c", "b")), (0, 1, 1, 7, 1))
    equal(r.bitfield("b").get("u8", 0).incrby("u8", 0, 300, overflow="SAT").execute(), [1, 255])
    raises(redis.ResponseError, "not an integer", r.incr, "x")


def keys(r):
    r.mset({f"key:{n}": n for n in range(50)})
    equal(sorted(r.scan_iter("key:*", count=7)), sorted(f"key:{n}" for n in range(50)))
    equal(len(r.keys("key:1*")), 11)
    equal((r.exists("key:1", "key:2", "none"), r.type("key:1"), r.touch("key:1")), (2, "string", 1))
    equal((r.rename("key:1", "one"), r.renamenx("key:2", "one"), r.copy("one", "two")), (True, False, True))
    equal((r.expire("one", 50), r.expire("one", 40, gt=True), r.pttl("one") > 40_000, r.persist("one")), (True, False, True, True))
    holds(r.expireat("one", int(time.time()) + 100) and r.expiretime("one") > time.time())
    equal((r.delete("key:3", "none"), r.unlink("key:4")), (1, 1))
    equal(r.object("encoding", "key:5"), "int")
    # Binary, so not decoded.
    binary = redis.Redis(port=PORT)
    payload = binary.dump("one")
    binary.restore("restored", 0, payload)
    equal(r.get("restored"), "1")
    other = redis.Redis(port=PORT, db=3, decode_responses=True)
    equal((r.move("two", 3), other.get("two"), r.exists("two")), (True, "1", 0))
    r.rpush("unsorted", "3", "1", "2")
    equal((r.sort("unsorted"), r.sort("unsorted", desc=True, start=0, num=1)), (["1", "2", "3"], ["3"]))
    holds(r.randomkey() is not None and r.dbsize() > 40)


def hashes(r):
    equal(r.hset("h", mapping={"a": "1", "b": "2"}), 2)
    equal((r.hget("h", "a"), r.hgetall("h"), r.hmget("h", "a", "none")), ("1", {"a": "1", "b": "2"}, ["1", None]))
    equal((r.hincrby("h", "a", 4), r.hincrbyfloat("h", "a", 0.5), r.hsetnx("h", "a", "9"), r.hlen("h")), (5, 5.5, 0, 2))
    equal((sorted(r.hkeys("h")), sorted(r.hvals("h")), r.hexists("h", "b"), r.hstrlen("h", "a")), (["a", "b"], ["2", "5.5"], True, 3))
    holds(r.hrandfield("h", 2, withvalues=True))
    equal(r.hdel("h", "a"), 1)
    r.hset("big", mapping={f"f{n}": n for n in range(1000)})
    equal(len(dict(r.hscan_iter("big", count=50))), 1000)
    if not REFERENCE:
        equal((r.hexpire("big", 100, "f1"), r.httl("big", "f1"), r.hpersist("big", "f1")), ([1], [100], [1]))
        equal((r.hsetex("h2", mapping={"a": "1"}, ex=100), r.hgetex("h2", "a", persist=True), r.hgetdel("h2", "a")), (1, ["1"], ["1"]))


def lists(r):
    equal((r.rpush("l", 1, 2, 3), r.lpush("l", 0), r.lrange("l", 0, -1), r.llen("l")), (3, 4, ["0", "1", "2", "3"], 4))
    equal((r.lindex("l", 1), r.lset("l", 1, "x"), r.linsert("l", "before", "x", "w"), r.lpos("l", "x")), ("1", True, 5, 2))
    equal((r.lpop("l"), r.rpop("l", 2), r.lrem("l", 0, "w"), r.ltrim("l", 0, 0)), ("0", ["3", "2"], 1, True))
    equal((r.lmove("l", "m", "left", "right"), r.rpoplpush("m", "l"), r.lmpop(1, "l", direction="LEFT")), ("x", "x", ["l", ["x"]]))
    equal((r.rpushx("none", 1), r.lpushx("none", 1)), (0, 0))


def sets(r):
    equal((r.sadd("s", "a", "b", "c"), r.sadd("t", "b", "d"), r.smembers("s"), r.scard("s")), (3, 2, {"a", "b", "c"}, 3))
    equal((r.sinter("s", "t"), r.sunion("s", "t"), r.sdiff("s", "t")), ({"b"}, {"a", "b", "c", "d"}, {"a", "c"}))
    equal((r.sinterstore("i", "s", "t"), r.sintercard(2, ["s", "t"]), r.smismember("s", ["a", "z"])), (1, 1, [1, 0]))
    equal((r.sismember("s", "a"), r.smove("s", "t", "a"), r.srem("s", "b"), r.spop("s")), (1, True, 1, "c"))
    equal(r.srandmember("i"), "b")
    r.sadd("big", *range(1000))
    equal(len(set(r.sscan_iter("big"))), 1000)


def sorted_sets(r):
    equal(r.zadd("z", {"a": 1, "b": 2, "c": 3.5}), 3)
    equal((r.zadd("z", {"a": 5}, gt=True, ch=True), r.zincrby("z", 1, "b"), r.zscore("z", "c")), (1, 3.0, 3.5))
    equal(r.zrange("z", 0, -1), ["b", "c", "a"])
    equal([tuple(pair) for pair in r.zrange("z", 0, -1, withscores=True)], [("b", 3.0), ("c", 3.5), ("a", 5.0)])
    equal((r.zrank("z", "c"), r.zrevrank("z", "c"), r.zcount("z", "(3", 5), r.zcard("z"), r.zmscore("z", ["a", "none"])), (1, 1, 2, 3, [5.0, None]))
    equal((r.zrangebyscore("z", 3, 4), r.zrange("z", "+inf", "-inf", byscore=True, desc=True, offset=0, num=1)), (["b", "c"], ["a"]))
    equal(r.zrangestore("y", "z", 0, 1), 2)
    equal((sorted(r.zunion(["z", "y"])), r.zinterstore("i", {"z": 2, "y": 1}, aggregate="MAX"), r.zdiff(["z", "y"])), (["a", "b", "c"], 2, ["a"]))
    equal((r.zlexcount("y", "-", "+"), "b" in str(r.zpopmin("z")), "a" in str(r.zpopmax("z")), r.zrem("z", "c")), (2, True, True, 1))
    r.zadd("big", {f"m{n}": n for n in range(1000)})
    equal(len(dict(r.zscan_iter("big"))), 1000)
    equal((r.zremrangebyrank("big", 0, 9), r.zremrangebyscore("big", 10, 19), r.zrandmember("y", 1) != []), (10, 10, True))


def positions_and_counts(r):
    equal(r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")), 2)
    holds(abs(r.geodist("g", "Palermo", "Catania", "km") - 166.2742) < 0.001)
    equal((r.geohash("g", "Palermo"), r.geosearch("g", longitude=15, latitude=37, radius=100, unit="km")), (["sqc8b49rny0"], ["Catania"]))
    holds(abs(r.geopos("g", "Palermo")[0][0] - 13.361389) < 0.0001)
    equal((r.pfadd("p", "a", "b", "c"), r.pfcount("p"), r.pfmerge("q", "p")), (1, 3, True))


def streams(r):
    first = r.xadd("x", {"a": "1"})
    second = r.xadd("x", {"a": "2"}, maxlen=100, approximate=True)
    equal((r.xlen("x"), r.xrange("x"), r.xrevrange("x", count=1)), (2, [(first, {"a": "1"}), (second, {"a": "2"})], [(second, {"a": "2"})]))
    holds(r.xread({"x": "0"}, count=1))
    equal((r.xgroup_create("x", "g", id="0"), r.xgroup_createconsumer("x", "g", "c2")), (True, 1))
    raises(redis.ResponseError, "BUSYGROUP", lambda: r.xgroup_create("x", "g"))
    holds(r.xreadgroup("g", "c1", {"x": ">"}, count=10))
    equal((r.xpending("x", "g")["pending"], len(r.xpending_range("x", "g", "-", "+", 10))), (2, 2))
    equal((r.xack("x", "g", first), len(r.xclaim("x", "g", "c2", 0, [second]))), (1, 1))
    equal(r.xautoclaim("x", "g", "c1", 0)[1], [(second, {"a": "2"})])
    equal((r.xinfo_stream("x")["length"], r.xinfo_groups("x")[0]["name"], len(r.xinfo_consumers("x", "g"))), (2, "g", 2))
    equal((r.xdel("x", first), r.xtrim("x", maxlen=0), r.xgroup_destroy("x", "g")), (1, 1, True))


def transactions(r):
    with r.pipeline() as p:
        p.set("t", 1).incr("t").get("t")
        equal(p.execute(), [True, 2, "2"])
    with r.pipeline() as p:
        p.incr("t").lpush("t", 1).incr("t")
        results = p.execute(raise_on_error=False)
        equal((results[0], results[2]), (3, 4))
        holds("WRONGTYPE" in str(results[1]), results)
    with r.pipeline() as p:
        p.watch("t")
        r.set("t", 10)
        p.multi()
        p.set("t", 11)
        raises(redis.WatchError, "", p.execute)
    equal(r.transaction(lambda p: (p.multi(), p.incr("t")), "t"), [11])
    with r.pipeline(transaction=False) as p:
        for _ in range(1000):
            p.incr("many")
        equal(p.execute()[-1], 1000)


def counters_of_many_threads(r):
    def add_with_watch():
        mine = redis.Redis(port=PORT, protocol=r.get_connection_kwargs()["protocol"])
        for _ in range(50):
            mine.transaction(lambda p: (value := int(p.get("shared") or 0), p.multi(), p.set("shared", value + 1)), "shared")

    threads = [threading.Thread(target=add_with_watch) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    equal(r.get("shared"), "200")


def a_lock_of_set_and_watch(r):
    def release(token):
        def body(p):
            holder = p.get("lock")
            p.multi()
            if holder == token:
                p.delete("lock")

        return r.transaction(body, "lock") == [1]

    equal((r.set("lock", "me", nx=True, px=10_000), r.set("lock", "you", nx=True, px=10_000)), (True, None))
    equal((release("you"), release("me"), release("me")), (False, True, False))


def publish_subscribe(r):
    p = r.pubsub()
    p.subscribe("news")
    p.psubscribe("new*")
    kinds = [p.get_message(timeout=2)["type"] for _ in range(2)]
    equal(kinds, ["subscribe", "psubscribe"])
    equal((r.publish("news", "hello"), r.pubsub_numsub("news"), r.pubsub_channels(), r.pubsub_numpat()), (2, [("news", 1)], ["news"], 1))
    messages = [p.get_message(timeout=2) for _ in range(2)]
    equal([(m["type"], m["channel"], m["data"]) for m in messages], [("message", "news", "hello"), ("pmessage", "news", "hello")])
    p.ssubscribe("shard")
    equal((p.get_message(timeout=2)["type"], r.spublish("shard", "s")), ("ssubscribe", 1))
    equal(p.get_sharded_message(timeout=2)["data"], "s")
    # In RESP3 the answer is no push, which this library does not expect.
    if r.get_connection_kwargs()["protocol"] == 2:
        p.ping()
        equal(p.get_message(timeout=2)["type"], "pong")
    p.unsubscribe()
    p.punsubscribe()
    equal([p.get_message(timeout=2)["type"] for _ in range(2)], ["unsubscribe", "punsubscribe"])
    p.close()
    heard = []
    handled = r.pubsub(ignore_subscribe_messages=True)
    handled.subscribe(handled_here=lambda message: heard.append(message["data"]))
    thread = handled.run_in_thread(sleep_time=0.01)
    eventually(lambda: r.publish("handled_here", "x") == 1)
    eventually(lambda: heard)
    thread.stop()
    thread.join()


def blocking(r):
    def later(*command):
        def work():
            other = redis.Redis(port=PORT)
            # On a busy machine the one that waits may come late, and then $ is behind what is added.
            eventually(lambda: other.info("clients")["blocked_clients"])
            time.sleep(0.1)
            other.execute_command(*command)

        threading.Thread(target=work).start()

    def waited(call):
        started = time.monotonic()
        result = call()
        holds(0.05 < time.monotonic() - started < 3, "it did not wait")
        return result

    later("RPUSH", "q", "a")
    equal(list(waited(lambda: r.blpop(["none", "q"], timeout=5))), ["q", "a"])
    later("RPUSH", "q", "a", "b")
    equal(list(waited(lambda: r.brpop("q", timeout=5))), ["q", "b"])
    r.delete("q")
    later("LPUSH", "q", "a")
    equal(waited(lambda: r.blmove("q", "done", 5, "LEFT", "RIGHT")), "a")
    later("LPUSH", "q", "a")
    equal(waited(lambda: r.brpoplpush("q", "done", timeout=5)), "a")
    later("LPUSH", "q", "a")
    equal(waited(lambda: r.blmpop(5, 1, "q", direction="LEFT")), ["q", ["a"]])
    later("ZADD", "z", "1", "a", "2", "b")
    equal(list(waited(lambda: r.bzpopmin("z", timeout=5))), ["z", "a", 1.0])
    equal(list(r.bzpopmax("z", timeout=5)), ["z", "b", 2.0])
    later("ZADD", "z", "1", "a")
    result = waited(lambda: r.bzmpop(5, 1, ["z"], min=True))
    equal(result[0], "z")
    later("XADD", "x", "1-1", "f", "v")
    holds(waited(lambda: r.xread({"x": "$"}, block=5000)))
    r.xgroup_create("x", "g")
    later("XADD", "x", "2-1", "f", "v")
    holds(waited(lambda: r.xreadgroup("g", "c", {"x": ">"}, block=5000)))
    equal(waited(lambda: r.blpop("none", timeout=0.2)), None)
    equal(r.wait(0, 100), 0)


def client_side_caching(r):
    cached = redis.Redis(port=PORT, protocol=3, decode_responses=True, cache_config=CacheConfig(max_size=100))
    r.set("c", "1")
    equal(cached.get("c"), "1")
    r.config_resetstat()
    equal([cached.get("c") for _ in range(100)], ["1"] * 100)
    equal((cached.get_cache().size, "cmdstat_get" in r.info("commandstats")), (1, False))
    r.set("c", "2")
    eventually(lambda: cached.get("c") == "2")
    cached.mget("c", "none")
    r.flushall()
    eventually(lambda: cached.get("c") is None)
    cached.close()


def the_server(r):
    equal((r.ping(), r.echo("x")), (True, "x"))
    equal(r.client_setname("me"), True)
    me = [client for client in r.client_list() if client["id"] == str(r.client_id())]
    equal((r.client_getname(), me[0]["name"], me[0]["resp"]), ("me", "me", str(r.get_connection_kwargs()["protocol"])))
    equal(r.config_get("maxmemory"), {"maxmemory": "0"})
    equal((r.config_set("maxmemory-policy", "allkeys-lru"), r.config_set("maxmemory-policy", "noeviction")), (True, True))
    equal(r.info("server")["redis_mode"], "standalone")
    holds(r.info()["connected_clients"] >= 1 and "db0" in r.info("keyspace") or r.dbsize() == 0)
    holds(r.command_count() > 200 and "get" in r.command() and r.command_getkeys("SET", "a", "b") == ["a"])
    holds(r.memory_usage("none") is None and isinstance(r.memory_stats(), dict))
    equal((r.slowlog_len() >= 0, isinstance(r.slowlog_get(), list), r.slowlog_reset()), (True, True, True))
    holds(abs(r.time()[0] - time.time()) < 5 and r.lastsave())
    equal(r.role()[0], "master")
    equal(r.acl_whoami(), "default")
    raises(redis.ResponseError, "unknown command", r.execute_command, "NOSUCH")
    over_socket = redis.Redis(unix_socket_path=SOCKET, protocol=r.get_connection_kwargs()["protocol"])
    equal(over_socket.ping(), True)
    from_url = redis.from_url(f"redis://{HOST}:{PORT}/5?protocol=3", decode_responses=True)
    equal(from_url.set("here", 1) and from_url.client_info()["db"], 5)
    victim = redis.Redis(port=PORT, decode_responses=True, retry=None, single_connection_client=True)
    equal(r.client_kill_filter(_id=victim.client_id()), 1)


def monitor(r):
    with r.monitor() as m:
        redis.Redis(port=PORT).set("monitored", "1")
        for _ in range(20):
            if m.next_command()["command"].startswith("SET monitored"):
                return
    raise AssertionError("the command was not seen")


CASES = [
    strings, keys, hashes, lists, sets, sorted_sets, positions_and_counts, streams, transactions, counters_of_many_threads, a_lock_of_set_and_watch,
    publish_subscribe, blocking, the_server, monitor,
]  # fmt: skip


def with_client(function, protocol):
    def work():
        with redis.Redis(port=PORT, protocol=protocol, decode_responses=True) as r:
            r.flushall()
            function(r)

    return work


for protocol in (2, 3):
    for function in CASES:
        add(f"{function.__name__.replace('_', ' ')}, RESP{protocol}", with_client(function, protocol))
# The library wants RESP3, and a server that says it is 7.4 or younger. Its asyncio client has no cache.
if not REFERENCE:
    add("client side caching, RESP3", with_client(client_side_caching, 3))
with_asyncio.add_cases()
run()
