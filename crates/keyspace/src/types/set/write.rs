//! A set under its latch, to be changed.

use almandine_datatypes::packed::Full;
use almandine_datatypes::set::{PackedSet, SetEncoding, SetLimits};

use super::edits::SetEdit;
use super::{SetMut, Sets};
use crate::types::collection::Editable;
use crate::{Key, Refusal, Writer};

impl Writer<'_> {
    /// Moves a member from one set to another, which may have it; both keys are latched. Says whether the first one had it.
    ///
    /// # Errors
    /// When one of them is of another type, or the store is full; then nothing has changed.
    pub fn move_member(&mut self, from: Key<'_>, to: Key<'_>, member: &[u8], limits: SetLimits) -> Result<Option<Moved>, Refusal> {
        let Some(is_there) = self.read_as::<Sets, _>(from, |set| set.contains(member))? else { return Ok(None) };
        self.read_as::<Sets, _>(to, |_| Ok(()))?;
        if !is_there || from.bytes == to.bytes {
            return Ok(is_there.then_some(Moved { added: false, emptied: false }));
        }
        // It is added before it is removed, so that a full store loses nothing, and told in the other order.
        let mut set = self.write_as::<Sets>(to, limits)?;
        let added = set.add(member)?;
        set.commit()?;
        let emptied = match self.take_member(from, member, limits) {
            Ok(emptied) => emptied,
            Err(refusal) => {
                if added {
                    // It has just been put there, so this finds room.
                    self.take_member(to, member, limits)?;
                }
                return Err(refusal);
            }
        };
        if added {
            self.accessor.session.notes().join_changes();
            self.count_changes(1);
        }
        Ok(Some(Moved { added, emptied }))
    }

    /// Removes a member. Says whether it was the last one.
    fn take_member(&mut self, key: Key<'_>, member: &[u8], limits: SetLimits) -> Result<bool, Refusal> {
        let mut set = self.write_as::<Sets>(key, limits)?;
        set.remove(member)?;
        let emptied = set.is_empty();
        set.commit()?;
        Ok(emptied)
    }
}

/// What moving a member did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The destination did not have it.
    pub added: bool,
    /// The source has no other one.
    pub emptied: bool,
}

impl SetMut<'_> {
    /// Prepares for `count` members to be added, `first` the first of them: for many, Redis chooses the encoding of large sets.
    ///
    /// # Errors
    /// When a part of the set is not in memory, or the store is full; then nothing has changed.
    pub fn reserve(&mut self, first: &[u8], count: usize) -> Result<(), Refusal> {
        let encoding = match self.look().encoding() {
            _ if !self.existed() => SetEncoding::for_new(first, count, self.limits),
            SetEncoding::IntSet if count > self.limits.integers => SetEncoding::HashTable,
            SetEncoding::ListPack if count > self.limits.entries => SetEncoding::HashTable,
            as_it_is => as_it_is,
        };
        if self.existed() && encoding != self.look().encoding() {
            // Redis does so, too, and counts no change.
            self.draft.changed(0);
        }
        self.set_encoding(encoding)
    }

    /// Adds a member. Says whether it is new.
    ///
    /// # Errors
    /// When its place is not in memory, or the store is full; then nothing has changed.
    pub fn add(&mut self, member: &[u8]) -> Result<bool, Refusal> {
        if !self.insert(member)? {
            return Ok(false);
        }
        self.note(SetEdit::Add(member));
        self.draft.changed(1);
        let set = self.look();
        self.set_encoding(set.encoding().after(member, set.len(), self.limits))?;
        Ok(true)
    }

    fn insert(&mut self, member: &[u8]) -> Result<bool, Refusal> {
        if let Some(packed) = self.draft.packed_mut() {
            match PackedSet::add(packed, member) {
                Ok(is_new) => return Ok(is_new),
                Err(Full) => self.draft.unpack(),
            }
        }
        // What is there already changes nothing, nor does it copy what is shared with a snapshot.
        if self.look().contains(member)? {
            return Ok(false);
        }
        self.draft.change(|object| object.insert(member))??;
        Ok(true)
    }

    /// Removes a member. Says whether it was there.
    ///
    /// # Errors
    /// When the member's place is not in memory, or the store is full; then nothing has changed.
    pub fn remove(&mut self, member: &[u8]) -> Result<bool, Refusal> {
        if let Some(packed) = self.draft.packed_mut() {
            if !PackedSet::remove(packed, member) {
                return Ok(false);
            }
        } else if !self.draft.change(|object| object.remove(member))?? {
            self.draft.refused();
            return Ok(false);
        }
        self.note(SetEdit::Remove(member));
        self.draft.changed(1);
        Ok(true)
    }

    /// Removes the member at a place, below [`SetMut::len`], of an order that only changes change, and gives it to `taken`.
    ///
    /// # Errors
    /// When the member is not in memory, or the store is full; then nothing has changed.
    pub fn remove_nth(&mut self, rank: usize, taken: impl FnOnce(&[u8])) -> Result<(), Refusal> {
        let mut name = [0; 64];
        let Some(member) = self.look().nth(rank)? else { return Ok(()) };
        // Most members are short.
        if let Some(name) = name.get_mut(..member.len()) {
            name.copy_from_slice(&member);
            self.remove(name)?;
            taken(name);
        } else {
            let name = member.to_vec();
            self.remove(&name)?;
            taken(&name);
        }
        Ok(())
    }

    /// Sets what OBJECT ENCODING answers to the encoding that a new set of these members would have.
    ///
    /// # Errors
    /// When a part of the set is not in memory, or the store is full; then nothing has changed.
    pub fn reset_encoding(&mut self) -> Result<(), Refusal> {
        let (set, limits) = (self.look(), self.limits);
        let mut encoding = SetEncoding::IntSet;
        for (len, member) in (1..).zip(set.try_iter()) {
            encoding = encoding.after(&member?, len, limits);
        }
        self.set_encoding(encoding)
    }

    /// Sets what OBJECT ENCODING answers.
    pub(super) fn set_encoding(&mut self, encoding: SetEncoding) -> Result<(), Refusal> {
        if self.look().encoding() == encoding {
            return Ok(());
        }
        match self.draft.packed_mut() {
            Some(packed) => PackedSet::set_encoding(packed, encoding),
            None => self.draft.change(|object| object.set_encoding(encoding))?,
        }
        self.note(SetEdit::SetEncoding(encoding));
        Ok(())
    }
}
