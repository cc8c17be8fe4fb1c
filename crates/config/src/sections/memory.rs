//! The memory budget, eviction and expiry.

use super::{NATURAL, POSITIVE, YES_NO};
use crate::choices::{Choice, EvictionPolicy};
use crate::kind::Kind;
use crate::parameter::section;

const TENACITY: Kind = Kind::Integer(0, 100);

section! {
    /// The memory budget, eviction and expiry.
    Memory "Memory"
    "maxmemory": (Kind::Memory(0, u64::MAX)) = "0" []
        "Bytes for index, log, values and client buffers together; 0 for no limit." => maxmemory: u64;
    "maxmemory-policy": (Kind::Choice(EvictionPolicy::NAMES)) = "noeviction" []
        "What gives way when the budget is exhausted." => maxmemory_policy: EvictionPolicy;
    "maxmemory-samples": POSITIVE = "5" [] "Accepted and without effect: eviction sweeps, it does not sample.";
    "maxmemory-eviction-tenacity": TENACITY = "10" [] "Accepted and without effect: effort follows the excess.";
    "lfu-log-factor": NATURAL = "10" [] "Accepted and without effect: the counter has eight steps.";
    "lfu-decay-time": NATURAL = "1" []
        "Minutes after which the access counter goes down by a step while nothing is evicted." => lfu_decay_minutes: u64;
    "active-expire-effort": (Kind::Integer(1, 10)) = "1" [] "Effort of the background expiry.";
    "lazyfree-lazy-eviction": YES_NO = "no" [] "Free evicted values in the background.";
    "lazyfree-lazy-expire": YES_NO = "no" [] "Free expired values in the background.";
    "lazyfree-lazy-server-del": YES_NO = "no" [] "Free replaced values in the background.";
    "lazyfree-lazy-user-del": YES_NO = "no" [] "DEL is UNLINK.";
    "lazyfree-lazy-user-flush": YES_NO = "no" [] "FLUSHALL is FLUSHALL ASYNC.";
    "activerehashing": YES_NO = "yes" [] "Resize tables in the background.";
    "activedefrag": YES_NO = "no" [] "Defragment memory.";
    "active-defrag-ignore-bytes": (Kind::Memory(1, i64::MAX as u64)) = "100mb" []
        "Waste below which defragmentation does not start.";
    "active-defrag-threshold-lower": (Kind::Integer(0, 1000)) = "10" [] "Percent of waste at which defragmentation starts.";
    "active-defrag-threshold-upper": (Kind::Integer(0, 1000)) = "100" [] "Percent of waste at which defragmentation works hardest.";
    "active-defrag-cycle-min": (Kind::Integer(1, 99)) = "1" [] "Least percent of CPU for defragmentation.";
    "active-defrag-cycle-max": (Kind::Integer(1, 99)) = "25" [] "Most percent of CPU for defragmentation.";
    "active-defrag-cycle-us": (Kind::Integer(0, 100_000)) = "500" [] "Microseconds of one turn of defragmentation.";
    "active-defrag-max-scan-fields": (Kind::Integer(1, i64::MAX)) = "1000" []
        "Size of a collection that is defragmented in one go.";
    "jemalloc-bg-thread": YES_NO = "yes" [] "Let the allocator return memory from a thread of its own.";
    "loading-process-events-interval-bytes": (Kind::Integer(1024, i32::MAX as i64)) = "2097152" [hidden]
        "Bytes loaded between two turns of the event loop.";
    "key-memory-histograms": YES_NO = "no" [immutable hidden] "Keep histograms of the sizes of values.";
    "key-load-delay": (Kind::Integer(i32::MIN as i64, i32::MAX as i64)) = "0" [hidden]
        "Microseconds of delay for each loaded key, for tests." => key_load_delay_us: i64;
}
