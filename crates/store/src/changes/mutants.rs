//! What the mutant of `NumberUnderLatch` does instead.

use super::{Changes, Noted};
use crate::shared::Shared;

impl Changes {
    /// Gives the effects on keys their places in the order now, outside of the latches.
    pub(crate) fn number_late(&mut self, store: &Shared) {
        for note in self.notes.iter_mut().filter(|note| !matches!(note.effect, Some(Noted::Database(_) | Noted::Lost))) {
            note.sequence = store.consumers.next_sequence(store.hash(note.namespace, &self.bytes[note.key.clone()]));
        }
    }
}
