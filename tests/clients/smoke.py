"""redis-py against a server: what an application does first. Usage: smoke.py PORT. Prints the number of checks that held."""

import sys
import threading
import time

import redis

port = int(sys.argv[1])
checks = 0


def expect(actual, expected):
    global checks
    if actual != expected:
        raise SystemExit(f"expected {expected!r}, got {actual!r}")
    checks += 1


def expect_error(kind, text, call):
    global checks
    try:
        call()
    except kind as error:
        if text not in str(error):
            raise SystemExit(f"expected an error with {text!r}, got {error!r}")
        checks += 1
    else:
        raise SystemExit(f"expected an error with {text!r}, got none")


for protocol in (2, 3):
    r = redis.Redis(port=port, protocol=protocol, client_name="smoke", decode_responses=True)
    expect(r.ping(), True)
    expect(r.flushall(), True)
    expect(r.client_getname(), "smoke")
    expect(r.set("a", "1", ex=100), True)
    expect(r.get("a"), "1")
    expect(90 < r.ttl("a") <= 100, True)
    expect(r.set("a", "2", nx=True), None)
    expect(r.set("a", "2", xx=True, get=True), "1")
    expect(r.incr("n", 5), 5)
    expect(r.incrbyfloat("f", 1.5), 1.5)
    expect(r.mset({"x": "1", "y": "2"}), True)
    expect(r.mget("x", "missing", "y"), ["1", None, "2"])
    expect(sorted(r.keys("[xy]")), ["x", "y"])
    expect(sorted(r.scan_iter("*", count=2)), ["a", "f", "n", "x", "y"])
    expect(r.delete("x", "y", "missing"), 2)
    expect(r.exists("a", "n"), 2)
    expect(r.type("a"), "string")
    expect(r.append("a", "bc"), 3)
    expect(r.getrange("a", 1, -1), "bc")
    expect(r.setbit("b", 7, 1), 0)
    expect(r.bitcount("b"), 1)
    expect(r.bitfield("b").get("u8", 0).execute(), [1])
    expect(r.expire("a", 50, gt=True), False)
    expect(r.rename("a", "c"), True)
    expect(r.copy("c", "d"), True)
    expect(r.object("encoding", "n"), "int")
    expect(r.config_get("maxmemory"), {"maxmemory": "0"})
    expect(r.info("server")["redis_mode"], "standalone")
    expect(r.dbsize() > 0, True)
    expect(len(r.client_list()) >= 1, True)
    expect(abs(r.time()[0] - time.time()) < 5, True)
    expect(r.command_count() > 50, True)
    expect_error(redis.ResponseError, "not an integer", lambda: r.incr("c"))
    expect_error(redis.ResponseError, "unknown command", lambda: r.execute_command("NOSUCH"))
    pipeline = r.pipeline(transaction=False)
    for i in range(1000):
        pipeline.incr("p")
    expect(pipeline.execute()[-1], 1000)
    other = redis.Redis(port=port, db=3, protocol=protocol)
    expect(other.dbsize(), 0)
    expect(other.set("only-here", b"\x00\xff"), True)
    expect(other.get("only-here"), b"\x00\xff")
    expect(r.exists("only-here"), 0)

    def work():
        mine = redis.Redis(connection_pool=r.connection_pool)
        for _ in range(200):
            mine.incr("threads")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(r.get("threads"), "1600")

print(f"redis-py {redis.__version__}: {checks} checks held")
