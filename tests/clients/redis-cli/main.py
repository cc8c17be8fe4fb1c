"""redis-cli against a server, in each of its modes."""

import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from checks import HOST, PORT, SOCKET, case, equal, eventually, holds, run
from terminal import Terminal

SERVER = ["-h", HOST, "-p", str(PORT)]


def cli(*arguments, text="", server=SERVER, environment=None, status=0):
    """What redis-cli prints."""
    done = subprocess.run(
        ["redis-cli", *server, *arguments], input=text, capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})}
    )
    equal((done.returncode, done.stderr), (status, done.stderr))
    return done.stdout.rstrip("\n")


def seen(*arguments, pattern, times=1):
    """What the screen shows of a mode that goes on until it is interrupted, once it shows the pattern so often."""
    with Terminal("redis-cli", *SERVER, *arguments) as terminal:
        text = terminal.see(re.compile("(?s)" + ".*?".join([pattern] * times)), seconds=15)
        terminal.interrupt()
        return text


def listening(*command):
    """A redis-cli that prints what comes."""
    child = subprocess.Popen(["redis-cli", *SERVER, *command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    return child


def filled():
    cli("FLUSHALL")
    cli("MSET", *[word for n in range(200) for word in (f"string:{n}", "v" * n)])
    cli("RPUSH", "list", *map(str, range(300)))
    cli("SADD", "set", *map(str, range(100)))
    cli("ZADD", "zset", *[word for n in range(100) for word in (str(n), f"m{n}")])
    cli("HSET", "hash", *[word for n in range(100) for word in (f"f{n}", "v")])
    cli("XADD", "stream", "*", "f", "v")


@case
def one_command():
    equal((cli("PING"), cli("SET", "a", "1"), cli("GET", "a"), cli("GET", "none")), ("PONG", "OK", "1", ""))
    equal((cli("--no-raw", "GET", "a"), cli("--no-raw", "GET", "none"), cli("--no-raw", "DBSIZE")), ('"1"', "(nil)", "(integer) 1"))
    equal(cli("LPUSH", "a", "x", status=0), "WRONGTYPE Operation against a key holding the wrong kind of value")
    holds(cli("-e", "LPUSH", "a", "x", status=1) == "")
    equal(cli("-d", ";", "-D", "|", "MGET", "a", "a"), "1;1|")
    equal(cli("--quoted-input", "SET", '"b\\x00c"', "v"), "OK")
    equal(cli("--no-raw", "KEYS", "b*"), '1) "b\\x00c"')


@case
def input_from_a_pipe():
    equal(cli(text='SET "with space" 1\nGET "with space"\nSELECT 3\nDBSIZE\n'), "OK\n1\nOK\n0")
    equal(cli("-x", "SET", "x", text="line one\nline two"), "OK")
    equal(cli("GET", "x"), "line one\nline two")
    equal(cli("-X", "tag", "SET", "y", "tag", "EX", "100", text="value"), "OK")
    equal(cli("GET", "y"), "value")


@case
def repeated_commands():
    cli("DEL", "n")
    equal(cli("-r", "5", "INCR", "n"), "1\n2\n3\n4\n5")
    started = time.monotonic()
    equal(cli("-r", "3", "-i", "0.2", "INCR", "n"), "6\n7\n8")
    holds(time.monotonic() - started > 0.4)


@case
def forms_of_output():
    cli("DEL", "h", "z")
    cli("HSET", "h", "f", "v")
    cli("ZADD", "z", "1.5", "m")
    equal(cli("-3", "HGETALL", "h"), "f v")
    equal(cli("-3", "--no-raw", "HGETALL", "h"), '1# "f" => "v"')
    equal(cli("-3", "--no-raw", "ZSCORE", "z", "m"), "(double) 1.5")
    equal(cli("--csv", "MGET", "a", "none"), '"1",NULL')
    equal(cli("--json", "MGET", "a", "none"), '["1",null]')
    equal(json.loads(cli("-3", "--json", "HGETALL", "h")), {"f": "v"})
    equal(json.loads(cli("--json", "HELLO", "3"))["proto"], 3)
    equal(json.loads(cli("-2", "--quoted-json", "GET", "a")), "1")
    holds(json.loads(cli("--json", "COMMAND", "DOCS", "GET"))["get"]["summary"])
    equal(cli("--show-pushes", "no", "-3", "PING"), "PONG")


@case
def ways_to_the_server():
    equal(cli("-s", SOCKET, "PING", server=[]), "PONG")
    cli("-n", "2", "SET", "here", "1")
    equal((cli("-n", "2", "GET", "here"), cli("-u", f"redis://{HOST}:{PORT}/2", "GET", "here", server=[])), ("1", "1"))
    holds("Could not connect" in subprocess.run(["redis-cli", "-p", "1", "PING"], capture_output=True, text=True).stderr)


@case
def passwords():
    cli("CONFIG", "SET", "requirepass", "secret")
    try:
        holds("NOAUTH" in cli("PING"))
        for arguments, environment in [
            (["-a", "secret", "--no-auth-warning"], {}),
            (["--user", "default", "--pass", "secret", "--no-auth-warning"], {}),
            ([], {"REDISCLI_AUTH": "secret"}),
        ]:
            equal(cli(*arguments, "PING", environment=environment), "PONG")
        equal(cli("-u", f"redis://default:secret@{HOST}:{PORT}/0", "PING", server=[]), "PONG")
        equal(cli(text="AUTH secret\nPING\n"), "OK\nPONG")
        with Terminal("redis-cli", *SERVER, "--askpass") as terminal:
            terminal.see("Please input password:")
            terminal.type("secret\r")
            terminal.see(f"{HOST}:{PORT}> ")
            terminal.type("PING\r")
            terminal.see("PONG")
    finally:
        cli("-a", "secret", "--no-auth-warning", "CONFIG", "SET", "requirepass", "")


@case
def interactive():
    place = f"{HOST}:{PORT}"
    cli("FLUSHALL")
    with Terminal("redis-cli", *SERVER) as terminal:

        def enter(text, *expected, prompt=f"{place}> "):
            """Types a line; what comes next is typed when the prompt is there."""
            terminal.type(text + "\r")
            for one in (*expected, prompt):
                terminal.see(one)

        terminal.see(f"{place}> ")
        # The hint comes from COMMAND DOCS; it is grey, behind the cursor.
        terminal.type("SET ")
        terminal.see("key value")
        enter("greeting hello", "OK")
        enter("GET greeting", '"hello"')
        # Completion: the names of commands.
        terminal.type("getd\t")
        terminal.see("GETDEL")
        enter(" none", "(nil)")
        enter("help GET", "GET key", "summary:")
        enter("help @hash", "HSET key")
        enter("NOSUCH", "(error) ERR unknown command")
        enter("SELECT 1", "OK", prompt=f"{place}[1]> ")
        enter("3 INCR n", "(integer) 3", prompt=f"{place}[1]> ")
        enter("MULTI", "OK", prompt=f"{place}[1](TX)> ")
        enter("INCR n", "QUEUED", prompt=f"{place}[1](TX)> ")
        enter("EXEC", "1) (integer) 4", prompt=f"{place}[1]> ")
        enter("HELLO 3", '"server" => ', prompt=f"{place}[1]> ")
        enter("CONFIG GET maxmemory", '1# "maxmemory" => "0"', prompt=f"{place}[1]> ")
        enter("RESET", "RESET")
        terminal.type("SUBSCRIBE c\r")
        terminal.see("subscribe")
        eventually(lambda: cli("PUBLISH", "c", "heard") == "1")
        terminal.see("heard")
        terminal.interrupt()


@case
def mass_insertion():
    cli("FLUSHALL")
    commands = "".join(f"*3\r\n$3\r\nSET\r\n${len(str(n))}\r\n{n}\r\n$1\r\nv\r\n" for n in range(20_000))
    holds("errors: 0, replies: 20000" in cli("--pipe", text=commands))
    equal(cli("DBSIZE"), "20000")
    wrong = subprocess.run(["redis-cli", *SERVER, "--pipe"], input="LPUSH 1 x\r\nPING\r\n", capture_output=True, text=True)
    holds("errors: 1, replies: 2" in wrong.stdout, wrong.stdout)


@case
def scans():
    filled()
    equal(len(cli("--scan").split("\n")), 205)
    equal(len(cli("--scan", "--pattern", "string:1*").split("\n")), 111)
    equal(cli("--scan", "--quoted-pattern", '"lis*"'), "list")
    equal(cli("--scan", "-i", "0.001", "--pattern", "zset"), "zset")


@case
def biggest_keys():
    filled()
    text = cli("--bigkeys")
    holds("Sampled 205 keys" in text and """'"list"' has 300 items""" in text and """'"string:199"' has 199 bytes""" in text, text)
    text = cli("--memkeys", "--memkeys-samples", "0")
    holds("Sampled 205 keys" in text and """'"list"' has""" in text, text)


@case
def hottest_keys():
    filled()
    holds("An LFU maxmemory policy is not selected" in subprocess.run(["redis-cli", *SERVER, "--hotkeys"], capture_output=True, text=True).stderr)
    cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    cli("-r", "300", "GET", "string:7")
    text = cli("--hotkeys")
    cli("CONFIG", "SET", "maxmemory-policy", "noeviction")
    holds("Sampled 205 keys" in text and re.search(r'hot key found with counter: \d+\s+keyname: "string:7"', text), text)


@case
def statistics():
    text = seen("--stat", "-i", "0.1", pattern=r"\n\d+ +[\d.]+[BMKG] +\d+ +\d+ +\d+ \(\+\d+\) +\d+", times=3)
    holds("------- data ------" in text, text)


@case
def latencies():
    seen("--latency", pattern=r"min: \d+, max: \d+, avg: [\d.]+ \(\d+ samples\)")
    seen("--latency-history", "-i", "1", pattern=r"samples\) -- [\d.]+ seconds range", times=2)
    seen("--latency-dist", "-i", "1", pattern=r"\.(001|125|25)", times=2)
    # Where nobody looks, it measures for a second and prints figures only.
    holds(re.fullmatch(r"\d+ \d+ [\d.]+ \d+", cli("--latency", "-i", "1")))
    holds(json.loads(cli("--latency", "-i", "1", "--json")).keys() >= {"min", "max", "avg", "count"})
    text = cli("--intrinsic-latency", "1")
    holds("Max latency so far" in text and "total runs" in text, text)


@case
def a_simulated_cache():
    cli("FLUSHALL")
    cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    cli("CONFIG", "SET", "maxmemory", "100mb")
    try:
        seen("--lru-test", "10000", pattern=r"[1-9]\d* Gets/sec \| Hits: \d+ \([\d.]+%\) \| Misses: \d+", times=2)
    finally:
        cli("CONFIG", "SET", "maxmemory", "0")
        cli("CONFIG", "SET", "maxmemory-policy", "noeviction")


@case
def what_others_do():
    child = listening("MONITOR")
    equal(child.stdout.readline(), "OK\n")
    cli("SET", "seen", "by monitor")
    line = child.stdout.readline()
    while '"seen"' not in line:
        line = child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.wait()
    holds(re.match(r'\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "SET" "seen" "by monitor"', line), line)


@case
def subscriptions():
    for arguments, publish in [(["SUBSCRIBE", "c"], "PUBLISH"), (["PSUBSCRIBE", "c*"], "PUBLISH"), (["SSUBSCRIBE", "c"], "SPUBLISH"), (["-3", "SUBSCRIBE", "c"], "PUBLISH")]:
        child = listening(*arguments)
        eventually(lambda: cli(publish, "c", "hello") == "1")
        seen = ""
        while "hello" not in seen:
            seen += child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.wait()


@case
def a_blocked_command_and_its_end():
    child = listening("BLPOP", "q", "5")
    eventually(lambda: "cmd=blpop" in cli("CLIENT", "LIST"))
    cli("RPUSH", "q", "x")
    equal(child.communicate(timeout=5)[0], "q\nx\n")


@case
def options_of_clusters_and_others():
    # Asked to follow redirections, it meets none.
    equal((cli("-c", "SET", "c", "1"), cli("-c", "GET", "c")), ("OK", "1"))
    equal(cli("--verbose", "GET", "c"), "1")
    holds("errors: 0, replies: 1" in cli("--pipe", "--pipe-timeout", "5", text="PING\r\n"))


@case
def users():
    cli("ACL", "SETUSER", "reader", "on", ">pass", "~r:*", "+@read")
    equal(cli("--user", "reader", "--pass", "pass", "--no-auth-warning", "GET", "r:1"), "")
    holds("NOPERM" in cli("-u", f"redis://reader:pass@{HOST}:{PORT}", "SET", "r:1", "v", server=[]))
    cli("ACL", "DELUSER", "reader")


run()
