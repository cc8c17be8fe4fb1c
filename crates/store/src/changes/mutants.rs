//! What the mutant of `NumberUnderLatch` does instead.

use super::{Changes, Noted};
use crate::shared::Shared;
use almandine_oplog::Asked;

impl Changes {
    /// Gives the units their numbers now, outside of the latches.
    pub(crate) fn number_late(&mut self, store: &Shared) {
        for note in &mut self.notes {
            let hash = store.hash(note.namespace, &self.bytes[note.key.clone()]);
            let databases = matches!(note.effect, Some(Noted::Database(_)));
            note.sequence = store.consumers.number(Asked { changed: &[hash], databases, ..Asked::default() });
            note.ends_group = true;
        }
    }
}
