//! Groups of a stream under its latch. The number of a group holds until one comes or goes.

use almandine_base::object::Missing;
use almandine_datatypes::stream::{Group, Pending, StreamEntry, StreamId, StreamObject, UNOWNED};

use super::StreamMut;
use super::edits::StreamEdit;
use crate::types::collection::{EditBytes, Editable};
use crate::{Concerns, Refusal};

impl<'w> StreamMut<'w> {
    /// Its groups.
    pub fn groups(&mut self) -> GroupsMut<'_, 'w> {
        GroupsMut { stream: self }
    }

    /// Commits changes that give no waiter anything to read, as acknowledgements and new consumers. Without that, each of them
    /// would run the command of every waiter in vain.
    ///
    /// # Errors
    /// When the store is full.
    pub fn commit_for(mut self, concerns: Concerns) -> Result<(), Refusal> {
        self.draft.concerns(concerns);
        self.commit()
    }
}

/// The groups of a stream under its latch, to be changed.
pub struct GroupsMut<'a, 'w> {
    stream: &'a mut StreamMut<'w>,
}

impl GroupsMut<'_, '_> {
    /// The name of a group, to be noted; empty where effects are not wanted.
    fn group_name(&self, group: usize) -> Result<Box<[u8]>, Refusal> {
        let name = || Ok(self.stream.look()?.groups().nth(group).map(|group| group.name().into()).unwrap_or_default());
        if self.stream.draft.is_noted() { name() } else { Ok(Box::default()) }
    }

    /// The name of a consumer, to be noted; None: no owner.
    fn consumer_name(&self, group: usize, consumer: u32) -> Result<Option<Box<[u8]>>, Refusal> {
        if !self.stream.draft.is_noted() {
            return Ok(None);
        }
        let consumer = self.stream.look()?.groups().nth(group).and_then(|group| group.consumer(consumer));
        Ok(consumer.map(|consumer| (&*consumer.name).into()))
    }

    /// Changes a group as an edit says, which is noted and counts as `counted` changes.
    fn edit_group<R: Default>(
        &mut self,
        group: usize,
        edit: StreamEdit<'_>,
        counted: i64,
        change: impl FnOnce(&mut Group) -> Result<R, Missing>,
    ) -> Result<R, Refusal> {
        let change = |stream: &mut StreamObject| stream.groups_mut().change(group, change).unwrap_or_else(|| Ok(R::default()));
        Ok(self.stream.edit(edit, counted, change)??)
    }

    /// What is pending with an id.
    ///
    /// # Errors
    /// When a part of the list is not in memory.
    pub fn pending(&self, group: usize, id: StreamId) -> Result<Option<Pending>, Refusal> {
        Ok(self.stream.look()?.groups().nth(group).map_or(Ok(None), |group| group.get_pending(id))?)
    }

    /// Whether a group has not read an entry, or not acknowledged it.
    ///
    /// # Errors
    /// When a part of a list is not in memory.
    pub fn is_referenced(&self, id: StreamId) -> Result<bool, Refusal> {
        Ok(self.stream.look()?.groups().is_referenced(id)?)
    }

    /// Adds a group, which counts as a change. Says no, and changes nothing, if there is one of this name.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn create(&mut self, group: &[u8], last_id: StreamId, read: Option<u64>) -> Result<bool, Refusal> {
        if self.stream.look()?.groups().find(group).is_some() {
            return Ok(false);
        }
        self.stream
            .edit(StreamEdit::CreateGroup { group, last_id, read }, 1, |stream| stream.groups_mut().create(group, last_id, read))
    }

    /// Takes a group away, which counts as a change. Says whether it was there.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn remove(&mut self, group: &[u8]) -> Result<bool, Refusal> {
        if self.stream.look()?.groups().find(group).is_none() {
            return Ok(false);
        }
        self.stream.edit(StreamEdit::RemoveGroup { group }, 1, |stream| stream.groups_mut().remove(group))
    }

    /// Says how far a group has read. That does not count as a change.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set(&mut self, group: usize, last_id: StreamId, read: Option<u64>) -> Result<(), Refusal> {
        let name = self.group_name(group)?;
        let edit = StreamEdit::SetGroup { group: &name, last_id, read };
        self.edit_group(group, edit, 0, |group| {
            group.set_read(last_id, read);
            Ok(())
        })
    }

    /// The number of the consumer with a name, which was heard of now. One that is not there is made, which counts as a change;
    /// says whether it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn consumer(&mut self, group: usize, consumer: &[u8]) -> Result<(u32, bool), Refusal> {
        let (now, name) = (self.stream.now(), self.group_name(group)?);
        let known = self.stream.look()?.groups().nth(group).and_then(|group| {
            let number = group.find_consumer(consumer)?;
            group.consumer(number).map(|consumer| (consumer.seen, consumer.active))
        });
        let active = known.and_then(|(_, active)| active);
        if known.is_some_and(|(seen, _)| seen == now) {
            let found = self.stream.look()?.groups().nth(group).and_then(|group| group.find_consumer(consumer));
            return Ok((found.unwrap_or(UNOWNED), false));
        }
        let edit = StreamEdit::Touch { group: &name, consumer, seen: now, active };
        self.edit_group(group, edit, i64::from(known.is_none()), |group| {
            let (number, is_new) = group.ensure_consumer(consumer, now);
            group.touch(number, now, active);
            Ok((number, is_new))
        })
    }

    /// Says that a consumer got something now.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set_active(&mut self, group: usize, consumer: u32) -> Result<(), Refusal> {
        let (now, name, consumer_name) =
            (self.stream.now(), self.group_name(group)?, self.consumer_name(group, consumer)?.unwrap_or_default());
        let edit = StreamEdit::Touch { group: &name, consumer: &consumer_name, seen: now, active: Some(now) };
        self.edit_group(group, edit, 0, |group| {
            group.touch(consumer, now, Some(now));
            Ok(())
        })
    }

    /// Takes a consumer away, which counts as a change. Says how many entries it had not acknowledged; None: there is no such
    /// consumer.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full.
    pub fn remove_consumer(&mut self, group: usize, consumer: &[u8]) -> Result<Option<u64>, Refusal> {
        if self.stream.look()?.groups().nth(group).and_then(|group| group.find_consumer(consumer)).is_none() {
            return Ok(None);
        }
        let name = self.group_name(group)?;
        let edit = StreamEdit::RemoveConsumer { group: &name, consumer };
        self.edit_group(group, edit, 1, |group| group.remove_consumer(consumer))
    }

    /// Says that an entry is pending. That does not count as a change.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full.
    pub fn pend(&mut self, group: usize, pending: Pending) -> Result<(), Refusal> {
        let (name, consumer) = (self.group_name(group)?, self.consumer_name(group, pending.owner)?);
        let Pending { id, time, count, .. } = pending;
        let edit = StreamEdit::Pend { group: &name, consumer: consumer.as_deref(), id, time, count };
        self.edit_group(group, edit, 0, |group| group.pend(pending))
    }

    /// Says that an entry is not pending, which counts as a change if it was. Says whether it was.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full.
    pub fn acknowledge(&mut self, group: usize, id: StreamId) -> Result<bool, Refusal> {
        let pending = self.stream.look()?.groups().nth(group).map_or(Ok(None), |group| group.get_pending(id))?;
        if pending.is_none() {
            return Ok(false);
        }
        let name = self.group_name(group)?;
        let edit = StreamEdit::Acknowledge { group: &name, id };
        self.edit_group(group, edit, 1, |group| group.acknowledge(id))
    }

    /// Says that an entry is pending in no group.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full.
    pub fn drop_references(&mut self, id: StreamId) -> Result<(), Refusal> {
        let groups = self.stream.look()?.groups().len();
        (0..groups).try_for_each(|group| self.acknowledge(group, id).map(drop))
    }

    /// Gives a group at most `count` entries that it has not read, and tells each. They are pending then for a consumer, unless
    /// that is None.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full.
    pub fn deliver(
        &mut self,
        group: usize,
        consumer: Option<u32>,
        count: u64,
        visit: &mut dyn FnMut(StreamEntry<'_>),
    ) -> Result<u64, Refusal> {
        let (now, noted) = (self.stream.now(), self.stream.draft.is_noted());
        let mut ids: Vec<StreamId> = Vec::new();
        let delivered = self.stream.draft.change(|stream| {
            stream.deliver(group, consumer, (count, now), &mut |entry| {
                if noted {
                    ids.push(entry.id);
                }
                visit(entry);
            })
        })??;
        self.stream.draft.changed(0);
        if noted {
            let name = self.group_name(group)?;
            let owner = consumer.map_or(Ok(None), |consumer| self.consumer_name(group, consumer))?;
            let end = self.stream.look()?.groups().nth(group).map(|group| (group.last_id(), group.entries_read()));
            self.stream.draft.note(|out| {
                if owner.is_some() {
                    let pend =
                        |id: &StreamId| StreamEdit::Pend { group: &name, consumer: owner.as_deref(), id: *id, time: now, count: 1 };
                    ids.iter().for_each(|id| pend(id).push(out));
                }
                end.into_iter().for_each(|(last_id, read)| StreamEdit::SetGroup { group: &name, last_id, read }.push(out));
            });
        }
        Ok(delivered)
    }

    /// An edit of groups, done again.
    pub(super) fn replay(&mut self, edit: StreamEdit<'_>) -> Result<(), Refusal> {
        let number = |this: &Self, name: &[u8]| Ok::<_, Refusal>(this.stream.look()?.groups().find(name).unwrap_or(usize::MAX));
        match edit {
            StreamEdit::CreateGroup { group, last_id, read } => drop(self.create(group, last_id, read)?),
            StreamEdit::RemoveGroup { group } => drop(self.remove(group)?),
            StreamEdit::SetGroup { group, last_id, read } => self.set(number(self, group)?, last_id, read)?,
            StreamEdit::Touch { group, consumer, seen, active } => {
                let group = number(self, group)?;
                self.edit_group(group, edit, 0, |group| {
                    let (number, _) = group.ensure_consumer(consumer, seen);
                    group.touch(number, seen, active);
                    Ok(())
                })?;
            }
            StreamEdit::RemoveConsumer { group, consumer } => drop(self.remove_consumer(number(self, group)?, consumer)?),
            StreamEdit::Pend { group, consumer, id, time, count } => {
                let group = number(self, group)?;
                let looked = self.stream.look()?.groups().nth(group);
                let owner = match consumer {
                    None => Some(UNOWNED),
                    Some(name) => looked.and_then(|group| group.find_consumer(name)),
                };
                if let Some(owner) = owner {
                    self.pend(group, Pending { id, time, count, owner })?;
                }
            }
            StreamEdit::Acknowledge { group, id } => drop(self.acknowledge(number(self, group)?, id)?),
            _ => {}
        }
        Ok(())
    }
}
