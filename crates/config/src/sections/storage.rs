//! Almandine's own: what lies below memory.

use super::{POSITIVE, TEXT};
use crate::choices::{Choice, CommitTier, CopyReads, StorageDevice};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// Almandine's own: what lies below memory.
    Storage "Storage"
    "storage-dir": (Kind::Words(64)) = "" [immutable own]
        "Directories for data beyond maxmemory; empty keeps everything in memory. With `appendonly yes` they are data; else they \
         hold nothing that outlives the server."
        => directories: Vec<String>;
    "storage-device": (Kind::Choice(StorageDevice::NAMES)) = "file" [immutable own]
        "What data beyond maxmemory is kept on: files in storage-dir, or for tests memory, nothing, or files that fail."
        => device: StorageDevice;
    "storage-segment-size": (Kind::Memory(16 << 20, 1 << 34)) = "256mb" [immutable own]
        "Bytes of a file in storage-dir; a multiple of 2mb." => segment_bytes: u64;
    "storage-object-url": TEXT = "" [immutable own]
        "Object storage for data beyond maxmemory, below storage-dir or instead of it: s3://BUCKET/FOLDER, \
         az://CONTAINER/FOLDER, gs://BUCKET/FOLDER or file:///FOLDER. Credentials, regions and endpoints come from the \
         environment, as AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_NAME, GOOGLE_SERVICE_ACCOUNT. One server per address: nothing \
         locks it. Needs a server built with the feature object-store."
        => object_url: String;
    "storage-dir-size": (Kind::Memory(0, i64::MAX as u64)) = "0" [immutable own]
        "Bytes that storage-dir may take; 0 for no bound. Above storage-object-url it keeps the newest data, and older data is \
         in the object storage only."
        => directory_bytes: u64;
    "storage-commit-tier": (Kind::Choice(CommitTier::NAMES)) = "directory" [immutable own]
        "With both storage-dir and storage-object-url: whether a page may leave memory as soon as the directory has it, or only \
         when the object storage has it too."
        => commit_tier: CommitTier;
    "storage-copy-reads": (Kind::Choice(CopyReads::NAMES)) = "read-cache" [own]
        "What becomes of records read from storage: dropped, copied to memory while they are warm, or written anew at the log's \
         tail."
        => copy_reads: CopyReads;
    "storage-garbage-max": (Kind::Integer(1, 99)) = "30" [own]
        "Percent of the storage that may be dead before it is collected." => garbage_max_percent: u32;
    "storage-compaction-rate": (Kind::Memory(1 << 20, i64::MAX as u64)) = "256mb" [own]
        "Bytes per second that collecting may read." => compaction_bytes_per_second: u64;
    "storage-fault-seed": POSITIVE = "1" [immutable own hidden]
        "Where the faults of storage-device faulty begin." => fault_seed: u64;
    "storage-faults": TEXT = "" [immutable own hidden]
        "Faults of storage-device faulty, per million operations: read-errors=N write-errors=N flipped-bits=N torn-writes=N."
        => faults: String;
}
