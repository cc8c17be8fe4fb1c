//! A value of any type under its latch: what all types do alike with the [`Draft`] of one.

use super::{Collection, Draft, EditBytes, Editable};
use crate::{Key, Refusal, Writer};

/// A value to be changed, under its latch. A key that is absent is an empty one. Of a value that is packed nothing is stored before
/// [`ValueMut::commit`]; an object changes at once, so whatever has changed must be committed. Each type adds what it can do.
pub struct ValueMut<'w, C: Collection> {
    pub(in crate::types) draft: Draft<'w, C>,
    pub(in crate::types) limits: C::Limits,
}

impl Writer<'_> {
    /// Opens a key as a type to be changed.
    ///
    /// # Errors
    /// When it is of another type, or must be read from the device first.
    pub fn write_as<'s, C: Collection>(
        &'s mut self,
        key: Key<'s>,
        limits: impl Into<C::Limits>,
    ) -> Result<ValueMut<'s, C>, Refusal> {
        let mut draft = self.open(key)?;
        if !C::HAS_PACKED {
            draft.unpack();
        }
        Ok(ValueMut { draft, limits: limits.into() })
    }

    /// Makes edits that were made to another value of the type. Those that are none, and all behind them, are left out.
    ///
    /// # Errors
    /// When the key is of another type, something is not in memory, or the store is full.
    pub(in crate::types) fn replay_as<C: Collection>(&mut self, key: Key<'_>, mut edits: &[u8]) -> Result<(), Refusal> {
        let mut value = self.write_as::<C>(key, C::UNLIMITED)?;
        while let Some(edit) = C::Edit::take(&mut edits) {
            C::replay(&mut value, edit)?;
            // The change of an encoding alone counts for nothing, and is one.
            value.draft.changed(0);
        }
        value.commit()
    }
}

impl<C: Collection> ValueMut<'_, C> {
    /// Whether the key was there.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.draft.existed()
    }

    /// The value as it is now.
    #[must_use]
    #[inline]
    pub fn look(&self) -> C::View<'_> {
        C::view(self.draft.contents(), self.draft.now())
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        C::len(self.draft.contents(), self.draft.now())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of the batch, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.draft.now()
    }

    /// Notes an edit of the value that was there, where effects are wanted.
    #[inline]
    pub(in crate::types) fn note(&mut self, edit: C::Edit<'_>) {
        self.draft.note(|out| edit.push(out));
    }

    /// Whether there are changes, as Redis counts them.
    #[must_use]
    pub fn counts_changes(&self) -> bool {
        self.draft.counts_changes()
    }

    /// All changes together count as one.
    pub fn count_once(&mut self) {
        self.draft.count_once();
    }

    /// Stores what has changed. A value without elements is no key, unless it is a stream.
    ///
    /// # Errors
    /// When the store is full; then a packed value is as it was.
    pub fn commit(self) -> Result<(), Refusal> {
        self.draft.commit()
    }

    /// As [`ValueMut::commit`], but an object stays one, however small it is.
    ///
    /// # Errors
    /// As for [`ValueMut::commit`].
    pub(in crate::types) fn commit_in_form(self) -> Result<(), Refusal> {
        self.draft.commit_in_form()
    }
}
