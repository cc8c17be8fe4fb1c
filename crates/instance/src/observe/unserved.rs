//! Commands that the server refuses because it does not know or serve them: counted by the workers, and named in the log now and
//! then.
//!
//! A client may send thousands a second, so a refusal costs a counter and a look at a lock, and the log gets one line for all of a
//! while.

use std::sync::TryLockError;

use almandine_io::sync::Mutex;

use crate::lock::lock;

/// Most bytes of a name in the log.
const NAME_BYTES_MAX: usize = 32;

/// An example for the next line of the log.
#[derive(Debug, Default)]
pub struct Unserved {
    name: Mutex<Option<String>>,
}

impl Unserved {
    /// Keeps the name if the next line has none yet. Never waits.
    pub fn note(&self, name: &[u8]) {
        let mut kept = match self.name.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if kept.is_none() {
            // Sent by a client: anything but plain characters would change the log's form.
            *kept = Some(name[..name.len().min(NAME_BYTES_MAX)].escape_ascii().to_string());
        }
    }

    /// Takes the example.
    #[must_use]
    pub fn take(&self) -> Option<String> {
        lock(&self.name).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_is_kept_until_it_is_taken_and_cannot_break_a_line() {
        let unserved = Unserved::default();
        assert_eq!(unserved.take(), None);
        unserved.note(b"a\r\nb'");
        unserved.note(b"other");
        assert_eq!(unserved.take().as_deref(), Some("a\\r\\nb\\'"));
        unserved.note(&[b'x'; 100]);
        assert_eq!(unserved.take().unwrap().len(), NAME_BYTES_MAX);
    }
}
