//! Fixed limits that several crates hold to. A limit of one mechanism stands beside it, and one that an operator may change is a
//! configuration parameter.

/// Most workers that one process runs. The bucket latch counts shared holders in seven bits, one per worker.
pub const WORKERS_MAX: usize = 120;

/// Most threads that use the store at once: the workers and the background threads.
pub const STORE_THREADS_MAX: usize = 126;

/// Most logical databases (`databases` in the configuration).
pub const DATABASES_MAX: usize = 4096;

/// Longest string value, key or argument in bytes, as `proto-max-bulk-len` by default: 512 MiB.
pub const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Most commands that one parsed batch holds; a longer pipeline is executed batch by batch.
pub const BATCH_COMMANDS_MAX: usize = 512;

/// Values longer than this many bytes are sent from where they are instead of being copied into the reply.
pub const REPLY_COPY_BYTES_MAX: usize = 32 * 1024;
