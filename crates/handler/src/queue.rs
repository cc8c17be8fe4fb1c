//! The commands that wait for EXEC, and the keys that a client watches.

use std::sync::Arc;

use almandine_keyspace::Watcher;
use almandine_resp::{Args, Batch};

use crate::flags::Flags;

/// Bytes of memory up to which a queue is kept for the next transaction of the worker.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// What MULTI began. It takes no memory of its own before a command has to wait.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Option<Box<Queue>>,
    /// A command was refused when it came: EXEC will run none.
    pub(crate) refused: bool,
    /// More would wait than may: the client is to be closed.
    too_large: bool,
}

impl Transaction {
    /// Adds a command. The first one takes `spare` for its queue, if there is one. If more than `bytes_max` bytes would wait, none
    /// does from now on.
    pub fn queue(&mut self, (index, flags): (u16, Flags), args: Args<'_>, bytes_max: usize, spare: &mut Option<Box<Queue>>) {
        let queue = self.queue.get_or_insert_with(|| spare.take().unwrap_or_default());
        let bytes: usize = args.iter().map(<[u8]>::len).sum();
        if queue.memory_bytes() + bytes > bytes_max {
            *self = Self { queue: None, refused: true, too_large: true };
        } else {
            queue.push(index, flags, args);
        }
    }

    /// Whether more would wait than may.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Number of commands that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.indexes.len())
    }

    /// Whether no command waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The flags of all commands together.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.queue.as_ref().map_or(Flags::default(), |queue| queue.flags)
    }

    /// Whether a command was refused when it came.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Bytes of memory that the commands take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.memory_bytes())
    }

    /// The commands that wait.
    #[must_use]
    pub fn into_queue(self) -> Box<Queue> {
        self.queue.unwrap_or_default()
    }
}

impl From<Box<Queue>> for Transaction {
    fn from(queue: Box<Queue>) -> Self {
        Self { queue: Some(queue), refused: false, too_large: false }
    }
}

/// Commands that wait for EXEC, copied out of what their connection received.
#[derive(Debug, Default)]
pub struct Queue {
    commands: Batch,
    /// The dense index of what runs for each of them.
    indexes: Vec<u16>,
    /// The flags of all of them together.
    flags: Flags,
}

impl Queue {
    fn push(&mut self, index: u16, flags: Flags, args: Args<'_>) {
        self.commands.push(args);
        self.indexes.push(index);
        self.flags = self.flags.with(flags);
    }

    /// The commands. They keep their bytes themselves and need no input.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.commands
    }

    /// The dense index of what runs for each of them.
    #[must_use]
    pub fn indexes(&self) -> &[u16] {
        &self.indexes
    }

    /// The flags of all of them together.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Bytes of memory that the commands take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.commands.memory_bytes() + self.indexes.capacity() * size_of::<u16>()
    }

    /// The queue without its commands, for the next transaction; `None` when that would keep too much memory.
    #[must_use]
    pub fn emptied(mut self: Box<Self>) -> Option<Box<Self>> {
        if self.memory_bytes() > KEPT_BYTES_MAX {
            return None;
        }
        self.commands.clear();
        self.indexes.clear();
        self.flags = Flags::default();
        Some(self)
    }
}

/// A key that a client watches.
#[derive(Debug)]
pub struct WatchedKey {
    /// Its database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Whether it was there when the client began to watch it.
    pub existed: bool,
}

/// What a client watches.
#[derive(Debug, Default)]
pub struct Watching {
    /// Hears of changes.
    pub watcher: Arc<Watcher>,
    /// The keys.
    pub keys: Vec<WatchedKey>,
    /// Bytes of the keys.
    pub key_bytes: usize,
}

/// Bytes that a watched key takes beside its own, as measured. Its own are kept twice: here, and in the table of watched keys.
const WATCHED_OVERHEAD: usize = 6 * size_of::<WatchedKey>() * size_of::<WatchedKey>();

impl Watching {
    /// Bytes of memory that the keys take, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + 2 * self.key_bytes + self.keys.len() * WATCHED_OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use almandine_resp::ArgsBuf;

    use super::*;

    fn command(words: &[&[u8]]) -> ArgsBuf {
        let mut command = ArgsBuf::new();
        words.iter().for_each(|word| command.push(word));
        command
    }

    #[test]
    fn a_queue_is_used_again_and_nothing_of_it_is_left() {
        let mut spare = None;
        let mut transaction = Transaction::default();
        assert_eq!((transaction.len(), transaction.memory_bytes(), transaction.flags()), (0, 0, Flags::default()));
        transaction.queue((7, Flags::DENY_OOM), command(&[b"SET", b"key", b"value"]).as_args(), usize::MAX, &mut spare);
        transaction.queue((8, Flags::FAST), command(&[b"GET", b"key"]).as_args(), usize::MAX, &mut spare);
        let bytes = transaction.memory_bytes();
        let queue = transaction.into_queue();
        assert_eq!((queue.indexes(), queue.flags()), (&[7, 8][..], Flags::DENY_OOM.with(Flags::FAST)));
        assert!(queue.batch().args(1, &[]).iter().eq([&b"GET"[..], b"key"]));

        spare = queue.emptied();
        let mut next = Transaction::default();
        next.queue((9, Flags::FAST), command(&[b"DEL", b"k"]).as_args(), usize::MAX, &mut spare);
        assert!(spare.is_none());
        assert_eq!((next.len(), next.memory_bytes(), next.flags()), (1, bytes, Flags::FAST));
        assert!(next.into_queue().batch().args(0, &[]).iter().eq([&b"DEL"[..], b"k"]));
    }

    #[test]
    fn a_large_queue_gives_its_memory_back() {
        let mut transaction = Transaction::default();
        transaction.queue((0, Flags::default()), command(&[&vec![0; KEPT_BYTES_MAX]]).as_args(), usize::MAX, &mut None);
        assert!(transaction.into_queue().emptied().is_none());
    }
}
