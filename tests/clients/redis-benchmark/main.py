"""redis-benchmark against a server."""

import csv
import io
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from checks import HOST, PORT, SOCKET, add, equal, holds, run

DEFAULT = [
    "PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "LPUSH", "RPUSH", "LPOP", "RPOP", "SADD", "HSET", "SPOP", "ZADD", "ZPOPMIN",
    "LPUSH (needed to benchmark LRANGE)", "LRANGE_100 (first 100 elements)", "LRANGE_300 (first 300 elements)",
    "LRANGE_500 (first 500 elements)", "LRANGE_600 (first 600 elements)", "MSET (10 keys)",
]  # fmt: skip


def benchmark(*arguments, server=("-h", HOST, "-p", str(PORT))):
    done = subprocess.run(["redis-benchmark", *server, *arguments], capture_output=True, text=True, timeout=100)
    text = done.stdout + done.stderr
    equal((done.returncode, [line for line in text.splitlines() if "rror" in line or "Could not fetch" in line]), (0, []))
    return done.stdout


def tests(*arguments, expected, **others):
    def work():
        rows = list(csv.DictReader(io.StringIO(benchmark("--csv", *arguments, **others))))
        equal([row["test"] for row in rows], expected)
        for row in rows:
            holds(float(row["rps"]) > 0, row)

    return work


add("default tests", tests("-n", "2000", "-c", "50", expected=DEFAULT))
add("default tests, 16 at once", tests("-n", "10000", "-P", "16", "-c", "50", "-r", "10000", expected=DEFAULT))
add("default tests from threads", tests("-n", "4000", "--threads", "2", expected=DEFAULT))
add("chosen tests", tests("-n", "2000", "-t", "mset,lrange,zadd,spop", expected=[name for name in DEFAULT if name.split()[0] in ("MSET", "ZADD", "SPOP") or "LRANGE" in name]))
add("RESP3", tests("-n", "2000", "-3", "-t", "ping,set,get", expected=["PING_INLINE", "PING_MBULK", "SET", "GET"]))
add("unix socket", tests("-n", "2000", "-t", "set,get", expected=["SET", "GET"], server=("-s", SOCKET)))
add("large values, another database", tests("-n", "500", "-d", "100000", "--dbnum", "5", "-t", "set,get", expected=["SET", "GET"]))
add("client-side caching", tests("-n", "2000", "--enable-tracking", "-t", "get,set", expected=["SET", "GET"]))
add("new connections", tests("-n", "500", "-k", "0", "-t", "ping", expected=["PING_INLINE", "PING_MBULK"]))
add("a command of one's own", lambda: holds("requests per second" in benchmark("-n", "2000", "-q", "-r", "100", "HSET", "h:__rand_int__", "f", "v")))
add("random numbers in a command", lambda: holds("requests per second" in benchmark("-n", "2000", "-q", "-r", "100", "XADD", "x", "*", "f", "__rand_int__")))


def with_a_password():
    configure = lambda *words: subprocess.run(["redis-cli", "-h", HOST, "-p", str(PORT), *words], check=True, capture_output=True)
    configure("CONFIG", "SET", "requirepass", "secret")
    try:
        for arguments in (["-a", "secret"], ["--user", "default", "-a", "secret"]):
            rows = csv.DictReader(io.StringIO(benchmark("--csv", "-n", "500", "-t", "set", *arguments)))
            equal([row["test"] for row in rows], ["SET"])
    finally:
        configure("-a", "secret", "CONFIG", "SET", "requirepass", "")


add("a password", with_a_password)
run()
