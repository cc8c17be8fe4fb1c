//! Shared lines: which cache lines that all workers share a thread has written, counted in builds with debug assertions and nowhere
//! else.
//!
//! A line that every operation writes travels between the cores, and costs more with each of them. So a read writes none, and a
//! change of one key its bucket's; what else is written is counted here, at the place, and compared with what is meant to be
//! (`tests/shared_lines.rs`).

/// A kind of line that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedLine {
    /// A bucket that was latched.
    Bucket,
    /// The bucket of an entry that became warmer, which is not latched for that.
    Heat,
    /// The greatest number of the units of work that changed a key of the stripe, while effects are wanted.
    Stripe,
    /// The regions of a small namespace, when one gets its first key.
    Region,
    /// The tail of the log, when a session takes a chunk.
    Tail,
}

/// How many kinds there are.
pub const SHARED_LINES: usize = SharedLine::Tail as usize + 1;

#[cfg(debug_assertions)]
thread_local! {
    static WRITTEN: std::cell::Cell<[u64; SHARED_LINES]> = const { std::cell::Cell::new([0; SHARED_LINES]) };
}

/// The calling thread writes a shared line.
#[inline(always)]
pub(crate) fn write(line: SharedLine) {
    #[cfg(debug_assertions)]
    WRITTEN.with(|written| {
        let mut counts = written.get();
        counts[line as usize] += 1;
        written.set(counts);
    });
    let _ = line;
}

/// Shared lines that the calling thread has written, by their kinds; zeroes in builds without debug assertions.
#[must_use]
pub fn shared_lines_written() -> [u64; SHARED_LINES] {
    #[cfg(debug_assertions)]
    return WRITTEN.with(std::cell::Cell::get);
    #[cfg(not(debug_assertions))]
    return [0; SHARED_LINES];
}
