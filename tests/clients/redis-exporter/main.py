"""redis_exporter against a server: what it scrapes must be whole, and true."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from prometheus_client.parser import text_string_to_metric_families

from checks import HOST, PORT, REFERENCE, add, equal, eventually, holds, run

# The system's, and the newest that Debian has.
EXPORTERS = {suite: os.path.join(os.environ["ALMANDINE_TOOLS"], suite, "usr/bin/prometheus-redis-exporter") for suite in ("system", "sid")}


def cli(*words):
    return subprocess.run(["redis-cli", "-p", str(PORT), *words], capture_output=True, text=True, check=True).stdout.strip()


def free_port():
    """None of those that the kernel gives to clients, so that none takes it before the exporter does."""
    for port in range(9000 + os.getpid() % 500, 10_000):
        try:
            socket.create_server((HOST, port)).close()
            return port
        except OSError:
            continue
    raise AssertionError("no free port")


class Exporter:
    """The exporter, and its log."""

    def __init__(self, suite, *flags):
        self.port = free_port()
        command = [EXPORTERS[suite], "--redis.addr", f"redis://{HOST}:{PORT}", "--web.listen-address", f"{HOST}:{self.port}", "--debug", *flags]
        with open("exporter.log", "w") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)

    def scrape(self):
        """Metrics by name and labels."""
        found = {}

        def answers():
            try:
                found["text"] = urllib.request.urlopen(f"http://{HOST}:{self.port}/metrics", timeout=10).read().decode()
                return True
            except OSError:
                return False

        eventually(answers)
        samples = [sample for family in text_string_to_metric_families(found["text"]) for sample in family.samples]
        return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        with open("exporter.log") as log:
            lines = log.read().splitlines()
        return [line for line in lines if "level=error" in line or "level=warning" in line or "level=fatal" in line]


def fill():
    cli("FLUSHALL")
    cli("CONFIG", "RESETSTAT")
    cli("CONFIG", "SET", "slowlog-log-slower-than", "0")
    cli("MSET", *[word for n in range(100) for word in (f"key:{n}", "v")])
    cli("SET", "expires", "v", "EX", "1000")
    cli("RPUSH", "list", "a", "b", "c")
    cli("-n", "3", "SET", "other", "v")
    cli("XADD", "stream", "*", "f", "v")
    cli("XGROUP", "CREATE", "stream", "group", "0")
    cli("XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "stream", ">")
    for _ in range(7):
        cli("GET", "key:1")
        cli("GET", "none")


def a_scrape_is_whole_and_true(suite):
    fill()
    exporter = Exporter(suite, "--check-single-keys", "db0=list,db0=key:1", "--check-single-streams", "db0=stream", "--export-client-list", "--count-keys", "db0=key:*")
    metrics = exporter.scrape()
    metrics = exporter.scrape()
    holds([name for name in metrics if name[0].startswith("redis_")], "nothing was scraped")
    value = lambda name, **labels: metrics.get((name, tuple(sorted(labels.items()))))
    equal((value("redis_up"), value("redis_exporter_last_scrape_error", err="")), (1, 0))
    equal((value("redis_db_keys", db="db0"), value("redis_db_keys_expiring", db="db0"), value("redis_db_keys", db="db3")), (103, 1, 1))
    # The exporter looks at keys, too, which are hits.
    holds(value("redis_keyspace_hits_total") >= 7)
    equal(value("redis_keyspace_misses_total"), 7)
    equal((value("redis_commands_total", cmd="xadd"), value("redis_commands_total", cmd="mset")), (1, 1))
    holds(value("redis_commands_total", cmd="get") >= 14)
    holds(value("redis_commands_duration_seconds_total", cmd="get") > 0)
    equal((value("redis_key_size", db="db0", key="list"), value("redis_key_value", db="db0", key="key:1")), (3, None))
    equal((value("redis_stream_length", db="db0", stream="stream"), value("redis_stream_groups", db="db0", stream="stream")), (1, 1))
    equal(value("redis_stream_group_messages_pending", db="db0", stream="stream", group="group"), 1)
    equal(value("redis_keys_count", db="db0", key="key:*"), 100)
    # The exporter is the client that is counted.
    holds(value("redis_connected_clients") >= 1)
    holds(value("redis_memory_used_bytes") > 100_000 and value("redis_memory_max_bytes") == 0)
    holds(0 <= value("redis_uptime_in_seconds") < 3600)
    holds(value("redis_connections_received_total") > 20 and value("redis_commands_processed_total") > 20)
    equal((value("redis_blocked_clients"), value("redis_rejected_connections_total"), value("redis_evicted_keys_total")), (0, 0, 0))
    equal(value("redis_config_maxclients"), float(cli("CONFIG", "GET", "maxclients").split("\n")[1]))
    holds(value("redis_slowlog_length") > 0)
    holds([name for name in metrics if name[0] == "redis_instance_info"])
    holds(value("redis_cpu_user_seconds_total") is not None and value("redis_cpu_sys_seconds_total") is not None)
    equal(exporter.stop(), [])


def counters_only_grow(suite):
    exporter = Exporter(suite)
    before = exporter.scrape()
    cli("-r", "50", "INCR", "n")
    after = exporter.scrape()
    name = ("redis_commands_total", (("cmd", "incr"),))
    equal(after[name] - before.get(name, 0), 50)
    for key, value in before.items():
        if key[0].startswith("redis_") and key[0].endswith("_total"):
            holds(after.get(key, 0) >= value, f"{key} went from {value} to {after.get(key)}")
    equal(exporter.stop(), [])


def a_password(suite):
    cli("CONFIG", "SET", "requirepass", "secret")
    try:
        exporter = Exporter(suite, "--redis.password", "secret")
        metrics = exporter.scrape()
        equal((metrics[("redis_up", ())], exporter.stop()), (1, []))
    finally:
        subprocess.run(["redis-cli", "-p", str(PORT), "-a", "secret", "--no-auth-warning", "CONFIG", "SET", "requirepass", ""], check=True)


# What the page leaves out: the exporter's own scrape, single keys and clients, figures that are always zero here, sums that
# Prometheus computes, settings, and quantiles, for which there are histograms.
NOT_ON_THE_PAGE = re.compile(
    "redis_(exporter_|target_scrape_|key_|keys_|stream_|latency_percentiles_|last_key_groups_|config_|cpu_.*_main_thread|io_threaded_|"
    "hz|configured_hz|db_avg_ttl|defrag_|active_defrag|expired_stale|expired_time_cap|latest_fork|migrate_|module_|async_loading|"
    "allocator_rss_|aof_last_cow|cluster_connections|lazyfreed_objects|unexpected_error|reply_buffer_|net_repl_|repl_|replica_|"
    "replication_|second_repl|master_repl|slave_|mem_clients_slaves|mem_cluster|mem_not_counted|mem_overhead_db|mem_replication|"
    "mem_total_replication|memory_used_vm_total)"
)
# The exporter is a client itself.
OF_THE_EXPORTER = ("redis_connected_clients", "redis_mem_clients_normal", "redis_client_recent_max_input_buffer_bytes")


def the_servers_own_page_says_the_same(suite):
    fill()
    exporter = Exporter(suite)
    exporter.scrape()
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    equal(cli("CONFIG", "SET", "metrics-port", str(port)), "OK")
    before = exporter.scrape()
    text = urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=10).read().decode()
    after = exporter.scrape()
    equal((cli("CONFIG", "SET", "metrics-port", "0"), exporter.stop()), ("OK", []))
    ours = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    names = lambda page: {name for name, _ in page if name.startswith("redis_")}
    equal(sorted(name for name in names(before) - names(ours) if not NOT_ON_THE_PAGE.match(name)), [])
    if suite == "sid":
        # It tells of the system's memory only when it is asked to.
        equal(sorted(names(ours) - names(before)), ["redis_total_system_memory_bytes"])
    # What two scrapes have in common was so between them. The exporter rounds, and sums of histograms are within 3 %.
    same = [key for key in before if before[key] == after.get(key) and key in ours and key[0].startswith("redis_") and key[0] not in OF_THE_EXPORTER]
    holds(len(same) > 80, len(same))
    equal([(key, before[key], ours[key]) for key in same if abs(before[key] - ours[key]) > 0.03 * abs(before[key]) + 1e-6], [])


for suite, exporter in EXPORTERS.items():
    said = subprocess.run([exporter, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"Redis Metrics Exporter (\S+)", said.stdout + said.stderr)[1]
    for work in (a_scrape_is_whole_and_true, counters_only_grow, a_password, *(() if REFERENCE else (the_servers_own_page_says_the_same,))):
        add(f"{work.__name__.replace('_', ' ')}, {version}", lambda work=work, suite=suite: work(suite))
run()
