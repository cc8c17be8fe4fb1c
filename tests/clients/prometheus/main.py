"""The server's own page for Prometheus, read by the parsers of Prometheus' client library."""

import os
import socket
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as older_text

from checks import HOST, PORT, REFERENCE, case, equal, holds, run

# What Prometheus 3 sends.
ACCEPT = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"


def cli(*words):
    return subprocess.run(["redis-cli", "-p", str(PORT), *words], capture_output=True, text=True, check=True).stdout.strip()


def listen():
    """Has the server listen on a port that was free a moment ago."""
    for _ in range(20):
        with socket.create_server((HOST, 0)) as server:
            port = server.getsockname()[1]
        if cli("CONFIG", "SET", "metrics-port", str(port)) == "OK":
            return port
    raise AssertionError("no free port")


if REFERENCE:
    sys.exit("redis-server has no page of its own")
METRICS_PORT = listen()


def scrape(accept):
    request = urllib.request.Request(f"http://localhost:{METRICS_PORT}/metrics", headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def samples(families):
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


def work():
    cli("FLUSHALL")
    cli("CONFIG", "RESETSTAT")
    cli("MSET", *[word for n in range(100) for word in (f"key:{n}", "v")])
    cli("SET", "expires", "v", "EX", "1000")
    cli("-n", "3", "SET", 'quo"te\\', "v")
    for _ in range(7):
        cli("GET", "key:1")
        cli("GET", "none")
    cli("LPUSH", "key:1", "x")
    cli("CONFIG", "SET", "maxmemory", "1gb")


@case
def both_parsers_take_the_page_whole():
    work()
    kind, text = scrape(ACCEPT)
    equal(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    families = {family.name: family for family in open_metrics(text)}
    equal((families["redis_memory_used_bytes"].unit, families["redis_memory_used_bytes"].type), ("bytes", "gauge"))
    equal((families["redis_cpu_user_seconds"].unit, families["redis_cpu_user_seconds"].type), ("seconds", "counter"))
    equal((families["redis_instance"].type, families["redis_commands_latencies_usec"].type), ("info", "histogram"))
    holds(all(family.documentation for family in families.values()), "a family without a help")
    holds(all(family.samples for family in families.values()), "a family without a sample")
    kind, text = scrape(None)
    equal(kind, "text/plain; version=0.0.4; charset=utf-8")
    equal([family.name for family in older_text(text) if family.type not in ("counter", "gauge", "histogram")], [])


@case
def both_formats_tell_the_same_and_it_is_true():
    work()
    newer, older = samples(open_metrics(scrape(ACCEPT)[1])), samples(older_text(scrape(None)[1]))
    equal(set(newer), set(older))
    of_commands = [key for key in newer if key[0] in ("redis_commands_total", "redis_db_keys", "redis_commands_latencies_usec_bucket")]
    holds(len(of_commands) > 50)
    equal([key for key in of_commands if newer[key] != older[key]], [])
    value = lambda name, **labels: newer.get((name, tuple(sorted(labels.items()))))
    equal((value("redis_up"), value("redis_memory_max_bytes")), (1, 1 << 30))
    equal((value("redis_db_keys", db="db0"), value("redis_db_keys_expiring", db="db0"), value("redis_db_keys", db="db3")), (101, 1, 1))
    equal((value("redis_keyspace_hits_total"), value("redis_keyspace_misses_total")), (7, 7))
    equal((value("redis_commands_total", cmd="get"), value("redis_commands_failed_calls_total", cmd="lpush")), (14, 1))
    equal(value("redis_errors_total", err="WRONGTYPE"), 1)
    equal(value("almandine_command_family_duration_seconds_count", family="list"), 1)
    holds(value("redis_commands_latencies_usec_sum", cmd="get") > 0)


@case
def names_of_errors_are_what_a_client_made_of_them():
    """A script says any bytes as an error: the page must stay one that parsers take."""
    for name in ('A"B', "A\\B", "A{b=c}", "Ä", "#"):
        cli("EVAL", f"return redis.error_reply(ARGV[1])", "0", f"{name} text")
    errors = {labels["err"] for labels in (dict(key[1]) for key in samples(open_metrics(scrape(ACCEPT)[1])) if key[0] == "redis_errors_total")}
    holds('A"B' in errors and "A\\B" in errors and "A{b=c}" in errors, errors)
    holds(samples(older_text(scrape(None)[1])))


run()
