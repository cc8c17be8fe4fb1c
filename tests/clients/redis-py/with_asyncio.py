"""redis-py's asyncio client against a server."""

import asyncio
import time

import redis.asyncio as aio
from redis.exceptions import WatchError

from checks import PORT, add, equal, holds


async def every_type(r):
    equal((await r.client_info())["resp"], str(r.get_connection_kwargs()["protocol"]))
    equal((await r.set("a", 1), await r.incr("a"), await r.get("a")), (True, 2, "2"))
    equal((await r.hset("h", mapping={"x": "1"}), await r.hgetall("h")), (1, {"x": "1"}))
    equal((await r.rpush("l", 1, 2), await r.lrange("l", 0, -1)), (2, ["1", "2"]))
    equal((await r.sadd("s", "a"), await r.smembers("s")), (1, {"a"}))
    equal((await r.zadd("z", {"a": 1.5}), await r.zscore("z", "a")), (1, 1.5))
    entry = await r.xadd("x", {"f": "v"})
    equal(await r.xrange("x"), [(entry, {"f": "v"})])
    equal((await r.pfadd("p", "a"), await r.pfcount("p")), (1, 1))
    equal((await r.geoadd("g", (13.361389, 38.115556, "Palermo")), await r.geohash("g", "Palermo")), (1, ["sqc8b49rny0"]))
    equal((await r.setbit("b", 1, 1), await r.bitcount("b")), (0, 1))
    equal(sorted([key async for key in r.scan_iter()]), sorted("ahlszxpgb"))


async def many_at_once(r):
    results = await asyncio.gather(*(r.incr("n") for _ in range(90)))
    equal(sorted(results), list(range(1, 91)))


async def transactions(r):
    async with r.pipeline() as p:
        equal(await p.set("t", 1).incr("t").execute(), [True, 2])
    async with r.pipeline() as p:
        await p.watch("t")
        await r.set("t", 5)
        p.multi()
        p.incr("t")
        try:
            await p.execute()
        except WatchError:
            pass
        else:
            raise AssertionError("the transaction was executed")


async def publish_subscribe(r):
    async with r.pubsub() as p:
        await p.subscribe("news")
        await p.psubscribe("n*")
        equal([(await p.get_message(timeout=2))["type"] for _ in range(2)], ["subscribe", "psubscribe"])
        equal(await r.publish("news", "hello"), 2)
        heard = []
        async for message in p.listen():
            heard.append((message["type"], message["data"]))
            if len(heard) == 2:
                break
        equal(heard, [("message", "hello"), ("pmessage", "hello")])


async def blocking(r):
    async def waited(call, *later):
        async def work():
            # On a busy machine the one that waits may come late, and then $ is behind what is added.
            for _ in range(500):
                if (await r.info("clients"))["blocked_clients"]:
                    break
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            await r.execute_command(*later)

        started = time.monotonic()
        result, _ = await asyncio.gather(call, work())
        holds(time.monotonic() - started > 0.05, "it did not wait")
        return result

    waiting = [asyncio.create_task(r.blpop("q", timeout=5)) for _ in range(10)]
    await asyncio.sleep(0.1)
    await r.rpush("q", *range(10))
    equal(sorted(int(item) for _, item in await asyncio.gather(*waiting)), list(range(10)))
    equal(list(await waited(r.brpop("q", timeout=5), "RPUSH", "q", "a")), ["q", "a"])
    equal(await waited(r.blmove("q", "m", 5, "LEFT", "RIGHT"), "RPUSH", "q", "a"), "a")
    equal(await waited(r.brpoplpush("q", "m", timeout=5), "RPUSH", "q", "b"), "b")
    equal(await waited(r.blmpop(5, 1, "q", direction="LEFT", count=2), "RPUSH", "q", "a", "b"), ["q", ["a", "b"]])
    equal(list(await waited(r.bzpopmin("z", timeout=5), "ZADD", "z", "1", "a", "2", "b")), ["z", "a", 1.0])
    equal(list(await r.bzpopmax("z", timeout=5)), ["z", "b", 2.0])
    equal((await waited(r.bzmpop(5, 1, ["z"], min=True), "ZADD", "z", "1", "a"))[0], "z")
    holds(await waited(r.xread({"x": "$"}, block=5000), "XADD", "x", "*", "f", "v"))
    await r.xgroup_create("x", "g")
    holds(await waited(r.xreadgroup("g", "c", {"x": ">"}, block=5000), "XADD", "x", "*", "f", "v"))
    equal(await r.blpop("q", timeout=0.1), None)


def add_cases():
    for protocol in (2, 3):
        for function in (every_type, many_at_once, transactions, publish_subscribe, blocking):

            async def work(function=function, protocol=protocol):
                async with aio.Redis(port=PORT, protocol=protocol, decode_responses=True) as r:
                    await r.flushall()
                    await function(r)

            add(f"asyncio: {function.__name__.replace('_', ' ')}, RESP{protocol}", lambda work=work: asyncio.run(work()))
