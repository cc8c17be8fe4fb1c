//! What happens, and which families move for it.

use super::Happens::{Again, Lines, Minutes, Objects, Restart, Scene};
use super::{Move, clients, data, failures, objects, persistence, when};

/// A small directory above an object store.
const OBJECTS: &[&str] = &[
    "--maxmemory",
    "16mb",
    "--enable-debug-command",
    "yes",
    "--storage-dir",
    "{dir}/s",
    "--storage-dir-size",
    "8mb",
    "--storage-object-url",
    "s3://bucket/folder",
];

/// More data than memory takes, with a log that is shipped.
const ARCHIVED: &[&str] = &[
    "--maxmemory",
    "16mb",
    "--enable-debug-command",
    "yes",
    "--storage-dir",
    "{dir}/s",
    "--appendonly",
    "yes",
    "--ring-dir",
    "{dir}",
    "--log-object-url",
    "s3://bucket/folder",
];

#[rustfmt::skip]
pub(super) const MOVES: &[Move] = &[
    when("time passes", Lines(&["PING"]), &[
        "redis_uptime_in_seconds", "redis_cpu_sys_seconds_total", "redis_cpu_user_seconds_total",
        "almandine_thread_cpu_seconds_total",
    ]),
    when("commands run", Lines(&["SET a 1", "GET a", "GET none", "SET b 2 EX 1000", "HSET h f v"]), &[
        "redis_commands_processed_total", "redis_commands_total", "redis_commands_duration_seconds_total",
        "redis_commands_latencies_usec", "almandine_command_family_calls_total", "almandine_command_family_duration_seconds",
        "redis_keyspace_hits_total", "redis_keyspace_misses_total", "redis_net_input_bytes_total", "redis_net_output_bytes_total",
        "almandine_worker_commands_total", "almandine_worker_batches_total", "almandine_worker_writes_total", "redis_db_keys",
        "redis_db_keys_expiring", "redis_rdb_changes_since_last_save", "almandine_storage_live_records",
        "almandine_storage_volatile_records", "redis_memory_used_bytes", "redis_memory_used_dataset_bytes",
        "redis_memory_used_peak_bytes", "redis_allocator_allocated_bytes", "almandine_storage_log_live_bytes",
        "redis_mem_fragmentation_ratio", "redis_mem_fragmentation_bytes", "redis_allocator_frag_ratio",
        "redis_allocator_frag_bytes", "redis_connections_received_total",
        "redis_total_reads_processed_total", "redis_total_writes_processed_total",
    ]),
    when("commands fail", Lines(&["LPUSH s x", "SET l 1", "LPUSH l x", "GET", "NONE OF THAT"]), &[
        "redis_commands_failed_calls_total", "redis_commands_rejected_calls_total", "redis_errors_total",
        "redis_total_error_replies_total",
        "almandine_unknown_commands_total",
    ]),
    when("commands are slow", Lines(&["CONFIG SET slowlog-log-slower-than 0", "PING", "PING"]), &[
        "redis_slowlog_length", "redis_slowlog_last_id", "redis_last_slow_execution_duration_seconds",
    ]),
    when("keys expire", Lines(&["SET a 1 PX 30", "SET b 1 EX 1000"]), &[
        "redis_expired_keys_total", "almandine_storage_expiry_bytes",
    ]),
    when("clients wait, listen and watch", Scene(clients::listeners), &[
        "redis_connected_clients", "redis_blocked_clients", "redis_clients_in_timeout_table", "redis_total_blocking_keys",
        "redis_total_blocking_keys_on_nokey", "redis_pubsub_clients", "redis_pubsub_channels", "redis_pubsub_patterns",
        "redis_pubsubshard_channels", "redis_watching_clients", "redis_total_watched_keys", "redis_tracking_clients",
        "redis_tracking_total_keys", "redis_tracking_total_items", "redis_tracking_total_prefixes", "redis_mem_clients_normal",
        "redis_memory_used_overhead_bytes",
    ]),
    when("clients send half of a command, and read nothing", Scene(clients::sluggards), &[
        "redis_client_recent_max_input_buffer_bytes", "redis_client_recent_max_output_buffer_bytes",
        "almandine_client_input_buffer_bytes", "almandine_client_output_pending_bytes",
    ]),
    Move { flags: &["--timeout", "1"], ..when("a client is idle", Scene(|server| vec![server.client()]), &[
        "almandine_client_timeouts_total",
    ]) },
    Move { flags: &["--client-query-buffer-limit", "1mb", "--client-output-buffer-limit", "normal 1mb 0 0"],
        ..when("clients break limits", Scene(clients::breakers), &["redis_client_query_buffer_limit_disconnections_total",
            "redis_client_output_buffer_limit_disconnections_total"]) },
    Move { flags: &["--maxmemory-clients", "1mb"], ..when("clients hold too much", Scene(clients::holders), &[
        "redis_evicted_clients_total",
    ]) },
    Move { flags: &["--maxclients", "3"],
        ..when("too many clients come", Scene(clients::crowd), &["redis_rejected_connections_total"]) },
    when("scripts and functions are loaded", Lines(&["EVAL return(1) 0", "FUNCTION LOAD FUNCTION"]), &[
        "redis_number_of_cached_scripts", "redis_memory_used_scripts_bytes", "redis_memory_used_lua_bytes",
        "redis_number_of_functions", "redis_number_of_libraries", "redis_memory_used_scripts_eval_bytes",
        "redis_memory_used_functions_bytes", "redis_memory_used_vm_eval_bytes", "redis_memory_used_vm_functions_bytes",
    ]),
    when("users are denied", Scene(clients::denied), &[
        "redis_acl_access_denied_auth_total", "redis_acl_access_denied_cmd_total", "redis_acl_access_denied_key_total",
        "redis_acl_access_denied_channel_total", "almandine_acl_access_denied_db_total",
    ]),
    when("a certificate names no user", Scene(clients::denied_by_certificate), &["almandine_acl_access_denied_tls_cert_total"]),
    when("scripts give way to others", Scene(data::many_scripts), &["redis_evicted_scripts_total"]),
    when("settings change", Lines(&["CONFIG SET maxmemory 1gb", "CONFIG SET maxclients 77", "CONFIG SET workers 1"]), &[
        "redis_memory_max_bytes", "redis_config_maxmemory", "redis_config_maxclients", "redis_max_clients", "almandine_workers",
        "redis_io_threads_active",
    ]),
    when("a label of the instance changes", Lines(&["CONFIG SET maxmemory-policy allkeys-lru"]), &["redis_instance_info"]),
    when("another process takes the place of this one", Restart(persistence::another_process), &[
        "redis_start_time_seconds", "redis_process_id", "redis_memory_used_startup_bytes", "almandine_storage_enabled",
    ]),
    Move { flags: &["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-lru"],
        ..when("memory is used up", Scene(data::fill_memory), &["redis_evicted_keys_total"]) },
    Move { flags: &["--maxmemory", "40mb"], ..when("memory is used up and nothing gives way", Scene(data::fill_memory), &[
        "almandine_refused_out_of_memory_total",
    ]) },
    when("many keys come", Scene(|server| data::fill(server, 200_000, 64)), &[
        "almandine_storage_index_buckets", "almandine_storage_index_bytes", "almandine_storage_index_buckets_split_total",
        "almandine_storage_log_resident_bytes", "redis_memory_used_rss_bytes", "redis_allocator_active_bytes",
        "redis_allocator_resident_bytes",
    ]),
    when("keys change and go", Scene(data::churn), &[
        "almandine_storage_updates_in_place_total", "almandine_storage_updates_copied_total", "almandine_storage_revivified_total",
        "almandine_storage_log_free_bytes", "almandine_storage_pages_evacuated_total", "almandine_storage_records_moved_total",
    ]),
    Move { flags: &["--index-size", "64kb"], ..when("many keys come and go", Scene(data::grow_and_shrink), &[
        "almandine_storage_index_buckets_merged_total",
    ]) },
    when("a key is written and read at once", Again(data::contend), &["almandine_storage_read_retries_total"]),
    when("a large value goes", Again(data::remove_large), &["redis_lazyfree_pending_objects", "almandine_storage_garbage_bytes"]),
    when("what a client reads slowly is removed", Scene(clients::slow_readers), &["almandine_storage_staged_bytes"]),
    when("large values come", Lines(&["SETRANGE a 3000000 x"]), &["almandine_storage_heap_bytes"]),
    Move { before: &["SETRANGE a 3000000 x", "SET b 1"], ..when("databases are emptied", Lines(&["FLUSHALL ASYNC"]), &[
        "almandine_lazyfreed_objects_total", "almandine_storage_namespaces_swept_total",
    ]) },
    when("a transaction may use any key", Lines(&["MULTI", "SORT a BY x*", "EXEC"]), &[
        "almandine_units_alone_total",
    ]),
    Move { before: &["SET a 1"], ..when("snapshots are written", Scene(persistence::snapshot), &[
        "redis_rdb_saves_total", "redis_rdb_last_save_timestamp_seconds", "redis_rdb_last_cow_size_bytes",
        "redis_rdb_last_bgsave_duration_sec",
    ]) },
    when("a snapshot is loaded", Restart(persistence::load), &[
        "redis_loading_dump_file", "almandine_loading_total_bytes", "almandine_loading_loaded_bytes",
        "redis_rdb_last_load_loaded_keys", "redis_rdb_last_load_expired_keys",
    ]),
    when("a snapshot fails", Scene(failures::snapshot_without_place), &["redis_rdb_last_bgsave_status"]),
    when("a snapshot takes long", Scene(persistence::long_snapshot), &[
        "redis_rdb_bgsave_in_progress", "redis_rdb_current_bgsave_duration_sec",
    ]),
    when("the log of writes begins", Lines(&["SET a 1", "CONFIG SET appendonly yes"]), &["redis_aof_enabled"]),
    Move { flags: &["--appendonly", "yes"], ..when("writes are logged", Lines(&["SET a 1", "SET b 2", "WAITAOF 1 0 10000"]), &[
        "almandine_oplog_units_total", "almandine_oplog_payload_bytes_total", "almandine_oplog_groups_total",
        "almandine_oplog_syncs_total", "redis_aof_current_size_bytes",
    ]) },
    Move { flags: &["--appendonly", "yes"], before: &["SET a 1"], ..when("the log is rewritten", Lines(&["BGREWRITEAOF"]), &[
        "almandine_aof_rewrites_total", "redis_aof_base_size_bytes",
    ]) },
    Move { flags: &["--appendonly", "yes"], ..when("rewriting takes seconds", Scene(persistence::long_rewrite), &[
        "redis_aof_rewrite_in_progress", "redis_aof_current_rewrite_duration_sec", "redis_aof_last_rewrite_duration_sec",
    ]) },
    Move { flags: &["--appendonly", "yes"],
        ..when("rewriting waits for a snapshot", Scene(persistence::rewrite_behind_snapshot), &[
            "redis_aof_rewrite_scheduled", "redis_aof_pending_rewrite",
        ]) },
    Move { flags: &["--appendonly", "yes", "--appendfsync", "everysec", "--ring-dir", "none"],
        ..when("writes are on their way to the log", Again(persistence::log), &[
            "redis_aof_pending_bio_fsync", "redis_aof_buffer_length", "redis_mem_aof_buffer_bytes",
        ]) },
    Move { flags: &["--appendonly", "yes", "--appendfsync", "always"],
        ..when("the disk takes long", Again(failures::halted_while_syncing), &["almandine_aof_delayed_fsync_total"]) },
    Move { flags: &["--appendonly", "yes", "--log-segment-size", "4mb"],
        ..when("the log has no directory", Scene(failures::log_without_directory), &[
            "redis_aof_last_write_status", "redis_aof_last_bgrewrite_status",
        ]) },
    Move { flags: &["--storage-dir", "{dir}/data", "--maxmemory", "24mb"],
        ..when("data goes to a device and comes back", Scene(data::beyond_memory), &[
            "almandine_storage_device_bytes", "almandine_storage_live_bytes", "almandine_storage_reads_total",
            "almandine_storage_read_bytes_total", "almandine_storage_writes_total", "almandine_storage_written_bytes_total",
            "almandine_storage_pages_flushed_total", "almandine_storage_pages_evicted_total", "almandine_storage_cold_waits_total",
            "almandine_storage_cached_records_total", "almandine_storage_cache_hits_total", "almandine_storage_log_limit_bytes",
            "almandine_storage_background_reads_total", "almandine_storage_pages_compacted_total",
            "almandine_storage_records_compacted_total",
        ]) },
    Move { flags: &["--storage-dir", "{dir}/data", "--maxmemory", "24mb", "--appendonly", "yes"],
        ..when("a base of the log needs what is given up", Scene(data::replace_what_a_base_has), &[
            "almandine_storage_retained_bytes",
        ]) },
    Move { flags: &["--storage-device", "faulty", "--storage-faults", "read-errors=1000000", "--maxmemory", "16mb"],
        ..when("a device is not read", Scene(failures::unreadable), &["almandine_storage_read_errors_total"]) },
    Move { flags: &["--storage-device", "faulty", "--storage-faults", "write-errors=1000000", "--maxmemory", "16mb"],
        ..when("a device is not written", Scene(failures::unwritable), &[
            "almandine_storage_write_errors_total", "almandine_storage_state",
        ]) },
    Move { flags: &["--storage-device", "faulty", "--storage-faults", "flipped-bits=1000000", "--maxmemory", "16mb"],
        ..when("a device is damaged", Scene(failures::damaged), &[
            "almandine_storage_corrupt_blocks_total", "almandine_storage_records_lost_total",
        ]) },
    Move { flags: &["--storage-device", "faulty", "--storage-faults", "flipped-bits=1000000", "--maxmemory", "16mb"],
        ..when("a device stays damaged", Minutes(failures::damaged_for_long), &["almandine_storage_pages_salvaged_total"]) },
    Move { flags: OBJECTS, ..when("data goes to an object store", Objects(objects::beyond_directory), &[
        "almandine_storage_directory_bytes", "almandine_storage_object_bytes", "almandine_storage_object_backlog_bytes",
    ]) },
    Move { flags: OBJECTS, ..when("an object store is away", Objects(objects::away), &[
        "almandine_storage_object_read_errors_total", "almandine_storage_object_write_errors_total",
        "almandine_storage_object_delete_errors_total",
    ]) },
    Move { flags: &["--appendonly", "yes", "--ring-dir", "{dir}", "--log-object-url", "s3://bucket/folder"],
        ..when("the archive of the log is away", Objects(objects::archive_away), &[
            "almandine_log_archive_behind_bytes", "almandine_log_archive_errors_total",
        ]) },
    Move { flags: ARCHIVED, ..when("the archive of the log gets pages", Objects(objects::archive_of_pages), &[
        "almandine_log_archive_shipped_bytes_total", "almandine_log_archive_shipped_pages_total",
        "almandine_log_archive_left_pages", "almandine_log_archive_bases", "almandine_log_archive_since_timestamp_seconds",
    ]) },
    Move { flags: &["--appendonly", "yes", "--ring-dir", "{dir}", "--backup-object-url", "s3://bucket/folder"],
        ..when("a backup goes to object storage", Objects(objects::backup), &[
            "almandine_backup_upload_left_bytes", "almandine_backup_upload_shipped_bytes_total",
            "almandine_backup_upload_last_timestamp_seconds", "almandine_backup_upload_kept",
            "almandine_backup_upload_errors_total",
        ]) },
];
