//! A stream under its latch, to be changed: its entries and its producers. Groups are in `groups.rs`.

use almandine_datatypes::stream::{NodeLimits, ProducerLimits, StreamId, StreamObject, Trim};

use super::StreamMut;
use super::edits::{self, StreamEdit};
use crate::Refusal;
use crate::types::collection::Editable;

impl<'w> StreamMut<'w> {
    /// Whether it has an entry.
    ///
    /// # Errors
    /// When its block is not in memory.
    pub fn has(&self, id: StreamId) -> Result<bool, Refusal> {
        Ok(self.look()?.entries().get(id)?.is_some())
    }

    /// Does what an edit says, and notes it. It counts as `counted` changes.
    pub(super) fn edit<R>(
        &mut self,
        edit: StreamEdit<'_>,
        counted: i64,
        change: impl FnOnce(&mut StreamObject) -> R,
    ) -> Result<R, Refusal> {
        let result = self.draft.change(change)?;
        self.note(edit);
        self.draft.changed(counted);
        Ok(result)
    }

    /// Says that the stream itself counts as a change: it is made without entries.
    pub fn create(&mut self) {
        self.draft.changed(0);
    }

    /// Appends an entry, whose id is above the last one.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn append<'f>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        limits: NodeLimits,
    ) -> Result<(), Refusal> {
        self.draft.change(|stream| stream.append(id, fields.clone(), limits))?;
        self.draft.note(|out| edits::push_append(out, id, limits, fields));
        self.draft.changed(1);
        Ok(())
    }

    /// Deletes an entry, which counts as a change. Says whether it was there.
    ///
    /// # Errors
    /// When its block is not in memory, or the store is full; then nothing has changed.
    pub fn remove(&mut self, id: StreamId) -> Result<bool, Refusal> {
        if self.look()?.entries().get(id)?.is_none() {
            return Ok(false);
        }
        Ok(self.edit(StreamEdit::Remove { id }, 1, |stream| stream.remove(id))??)
    }

    /// Trims. Says how many entries are gone. They do not count as changes.
    ///
    /// # Errors
    /// When a block is not in memory, or the store is full; then nothing has changed.
    pub fn trim(&mut self, trim: &Trim) -> Result<u64, Refusal> {
        let count = self.look()?.entries().trimmed(trim)?;
        self.skip(count)?;
        Ok(count)
    }

    /// Takes the first entries away. They do not count as changes.
    ///
    /// # Errors
    /// When a block is not in memory, or the store is full; then nothing has changed.
    pub fn skip(&mut self, count: u64) -> Result<(), Refusal> {
        if count > 0 {
            self.edit(StreamEdit::Skip { count }, 0, |stream| stream.skip(count))??;
        }
        Ok(())
    }

    /// All changes together count as `changes`.
    pub fn count_as(&mut self, changes: u64) {
        self.draft.count_as(changes as i64);
    }

    /// Counts changes as Redis does.
    pub fn count(&mut self, changes: u64) {
        self.draft.changed(changes as i64);
    }

    /// Sets what is told of entries that were added and deleted.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set_last(&mut self, last_id: StreamId, added: u64, max_deleted: StreamId) -> Result<(), Refusal> {
        self.edit(StreamEdit::SetLast { last_id, added, max_deleted }, 1, |stream| stream.set_last(last_id, added, max_deleted))
    }

    /// Its producers.
    pub fn producers(&mut self) -> ProducersMut<'_, 'w> {
        ProducersMut { stream: self }
    }

    /// Makes an edit that was made to another stream.
    pub(super) fn replay_edit(&mut self, edit: StreamEdit<'_>) -> Result<(), Refusal> {
        match edit {
            StreamEdit::Append { id, limits, fields } => self.append(id, fields, limits)?,
            StreamEdit::Remove { id } => drop(self.remove(id)?),
            StreamEdit::Skip { count } => self.skip(count)?,
            StreamEdit::SetLast { last_id, added, max_deleted } => self.set_last(last_id, added, max_deleted)?,
            StreamEdit::ConfigureProducers(limits) => self.producers().configure(limits)?,
            StreamEdit::PutProducerId { producer, iid, id, counted } => self.producers().put(producer, iid, id, counted)?,
            StreamEdit::CountDuplicate => self.producers().count_duplicate()?,
            StreamEdit::ExpireProducers { now } => self.edit(edit, 0, |stream| stream.expire_producers(now))?,
            _ => self.groups().replay(edit)?,
        }
        Ok(())
    }
}

/// The producers of a stream under its latch, to be changed.
pub struct ProducersMut<'a, 'w> {
    stream: &'a mut StreamMut<'w>,
}

impl ProducersMut<'_, '_> {
    /// Keeps more or less of each producer.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn configure(&mut self, limits: ProducerLimits) -> Result<(), Refusal> {
        self.stream.edit(StreamEdit::ConfigureProducers(limits), 1, |stream| stream.producers_mut().configure(limits))
    }

    /// Keeps a producer's id for an entry. `counted`: as one that was added now.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put(&mut self, producer: &[u8], iid: &[u8], id: StreamId, counted: bool) -> Result<(), Refusal> {
        let edit = StreamEdit::PutProducerId { producer, iid, id, counted };
        self.stream.edit(edit, i64::from(!counted), |stream| stream.producers_mut().put(producer, iid, id, counted))
    }

    /// Counts an entry that was not added because it was there.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn count_duplicate(&mut self) -> Result<(), Refusal> {
        self.stream.edit(StreamEdit::CountDuplicate, 1, |stream| stream.producers_mut().count_duplicate())
    }

    /// Forgets what producers' ids are past their time, now and then.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn expire(&mut self) -> Result<(), Refusal> {
        let now = self.stream.now();
        if self.stream.look()?.producers().is_some_and(|producers| producers.should_expire(now)) {
            self.stream.edit(StreamEdit::ExpireProducers { now }, 0, |stream| stream.expire_producers(now))?;
        }
        Ok(())
    }
}
