//! Almandine's own: workers and the store.

use almandine_base::limits;

use super::YES_NO;
use crate::choices::{Choice, IoBackend};
use crate::kind::Kind;
use crate::parameter::section;

const WORKERS: Kind = Kind::Integer(0, limits::WORKERS_MAX as i64);

section! {
    /// Almandine's own: workers and the store.
    Engine "Engine"
    "workers": WORKERS = "0" [own]
        "Worker threads; 0 for what `io-threads` says. At run time at most one per core, or as many as at the start."
        => workers: usize;
    "pin-workers": YES_NO = "no" [immutable own] "Bind each worker to a core of its own." => pin_workers: bool;
    "io-backend": (Kind::Choice(IoBackend::NAMES)) = "auto" [immutable own]
        "How sockets are read and written; auto takes io_uring where the kernel offers it." => io_backend: IoBackend;
    "index-size": (Kind::Memory(4 << 10, 1 << 44)) = "1mb" [immutable own]
        "Bytes of the hash index at start; it grows and shrinks from there, and never below." => index_bytes: usize;
    "log-page-size": (Kind::Memory(2 << 20, 2 << 20)) = "2mb" [immutable own]
        "Bytes of a page of the log: the unit that leaves memory. A huge page, and nothing else so far.";
    "log-mutable-percent": (Kind::Integer(1, 100)) = "90" [immutable own]
        "Share of the log in memory whose records are updated in place." => log_mutable_percent: u32;
    "compaction-garbage-percent": (Kind::Integer(1, 99)) = "15" [immutable own]
        "Percent of dead bytes in the log in memory above which it is compacted." => compaction_garbage_percent: u32;
}
