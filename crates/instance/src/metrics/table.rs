//! The rows, in the order of INFO.

use std::sync::atomic::Ordering::Relaxed;

use almandine_config::Settings;
use almandine_io::{clock, usage};
use almandine_oplog::writer::LogFigures;

use super::MetricValue::{Decimal, Integer, Microseconds, Percent, Signed, Text};
use super::readings::{Readings, human, ratio};
use super::{Metric, MetricKind, MetricValue, Section};
use crate::{Archive, ArchiveState, LoadingFigures, PauseScope, REDIS_VERSION, UploadFigures, UploadState, VERSION};

macro_rules! metrics {
    ($($section:ident $kind:ident $name:ident: $help:literal = $value:expr;)+) => {
        /// All metrics, in the order of INFO.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            section: Section::$section,
            kind: MetricKind::$kind,
            help: $help,
            value: $value,
        }),+];
    };
}

/// What there is none of until the feature exists.
const NONE: fn(&Readings<'_>) -> MetricValue = |_| Integer(0);
/// A time that never was.
const NEVER: fn(&Readings<'_>) -> MetricValue = |_| Signed(-1);

metrics! {
    Server Text redis_version: "The version of Redis whose behaviour is answered" = |_| Text(REDIS_VERSION.to_owned());
    Server Text redis_git_sha1: "Not Redis' source: zeroes" = |_| Text("00000000".to_owned());
    Server Text redis_git_dirty: "Not Redis' source: zero" = |_| Text("0".to_owned());
    Server Text redis_build_id: "Not Redis' source: zeroes" = |_| Text("0000000000000000".to_owned());
    Server Text redis_mode: "standalone, until clusters exist" = |_| Text("standalone".to_owned());
    Server Text server_mode: "The same, as Valkey calls it" = |_| Text("standalone".to_owned());
    Server Text os: "Operating system, its release, and architecture" = |_| Text(operating_system());
    Server Gauge arch_bits: "Width of a pointer" = |_| Integer(u64::from(usize::BITS));
    Server Text monotonic_clock: "Source of monotonic time" = |_| Text("POSIX clock_gettime".to_owned());
    Server Text multiplexing_api: "How sockets are awaited: io_uring or epoll" = |r| Text(r.instance.build().reactor.to_owned());
    Server Text atomicvar_api: "How shared counters are kept" = |_| Text("rust-atomics".to_owned());
    Server Text server_name: "The server's name" = |_| Text("almandine".to_owned());
    Server Text almandine_version: "Our version" = |_| Text(VERSION.to_owned());
    Server Gauge process_id: "The process' number" = |_| Integer(u64::from(std::process::id()));
    Server Text process_supervised: "The supervisor that was configured" = |r| Text(r.parameter("supervised"));
    Server Text run_id: "40 hexadecimal digits that name this run" = |r| Text(r.instance.run.id.clone());
    Server Gauge tcp_port: "TCP port" = |r| Integer(tcp_port(&r.config.settings));
    Server Gauge server_time_usec: "Wall-clock time in microseconds" = |_| Integer(clock::unix_us().unsigned_abs());
    Server Gauge uptime_in_seconds: "Seconds since the start" = |r| Integer(r.instance.uptime_s());
    Server Gauge uptime_in_days: "Days since the start" = |r| Integer(r.instance.uptime_s() / 86_400);
    Server Text hz: "The parameter `hz`, which has no effect" = |r| Text(r.parameter("hz"));
    Server Text configured_hz: "The parameter `hz`, which has no effect" = |r| Text(r.parameter("hz"));
    Server Gauge lru_clock: "Seconds, in 24 bits" = |_| Integer((clock::unix_ms() / 1000).unsigned_abs() & 0xff_ffff);
    Server Text executable: "Path of the program" = |_| Text(executable());
    Server Text config_file: "Path of the configuration file" = |r| {
        Text(r.instance.config.file().map(|path| path.display().to_string()).unwrap_or_default())
    };
    Server Text availability_zone: "The parameter `availability-zone`" = |r| Text(r.parameter("availability-zone"));
    Server Gauge io_threads_active: "1 when there is more than one worker" =
        |r| Integer(u64::from(r.instance.workers.active() > 1));
    Server Gauge workers: "Workers that take new connections" = |r| Integer(r.instance.workers.active() as u64);

    Clients Gauge connected_clients: "Connections" = |r| Integer(r.instance.clients.connected() as u64);
    Clients Gauge cluster_connections: "Connections of the cluster bus" = NONE;
    Clients Gauge maxclients: "Most connections" = |r| Integer(u64::from(r.config.settings.connections.maxclients));
    Clients Gauge client_recent_max_input_buffer: "Most bytes of an incomplete command of one connection" =
        |r| Integer(r.query_bytes_max());
    Clients Gauge client_recent_max_output_buffer: "Most bytes of replies that one peer has not taken" =
        |r| Integer(r.output_pending_bytes_max());
    Clients Gauge client_input_buffer_bytes: "Bytes reserved for incomplete input" = |r| {
        Integer(r.instance.gauges.network.input_buffer_bytes.load(Relaxed))
    };
    Clients Gauge client_output_pending_bytes: "Bytes of replies that peers have not taken" = |r| {
        Integer(r.instance.gauges.network.output_pending_bytes.load(Relaxed))
    };
    Clients Gauge blocked_clients: "Connections that wait for data, or for the end of CLIENT PAUSE" = |r| {
        Integer(r.instance.pause.waiting() as u64 + r.instance.statistics.blocked().0)
    };
    Clients Text paused_reason: "Why commands wait: client_pause or none" = |r| {
        Text(if r.paused().is_some() { "client_pause" } else { "none" }.to_owned())
    };
    Clients Text paused_actions: "Which commands wait: all, write or none" = |r| {
        let actions = match r.paused() {
            Some((PauseScope::All, _)) => "all",
            Some((PauseScope::Writes, _)) => "write",
            None => "none",
        };
        Text(actions.to_owned())
    };
    Clients Gauge paused_timeout_milliseconds: "How long they will wait" =
        |r| Integer(r.paused().map_or(0, |(_, left_ms)| left_ms));
    Clients Gauge tracking_clients: "Connections with client-side caching" = |r| Integer(r.tracking.clients as u64);
    Clients Gauge pubsub_clients: "Connections with subscriptions" = |r| Integer(r.instance.pubsub.clients() as u64);
    Clients Gauge watching_clients: "Connections that watch keys" = |r| Integer(r.watching.0);
    Clients Gauge clients_in_timeout_table: "Connections that wait for data, with a time limit" =
        |r| Integer(r.instance.statistics.blocked().1);
    Clients Gauge total_watched_keys: "Watched keys, each counted for each client" = |r| Integer(r.watching.1);
    Clients Gauge total_blocking_keys: "Keys that connections wait for" =
        |r| Integer(r.instance.keyspace.waited_keys().keys as u64);
    Clients Gauge total_blocking_keys_on_nokey: "Keys whose deletion connections wait for" = |r| {
        Integer(r.instance.keyspace.waited_keys().or_gone as u64)
    };

    Memory Gauge used_memory: "Bytes that count against maxmemory: index, live records, values, expiry, client buffers" = |r| {
        Integer(r.used_bytes())
    };
    Memory Text used_memory_human: "The same, for people" = |r| Text(human(r.used_bytes()));
    Memory Gauge used_memory_rss: "Bytes of the process in memory" = |r| Integer(r.resident_bytes);
    Memory Text used_memory_rss_human: "The same, for people" = |r| Text(human(r.resident_bytes));
    Memory Gauge used_memory_peak: "Highest used_memory so far" = |r| Integer(r.peak_bytes);
    Memory Text used_memory_peak_human: "The same, for people" = |r| Text(human(r.peak_bytes));
    Memory Text used_memory_peak_perc: "used_memory as a share of its peak" = |r| Percent(ratio(r.used_bytes(), r.peak_bytes));
    Memory Gauge used_memory_overhead: "Bytes that are not records: index, expiry, client buffers" =
        |r| Integer(r.overhead_bytes());
    Memory Gauge used_memory_startup: "used_memory of the empty server" = |r| Integer(r.instance.run.startup_bytes);
    Memory Gauge used_memory_dataset: "Bytes of records and values" = |r| Integer(r.dataset_bytes());
    Memory Text used_memory_dataset_perc: "The same as a share of what is used beyond the empty server" =
        |r| Percent(r.dataset_share());
    Memory Gauge allocator_allocated: "Bytes that the store uses" = |r| Integer(r.used_bytes());
    Memory Gauge allocator_active: "Bytes that the store holds, space of dead records included" = |r| Integer(r.held_bytes());
    Memory Gauge allocator_resident: "The same: the store gives back what it does not hold" = |r| Integer(r.held_bytes());
    Memory Gauge total_system_memory: "Bytes of the machine" = |_| Integer(almandine_io::memory::physical_bytes());
    Memory Text total_system_memory_human: "The same, for people" = |_| Text(human(almandine_io::memory::physical_bytes()));
    Memory Gauge used_memory_lua: "Bytes of the machines that run scripts" = |r| Integer(r.instance.scripts.machines.bytes());
    Memory Gauge used_memory_vm_eval: "The same" = |r| Integer(r.instance.scripts.machines.bytes());
    Memory Text used_memory_lua_human: "The same, for people" = |r| Text(human(r.instance.scripts.machines.bytes()));
    Memory Gauge used_memory_scripts_eval: "Bytes of cached scripts, about" = |r| Integer(r.instance.scripts.totals().1 as u64);
    Memory Gauge number_of_cached_scripts: "Cached scripts" = |r| Integer(r.instance.scripts.totals().0 as u64);
    Memory Gauge number_of_functions: "Functions" =
        |r| Integer(r.instance.scripts.libraries.totals().1 as u64);
    Memory Gauge number_of_libraries: "Libraries of functions" =
        |r| Integer(r.instance.scripts.libraries.totals().0 as u64);
    Memory Gauge used_memory_vm_functions: "Bytes of the machine that has the libraries of functions" =
        |r| Integer(r.instance.scripts.libraries.machine_bytes() as u64);
    Memory Gauge used_memory_vm_total: "Bytes of the machines that run scripts and functions" =
        |r| Integer(r.instance.scripts.machine_bytes());
    Memory Text used_memory_vm_total_human: "The same, for people" = |r| Text(human(r.instance.scripts.machine_bytes()));
    Memory Gauge used_memory_functions: "Bytes of the texts of libraries" =
        |r| Integer(r.instance.scripts.libraries.totals().2 as u64);
    Memory Gauge used_memory_scripts: "Bytes of scripts and functions, about" = |r| Integer(r.instance.scripts.totals().1 as u64);
    Memory Text used_memory_scripts_human: "The same, for people" = |r| Text(human(r.instance.scripts.totals().1 as u64));
    Memory Gauge maxmemory: "The memory budget in bytes; 0 for none" = |r| Integer(r.config.settings.memory.maxmemory);
    Memory Text maxmemory_human: "The same, for people" = |r| Text(human(r.config.settings.memory.maxmemory));
    Memory Text maxmemory_policy: "What gives way beyond the budget" =
        |r| Text(r.config.settings.memory.maxmemory_policy.name().to_owned());
    Memory Gauge allocator_frag_ratio: "Held per used" = |r| Decimal(ratio(r.held_bytes(), r.used_bytes()));
    Memory Gauge allocator_frag_bytes: "Held and not used" = |r| Integer(r.held_bytes().saturating_sub(r.used_bytes()));
    Memory Gauge allocator_rss_ratio: "Always 1: what the store holds is in memory" = |_| Decimal(1.0);
    Memory Gauge allocator_rss_bytes: "Always 0" = NONE;
    Memory Gauge rss_overhead_ratio: "Process per held" = |r| Decimal(ratio(r.resident_bytes, r.held_bytes()));
    Memory Gauge rss_overhead_bytes: "Process beyond held" = |r| Signed(difference(r.resident_bytes, r.held_bytes()));
    Memory Gauge mem_fragmentation_ratio: "Process per used" = |r| Decimal(ratio(r.resident_bytes, r.used_bytes()));
    Memory Gauge mem_fragmentation_bytes: "Process beyond used" = |r| Signed(difference(r.resident_bytes, r.used_bytes()));
    Memory Gauge mem_not_counted_for_evict: "Bytes that do not count against maxmemory" = NONE;
    Memory Gauge mem_replication_backlog: "Bytes of the replication backlog" = NONE;
    Memory Gauge mem_total_replication_buffers: "Bytes of replication" = NONE;
    Memory Gauge mem_replica_full_sync_buffer: "Bytes of replication" = NONE;
    Memory Gauge mem_replicas_repl_buffer: "Bytes of replication" = NONE;
    Memory Gauge mem_clients_slaves: "Bytes of replicas' connections" = NONE;
    Memory Gauge mem_clients_normal: "Bytes that connections hold: buffers, transactions, watched keys, subscriptions" =
        |r| Integer(r.instance.clients.memory.total());
    Memory Gauge mem_cluster_links: "Bytes of the cluster bus" = NONE;
    Memory Gauge mem_cluster_slot_import: "Bytes of slots that are being taken over" = NONE;
    Memory Gauge mem_cluster_slot_export: "Bytes of slots that are being handed over" = NONE;
    Memory Gauge mem_overhead_db_hashtable_rehashing: "Bytes of a second table; the index grows a bucket at a time and needs none" =
        NONE;
    Memory Gauge mem_aof_buffer: "Bytes of writes that are not in the log's files yet" =
        |r| Integer(r.log.as_ref().map_or(0, |log| log.pending_bytes));
    Memory Text mem_allocator: "The allocator of what is not in the store" = |r| Text(r.instance.build().allocator.to_owned());
    Memory Gauge active_defrag_running: "Not needed: pages are evacuated instead" = NONE;
    Memory Gauge lazyfree_pending_objects: "Large values and emptied databases that the background is to free" =
        |r| Integer(r.work.values_waiting + r.work.namespaces_waiting);
    Memory Counter lazyfreed_objects: "Large values and emptied databases that the background has freed" =
        |r| Integer(r.instance.freed_objects());

    Persistence Gauge loading: "1 while data is loaded" = |r| Integer(r.instance.persistence.is_loading().into());
    Persistence Gauge async_loading: "1 while a replica loads data beside what it serves" = NONE;
    Persistence Gauge current_cow_peak: "Most bytes kept for the running snapshot of what clients changed before it came to that" =
        |r| Integer(r.saves.saved_bytes.1);
    Persistence Gauge current_cow_size: "Bytes kept so now" = |r| Integer(r.saves.saved_bytes.0);
    Persistence Gauge current_cow_size_age: "Seconds since that was measured" = NONE;
    Persistence Gauge current_fork_perc: "Per cent of the running snapshot that are done" = |r| Decimal(r.saves.share * 100.0);
    Persistence Gauge current_save_keys_processed: "Keys written of the running snapshot" = |r| Integer(r.saves.keys);
    Persistence Gauge current_save_keys_total: "Keys that the running snapshot will have, about" = |r| Integer(r.saves.keys_total);
    Persistence Gauge rdb_changes_since_last_save: "Changes of keys since the last snapshot, as Redis counts them" =
        |r| Integer(r.instance.unsaved_changes());
    Persistence Gauge rdb_bgsave_in_progress: "1 while a snapshot is written in the background" =
        |r| Integer(r.saves.in_background.into());
    Persistence Gauge rdb_last_save_time: "When the last snapshot was written, or else the start, Unix seconds" =
        |r| Integer(r.saves.last_s.unsigned_abs());
    Persistence Text rdb_last_bgsave_status: "Outcome of the last snapshot" =
        |r| Text(if r.saves.failed { "err" } else { "ok" }.to_owned());
    Persistence Gauge rdb_last_bgsave_time_sec: "Seconds that the last snapshot in the background took" =
        |r| r.saves.last_took_s.map_or(Signed(-1), Integer);
    Persistence Gauge rdb_current_bgsave_time_sec: "Seconds that the running snapshot has taken" =
        |r| r.saves.running_s.filter(|_| r.saves.in_background).map_or(Signed(-1), Integer);
    Persistence Counter rdb_saves: "Snapshots since the start" = |r| Integer(r.saves.count);
    Persistence Gauge rdb_last_cow_size: "Most bytes kept so for the last snapshot" =
        |r| Integer(r.saves.last_saved_bytes);
    Persistence Gauge rdb_last_load_keys_expired: "Keys of the last snapshot loaded that were past their time" =
        |r| Integer(r.instance.persistence.loading.keys_expired());
    Persistence Gauge rdb_last_load_keys_loaded: "Keys of the last snapshot loaded" =
        |r| Integer(r.instance.persistence.loading.keys());
    Persistence Gauge aof_enabled: "Whether writes are logged" = |r| Integer(r.log.is_some().into());
    Persistence Gauge aof_rewrite_in_progress: "1 while the log of writes is rewritten" = |r| Integer(r.rewrites.running.into());
    Persistence Gauge aof_rewrite_scheduled: "1 when that is to follow a snapshot" = |r| Integer(r.rewrites.scheduled.into());
    Persistence Gauge aof_last_rewrite_time_sec: "Seconds that the last rewrite took" =
        |r| r.rewrites.last_took_s.map_or(Signed(-1), Integer);
    Persistence Gauge aof_current_rewrite_time_sec: "Seconds that the running rewrite has taken" =
        |r| r.rewrites.running_s.map_or(Signed(-1), Integer);
    Persistence Text aof_last_bgrewrite_status: "Outcome of the last rewrite" =
        |r| Text(if r.rewrites.failed { "err" } else { "ok" }.to_owned());
    Persistence Counter aof_rewrites: "Rewrites" = |r| Integer(r.rewrites.count);
    Persistence Counter aof_rewrites_consecutive_failures: "Failed rewrites in a row" = |r| Integer(r.rewrites.failures.into());
    Persistence Text aof_last_write_status: "Outcome of the last write to the log" =
        |r| Text(if r.log.as_ref().is_some_and(|log| log.last_write_failed) || is_unlogged(r) { "err" } else { "ok" }.to_owned());
    Persistence Gauge aof_last_cow_size: "Bytes kept for the last rewrite: none, for the log completes its base" = NONE;
    Persistence Gauge aof_current_size: "Bytes of the log of writes, its base included; this and what follows while there is one" =
        |r| of_log(r, |log| log.bytes + r.instance.persistence.log.base_bytes());
    Persistence Gauge aof_base_size: "Bytes that it had after its last rewrite, or its base at the start" =
        |r| of_log(r, |_| r.instance.persistence.log.rewritten_bytes());
    Persistence Gauge aof_pending_rewrite: "1 when a rewrite is to follow" = |r| of_log(r, |_| r.rewrites.scheduled.into());
    Persistence Gauge aof_buffer_length: "Bytes of writes that are not in its files yet" = |r| of_log(r, |log| log.pending_bytes);
    Persistence Gauge aof_pending_bio_fsync: "1 while something written is not durable" =
        |r| of_log(r, |_| r.instance.persistence.log.is_behind().into());
    Persistence Counter aof_delayed_fsync: "Syncs that took longer than a second" = |r| of_log(r, |log| log.slow_syncs);
    Persistence Gauge module_fork_in_progress: "1 while a module has forked" = NONE;
    Persistence Gauge module_fork_last_cow_size: "Bytes copied for that" = NONE;
    Persistence Gauge loading_start_time: "While data is loaded: since when, Unix seconds" =
        |r| loading(r, |figures| Integer((figures.started_ms / 1000).unsigned_abs()));
    Persistence Gauge loading_total_bytes: "While data is loaded: bytes of the file" =
        |r| loading(r, |figures| Integer(figures.total_bytes));
    Persistence Gauge loading_rdb_used_mem: "While data is loaded: not known" = |r| loading(r, |_| Integer(0));
    Persistence Gauge loading_loaded_bytes: "While data is loaded: bytes read" =
        |r| loading(r, |figures| Integer(figures.loaded_bytes));
    Persistence Gauge loading_loaded_perc: "While data is loaded: per cent read" =
        |r| loading(r, |figures| Decimal(figures.share() * 100.0));
    Persistence Gauge loading_eta_seconds: "While data is loaded: seconds that are left at the speed so far" =
        |r| loading(r, |figures| Integer(figures.seconds_left(clock::unix_ms())));

    Stats Counter total_connections_received: "Connections accepted" = |r| Integer(r.totals.connections_received);
    Stats Counter total_commands_processed: "Commands executed" = |r| Integer(r.totals.commands_processed);
    Stats Gauge instantaneous_ops_per_sec: "Commands per second of late" = |r| Integer(r.instance.gauges.rates.commands_per_s());
    Stats Counter total_net_input_bytes: "Bytes read from clients" = |r| Integer(r.totals.net_input_bytes);
    Stats Counter total_net_output_bytes: "Bytes of replies" = |r| Integer(r.totals.net_output_bytes);
    Stats Counter total_net_repl_input_bytes: "Bytes of replication read" = NONE;
    Stats Counter total_net_repl_output_bytes: "Bytes of replication sent" = NONE;
    Stats Counter total_net_cluster_slot_import_bytes: "Bytes of slots taken over" = NONE;
    Stats Counter total_net_cluster_slot_export_bytes: "Bytes of slots handed over" = NONE;
    Stats Gauge instantaneous_input_kbps: "KiB per second read of late" = |r| Decimal(r.instance.gauges.rates.input_kib_per_s());
    Stats Gauge instantaneous_output_kbps: "KiB per second of replies of late" =
        |r| Decimal(r.instance.gauges.rates.output_kib_per_s());
    Stats Gauge instantaneous_input_repl_kbps: "KiB per second of replication read" = |_| Decimal(0.0);
    Stats Gauge instantaneous_output_repl_kbps: "KiB per second of replication sent" = |_| Decimal(0.0);
    Stats Counter rejected_connections: "Connections refused" = |r| {
        Integer(r.totals.connections_rejected + r.instance.gauges.network.counts().rejected)
    };
    Stats Counter sync_full: "Full synchronisations of replicas" = NONE;
    Stats Counter sync_partial_ok: "Partial synchronisations of replicas" = NONE;
    Stats Counter sync_partial_err: "Refused partial synchronisations" = NONE;
    Stats Counter expired_keys: "Keys removed because they had expired" = |r| Integer(r.store.expired.max(0).unsigned_abs());
    Stats Gauge expired_stale_perc: "Share of due keys that are not removed; the expiry wheel finds all" = |_| Decimal(0.0);
    Stats Counter expired_time_cap_reached_count: "Times that expiry ran out of time" = NONE;
    Stats Counter evicted_keys: "Keys evicted" = |r| Integer(r.store.evicted.max(0).unsigned_abs());
    Stats Counter evicted_clients: "Clients closed because of maxmemory-clients" = |r| Integer(r.totals.clients_evicted);
    Stats Counter evicted_scripts: "Cached scripts that gave way to others" = |r| Integer(r.instance.scripts.evicted());
    Stats Counter refused_out_of_memory: "Commands refused beyond maxmemory" = |r| Integer(r.totals.refused_out_of_memory);
    Stats Counter unknown_commands: "Commands refused because the server does not know or serve them" =
        |r| Integer(r.totals.unknown_commands);
    Stats Counter units_alone: "Transactions whose keys were not known before, so that all other workers waited for them" =
        |r| Integer(r.totals.units_alone);
    Stats Counter keyspace_hits: "Look-ups that found a key" = |r| Integer(r.totals.keyspace_hits);
    Stats Counter keyspace_misses: "Look-ups that found none" = |r| Integer(r.totals.keyspace_misses);
    Stats Gauge pubsub_channels: "Channels with subscribers" = |r| Integer(r.instance.pubsub.channels(false) as u64);
    Stats Gauge pubsub_patterns: "Patterns with subscribers" = |r| Integer(r.instance.pubsub.patterns() as u64);
    Stats Gauge pubsubshard_channels: "Shard channels with subscribers" = |r| Integer(r.instance.pubsub.channels(true) as u64);
    Stats Gauge latest_fork_usec: "There is no fork" = NONE;
    Stats Counter total_forks: "There is no fork" = NONE;
    Stats Gauge migrate_cached_sockets: "Connections kept for MIGRATE" = NONE;
    Stats Gauge slave_expires_tracked_keys: "Keys whose expiry a writable replica tracks" = NONE;
    Stats Counter active_defrag_hits: "Not needed: pages are evacuated instead" = NONE;
    Stats Counter active_defrag_misses: "Not needed" = NONE;
    Stats Counter active_defrag_key_hits: "Not needed" = NONE;
    Stats Counter active_defrag_key_misses: "Not needed" = NONE;
    Stats Counter total_active_defrag_time: "Not needed" = NONE;
    Stats Gauge current_active_defrag_time: "Not needed" = NONE;
    Stats Gauge tracking_total_keys: "Keys tracked for client-side caching" = |r| Integer(r.tracking.keys as u64);
    Stats Gauge tracking_total_items: "Pairs of key and client tracked" = |r| Integer(r.tracking.items as u64);
    Stats Gauge tracking_total_prefixes: "Prefixes tracked" = |r| Integer(r.tracking.prefixes as u64);
    Stats Counter unexpected_error_replies: "Error replies that only a defect explains" = NONE;
    Stats Counter total_error_replies: "Error replies" = |r| Integer(r.totals.error_replies);
    Stats Counter total_reads_processed: "Chunks of input worked on" = |r| Integer(r.totals.reads_processed);
    Stats Counter total_writes_processed: "Batches of replies sent" = |r| Integer(r.totals.writes_processed);
    Stats Counter io_threaded_reads_processed: "The same as total_reads_processed with more than one worker" = |r| {
        Integer(if r.instance.workers.active() > 1 { r.totals.reads_processed } else { 0 })
    };
    Stats Counter io_threaded_writes_processed: "The same as total_writes_processed with more than one worker" = |r| {
        Integer(if r.instance.workers.active() > 1 { r.totals.writes_processed } else { 0 })
    };
    Stats Counter reply_buffer_shrinks: "Not needed: idle connections own no reply buffer" = NONE;
    Stats Counter reply_buffer_expands: "Not needed" = NONE;
    Stats Counter client_timeouts: "Connections closed because they were idle" = |r| {
        Integer(r.instance.gauges.network.counts().timed_out)
    };
    Stats Counter client_query_buffer_limit_disconnections: "Connections closed because of client-query-buffer-limit" = |r| {
        Integer(r.instance.gauges.network.counts().input_limit)
    };
    Stats Counter client_output_buffer_limit_disconnections: "Connections closed because of client-output-buffer-limit" = |r| {
        Integer(r.instance.gauges.network.counts().output_limit)
    };
    Stats Counter acl_access_denied_auth: "Failed authentications" = |r| Integer(r.totals.authentications_failed);
    Stats Counter acl_access_denied_cmd: "Commands denied to a user" = |r| Integer(r.totals.commands_denied);
    Stats Counter acl_access_denied_key: "Keys denied to a user" = |r| Integer(r.totals.keys_denied);
    Stats Counter acl_access_denied_channel: "Channels denied to a user" = |r| Integer(r.totals.channels_denied);
    Stats Counter acl_access_denied_db: "Databases denied to a user" = |r| Integer(r.totals.databases_denied);
    Stats Counter acl_access_denied_tls_cert: "Certificates that name no user" = |r| Integer(r.totals.certificates_refused);

    Replication Text role: "master, until replicas exist" = |_| Text("master".to_owned());
    Replication Gauge connected_slaves: "Replicas" = NONE;
    Replication Text master_failover_state: "Whether a failover runs" = |_| Text("no-failover".to_owned());
    Replication Text master_replid: "40 hexadecimal digits that name this history of writes" =
        |r| Text(r.instance.replication_id());
    Replication Text master_replid2: "The one before; zeroes for none" = |_| Text("0".repeat(40));
    Replication Counter master_repl_offset: "Bytes of replication" = NONE;
    Replication Gauge second_repl_offset: "Where the history before ended" = NEVER;
    Replication Gauge repl_backlog_active: "Whether there is a backlog" = NONE;
    Replication Text repl_backlog_size: "The parameter `repl-backlog-size`" = |r| Text(r.parameter("repl-backlog-size"));
    Replication Gauge repl_backlog_first_byte_offset: "Start of the backlog" = NONE;
    Replication Gauge repl_backlog_histlen: "Bytes in the backlog" = NONE;

    Cpu Counter used_cpu_sys: "Seconds of all threads in the kernel" = |_| Microseconds(usage::process().system_us);
    Cpu Counter used_cpu_user: "Seconds of all threads in the program" = |_| Microseconds(usage::process().user_us);
    Cpu Counter used_cpu_sys_children: "Seconds of children in the kernel" = |_| Microseconds(usage::children().system_us);
    Cpu Counter used_cpu_user_children: "Seconds of children in their programs" = |_| Microseconds(usage::children().user_us);
    Cpu Counter used_cpu_sys_main_thread: "Seconds of the worker that answers, in the kernel" =
        |_| Microseconds(usage::thread().system_us);
    Cpu Counter used_cpu_user_main_thread: "Seconds of the worker that answers, in the program" =
        |_| Microseconds(usage::thread().user_us);

    Cluster Gauge cluster_enabled: "Whether this is a node of a cluster" = NONE;

    Storage Gauge storage_live_records: "Records of all databases" = |r| Integer(r.store.live.max(0).unsigned_abs());
    Storage Gauge storage_volatile_records: "Of these, with an expiry" = |r| Integer(r.store.volatile.max(0).unsigned_abs());
    Storage Gauge storage_index_buckets: "Buckets of the hash index" = |r| Integer(r.instance.keyspace.figures().index_buckets());
    Storage Gauge storage_index_bytes: "Bytes of buckets and overflow slots" = |r| Integer(r.memory.index_bytes);
    Storage Counter storage_index_buckets_split: "Buckets split as the index grew, since the start" =
        |r| Integer(r.work.buckets_split);
    Storage Counter storage_index_buckets_merged: "Buckets merged as it shrank, since the start" =
        |r| Integer(r.work.buckets_merged);
    Storage Gauge storage_log_resident_bytes: "Bytes of log pages" = |r| Integer(r.memory.log_resident_bytes);
    Storage Gauge storage_log_live_bytes: "Of these, live records" = |r| Integer(r.memory.log_live_bytes);
    Storage Gauge storage_log_free_bytes: "Of these, dead records whose space is not reused yet" =
        |r| Integer(r.memory.log_free_bytes);
    Storage Gauge storage_heap_bytes: "Bytes of large values and long keys" = |r| Integer(r.memory.heap_bytes);
    Storage Gauge storage_staged_bytes: "Bytes of large values on their way from the device or to it, or used by one command" =
        |r| Integer(r.memory.staged_bytes);
    Storage Gauge storage_garbage_bytes: "Bytes of large values that are about to be freed" = |r| Integer(r.memory.garbage_bytes);
    Storage Gauge storage_expiry_bytes: "Bytes of the expiry wheel" = |r| Integer(r.memory.expiry_bytes);
    Storage Counter storage_pages_evacuated: "Log pages emptied and given back, since the start" =
        |r| Integer(r.work.pages_evacuated);
    Storage Counter storage_records_moved: "Records moved by that" = |r| Integer(r.work.records_moved);
    Storage Counter storage_namespaces_swept: "Emptied databases whose records were freed, since the start" =
        |r| Integer(r.work.namespaces_swept);
    Storage Gauge storage_enabled: "Whether data beyond maxmemory goes to a device" =
        |r| Integer(r.instance.keyspace.figures().tier().is_some().into());
    Storage Text storage_state: "Whether the device takes writes: ok, full or failing; damaged when it takes them and has given \
        blocks that are not what was written" = |r| Text(r.storage_state().to_owned());
    Storage Text storage_last_error: "What is wrong with the device, or what the last write that it refused said" =
        |r| Text(r.storage_error());
    Storage Text storage_keys: "Keys of log-key-file that pages on the device need, and how many pages that are; those of 'plain' \
        are not encrypted" = |r| Text(r.storage_keys());
    Storage Gauge storage_device_bytes: "Bytes that the data takes on the device" = |r| Integer(r.tier.device_bytes);
    Storage Gauge storage_retained_bytes: "Of these, bytes that only bases of the log need, until the next one is written" =
        |r| Integer(r.tier.retained_bytes);
    Storage Gauge storage_leased_bytes: "Of these, bytes that the next one does not give back, because a backup copies them" =
        |r| Integer(r.tier.leased_bytes);
    Storage Gauge storage_read_ahead_left: "Records that were in memory before the start and are still to be read" =
        |r| Integer(r.tier.read_ahead_left);
    Storage Gauge storage_live_bytes: "Of these, live records, as far as it is known" = |r| Integer(r.tier.device_live_bytes);
    Storage Counter storage_reads: "Reads of the device for clients, since the start" = |r| Integer(r.tier.reads);
    Storage Counter storage_background_reads: "Reads by the store itself: pages collected, records compared" = |r| {
        Integer(r.tier.background_reads)
    };
    Storage Counter storage_read_bytes: "Bytes that they asked for" = |r| Integer(r.tier.read_bytes);
    Storage Counter storage_writes: "Writes of the device" = |r| Integer(r.tier.writes);
    Storage Counter storage_written_bytes: "Bytes written" = |r| Integer(r.tier.written_bytes);
    Storage Counter storage_read_errors: "Reads that failed" = |r| Integer(r.tier.read_errors);
    Storage Counter storage_write_errors: "Writes that failed" = |r| Integer(r.tier.write_errors);
    Storage Counter storage_corrupt_blocks: "Blocks whose checksum did not hold" = |r| Integer(r.tier.corrupt_blocks);
    Storage Counter storage_pages_flushed: "Pages of the log written" = |r| Integer(r.tier.pages_flushed);
    Storage Counter storage_pages_evicted: "Pages of the log that left memory" = |r| Integer(r.tier.pages_evicted);
    Storage Counter storage_pages_compacted: "Pages on the device collected" = |r| Integer(r.tier.pages_compacted);
    Storage Counter storage_records_compacted: "Records moved by that" = |r| Integer(r.tier.records_compacted);
    Storage Counter storage_pages_salvaged: "Damaged pages given up after their readable records were moved" =
        |r| Integer(r.tier.pages_salvaged);
    Storage Counter storage_records_lost: "Damaged records given up: with their pages, or as their keys were set or deleted" = |r| {
        Integer(r.tier.records_lost)
    };
    Storage Counter storage_cached_records: "Copies made of records on the device" = |r| Integer(r.tier.records_cached);
    Storage Counter storage_cache_hits: "Reads answered from such copies" = |r| Integer(r.store.cache_hits.max(0).unsigned_abs());
    Storage Counter storage_cold_waits: "Batches that waited for the device" = |r| Integer(r.totals.device_waits);
    Storage Gauge storage_directory_bytes: "Bytes that storage-dir keeps above object storage" =
        |r| Integer(r.instance.gauges.objects.directory_bytes.load(Relaxed));
    Storage Gauge storage_object_bytes: "Bytes of the objects" = |r| Integer(r.instance.gauges.objects.bytes.load(Relaxed));
    Storage Gauge storage_object_backlog_bytes: "Bytes on their way from the directories to object storage" = |r| {
        Integer(r.instance.gauges.objects.backlog_bytes.load(Relaxed))
    };
    Storage Counter storage_object_read_errors: "Reads of objects that failed" =
        |r| Integer(r.instance.gauges.objects.read_errors.load(Relaxed));
    Storage Counter storage_object_write_errors: "Writes of objects that failed; they are tried again" = |r| {
        Integer(r.instance.gauges.objects.write_errors.load(Relaxed))
    };
    Storage Counter storage_object_delete_errors: "Deletions of objects that failed" = |r| {
        Integer(r.instance.gauges.objects.delete_errors.load(Relaxed))
    };
    Storage Text storage_object_last_error: "What the last of these said" = |r| Text(r.instance.gauges.objects.last_error());
    Storage Counter oplog_units: "Units of work in the log of writes since the start; this and the next three while there is one" =
        |r| of_log(r, |log| log.units);
    Storage Counter oplog_payload_bytes: "Bytes of them, without heads of groups and padding" =
        |r| of_log(r, |log| log.payload_bytes);
    Storage Counter oplog_groups: "Groups in which they were written" = |r| of_log(r, |log| log.groups);
    Storage Counter oplog_syncs: "Syncs" = |r| of_log(r, |log| log.syncs);
    Storage Text log_archive_state: "How the log's archive in object storage fares: begun, shipping, failing, taken-over; this and \
        the next eight with log-object-url" = |r| of_archive(r, |archive| Text(archive.state().0.name().to_owned()));
    Storage Gauge log_archive_behind_bytes: "Durable bytes of the log that it does not have" =
        |r| of_archive(r, |archive| {
            let durable = r.instance.persistence.log.progress().map_or(0, |progress| progress.durable_place().0);
            Integer(durable.saturating_sub(archive.archived_lsn()))
        });
    Storage Counter log_archive_errors: "Failures of it, which are tried again" =
        |r| of_archive(r, |archive| Integer(archive.errors()));
    Storage Text log_archive_last_error: "What the last of these said" = |r| of_archive(r, |archive| Text(archive.state().1));
    Storage Counter log_archive_shipped_bytes: "Bytes that were shipped since the start" =
        |r| of_archive(r, |archive| Integer(archive.shipped().bytes));
    Storage Counter log_archive_shipped_pages: "Pages of storage-dir among them, with the large values that they refer to" =
        |r| of_archive(r, |archive| Integer(archive.shipped().pages));
    Storage Gauge log_archive_left_pages: "Pages of storage-dir that are looked at before the archive has the last base" =
        |r| of_archive(r, |archive| Integer(archive.shipped().pages_left));
    Storage Gauge log_archive_bases: "Bases that it has: the newest one, and those that log-object-keep has it keep" =
        |r| of_archive(r, |archive| Integer(archive.shipped().bases));
    Storage Gauge log_archive_since_time: "From when on each moment can be had of it, Unix seconds; 0: only the last one" =
        |r| of_archive(r, |archive| Integer(archive.shipped().since_s));
    Storage Text backup_upload_state: "How the last upload of a backup to object storage fares: idle, shipping, failing, shipped, \
        given-up; this and the next six with backup-object-url" =
        |r| of_uploads(r, |uploads| Text(uploads.state.name().to_owned()));
    Storage Gauge backup_upload_left_bytes: "Bytes of it that were not looked at yet" =
        |r| of_uploads(r, |uploads| Integer(uploads.left_bytes));
    Storage Counter backup_upload_shipped_bytes: "Bytes of backups that were shipped since the start" =
        |r| of_uploads(r, |uploads| Integer(uploads.shipped_bytes));
    Storage Gauge backup_upload_last_time: "When the last one was there as a whole since the start, Unix seconds; 0: none was" =
        |r| of_uploads(r, |uploads| Integer(uploads.shipped_s.max(0).unsigned_abs()));
    Storage Gauge backup_upload_kept: "Backups of this server that are in object storage" =
        |r| of_uploads(r, |uploads| Integer(uploads.kept));
    Storage Counter backup_upload_errors: "Failures to ship or to drop one, which are tried again" =
        |r| of_uploads(r, |uploads| Integer(uploads.errors));
    Storage Text backup_upload_last_error: "What the last of these said" = |r| of_uploads(r, |uploads| Text(uploads.last_error));
    Storage Gauge log_memory_limit_bytes: "Bytes of log pages that maxmemory leaves, with a device" =
        |r| Integer(r.tier.log_limit_bytes);
    Storage Counter storage_updates_in_place: "Updates that changed a record where it is" = |r| {
        Integer(r.store.updates_in_place.max(0).unsigned_abs())
    };
    Storage Counter storage_updates_copied: "Updates that wrote a new record" =
        |r| Integer(r.store.updates_copied.max(0).unsigned_abs());
    Storage Counter storage_revivified: "Records written into the space of dead ones" =
        |r| Integer(r.store.revivified.max(0).unsigned_abs());
    Storage Counter storage_read_retries: "Latch-free reads that had to start over" =
        |r| Integer(r.store.read_retries.max(0).unsigned_abs());
}

/// The port of TLS where there is no other one, as in Redis.
fn tcp_port(settings: &Settings) -> u64 {
    u64::from(if settings.network.port == 0 { settings.tls.port } else { settings.network.port })
}

/// Whether writes are refused because the log takes none: its disk is full, or fails.
fn is_unlogged(r: &Readings<'_>) -> bool {
    r.instance.persistence.is_unlogged()
}

/// A figure of the operation log, which is shown while there is one.
fn of_log(readings: &Readings<'_>, figure: impl FnOnce(&LogFigures) -> u64) -> MetricValue {
    readings.log.as_ref().map_or(MetricValue::Absent, |log| Integer(figure(log)))
}

/// A figure of the log's archive, where there is one.
fn of_archive(readings: &Readings<'_>, figure: impl FnOnce(&Archive) -> MetricValue) -> MetricValue {
    let archive = &readings.instance.persistence.archive;
    if archive.state().0 == ArchiveState::Off { MetricValue::Absent } else { figure(archive) }
}

/// A figure of uploads, where backups go to object storage.
fn of_uploads(readings: &Readings<'_>, figure: impl FnOnce(UploadFigures) -> MetricValue) -> MetricValue {
    let uploads = readings.instance.persistence.backups.uploads.figures();
    if uploads.state == UploadState::Off { MetricValue::Absent } else { figure(uploads) }
}

/// A figure of loading, which is shown meanwhile only.
fn loading(readings: &Readings<'_>, show: fn(LoadingFigures) -> MetricValue) -> MetricValue {
    let persistence = &readings.instance.persistence;
    if persistence.is_loading() { show(persistence.loading.figures()) } else { MetricValue::Absent }
}

fn difference(left: u64, right: u64) -> i64 {
    i64::try_from(left).unwrap_or(i64::MAX).saturating_sub_unsigned(right)
}

fn operating_system() -> String {
    let release = almandine_io::files::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

fn executable() -> String {
    std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default()
}
