//! Snapshots and the append-only file.

use super::{LONG, MEMORY, NATURAL, TEXT, YES_NO, backup_name, directory_name, dump_name, file_name};
use crate::choices::{AofFormat, Choice, CommitTier, LogSync, SnapshotVersion, VersionCheck};
use crate::kind::Kind;
use crate::parameter::section;
use crate::special::SavePoint;

const DELAY: Kind = Kind::Integer(i32::MIN as i64, i32::MAX as i64);

section! {
    /// Snapshots and the append-only file.
    Persistence "Persistence"
    "save": (Kind::Save) = "3600 1 300 100 60 10000" []
        "When a snapshot is due: seconds and changes, in pairs; empty for never. With storage-dir or appendonly it is empty \
         unless it is stated."
        => save_points: Vec<SavePoint>;
    "dbfilename": (Kind::Text(dump_name)) = "dump.rdb" [protected] "File name of the snapshot."
        => snapshot_file: String;
    "rdbcompression": YES_NO = "yes" [] "Compress strings in snapshots." => compression: bool;
    "rdbchecksum": YES_NO = "yes" [immutable] "Check snapshots with a checksum."
        => checksum: bool;
    "rdb-version-check": (Kind::Choice(VersionCheck::NAMES)) = "strict" []
        "Whether versions that are not known are refused, of snapshots and of RESTORE's payloads." => version_check: VersionCheck;
    "rdb-version": (Kind::Choice(SnapshotVersion::NAMES)) = "10" [own]
        "The version of the snapshots that are written: Redis 7.0 and younger read 10, Redis 7.2 and younger 11, Redis 7.4 and \
         younger 12, Valkey reads 10, 11 and valkey-80. What a version cannot say is written in a newer \
         form, which older servers refuse."
        => snapshot_version: SnapshotVersion;
    "rdb-del-sync-files": YES_NO = "no" [] "Delete the snapshots that replication made.";
    "rdb-save-incremental-fsync": YES_NO = "yes" [] "Flush a snapshot to the disk while it is written.";
    "rdb-key-save-delay": DELAY = "0" [hidden] "Microseconds of delay for each saved key, for tests." => key_save_delay_us: i64;
    "stop-writes-on-bgsave-error": YES_NO = "yes" [] "Refuse writes when the last snapshot failed and save points are set."
        => stop_writes_unsaved: bool;
    "appendonly": YES_NO = "no" []
        "Log every write, so that the data outlives the server."
        => append_only: bool;
    "appendfilename": (Kind::Text(file_name)) = "appendonly.aof" [immutable]
        "The name of Redis' append-only file, which a new log begins with: with .manifest behind it in appenddirname, or alone in \
         dir."
        => append_file: String;
    "appenddirname": (Kind::Text(directory_name)) = "appendonlydir" [immutable] "Directory of the log of writes, below dir."
        => log_directory: String;
    "appendfsync": (Kind::Choice(LogSync::NAMES)) = "everysec" []
        "When the log of writes is made durable: each second, before replies leave, or when the system likes to. What was \
         acknowledged outlives the process in all three, and a power cut with always." => log_sync: LogSync;
    "ring-dir": TEXT = "auto" [immutable own]
        "Where writes lie that are on their way to the log: a directory of a file system in memory, which outlives the process; \
         log, for a directory with the log's files; or none, where replies wait until the log's file has what they acknowledge. \
         auto is /dev/shm, and log in a container; there it is none with log-key-file, or where the log is on btrfs, ZFS or a \
         network."
        => ring_directory: String;
    "log-object-url": TEXT = "" [immutable own]
        "Object storage that has a copy of the log of writes, with storage-dir also of what its bases name there, from which a \
         server with empty directories starts: \
         s3://BUCKET/FOLDER, az://CONTAINER/FOLDER, gs://BUCKET/FOLDER or file:///FOLDER, with credentials from the environment as \
         for storage-object-url. One server per address: another one that starts from it takes it over. Needs a server built \
         with the feature object-store."
        => log_object_url: String;
    "log-object-keep": NATURAL = "0" [own]
        "Seconds of which log-object-url keeps each moment, for almandine-check fetch --at-time: up to nine bases that were \
         replaced, with what they name in storage-dir, and the log since the oldest of them. What is older is deleted when a base \
         is replaced. 0 for the newest base only."
        => log_object_keep_s: u64;
    "commit-tier": (Kind::Choice(CommitTier::NAMES)) = "directory" [immutable own]
        "With log-object-url and appendfsync always: whether replies leave when the disk has what they acknowledge, or only when \
         the object storage has it, too." => commit_tier: CommitTier;
    "log-key-file": TEXT = "" [own]
        "File of the keys that the log of writes and its bases (AES-256-GCM) and pages in storage-dir and the like (AES-256-CTR) \
         are encrypted with; empty for none. A line for each key: a name, a space and 64 hexadecimal digits (openssl rand -hex \
         32). The first one is written with, the others are read. Only its owner may have rights to it. Setting it to what it is, \
         and BGREWRITEAOF, have it read again."
        => log_key_file: String;
    "log-segment-size": (Kind::Memory(4 << 20, 1 << 30)) = "64mb" [own]
        "Bytes of a file of the log of writes; a multiple of 2mb. Files that are begun later have another size that is set. Up to \
         two are ready before they are written, so that a full disk keeps room for what was begun." => log_segment_bytes: u64;
    "log-heal-wait": NATURAL = "20" [own]
        "Seconds for which replies and messages that wait for the log of writes wait on when its disk fails, until the log is \
         healed; those in which a base is written that heals it are not counted. Then the connections are closed that they are \
         for. 0 for at once." => log_heal_wait_s: u64;
    "aof-format": (Kind::Choice(AofFormat::NAMES)) = "native" [own]
        "redis has BGREWRITEAOF also write an append-only file that Redis and Valkey start from, beside the log: a snapshot and \
         its manifest. With appendonly no it always writes that, and nothing else." => aof_format: AofFormat;
    "backupdirname": (Kind::Text(backup_name)) = "backupdir" [immutable] "Directory of backups (BACKUP START), below dir."
        => backup_directory: String;
    "backup-sealed-ttl": NATURAL = "0" [] "Seconds after which a sealed backup is removed; 0 for never, before BACKUP CLEANUP."
        => backup_sealed_s: u64;
    "backup-copy-rate": (Kind::Memory(1 << 10, i64::MAX as u64)) = "256mb" [own]
        "Bytes per second that a backup copies of storage-dir, and those that are shipped to backup-object-url."
        => backup_copy_rate: u64;
    "backup-object-url": TEXT = "" [immutable own]
        "Object storage that sealed backups are shipped to, in the form of log-object-url, in a folder of their own. Several \
         servers may have the same. Needs a server built with the feature object-store." => backup_object_url: String;
    "backup-object-keep": NATURAL = "0" [own]
        "Backups of this server that are kept there; older ones are dropped behind a newer one that is whole. 0 for all."
        => backup_object_keep: u64;
    "backup-object-ttl": NATURAL = "0" [own]
        "Seconds after which a backup of this server is dropped there, but for its newest one; 0 for never."
        => backup_object_ttl_s: u64;
    "no-appendfsync-on-rewrite": YES_NO = "no" [] "Do not flush while the log of writes is rewritten.";
    "auto-aof-rewrite-percentage": NATURAL = "100" []
        "Growth at which the log of writes is rewritten, in per cent of what it was behind the last time; 0 for never."
        => rewrite_growth_percent: u64;
    "auto-aof-rewrite-min-size": MEMORY = "64mb" [] "Size below which the log of writes is not rewritten by itself."
        => rewrite_bytes_min: u64;
    "aof-load-truncated": YES_NO = "yes" []
        "Whether a new log begins with an append-only file of Redis whose end is missing. Of the server's own log, what was \
         acknowledged is never missing."
        => load_truncated: bool;
    "recover-damaged": YES_NO = "no" [own]
        "Whether a server with appendonly yes starts without the keys whose records in storage-dir are damaged. Else it refuses to \
         start, and names the page. An error of the disk is no damage."
        => recover_damaged: bool;
    "aof-use-rdb-preamble": YES_NO = "yes" [] "Begin the log of writes with a snapshot.";
    "aof-timestamp-enabled": YES_NO = "no" [] "Note the time in the log of writes.";
    "aof-rewrite-incremental-fsync": YES_NO = "yes" [] "Flush a rewritten log while it is written.";
    "aof-disable-auto-gc": YES_NO = "no" [] "Keep the files of replaced logs.";
    "aof-load-corrupt-tail-max-size": LONG = "0" []
        "Bytes of a corrupt end of Redis' append-only file that are left out like a missing one."
        => corrupt_tail_bytes_max: u64;
}
