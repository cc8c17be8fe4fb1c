//! The process: its standard output, and how readily the system kills it when memory is short.

use std::fs;
use std::io;

const SCORE: &str = "/proc/self/oom_score_adj";

/// How much the kernel prefers this process when it must kill one: -1000 never, 1000 first.
///
/// # Errors
/// When the system does not say.
pub fn oom_score_adj() -> io::Result<i32> {
    fs::read_to_string(SCORE)?.trim().parse().map_err(io::Error::other)
}

/// Sets what [`oom_score_adj`] reads.
///
/// # Errors
/// When the system refuses it: only a privileged process may lower it.
pub fn set_oom_score_adj(score: i32) -> io::Result<()> {
    fs::write(SCORE, score.clamp(-1000, 1000).to_string())
}

/// The number by which the system knows this process.
#[must_use]
pub fn id() -> u32 {
    #[cfg(feature = "sim")]
    if let Some(disk) = crate::sim::world::current_disk() {
        return disk.process_id();
    }
    std::process::id()
}

/// Writes to the standard output without a lock or a buffer, so that it can be done at any moment, also during a crash.
///
/// # Errors
/// When not everything was written.
pub fn print(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdout(), bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Ends the process at once.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: it has no preconditions and does not return.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_score_can_be_read_and_raised() {
        let before = super::oom_score_adj().unwrap();
        super::set_oom_score_adj(before.max(7)).unwrap();
        assert_eq!(super::oom_score_adj().unwrap(), before.max(7));
    }
}
