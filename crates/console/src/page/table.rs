//! The families of metrics, in the order of the page. From this table follow the page, its reference in
//! `docs/reference/prometheus.md`, and which families the tests must see move.
//!
//! Names that begin with `redis_` mean what they mean in redis_exporter, so that its dashboards and alarms work. What only
//! Almandine has begins with `almandine_`. A name stays once it is here.

use super::FamilyKind::{Counter, Gauge, Histogram, Info};
use super::family::{Family, field, flag, own};
use super::labelled;

/// All families.
#[rustfmt::skip]
pub static FAMILIES: &[Family] = &[
    // The server.
    own("redis_up", Gauge, &[], "1: the server answers", |_, samples| samples.add(&[], 1)),
    own("redis_instance_info", Info, &labelled::INSTANCE_LABELS, "The instance", labelled::instance),
    own("redis_start_time_seconds", Gauge, &[], "When the process started, Unix seconds", labelled::started),
    field("redis_uptime_in_seconds", "uptime_in_seconds"),
    field("redis_process_id", "process_id"),
    field("redis_cpu_sys_seconds_total", "used_cpu_sys"),
    field("redis_cpu_user_seconds_total", "used_cpu_user"),
    field("redis_cpu_sys_children_seconds_total", "used_cpu_sys_children"),
    field("redis_cpu_user_children_seconds_total", "used_cpu_user_children"),
    field("redis_io_threads_active", "io_threads_active"),
    field("redis_cluster_enabled", "cluster_enabled"),
    field("redis_connected_slaves", "connected_slaves"),

    // Workers.
    field("almandine_workers", "workers"),
    own("almandine_thread_cpu_seconds_total", Counter, &["thread"],
        "Processor time of each thread: its rate is the share of time in which a worker is busy", labelled::threads),
    own("almandine_worker_commands_total", Counter, &["worker"],
        "Commands that each worker has executed", labelled::worker_commands),
    own("almandine_worker_batches_total", Counter, &["worker"],
        "Chunks of input that each worker has worked on: commands per batch is what pipelining brings", labelled::worker_batches),
    own("almandine_worker_writes_total", Counter, &["worker"],
        "Batches of replies that each worker has sent", labelled::worker_writes),
    field("almandine_units_alone_total", "units_alone"),

    // Clients.
    field("redis_connected_clients", "connected_clients"),
    field("redis_blocked_clients", "blocked_clients"),
    field("redis_tracking_clients", "tracking_clients"),
    field("redis_pubsub_clients", "pubsub_clients"),
    field("redis_watching_clients", "watching_clients"),
    field("redis_clients_in_timeout_table", "clients_in_timeout_table"),
    field("redis_total_watched_keys", "total_watched_keys"),
    field("redis_total_blocking_keys", "total_blocking_keys"),
    field("redis_total_blocking_keys_on_nokey", "total_blocking_keys_on_nokey"),
    field("redis_config_maxclients", "maxclients"),
    field("redis_max_clients", "maxclients"),
    field("redis_client_recent_max_input_buffer_bytes", "client_recent_max_input_buffer"),
    field("redis_client_recent_max_output_buffer_bytes", "client_recent_max_output_buffer"),
    field("almandine_client_input_buffer_bytes", "client_input_buffer_bytes"),
    field("almandine_client_output_pending_bytes", "client_output_pending_bytes"),
    field("redis_connections_received_total", "total_connections_received"),
    field("redis_rejected_connections_total", "rejected_connections"),
    field("almandine_client_timeouts_total", "client_timeouts"),
    field("redis_client_query_buffer_limit_disconnections_total", "client_query_buffer_limit_disconnections"),
    field("redis_client_output_buffer_limit_disconnections_total", "client_output_buffer_limit_disconnections"),
    field("redis_evicted_clients_total", "evicted_clients"),
    field("redis_net_input_bytes_total", "total_net_input_bytes"),
    field("redis_net_output_bytes_total", "total_net_output_bytes"),
    field("redis_total_reads_processed_total", "total_reads_processed"),
    field("redis_total_writes_processed_total", "total_writes_processed"),

    // Commands.
    field("redis_commands_processed_total", "total_commands_processed"),
    own("redis_commands_total", Counter, &["cmd"], "Executions of each command", labelled::calls),
    own("redis_commands_duration_seconds_total", Counter, &["cmd"], "Time that each command took in all", labelled::durations),
    own("redis_commands_failed_calls_total", Counter, &["cmd"], "Executions that were answered with an error", labelled::failed),
    own("redis_commands_rejected_calls_total", Counter, &["cmd"], "Calls that were refused before execution", labelled::rejected),
    own("redis_commands_latencies_usec", Histogram, &["cmd"],
        "How long each command took, in microseconds, within 3 %, with latency-tracking; those of a batch count with an even \
         share of it", labelled::latencies),
    own("almandine_command_family_calls_total", Counter, &["family"],
        "Executions of the commands of each family", labelled::family_calls),
    own("almandine_command_family_duration_seconds", Histogram, &["family"],
        "How long the commands of each family took, as above", labelled::family_latencies),
    own("redis_errors_total", Counter, &["err"], "Error replies by their first word", labelled::errors),
    field("redis_total_error_replies_total", "total_error_replies"),
    field("almandine_unknown_commands_total", "unknown_commands"),
    field("almandine_refused_out_of_memory_total", "refused_out_of_memory"),
    own("redis_slowlog_length", Gauge, &[], "Entries of the slow log", labelled::slow_length),
    own("redis_slowlog_last_id", Gauge, &[], "Number of the newest entry of the slow log", labelled::slow_last),
    own("redis_last_slow_execution_duration_seconds", Gauge, &[], "How long the newest entry of the slow log took",
        labelled::slow_duration),
    field("redis_acl_access_denied_auth_total", "acl_access_denied_auth"),
    field("redis_acl_access_denied_cmd_total", "acl_access_denied_cmd"),
    field("redis_acl_access_denied_key_total", "acl_access_denied_key"),
    field("redis_acl_access_denied_channel_total", "acl_access_denied_channel"),
    field("almandine_acl_access_denied_db_total", "acl_access_denied_db"),
    field("almandine_acl_access_denied_tls_cert_total", "acl_access_denied_tls_cert"),

    // Keys.
    own("redis_db_keys", Gauge, &["db"], "Keys of each database", labelled::keys),
    own("redis_db_keys_expiring", Gauge, &["db"], "Of these, with an expiry", labelled::expiring),
    field("redis_keyspace_hits_total", "keyspace_hits"),
    field("redis_keyspace_misses_total", "keyspace_misses"),
    field("redis_expired_keys_total", "expired_keys"),
    field("redis_evicted_keys_total", "evicted_keys"),
    field("redis_lazyfree_pending_objects", "lazyfree_pending_objects"),
    field("almandine_lazyfreed_objects_total", "lazyfreed_objects"),
    field("redis_pubsub_channels", "pubsub_channels"),
    field("redis_pubsub_patterns", "pubsub_patterns"),
    field("redis_pubsubshard_channels", "pubsubshard_channels"),
    field("redis_tracking_total_keys", "tracking_total_keys"),
    field("redis_tracking_total_items", "tracking_total_items"),
    field("redis_tracking_total_prefixes", "tracking_total_prefixes"),

    // Memory.
    field("redis_memory_used_bytes", "used_memory"),
    field("redis_memory_used_rss_bytes", "used_memory_rss"),
    field("redis_memory_used_peak_bytes", "used_memory_peak"),
    field("redis_memory_used_overhead_bytes", "used_memory_overhead"),
    field("redis_memory_used_startup_bytes", "used_memory_startup"),
    field("redis_memory_used_dataset_bytes", "used_memory_dataset"),
    field("redis_memory_used_lua_bytes", "used_memory_lua"),
    field("redis_memory_used_scripts_bytes", "used_memory_scripts"),
    field("redis_memory_used_scripts_eval_bytes", "used_memory_scripts_eval"),
    field("redis_memory_used_functions_bytes", "used_memory_functions"),
    field("redis_memory_used_vm_eval_bytes", "used_memory_vm_eval"),
    field("redis_memory_used_vm_functions_bytes", "used_memory_vm_functions"),
    field("redis_memory_max_bytes", "maxmemory"),
    field("redis_config_maxmemory", "maxmemory"),
    field("redis_total_system_memory_bytes", "total_system_memory"),
    field("redis_allocator_allocated_bytes", "allocator_allocated"),
    field("redis_allocator_active_bytes", "allocator_active"),
    field("redis_allocator_resident_bytes", "allocator_resident"),
    field("redis_allocator_frag_ratio", "allocator_frag_ratio"),
    field("redis_allocator_frag_bytes", "allocator_frag_bytes"),
    field("redis_mem_fragmentation_ratio", "mem_fragmentation_ratio"),
    field("redis_mem_fragmentation_bytes", "mem_fragmentation_bytes"),
    field("redis_mem_clients_normal", "mem_clients_normal"),
    field("redis_number_of_cached_scripts", "number_of_cached_scripts"),
    field("redis_number_of_functions", "number_of_functions"),
    field("redis_number_of_libraries", "number_of_libraries"),
    field("redis_evicted_scripts_total", "evicted_scripts"),

    // Snapshots.
    field("redis_loading_dump_file", "loading"),
    field("almandine_loading_total_bytes", "loading_total_bytes"),
    field("almandine_loading_loaded_bytes", "loading_loaded_bytes"),
    field("redis_rdb_changes_since_last_save", "rdb_changes_since_last_save"),
    field("redis_rdb_bgsave_in_progress", "rdb_bgsave_in_progress"),
    field("redis_rdb_last_save_timestamp_seconds", "rdb_last_save_time"),
    flag("redis_rdb_last_bgsave_status", "rdb_last_bgsave_status"),
    field("redis_rdb_last_bgsave_duration_sec", "rdb_last_bgsave_time_sec"),
    field("redis_rdb_current_bgsave_duration_sec", "rdb_current_bgsave_time_sec"),
    field("redis_rdb_last_cow_size_bytes", "rdb_last_cow_size"),
    field("redis_rdb_saves_total", "rdb_saves"),
    field("redis_rdb_last_load_loaded_keys", "rdb_last_load_keys_loaded"),
    field("redis_rdb_last_load_expired_keys", "rdb_last_load_keys_expired"),

    // The log of writes.
    field("redis_aof_enabled", "aof_enabled"),
    field("redis_aof_rewrite_in_progress", "aof_rewrite_in_progress"),
    field("redis_aof_rewrite_scheduled", "aof_rewrite_scheduled"),
    field("redis_aof_last_rewrite_duration_sec", "aof_last_rewrite_time_sec"),
    field("redis_aof_current_rewrite_duration_sec", "aof_current_rewrite_time_sec"),
    flag("redis_aof_last_bgrewrite_status", "aof_last_bgrewrite_status"),
    flag("redis_aof_last_write_status", "aof_last_write_status"),
    field("redis_aof_current_size_bytes", "aof_current_size"),
    field("redis_aof_base_size_bytes", "aof_base_size"),
    field("redis_aof_pending_rewrite", "aof_pending_rewrite"),
    field("redis_aof_buffer_length", "aof_buffer_length"),
    field("redis_mem_aof_buffer_bytes", "mem_aof_buffer"),
    field("redis_aof_pending_bio_fsync", "aof_pending_bio_fsync"),
    field("almandine_aof_rewrites_total", "aof_rewrites"),
    field("almandine_aof_delayed_fsync_total", "aof_delayed_fsync"),
    field("almandine_oplog_units_total", "oplog_units"),
    field("almandine_oplog_payload_bytes_total", "oplog_payload_bytes"),
    field("almandine_oplog_groups_total", "oplog_groups"),
    field("almandine_oplog_syncs_total", "oplog_syncs"),

    // The store.
    field("almandine_storage_live_records", "storage_live_records"),
    field("almandine_storage_volatile_records", "storage_volatile_records"),
    field("almandine_storage_index_buckets", "storage_index_buckets"),
    field("almandine_storage_index_bytes", "storage_index_bytes"),
    field("almandine_storage_index_buckets_split_total", "storage_index_buckets_split"),
    field("almandine_storage_index_buckets_merged_total", "storage_index_buckets_merged"),
    field("almandine_storage_log_resident_bytes", "storage_log_resident_bytes"),
    field("almandine_storage_log_live_bytes", "storage_log_live_bytes"),
    field("almandine_storage_log_free_bytes", "storage_log_free_bytes"),
    field("almandine_storage_heap_bytes", "storage_heap_bytes"),
    field("almandine_storage_staged_bytes", "storage_staged_bytes"),
    field("almandine_storage_garbage_bytes", "storage_garbage_bytes"),
    field("almandine_storage_expiry_bytes", "storage_expiry_bytes"),
    field("almandine_storage_pages_evacuated_total", "storage_pages_evacuated"),
    field("almandine_storage_records_moved_total", "storage_records_moved"),
    field("almandine_storage_namespaces_swept_total", "storage_namespaces_swept"),
    field("almandine_storage_updates_in_place_total", "storage_updates_in_place"),
    field("almandine_storage_updates_copied_total", "storage_updates_copied"),
    field("almandine_storage_revivified_total", "storage_revivified"),
    field("almandine_storage_read_retries_total", "storage_read_retries"),

    // The device below memory.
    field("almandine_storage_enabled", "storage_enabled"),
    own("almandine_storage_state", Gauge, &["state"], "1 for the state that the device is in, as storage_state in INFO",
        labelled::storage_state),
    field("almandine_storage_device_bytes", "storage_device_bytes"),
    field("almandine_storage_retained_bytes", "storage_retained_bytes"),
    field("almandine_storage_leased_bytes", "storage_leased_bytes"),
    field("almandine_storage_live_bytes", "storage_live_bytes"),
    field("almandine_storage_log_limit_bytes", "log_memory_limit_bytes"),
    field("almandine_storage_reads_total", "storage_reads"),
    field("almandine_storage_background_reads_total", "storage_background_reads"),
    field("almandine_storage_read_bytes_total", "storage_read_bytes"),
    field("almandine_storage_writes_total", "storage_writes"),
    field("almandine_storage_written_bytes_total", "storage_written_bytes"),
    field("almandine_storage_read_errors_total", "storage_read_errors"),
    field("almandine_storage_write_errors_total", "storage_write_errors"),
    field("almandine_storage_corrupt_blocks_total", "storage_corrupt_blocks"),
    field("almandine_storage_pages_flushed_total", "storage_pages_flushed"),
    field("almandine_storage_pages_evicted_total", "storage_pages_evicted"),
    field("almandine_storage_pages_compacted_total", "storage_pages_compacted"),
    field("almandine_storage_records_compacted_total", "storage_records_compacted"),
    field("almandine_storage_pages_salvaged_total", "storage_pages_salvaged"),
    field("almandine_storage_records_lost_total", "storage_records_lost"),
    field("almandine_storage_cached_records_total", "storage_cached_records"),
    field("almandine_storage_cache_hits_total", "storage_cache_hits"),
    field("almandine_storage_cold_waits_total", "storage_cold_waits"),
    field("almandine_storage_directory_bytes", "storage_directory_bytes"),
    field("almandine_storage_object_bytes", "storage_object_bytes"),
    field("almandine_storage_object_backlog_bytes", "storage_object_backlog_bytes"),
    field("almandine_storage_object_read_errors_total", "storage_object_read_errors"),
    field("almandine_storage_object_write_errors_total", "storage_object_write_errors"),
    field("almandine_storage_object_delete_errors_total", "storage_object_delete_errors"),
    field("almandine_log_archive_behind_bytes", "log_archive_behind_bytes"),
    field("almandine_log_archive_errors_total", "log_archive_errors"),
    field("almandine_log_archive_shipped_bytes_total", "log_archive_shipped_bytes"),
    field("almandine_log_archive_shipped_pages_total", "log_archive_shipped_pages"),
    field("almandine_log_archive_left_pages", "log_archive_left_pages"),
    field("almandine_log_archive_bases", "log_archive_bases"),
    field("almandine_log_archive_since_timestamp_seconds", "log_archive_since_time"),
    field("almandine_backup_upload_left_bytes", "backup_upload_left_bytes"),
    field("almandine_backup_upload_shipped_bytes_total", "backup_upload_shipped_bytes"),
    field("almandine_backup_upload_last_timestamp_seconds", "backup_upload_last_time"),
    field("almandine_backup_upload_kept", "backup_upload_kept"),
    field("almandine_backup_upload_errors_total", "backup_upload_errors"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use almandine_instance::metrics::{METRICS, MetricKind};

    use super::super::FamilyKind;
    use super::super::labelled::{INSTANCE_LABELS, MICROSECONDS, SECONDS};
    use super::*;

    /// Numbers of INFO that the page leaves out.
    const LEFT_OUT: &[(&str, &[&str])] = &[
        ("said by labels", &["tcp_port"]),
        (
            "Prometheus has the time, and computes rates and shares itself",
            &[
                "server_time_usec",
                "uptime_in_days",
                "lru_clock",
                "instantaneous_ops_per_sec",
                "instantaneous_input_kbps",
                "instantaneous_output_kbps",
                "current_fork_perc",
                "loading_loaded_perc",
                "loading_eta_seconds",
                "loading_start_time",
                "rss_overhead_ratio",
                "rss_overhead_bytes",
            ],
        ),
        ("of the thread that asks", &["used_cpu_sys_main_thread", "used_cpu_user_main_thread"]),
        ("redis_exporter's name of this gauge is one of a counter; it is the sum of two that are there", &["used_memory_vm_total"]),
        ("of a build, not of a run", &["arch_bits"]),
        ("sums of what the page tells apart", &["io_threaded_reads_processed", "io_threaded_writes_processed"]),
        (
            "passing figures of one task",
            &[
                "paused_timeout_milliseconds",
                "current_cow_peak",
                "current_cow_size",
                "current_save_keys_processed",
                "current_save_keys_total",
                "aof_rewrites_consecutive_failures",
                "storage_read_ahead_left",
            ],
        ),
        (
            "always the same until there is what they tell of",
            &[
                "cluster_connections",
                "allocator_rss_ratio",
                "allocator_rss_bytes",
                "mem_not_counted_for_evict",
                "mem_replication_backlog",
                "mem_total_replication_buffers",
                "mem_replica_full_sync_buffer",
                "mem_replicas_repl_buffer",
                "mem_clients_slaves",
                "mem_cluster_links",
                "mem_cluster_slot_import",
                "mem_cluster_slot_export",
                "mem_overhead_db_hashtable_rehashing",
                "active_defrag_running",
                "async_loading",
                "current_cow_size_age",
                "aof_last_cow_size",
                "module_fork_in_progress",
                "module_fork_last_cow_size",
                "loading_rdb_used_mem",
                "total_net_repl_input_bytes",
                "total_net_repl_output_bytes",
                "total_net_cluster_slot_import_bytes",
                "total_net_cluster_slot_export_bytes",
                "instantaneous_input_repl_kbps",
                "instantaneous_output_repl_kbps",
                "sync_full",
                "sync_partial_ok",
                "sync_partial_err",
                "expired_stale_perc",
                "expired_time_cap_reached_count",
                "latest_fork_usec",
                "total_forks",
                "migrate_cached_sockets",
                "slave_expires_tracked_keys",
                "active_defrag_hits",
                "active_defrag_misses",
                "active_defrag_key_hits",
                "active_defrag_key_misses",
                "total_active_defrag_time",
                "current_active_defrag_time",
                "unexpected_error_replies",
                "reply_buffer_shrinks",
                "reply_buffer_expands",
                "master_repl_offset",
                "second_repl_offset",
                "repl_backlog_active",
                "repl_backlog_first_byte_offset",
                "repl_backlog_histlen",
            ],
        ),
    ];

    #[test]
    fn every_number_of_info_is_on_the_page_or_left_out_for_a_reason() {
        let shown: BTreeSet<&str> = FAMILIES.iter().filter_map(Family::info).collect();
        let left: Vec<&str> = LEFT_OUT.iter().flat_map(|(_, fields)| fields.iter().copied()).collect();
        for metric in METRICS.iter().filter(|metric| metric.kind != MetricKind::Text) {
            let (is_shown, is_left) = (shown.contains(metric.name), left.contains(&metric.name));
            assert!(is_shown != is_left, "{}: on the page {is_shown}, left out {is_left}", metric.name);
        }
        for name in left.iter().chain(&shown).copied().chain(INSTANCE_LABELS) {
            assert!(METRICS.iter().any(|metric| metric.name == name), "INFO has no {name}");
        }
    }

    #[test]
    fn names_are_unique_and_say_what_they_are() {
        let bases: BTreeSet<&str> = FAMILIES.iter().map(Family::base).collect();
        assert_eq!(bases.len(), FAMILIES.len());
        for family in FAMILIES {
            let name = family.name;
            assert!(name.starts_with("redis_") || name.starts_with("almandine_"), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            assert_eq!(family.kind() == FamilyKind::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(family.kind() == FamilyKind::Info, name.ends_with("_info"), "{name}");
            assert!(!["_bucket", "_count", "_sum", "_created"].iter().any(|suffix| name.ends_with(suffix)), "{name}");
            assert!(!family.help().is_empty(), "{name}");
        }
    }

    #[test]
    fn ends_of_buckets_are_what_they_are_called() {
        for (buckets, per_unit) in [(SECONDS, 1e9), (MICROSECONDS, 1e3)] {
            assert!(buckets.is_sorted());
            for (ns, end) in buckets {
                assert!((end.parse::<f64>().unwrap() * per_unit - *ns as f64).abs() < 1.0, "{end}");
            }
        }
    }
}
