//! Why parameters have no effect, one reason for all that share it. They are accepted, so that files, scripts and tools of Redis
//! and Valkey work unchanged, and named in the log when they are set.

use crate::parameter::Parameter;

/// A reason, and the parameters that it is about.
pub(crate) struct Reason {
    pub(crate) text: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

const fn because(text: &'static str, parameters: &'static [&'static str]) -> Reason {
    Reason { text, parameters }
}

/// The reasons, those that will go with a later version first.
#[rustfmt::skip]
pub(crate) const REASONS: &[Reason] = &[
    because("A snapshot is always made durable as it is written, and no thread is bound to processors for it.", &[
        "rdb-save-incremental-fsync", "bgsave_cpulist",
    ]),
    because("The log of writes has files of its own format, and is rewritten by a thread that writes what it writes durably.", &[
        "no-appendfsync-on-rewrite",
        "aof-use-rdb-preamble", "aof-timestamp-enabled", "aof-rewrite-incremental-fsync", "aof-disable-auto-gc",
        "loading-process-events-interval-bytes", "aof_rewrite_cpulist",
    ]),
    because("Expiry cannot be held back during an import yet; `import-mode yes` is refused.", &["import-mode"]),
    because("There is no replication yet; `replicaof` and `min-replicas-to-write` are refused.", &[
        "rdb-del-sync-files",
        "replicaof", "masteruser", "masterauth", "replica-serve-stale-data", "replica-read-only", "replica-ignore-maxmemory",
        "replica-lazy-flush", "replica-priority", "replica-announced", "replica-announce-ip", "replica-announce-port",
        "replica-ignore-disk-write-errors", "propagation-error-behavior", "repl-timeout", "repl-ping-replica-period",
        "repl-backlog-size", "repl-backlog-ttl", "repl-disable-tcp-nodelay", "repl-diskless-sync", "repl-diskless-sync-delay",
        "repl-diskless-sync-max-replicas", "repl-diskless-load", "repl-mptcp", "repl-rdb-channel",
        "dual-channel-replication-enabled", "replica-full-sync-buffer-limit", "min-replicas-to-write", "min-replicas-max-lag",
        "shutdown-timeout",
    ]),
    because("There is no cluster yet; `cluster-enabled yes` is refused.", &[
        "cluster-enabled", "cluster-config-file", "cluster-config-save-behavior", "cluster-databases", "cluster-port",
        "cluster-node-timeout", "cluster-ping-interval", "cluster-message-gossip-perc", "cluster-manual-failover-timeout",
        "cluster-blacklist-ttl", "cluster-announce-ip", "cluster-announce-client-ipv4", "cluster-announce-client-ipv6",
        "cluster-announce-client-port", "cluster-announce-client-tls-port", "cluster-announce-hostname",
        "cluster-announce-human-nodename", "cluster-announce-port", "cluster-announce-tls-port", "cluster-announce-bus-port",
        "cluster-preferred-endpoint-type", "cluster-require-full-coverage", "cluster-allow-reads-when-down",
        "cluster-allow-pubsubshard-when-down", "cluster-allow-replica-migration", "cluster-migration-barrier",
        "cluster-replica-no-failover", "cluster-replica-validity-factor", "cluster-link-sendbuf-limit",
        "cluster-slot-stats-enabled", "cluster-compatibility-sample-ratio", "cluster-slot-migration-log-max-len",
        "slot-migration-max-failover-repl-bytes",
    ]),
    because("There is neither replication nor a cluster yet, so the server opens no TLS connections by itself.", &[
        "tls-client-cert-file", "tls-client-key-file", "tls-client-key-file-pass", "tls-cluster", "tls-replication",
    ]),
    because("No cipher takes its parameters from a file: keys are exchanged on curves.", &["tls-dh-params-file"]),
    because("There are no modules yet; loading one is an error.", &["enable-module-command"]),
    because("As `lua-enable-deprecated-api`, which has the effect.", &["lua-enable-insecure-api"]),
    because("As in Redis, where it acts in builds for its own tests only.", &["client-default-resp"]),
    because("The server opens no connections by itself.", &["bind-source-addr"]),
    because("There is no RDMA; `rdma-port` is refused.", &["rdma-bind", "rdma-port", "rdma-rx-size", "rdma-completion-vector"]),
    because("Workers replace these threads: each reads, executes and writes for its own connections.", &[
        "io-threads-do-reads", "io-threads-always-active", "events-per-io-thread", "prefetch-batch-max-size",
        "min-io-threads-avoid-copy-reply", "min-string-size-avoid-copy-reply", "min-string-size-avoid-copy-reply-threaded",
        "max-new-connections-per-cycle", "bio_cpulist",
    ]),
    because("What these tune works by itself: due keys are found by a wheel, not by sampling; eviction sweeps; the index grows \
             and shrinks a bucket at a time; pages with dead space are evacuated; large values are freed in the background.", &[
        "hz", "dynamic-hz", "active-expire-effort", "maxmemory-samples", "maxmemory-eviction-tenacity", "lfu-log-factor",
        "lazyfree-lazy-eviction", "lazyfree-lazy-expire", "lazyfree-lazy-server-del", "lazyfree-lazy-user-del",
        "lazyfree-lazy-user-flush", "activerehashing", "activedefrag", "active-defrag-ignore-bytes",
        "active-defrag-threshold-lower", "active-defrag-threshold-upper", "active-defrag-cycle-min", "active-defrag-cycle-max",
        "active-defrag-cycle-us", "active-defrag-max-scan-fields", "jemalloc-bg-thread",
    ]),
    because("Huge pages are used on purpose: nothing forks, so nothing is copied page by page.", &["disable-thp"]),
    because("Lists are packed, but not compressed.", &["list-compress-depth"]),
    because("It is always so: payloads are checked in depth, keys and values are not logged, the identity is that of Redis, \
             strings are compared by their bytes (other locales are refused), a page of the log has 2 MiB.", &[
        "sanitize-dump-payload", "hide-user-data-from-log", "extended-redis-compatibility", "locale-collate", "log-page-size",
    ]),
    because("For developers of Redis and Valkey, or for warnings that there are none of here.", &[
        "crash-memcheck-enabled", "watchdog-period", "enable-debug-assert", "ignore-warnings", "hash-seed",
        "req-res-logfile", "key-memory-histograms",
    ]),
];

/// Why a parameter has no effect.
pub(crate) fn reason(parameter: &Parameter) -> Option<&'static str> {
    REASONS.iter().find(|reason| reason.parameters.contains(&parameter.name)).map(|reason| reason.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter;

    #[test]
    fn whatever_has_no_effect_has_one_reason_and_nothing_else_has_one() {
        for parameter in parameter::all() {
            let reasons = REASONS.iter().flat_map(|reason| reason.parameters).filter(|name| **name == parameter.name).count();
            assert_eq!(reasons, usize::from(!parameter.effective), "{}", parameter.name);
        }
        let named = REASONS.iter().flat_map(|reason| reason.parameters);
        named.for_each(|name| assert!(parameter::lookup(name).is_some_and(|(_, known)| known.name == *name), "{name}"));
    }
}
