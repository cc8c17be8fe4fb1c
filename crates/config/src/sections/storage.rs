//! Almandine's own: what lies below memory.

use super::{POSITIVE, TEXT};
use crate::choices::{Choice, CopyReads, StorageDevice};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// Almandine's own: what lies below memory.
    Storage "Storage"
    "storage-dir": (Kind::Words(64)) = "" [immutable own]
        "Directories for data beyond maxmemory; empty keeps everything in memory. They hold nothing that outlives the server."
        => directories: Vec<String>;
    "storage-device": (Kind::Choice(StorageDevice::NAMES)) = "file" [immutable own]
        "What data beyond maxmemory is kept on: files in storage-dir, or for tests memory, nothing, or files that fail." => device: StorageDevice;
    "storage-segment-size": (Kind::Memory(16 << 20, 1 << 34)) = "256mb" [immutable own]
        "Bytes of a file in storage-dir; a multiple of 2mb." => segment_bytes: u64;
    "storage-copy-reads": (Kind::Choice(CopyReads::NAMES)) = "read-cache" [own]
        "What becomes of records read from storage: dropped, copied to memory while they are warm, or written anew at the log's tail."
        => copy_reads: CopyReads;
    "storage-garbage-max": (Kind::Integer(1, 99)) = "30" [own]
        "Percent of the storage that may be dead before it is collected." => garbage_max_percent: u32;
    "storage-compaction-rate": (Kind::Memory(1 << 20, i64::MAX as u64)) = "256mb" [own]
        "Bytes per second that collecting may read." => compaction_bytes_per_second: u64;
    "storage-fault-seed": POSITIVE = "1" [immutable own hidden] "Where the faults of storage-device faulty begin." => fault_seed: u64;
    "storage-faults": TEXT = "" [immutable own hidden]
        "Faults of storage-device faulty, per million operations: read-errors=N write-errors=N flipped-bits=N torn-writes=N." => faults: String;
}
