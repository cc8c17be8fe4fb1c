//! A sorted set under its latch, to be changed.

use std::ops::Range;

use almandine_datatypes::packed::Due;
use almandine_datatypes::sorted_set::{PackedSortedSet, Scored, SortedSetEncoding, SortedSetLimits, Update};

use super::edits::{self, Edit};
use super::{SortedSet, SortedSets, next_due};
use crate::types::collection::{Body, Draft, Editable};
use crate::{Key, Refusal, Writer};

/// None: where encodings are told, as effects do, none is to be found.
pub(in crate::types) const NO_LIMITS: SortedSetLimits = SortedSetLimits { entries: usize::MAX, value: usize::MAX };

/// A sorted set to be changed, under its latch. A key that is absent is an empty one. Of one that is packed nothing is stored before
/// [`SortedSetMut::commit`]; an object changes at once, so whatever has changed must be committed.
pub struct SortedSetMut<'w> {
    draft: Draft<'w, SortedSets>,
    limits: SortedSetLimits,
}

impl Writer<'_> {
    /// Opens a key as a sorted set to be changed.
    ///
    /// # Errors
    /// When it is of another type, or must be read from the device first.
    pub fn write_sorted_set<'s>(&'s mut self, key: Key<'s>, limits: SortedSetLimits) -> Result<SortedSetMut<'s>, Refusal> {
        Ok(SortedSetMut { draft: self.open(key)?, limits })
    }
}

impl SortedSetMut<'_> {
    /// Whether the key was there.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.draft.existed()
    }

    /// The sorted set as it is now.
    #[must_use]
    #[inline]
    pub fn look(&self) -> SortedSet<'_> {
        SortedSet::new(self.draft.body(), self.draft.now())
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.look().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives a member a score, which is not NaN. Only what changes a score or an expiry counts as a change.
    ///
    /// # Errors
    /// When its place is not in memory, or the store is full; then nothing has changed.
    pub fn set(&mut self, member: &[u8], score: f64, due: Due) -> Result<Update, Refusal> {
        if self.draft.may_have_expired() && self.look().find(member)?.is_none() {
            // One that is past its time and still there is gone first, with its expiry.
            self.remove_any(member)?;
        }
        let score = self.stored_score(member, score)?;
        self.set_stored(member, score, due)
    }

    fn set_stored(&mut self, member: &[u8], score: f64, due: Due) -> Result<Update, Refusal> {
        let update = set(&mut self.draft, member, score)?;
        if update != Update::Same {
            self.draft.note(|out| Edit::Set { member, score }.push(out));
            self.draft.changed(1);
            if update == Update::Added && name(&mut self.draft, member, self.limits)? {
                self.draft.note(|out| Edit::Name(SortedSetEncoding::SkipList).push(out));
            }
        }
        if self.settle_due(member, due)? {
            self.draft.changed(i64::from(update == Update::Same));
        }
        Ok(update)
    }

    /// The score that a member gets: a listpack has no negative zero, as in Redis.
    #[inline]
    fn stored_score(&self, member: &[u8], score: f64) -> Result<f64, Refusal> {
        if score.to_bits() != (-0.0_f64).to_bits() {
            return Ok(score);
        }
        let set = self.look();
        let is_new = set.find(member)?.is_none();
        let encoding = if is_new { set.encoding().after(member, set.raw_len() + 1, self.limits) } else { set.encoding() };
        Ok(if encoding == SortedSetEncoding::ListPack { 0.0 } else { score })
    }

    /// Gives a member the expiry that follows from a write of its score. Says whether it is another one.
    fn settle_due(&mut self, member: &[u8], due: Due) -> Result<bool, Refusal> {
        let may_differ = match due {
            Due::Keep => false,
            Due::Never => next_due(self.draft.body()).is_some(),
            Due::At(_) => true,
        };
        if !may_differ {
            return Ok(false);
        }
        let before = self.look().find(member)?.and_then(|entry| entry.due);
        let after = due.resolve(before);
        if before == after {
            return Ok(false);
        }
        set_due(&mut self.draft, member, after)?;
        self.draft.note(|out| Edit::SetDue { member, due: after }.push(out));
        Ok(true)
    }

    /// Gives a member another expiry, or none; an equal one is a change, too. Says whether there is such a member.
    ///
    /// # Errors
    /// As [`SortedSetMut::set`].
    pub fn set_due(&mut self, member: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        if self.look().find(member)?.is_none() {
            return Ok(false);
        }
        set_due(&mut self.draft, member, due)?;
        self.draft.note(|out| Edit::SetDue { member, due }.push(out));
        self.draft.changed(1);
        Ok(true)
    }

    /// Removes a member, and gives its score. None: there is no such member.
    ///
    /// # Errors
    /// As [`SortedSetMut::set`].
    pub fn remove(&mut self, member: &[u8]) -> Result<Option<f64>, Refusal> {
        if self.draft.may_have_expired() && self.look().find(member)?.is_none() {
            return Ok(None);
        }
        let removed = self.remove_any(member)?;
        if removed.is_some() {
            self.draft.changed(1);
        }
        Ok(removed)
    }

    /// Removes the members of these ranks, and tells each to `taken`, ascending.
    ///
    /// # Errors
    /// As [`SortedSetMut::set`]; what was told is gone.
    pub fn remove_range(&mut self, ranks: Range<usize>, taken: &mut dyn FnMut(Scored<'_>)) -> Result<(), Refusal> {
        let is_object = matches!(self.draft.body(), Body::Object(_));
        if is_object && !self.draft.may_have_expired() {
            let (mut noted, is_noted) = (Vec::new(), self.draft.is_noted());
            let removed = self.draft.change(|object| {
                object.remove_range(ranks.start, ranks.len(), &mut |entry| {
                    if is_noted {
                        Edit::Remove { member: entry.member }.push(&mut noted);
                    }
                    taken(entry);
                })
            })??;
            self.draft.note(|out| out.append(&mut noted));
            self.draft.changed(removed as i64);
            return Ok(());
        }
        let members: Vec<Vec<u8>> = self
            .look()
            .range(ranks)
            .map(|entry| {
                entry.map(|entry| {
                    taken(entry);
                    entry.member.to_vec()
                })
            })
            .collect::<Result<_, _>>()?;
        for member in members {
            self.remove_any(&member)?;
            self.draft.changed(1);
        }
        Ok(())
    }

    /// Whether there are changes, as Redis counts them.
    #[must_use]
    pub fn counts_changes(&self) -> bool {
        self.draft.counts_changes()
    }

    /// Says that all changes together count as one.
    pub fn count_once(&mut self) {
        self.draft.count_once();
    }

    /// Makes edits that were made to another sorted set. Those that are none, and all behind them, are left out.
    ///
    /// # Errors
    /// As [`SortedSetMut::set`].
    pub(in crate::types) fn replay(&mut self, mut edits: &[u8]) -> Result<(), Refusal> {
        while let Some(edit) = edits::next(&mut edits) {
            match edit {
                Edit::Set { member, score } => drop(self.set_stored(member, score, Due::Keep)?),
                Edit::SetDue { member, due } => drop(self.set_due(member, due)?),
                Edit::Remove { member } => drop(self.remove(member)?),
                Edit::Name(encoding) => set_encoding(&mut self.draft, encoding)?,
            }
        }
        Ok(())
    }

    fn remove_any(&mut self, member: &[u8]) -> Result<Option<f64>, Refusal> {
        let removed = if let Some(packed) = self.draft.packed_mut() {
            PackedSortedSet::remove(packed, member)
        } else {
            let removed = self.draft.change(|object| object.remove(member))??;
            self.draft.note(|out| Edit::Remove { member }.push(out));
            removed
        };
        if removed.is_some() {
            self.draft.changed(0);
        }
        Ok(removed)
    }

    /// Stores what has changed. A sorted set without members is no key.
    ///
    /// # Errors
    /// When the store is full; then a packed sorted set is as it was.
    pub fn commit(self) -> Result<(), Refusal> {
        self.draft.commit()
    }
}

/// Gives a member of a sorted set in either form a score.
pub(super) fn set(sorted_set: &mut impl Editable<SortedSets>, member: &[u8], score: f64) -> Result<Update, Refusal> {
    if let Some(packed) = sorted_set.packed_mut() {
        match PackedSortedSet::set(packed, member, score) {
            Ok(update) => return Ok(update),
            Err(_) => sorted_set.unpack(),
        }
    }
    Ok(sorted_set.change(|object| object.set(member, score))??)
}

/// Gives a member another expiry, or none. Says whether there is such a member.
pub(super) fn set_due(sorted_set: &mut impl Editable<SortedSets>, member: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
    if let Some(packed) = sorted_set.packed_mut() {
        match PackedSortedSet::set_due(packed, member, due) {
            Ok(is_there) => return Ok(is_there),
            Err(_) => sorted_set.unpack(),
        }
    }
    Ok(sorted_set.change(|object| object.set_due(member, due))??)
}

/// Lets OBJECT ENCODING name another encoding if a new member asks for it. Says whether it does.
pub(super) fn name(sorted_set: &mut impl Editable<SortedSets>, member: &[u8], limits: SortedSetLimits) -> Result<bool, Refusal> {
    let body = sorted_set.body();
    let (encoding, len) = (SortedSet::new(body, 0).encoding(), body.elements());
    let after = encoding.after(member, len, limits);
    if after == encoding {
        return Ok(false);
    }
    set_encoding(sorted_set, after)?;
    Ok(true)
}

/// Lets OBJECT ENCODING name an encoding.
pub(super) fn set_encoding(sorted_set: &mut impl Editable<SortedSets>, encoding: SortedSetEncoding) -> Result<(), Refusal> {
    if let Some(packed) = sorted_set.packed_mut() {
        PackedSortedSet::set_encoding(packed, encoding);
        return Ok(());
    }
    sorted_set.change(|object| object.set_encoding(encoding))
}
