//! Each family moves when what it counts happens. A family without a row here, or a reason to have none, fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use almandine_console::{FAMILIES, FamilyKind};
use almandine_testkit::{Client, Server, Value};

use super::http::{page, sum};

/// Something that happens, and what moves for it.
struct Move {
    what: &'static str,
    flags: &'static [&'static str],
    /// What is done before the first look.
    before: &'static [&'static str],
    /// What is done then.
    happens: Happens,
    families: &'static [&'static str],
}

enum Happens {
    /// One client says these lines; errors are answers, too.
    Lines(&'static [&'static str]),
    /// Returns the clients that stay until the last look.
    Scene(fn(&Server) -> Vec<Client>),
}

use Happens::{Lines, Scene};

const fn when(what: &'static str, happens: Happens, families: &'static [&'static str]) -> Move {
    Move { what, flags: &[], before: &[], happens, families }
}

/// Families that these tests do not see move, by the reason.
const STILL: &[(&str, &[&str])] = &[
    (
        "one value for the life of the process, or of the machine",
        &[
            "redis_up",
            "redis_instance_info",
            "redis_start_time_seconds",
            "redis_process_id",
            "redis_memory_used_startup_bytes",
            "redis_total_system_memory_bytes",
            "almandine_storage_enabled",
        ],
    ),
    (
        "needs a device that fails: `device`, `store` and `objects` test what INFO and so the page reads",
        &[
            "almandine_storage_read_errors_total",
            "almandine_storage_write_errors_total",
            "almandine_storage_corrupt_blocks_total",
            "almandine_storage_pages_salvaged_total",
            "almandine_storage_records_lost_total",
            "almandine_storage_state",
            "almandine_storage_object_read_errors_total",
            "almandine_storage_object_write_errors_total",
            "almandine_storage_object_delete_errors_total",
            "redis_aof_last_write_status",
            "redis_aof_last_bgrewrite_status",
            "almandine_aof_delayed_fsync_total",
        ],
    ),
    (
        "needs an object store: `objects` and `archive` test what INFO says",
        &[
            "almandine_storage_directory_bytes",
            "almandine_storage_object_bytes",
            "almandine_storage_object_backlog_bytes",
            "almandine_log_archive_behind_bytes",
            "almandine_log_archive_errors_total",
        ],
    ),
    (
        "seen by other tests of this file",
        &[
            "redis_loading_dump_file",
            "almandine_loading_total_bytes",
            "almandine_loading_loaded_bytes",
            "redis_rdb_last_bgsave_status",
            "redis_rdb_last_load_loaded_keys",
        ],
    ),
    ("keys of a snapshot that is loaded have expired meanwhile, which `snapshots` tests", &["redis_rdb_last_load_expired_keys"]),
    ("nothing to count until there are replicas and clusters", &["redis_cluster_enabled", "redis_connected_slaves"]),
    (
        "passes in microseconds, or by chance",
        &[
            "almandine_storage_staged_bytes",
            "almandine_storage_garbage_bytes",
            "redis_lazyfree_pending_objects",
            "almandine_storage_read_retries_total",
            "redis_aof_pending_bio_fsync",
            "redis_aof_buffer_length",
            "redis_mem_aof_buffer_bytes",
            "redis_rdb_last_bgsave_duration_sec",
            "redis_aof_current_rewrite_duration_sec",
            "redis_aof_rewrite_in_progress",
            "redis_aof_rewrite_scheduled",
            "redis_aof_pending_rewrite",
            "redis_aof_last_rewrite_duration_sec",
        ],
    ),
    (
        "needs minutes: the index shrinks, and a base retains",
        &["almandine_storage_index_buckets_merged_total", "almandine_storage_retained_bytes"],
    ),
    (
        "needs a user of certificates, or databases in rules, which `tls` and `acl` test",
        &["almandine_acl_access_denied_tls_cert_total", "almandine_acl_access_denied_db_total"],
    ),
    (
        "needs a child process, of which the server starts none",
        &["redis_cpu_sys_children_seconds_total", "redis_cpu_user_children_seconds_total"],
    ),
    ("only with thousands of scripts, which `scripts` tests", &["redis_evicted_scripts_total"]),
];

#[rustfmt::skip]
const MOVES: &[Move] = &[
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
    when("clients wait, listen and watch", Scene(listeners), &[
        "redis_connected_clients", "redis_blocked_clients", "redis_clients_in_timeout_table", "redis_total_blocking_keys",
        "redis_total_blocking_keys_on_nokey", "redis_pubsub_clients", "redis_pubsub_channels", "redis_pubsub_patterns",
        "redis_pubsubshard_channels", "redis_watching_clients", "redis_total_watched_keys", "redis_tracking_clients",
        "redis_tracking_total_keys", "redis_tracking_total_items", "redis_tracking_total_prefixes", "redis_mem_clients_normal",
        "redis_memory_used_overhead_bytes",
    ]),
    when("clients send half of a command, and read nothing", Scene(sluggards), &[
        "redis_client_recent_max_input_buffer_bytes", "redis_client_recent_max_output_buffer_bytes",
        "almandine_client_input_buffer_bytes", "almandine_client_output_pending_bytes",
    ]),
    Move { flags: &["--timeout", "1"], ..when("a client is idle", Scene(|server| vec![server.client()]), &[
        "almandine_client_timeouts_total",
    ]) },
    Move { flags: &["--client-query-buffer-limit", "1mb", "--client-output-buffer-limit", "normal 1mb 0 0"],
        ..when("clients break limits", Scene(breakers), &["redis_client_query_buffer_limit_disconnections_total",
            "redis_client_output_buffer_limit_disconnections_total"]) },
    Move { flags: &["--maxmemory-clients", "1mb"], ..when("clients hold too much", Scene(holders), &[
        "redis_evicted_clients_total",
    ]) },
    Move { flags: &["--maxclients", "3"], ..when("too many clients come", Scene(crowd), &["redis_rejected_connections_total"]) },
    when("scripts and functions are loaded", Lines(&["EVAL return(1) 0", "FUNCTION LOAD FUNCTION"]), &[
        "redis_number_of_cached_scripts", "redis_memory_used_scripts_bytes", "redis_memory_used_lua_bytes",
        "redis_number_of_functions", "redis_number_of_libraries", "redis_memory_used_scripts_eval_bytes",
        "redis_memory_used_functions_bytes", "redis_memory_used_vm_eval_bytes", "redis_memory_used_vm_functions_bytes",
    ]),
    when("users are denied", Scene(denied), &[
        "redis_acl_access_denied_auth_total", "redis_acl_access_denied_cmd_total", "redis_acl_access_denied_key_total",
        "redis_acl_access_denied_channel_total",
    ]),
    when("settings change", Lines(&["CONFIG SET maxmemory 1gb", "CONFIG SET maxclients 77", "CONFIG SET workers 1"]), &[
        "redis_memory_max_bytes", "redis_config_maxmemory", "redis_config_maxclients", "redis_max_clients", "almandine_workers",
        "redis_io_threads_active",
    ]),
    Move { flags: &["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-lru"], ..when("memory is used up", Scene(fill_memory), &[
        "redis_evicted_keys_total",
    ]) },
    Move { flags: &["--maxmemory", "40mb"], ..when("memory is used up and nothing gives way", Scene(fill_memory), &[
        "almandine_refused_out_of_memory_total",
    ]) },
    when("many keys come", Scene(|server| fill(server, 200_000, 64)), &[
        "almandine_storage_index_buckets", "almandine_storage_index_bytes", "almandine_storage_index_buckets_split_total",
        "almandine_storage_log_resident_bytes", "redis_memory_used_rss_bytes", "redis_allocator_active_bytes",
        "redis_allocator_resident_bytes",
    ]),
    when("keys change and go", Scene(churn), &[
        "almandine_storage_updates_in_place_total", "almandine_storage_updates_copied_total", "almandine_storage_revivified_total",
        "almandine_storage_log_free_bytes", "almandine_storage_pages_evacuated_total", "almandine_storage_records_moved_total",
    ]),
    when("large values come", Lines(&["SETRANGE a 3000000 x"]), &["almandine_storage_heap_bytes"]),
    Move { before: &["SETRANGE a 3000000 x", "SET b 1"], ..when("databases are emptied", Lines(&["FLUSHALL ASYNC"]), &[
        "almandine_lazyfreed_objects_total", "almandine_storage_namespaces_swept_total",
    ]) },
    when("a transaction may use any key", Lines(&["MULTI", "SORT a BY x*", "EXEC"]), &[
        "almandine_units_alone_total",
    ]),
    Move { before: &["SET a 1"], ..when("snapshots are written", Scene(snapshot), &[
        "redis_rdb_saves_total", "redis_rdb_last_save_timestamp_seconds", "redis_rdb_last_cow_size_bytes",
    ]) },
    when("a snapshot takes long", Scene(long_snapshot), &["redis_rdb_bgsave_in_progress", "redis_rdb_current_bgsave_duration_sec"]),
    when("the log of writes begins", Lines(&["SET a 1", "CONFIG SET appendonly yes"]), &["redis_aof_enabled"]),
    Move { flags: &["--appendonly", "yes"], ..when("writes are logged", Lines(&["SET a 1", "SET b 2", "WAITAOF 1 0 10000"]), &[
        "almandine_oplog_units_total", "almandine_oplog_payload_bytes_total", "almandine_oplog_groups_total",
        "almandine_oplog_syncs_total", "redis_aof_current_size_bytes",
    ]) },
    Move { flags: &["--appendonly", "yes"], before: &["SET a 1"], ..when("the log is rewritten", Lines(&["BGREWRITEAOF"]), &[
        "almandine_aof_rewrites_total", "redis_aof_base_size_bytes",
    ]) },
    Move { flags: &["--storage-dir", "{dir}/data", "--maxmemory", "24mb"],
        ..when("data goes to a device and comes back", Scene(beyond_memory), &[
            "almandine_storage_device_bytes", "almandine_storage_live_bytes", "almandine_storage_reads_total",
            "almandine_storage_read_bytes_total", "almandine_storage_writes_total", "almandine_storage_written_bytes_total",
            "almandine_storage_pages_flushed_total", "almandine_storage_pages_evicted_total", "almandine_storage_cold_waits_total",
            "almandine_storage_cached_records_total", "almandine_storage_cache_hits_total", "almandine_storage_log_limit_bytes",
            "almandine_storage_background_reads_total", "almandine_storage_pages_compacted_total",
            "almandine_storage_records_compacted_total",
        ]) },
];

/// How long a family may take to move.
const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn each_family_has_a_test_or_a_reason() {
    let tested: Vec<&str> = MOVES.iter().flat_map(|row| row.families.iter().copied()).collect();
    let still: Vec<&str> = STILL.iter().flat_map(|(_, families)| families.iter().copied()).collect();
    for family in FAMILIES {
        let (is_tested, is_still) = (tested.contains(&family.name), still.contains(&family.name));
        assert!(is_tested != is_still, "{}: tested {is_tested}, with a reason to be still {is_still}", family.name);
    }
    for name in tested.iter().chain(&still) {
        assert!(FAMILIES.iter().any(|family| family.name == *name), "there is no {name}");
    }
}

#[test]
fn each_family_moves_when_what_it_counts_happens() {
    let mut problems = Vec::new();
    for row in MOVES {
        problems.extend(missed(row).into_iter().map(|name| format!("{name} when {}", row.what)));
    }
    assert!(problems.is_empty(), "these stand still: {problems:#?}");
}

/// The families of a row that have not moved.
fn missed(row: &Move) -> Vec<&'static str> {
    let (server, console) = super::start(&[&["--workers", "2", "--save", ""], row.flags].concat());
    // No client is left of what comes before, so that those of the scene are the first ones.
    run(&server, row.before);
    let before = page(console);
    let scene = match row.happens {
        Lines(lines) => {
            run(&server, lines);
            Vec::new()
        }
        Scene(play) => play(&server),
    };
    let left = still_after(console, &before, row.families);
    drop(scene);
    left
}

fn run(server: &Server, lines: &[&str]) {
    if lines.is_empty() {
        return;
    }
    let mut client = server.client();
    for line in lines {
        if *line == "FUNCTION LOAD FUNCTION" {
            let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
            assert_eq!(client.call(&["FUNCTION", "LOAD", library]).unwrap().to_string(), "$\"l\"");
        } else {
            client.line(line);
        }
    }
    client.end();
}

fn still_after(console: SocketAddr, before: &BTreeMap<String, f64>, families: &[&'static str]) -> Vec<&'static str> {
    let mut left = families.to_vec();
    let end = Instant::now() + WITHIN;
    while !left.is_empty() && Instant::now() < end {
        let now = page(console);
        left.retain(|name| {
            let is_counter = FAMILIES.iter().any(|family| family.name == *name && family.kind() == FamilyKind::Counter);
            let (first, last) = (sum(before, name), sum(&now, name));
            let has_grown = last > first || first.is_none() && last.is_some();
            assert!(!is_counter || last >= first, "{name} went from {first:?} to {last:?}");
            !(has_grown || !is_counter && last != first)
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    left
}

fn listeners(server: &Server) -> Vec<Client> {
    let mut lines = server.client();
    for line in ["XADD stream * f v", "XGROUP CREATE stream g $", "SET a 1"] {
        lines.line(line);
    }
    let waiting: [&[&str]; 8] = [
        &["BLPOP none 100"],
        &["XREADGROUP GROUP g c BLOCK 100000 STREAMS stream >"],
        &["SUBSCRIBE a"],
        &["PSUBSCRIBE a*"],
        &["SSUBSCRIBE a"],
        &["WATCH a b"],
        &["HELLO 3", "CLIENT TRACKING ON", "GET a"],
        &["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX x"],
    ];
    let begin = |lines: &&[&str]| {
        let mut client = server.client();
        let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        client.send(&commands).unwrap();
        client
    };
    waiting.iter().map(begin).collect()
}

fn sluggards(server: &Server) -> Vec<Client> {
    let mut half = server.client();
    half.send_raw(format!("*2\r\n$3\r\nGET\r\n$400000\r\n{}", "x".repeat(200_000)).as_bytes()).unwrap();
    let mut deaf = server.client();
    deaf.line("SETRANGE large 8000000 x");
    deaf.send(&[["GET", "large"]; 4]).unwrap();
    vec![half, deaf]
}

fn breakers(server: &Server) -> Vec<Client> {
    let mut long = server.client();
    // The server may close before all of it is sent.
    let _ = long.send_raw(format!("*2\r\n$3\r\nGET\r\n$4000000\r\n{}", "x".repeat(3_000_000)).as_bytes());
    let mut deaf = server.client();
    for n in 0..16 {
        deaf.call(&["SET", &format!("k{n}"), &"x".repeat(900_000)]).unwrap();
    }
    let _ = deaf
        .send(&vec![["MGET", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14"]; 8]);
    vec![long, deaf]
}

fn holders(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    client.line("MULTI");
    for _ in 0..4 {
        // It may be closed already.
        let _ = client.call(&["SET", "k", &"x".repeat(700_000)]);
    }
    vec![client]
}

fn crowd(server: &Server) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(server.address()).unwrap()).collect();
    for client in &mut clients {
        // Those beyond the limit are told so, and closed.
        let _ = client.call(&["PING"]);
    }
    clients
}

fn denied(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    client.line("AUTH nobody wrong");
    client.line("ACL SETUSER u on nopass +get +publish +select ~k*");
    client.line("AUTH u x");
    for line in ["SET k 1", "GET other", "PUBLISH channel x"] {
        assert!(client.line(line).to_string().contains("NOPERM"), "{line}");
    }
    vec![client]
}

/// Sets `keys` keys to values of `bytes` bytes; errors are answers, too.
fn fill(server: &Server, keys: usize, bytes: usize) -> Vec<Client> {
    let mut client = server.client();
    let value = "v".repeat(bytes);
    for first in (0..keys).step_by(1000) {
        let commands: Vec<[String; 3]> = (first..first + 1000).map(|n| ["SET".into(), format!("key:{n}"), value.clone()]).collect();
        let replies = client.pipeline(&commands).unwrap();
        assert_eq!(replies.len(), 1000);
    }
    vec![client]
}

fn fill_memory(server: &Server) -> Vec<Client> {
    fill(server, 40_000, 2_000)
}

fn churn(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 100_000, 100);
    let client = &mut clients[0];
    for round in 0..3_usize {
        for first in (0..100_000).step_by(1000) {
            let value = "w".repeat(100 + 40 * round);
            let of = |n: usize| ["SET".into(), format!("key:{n}"), value.clone()];
            client.pipeline(&(first..first + 1000).map(of).collect::<Vec<[String; 3]>>()).unwrap();
        }
    }
    for first in (0..100_000).step_by(1000) {
        let keys = (first..first + 1000).filter(|n| n % 8 != 0).map(|n| ["UNLINK".into(), format!("key:{n}")]);
        client.pipeline(&keys.collect::<Vec<[String; 2]>>()).unwrap();
    }
    clients
}

fn snapshot(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 20_000, 100);
    let client = &mut clients[0];
    client.line("CONFIG SET rdb-key-save-delay 100");
    // Times are told in seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    assert!(matches!(client.line("BGSAVE"), Value::Simple(_)));
    // What is changed before it is saved is kept for the snapshot.
    for n in (0..20_000).rev().step_by(10) {
        client.call(&["APPEND", &format!("key:{n}"), "x"]).unwrap();
    }
    client.line("CONFIG SET rdb-key-save-delay 0");
    clients
}

fn long_snapshot(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 20_000, 10);
    clients[0].line("CONFIG SET rdb-key-save-delay 1000");
    assert!(matches!(clients[0].line("BGSAVE"), Value::Simple(_)));
    clients
}

fn beyond_memory(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 40_000, 2_000);
    let client = &mut clients[0];
    for _ in 0..20 {
        for n in 0..200 {
            assert!(matches!(client.call(&["GET", &format!("key:{n}")]).unwrap(), Value::Bulk(_)));
        }
    }
    // What is overwritten is garbage on the device, and what lives between it is moved.
    let value = "w".repeat(2_000);
    for first in (0..40_000).step_by(1000) {
        let keys = (first..first + 1000).filter(|n| n % 8 != 0);
        let commands: Vec<[String; 3]> = keys.map(|n| ["SET".into(), format!("key:{n}"), value.clone()]).collect();
        client.pipeline(&commands).unwrap();
    }
    clients[0].line("CONFIG SET maxmemory 32mb");
    clients
}
