//! MEMORY DOCTOR: what is wrong with the use of memory, and what to do about it. Titles are Redis' where the problem is the same.
//!
//! Each rule says what is true here: the store has no fragmentation of an allocator but dead records in its log, and what does not
//! count against `maxmemory` is told by the process' size.

use almandine_command_spec::CommandSpec;
use almandine_config::choices::EvictionPolicy;
use almandine_handler::{Command, Handler};
use almandine_instance::DeviceState;
use almandine_instance::metrics::Readings;

use super::SUBCOMMAND;

pub(super) const DOCTOR: Command = Command {
    spec: CommandSpec { name: "MEMORY|DOCTOR", id: 440, summary: "Outputs a memory problems report.", ..SUBCOMMAND },
    run: Handler::Admin(|call| {
        let report = report(&Readings::take(&call.context.instance));
        call.reply.verbatim(report.as_bytes());
        Ok(())
    }),
};

/// Below this use shares of it say nothing.
const NOTEWORTHY_BYTES: u64 = 5 << 20;
/// Dead records, and bytes that are not counted, which are the price of speed.
const DEAD_BYTES_USUAL: u64 = 64 << 20;
const UNCOUNTED_BYTES_USUAL: u64 = 128 << 20;
/// Bytes that a client holds in the mean, and scripts that are cached: Redis' bounds.
const CLIENT_BYTES_USUAL: u64 = 200 << 10;
const SCRIPTS_USUAL: u64 = 1000;

struct Finding {
    is_found: bool,
    text: &'static str,
}

fn report(readings: &Readings<'_>) -> String {
    let all = [storage(readings), limit(readings), shares(readings), tables(readings)].into_iter().flatten();
    let found: Vec<&str> = all.filter(|finding| finding.is_found).map(|finding| finding.text).collect();
    if !found.is_empty() {
        return format!("* {}", found.join("\n* "));
    }
    if readings.used_bytes() < NOTEWORTHY_BYTES {
        return "This instance is empty or uses very little memory: there is nothing to diagnose.".to_owned();
    }
    "No memory problem was found.".to_owned()
}

fn finding(is_found: bool, text: &'static str) -> Finding {
    Finding { is_found, text }
}

fn storage(readings: &Readings<'_>) -> Vec<Finding> {
    let storage = readings.instance.gauges.storage.state();
    vec![
        finding(
            storage == DeviceState::Full,
            "Storage: the device is full, so data cannot leave memory. Free space there, allow more, or delete keys; \
             storage_last_error in INFO storage says what was refused.",
        ),
        finding(
            storage == DeviceState::Failing,
            "Storage: the device refuses writes, so data cannot leave memory. The log and storage_last_error in INFO storage say \
             why.",
        ),
    ]
}

/// What follows from `maxmemory` and its policy.
fn limit(readings: &Readings<'_>) -> Vec<Finding> {
    let (used, memory) = (readings.used_bytes(), &readings.config.settings.memory);
    let (limit, policy) = (memory.maxmemory, memory.maxmemory_policy);
    // Data that leaves memory for a device gives way to nothing and fills what it may.
    let (is_limited, has_device) = (limit != 0, readings.instance.keyspace.figures().tier().is_some());
    let is_exceeded = is_limited && used > limit;
    let is_near = is_limited && !has_device && used > limit - limit / 10;
    let gives_way = policy != EvictionPolicy::NoEviction;
    let is_without_candidates = policy.name().starts_with("volatile-") && readings.store.volatile <= 0;
    let is_device_sound = readings.instance.gauges.storage.state() == DeviceState::Sound;
    vec![
        finding(
            is_exceeded && is_device_sound,
            "Limit: `maxmemory` is exceeded, and commands that need memory are refused until there is room.",
        ),
        finding(
            is_near && !is_exceeded && !gives_way,
            "Limit: more than nine tenths of `maxmemory` are used, and `maxmemory-policy noeviction` lets nothing give way: writes \
             are about to be refused. Raise `maxmemory`, choose another policy, set `storage-dir`, or delete keys.",
        ),
        finding(
            is_near && is_without_candidates,
            "Policy: `maxmemory-policy` evicts only keys with an expiry, and there are none, so that nothing gives way. Set \
             expiries, or choose one of the allkeys policies.",
        ),
        finding(
            is_near && gives_way && readings.memory.heap_bytes > used / 2,
            "Large values: more than half of the memory is in values above 16 kB, of which few fit into `maxmemory`, so that \
             single writes evict much. MEMORY USAGE tells the size of a key; smaller values, or a larger limit, even it out.",
        ),
        finding(
            readings.totals.refused_out_of_memory > 0,
            "Refusals: commands were refused beyond `maxmemory` (refused_out_of_memory in INFO stats has their number since the \
             start or CONFIG RESETSTAT).",
        ),
        finding(
            limit > almandine_io::memory::physical_bytes(),
            "Limit: `maxmemory` is more than the machine has, so that the kernel ends the process before the limit holds.",
        ),
    ]
}

/// What takes more than its share of the memory in use.
fn shares(readings: &Readings<'_>) -> Vec<Finding> {
    let (used, held, peak) = (readings.used_bytes(), readings.held_bytes(), readings.peak_bytes);
    let (clients, is_noteworthy) = (readings.instance.clients.memory.total(), used >= NOTEWORTHY_BYTES);
    let connected = readings.instance.clients.all().len() as u64;
    vec![
        finding(
            is_noteworthy && peak > used + used / 2,
            "Peak memory: more than 150% of what is used now was used before. Memory of emptied log pages goes back to the \
             system; what remains is the hash index, which shrinks in the background.",
        ),
        finding(
            held > used + used / 4 + DEAD_BYTES_USUAL,
            "High fragmentation: the log holds more than 1.25 times its live records. Compaction follows in the background; if \
             this stays, look at storage_pages_evacuated in INFO storage and lower `compaction-garbage-percent`.",
        ),
        finding(
            readings.resident_bytes > held + held / 4 + UNCOUNTED_BYTES_USUAL,
            "High process RSS overhead: the process has much more memory than the store holds, which `maxmemory` does not \
             bound. Scripts that use much memory (used_memory_lua in INFO memory), libraries, snapshots and TLS take it, and the \
             allocator keeps for a while what was freed: MEMORY PURGE gives it back.",
        ),
        finding(
            is_noteworthy && (clients > used / 4 || clients / connected.max(1) > CLIENT_BYTES_USUAL),
            "Big client buffers: connections hold more than a quarter of the memory, or more than 200 kB each in the mean. Look \
             for tot-mem in CLIENT LIST: readers that do not read, large transactions, large pipelines. `maxmemory-clients` and \
             `client-output-buffer-limit` bound it.",
        ),
    ]
}

/// Tables that grow with what clients do, beside the data.
fn tables(readings: &Readings<'_>) -> Vec<Finding> {
    let scripts = &readings.instance.scripts;
    let libraries = scripts.libraries.machine_bytes() as u64;
    let tracked_max = readings.config.settings.connections.tracking_keys_max;
    vec![
        finding(
            scripts.totals().0 as u64 > SCRIPTS_USUAL,
            "Many scripts: more than 1000 scripts are cached. Do not make scripts for each call: give what differs as KEYS and \
             ARGV. SCRIPT FLUSH frees the cache.",
        ),
        finding(
            libraries > NOTEWORTHY_BYTES.max(readings.used_bytes() / 4),
            "Big libraries: functions keep more memory than a quarter of what the data takes, which `maxmemory` does not count. \
             Look for libraries (FUNCTION LIST) that keep tables.",
        ),
        finding(
            tracked_max != 0 && readings.tracking.keys as u64 >= tracked_max as u64,
            "Full tracking table: clients track as many keys as `tracking-table-max-keys` allows, and lose cached keys for new \
             ones. Raise it, or let clients track by OPTIN or BCAST.",
        ),
    ]
}
