//! What a worker is executing, for the report of a crash: written for each command, read by the same thread when it crashes.

use std::cell::Cell;

/// A command and how many words it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its index in the table.
    pub command: u16,
    /// Its words, the name included.
    pub arguments: u32,
}

thread_local! {
    /// Command plus one, and arguments shifted by 32 bits; 0 between batches. One word, so that it costs one store.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
}

/// A command begins.
#[inline(always)]
pub(crate) fn begin(command: u16, arguments: usize) {
    RUNNING.set((u64::from(command) + 1) | ((arguments as u64) << 32));
}

/// The batch has ended.
#[inline(always)]
pub(crate) fn end() {
    RUNNING.set(0);
}

/// What the calling thread executes.
#[must_use]
pub fn running() -> Option<Running> {
    let running = RUNNING.get();
    let command = u16::try_from((running & 0xffff_ffff).checked_sub(1)?).ok()?;
    Some(Running { command, arguments: (running >> 32) as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_own_command_only() {
        assert_eq!(running(), None);
        begin(0, 3);
        assert_eq!(running(), Some(Running { command: 0, arguments: 3 }));
        begin(u16::MAX, 1 << 20);
        assert_eq!(running(), Some(Running { command: u16::MAX, arguments: 1 << 20 }));
        std::thread::spawn(|| assert_eq!(running(), None)).join().unwrap();
        end();
        assert_eq!(running(), None);
    }
}
