//! The commands of one parsed pipeline, as flat arrays that are reused from batch to batch.
//!
//! Arguments of multibulk commands are spans into the input. Those of inline commands may be quoted, so they are unescaped into a
//! side buffer. Which of the two a command refers to is one bit of the command, not of each span: reading an argument never
//! branches on it.

use crate::args::{Args, Span};

/// Capacity beyond which [`Batch::clear`] gives memory back: one command of a million arguments must not fatten its worker forever.
const SPANS_KEPT_MAX: usize = 64 * 1024;

/// As [`SPANS_KEPT_MAX`], for the bytes of inline commands.
const UNESCAPED_BYTES_KEPT_MAX: usize = 256 * 1024;

/// Where a command's spans are, and what they point into.
#[derive(Clone, Copy, Debug)]
struct Command {
    /// First span.
    first: u32,
    /// Number of spans; the top bit says that they point into the side buffer.
    count: u32,
}

const UNESCAPED: u32 = 1 << 31;

/// Parsed commands, in the order in which they arrived.
#[derive(Debug, Default)]
pub struct Batch {
    commands: Vec<Command>,
    /// The arguments of all commands. `Parser` pushes those of the command that it is parsing before it knows its end.
    pub(crate) spans: Vec<Span>,
    /// Arguments of inline commands, unquoted, back to back.
    pub(crate) unescaped: Vec<u8>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the commands and keeps the memory, within reason.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.spans.clear();
        self.unescaped.clear();
        if self.spans.capacity() > SPANS_KEPT_MAX {
            self.spans.shrink_to(SPANS_KEPT_MAX);
        }
        if self.unescaped.capacity() > UNESCAPED_BYTES_KEPT_MAX {
            self.unescaped.shrink_to(UNESCAPED_BYTES_KEPT_MAX);
        }
    }

    /// Number of commands.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there is no command.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The arguments of `command`; at least one. `input` is what the batch was parsed from.
    ///
    /// # Panics
    /// When there is no such command, or when an argument is read and `input` is shorter than what was parsed.
    #[inline]
    #[must_use]
    pub fn args<'a>(&'a self, command: usize, input: &'a [u8]) -> Args<'a> {
        let Command { first, count } = self.commands[command];
        let base = if count & UNESCAPED == 0 { input } else { &self.unescaped };
        Args::new(base, &self.spans[first as usize..][..(count & !UNESCAPED) as usize])
    }

    /// Adds a command with its bytes, which the batch keeps: it needs no input.
    ///
    /// # Panics
    /// When the commands that the batch keeps would exceed 4 GiB.
    pub fn push(&mut self, args: Args<'_>) {
        let first = self.spans.len();
        for arg in args.iter() {
            let offset = u32::try_from(self.unescaped.len()).expect("commands below 4 GiB");
            self.unescaped.extend_from_slice(arg);
            self.spans.push(Span { offset, len: u32::try_from(arg.len()).expect("an argument below 4 GiB") });
        }
        self.finish_inline(first);
    }

    /// Bytes that it takes, in all.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let spans = self.spans.capacity() * size_of::<Span>();
        self.unescaped.capacity() + spans + self.commands.capacity() * size_of::<Command>()
    }

    /// Ends a command whose spans, from `first` on, point into the input.
    #[inline]
    pub(crate) fn finish_multibulk(&mut self, first: usize) {
        let count = self.spans.len() - first;
        debug_assert!(count > 0 && count < UNESCAPED as usize, "a multibulk has 1 to 2^31 - 1 arguments");
        self.commands.push(Command { first: first as u32, count: count as u32 });
    }

    /// Ends a command whose spans, from `first` on, point into the side buffer.
    pub(crate) fn finish_inline(&mut self, first: usize) {
        let count = self.spans.len() - first;
        debug_assert!(count > 0 && count < UNESCAPED as usize, "an inline command is bounded by its line");
        self.commands.push(Command { first: first as u32, count: count as u32 | UNESCAPED });
    }
}
