//! Threads of Redis and Valkey, which Almandine's workers replace.

use super::{MEMORY, NATURAL, TEXT, YES_NO, cpu_list};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// Threads of Redis and Valkey, which Almandine's workers replace.
    Threads "Threads of Redis and Valkey"
    "io-threads": (Kind::Integer(1, 256)) = "1" []
        "Number of workers where `workers` is 0; 1 for one per core." => io_threads: usize;
    "io-threads-do-reads": YES_NO = "no" [] "Read in these threads too.";
    "io-threads-always-active": YES_NO = "no" [hidden] "Never let these threads sleep.";
    "events-per-io-thread": NATURAL = "2" [hidden] "Events for which another thread is woken.";
    "prefetch-batch-max-size": (Kind::Integer(0, 128)) = "16" [] "Commands whose keys are prefetched together.";
    "min-io-threads-avoid-copy-reply": NATURAL = "7" [hidden] "Threads from which on replies are not copied.";
    "min-string-size-avoid-copy-reply": MEMORY = "16384" [hidden] "Bytes from which on a reply is not copied.";
    "min-string-size-avoid-copy-reply-threaded": MEMORY = "65536" [hidden]
        "Bytes from which on a reply is not copied, with threads.";
    "server_cpulist" / "server-cpulist": (Kind::Text(cpu_list)) = "" []
        "Cores that the server uses, as in 0-3,8 or 0-7:2; empty for all that it may." => server_cpus: String;
    "bio_cpulist" / "bio-cpulist": TEXT = "" [] "Cores of background threads.";
    "aof_rewrite_cpulist" / "aof-rewrite-cpulist": TEXT = "" [] "Cores of the rewrite of the log of writes.";
    "bgsave_cpulist" / "bgsave-cpulist": TEXT = "" [] "Cores of snapshots.";
}
