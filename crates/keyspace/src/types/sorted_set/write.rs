//! A sorted set under its latch, to be changed.

use std::ops::Range;

use almandine_datatypes::packed::Due;
use almandine_datatypes::sorted_set::{PackedSortedSet, Scored, SortedSetEncoding, SortedSetLimits, Update};

use super::edits::SortedSetEdit;
use super::{SortedSet, SortedSetMut, SortedSets, next_due};
use crate::Refusal;
use crate::types::collection::{Contents, EditBytes, Editable};

impl SortedSetMut<'_> {
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

    pub(super) fn set_stored(&mut self, member: &[u8], score: f64, due: Due) -> Result<Update, Refusal> {
        let update = set(&mut self.draft, member, score)?;
        if update != Update::Same {
            self.note(SortedSetEdit::Set { member, score });
            self.draft.changed(1);
            if update == Update::Added && raise_encoding(&mut self.draft, member, self.limits)? {
                self.note(SortedSetEdit::SetEncoding(SortedSetEncoding::SkipList));
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
            Due::Never => next_due(self.draft.contents()).is_some(),
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
        self.note(SortedSetEdit::SetDue { member, due: after });
        Ok(true)
    }

    /// Gives a member another expiry, or none; an equal one is a change, too. Says whether there is such a member.
    ///
    /// # Errors
    /// When the member's place is not in memory, or the store is full; then nothing has changed.
    pub fn set_due(&mut self, member: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        if self.look().find(member)?.is_none() {
            return Ok(false);
        }
        set_due(&mut self.draft, member, due)?;
        self.note(SortedSetEdit::SetDue { member, due });
        self.draft.changed(1);
        Ok(true)
    }

    /// Removes a member, and gives its score. None: there is no such member.
    ///
    /// # Errors
    /// When the member's place is not in memory, or the store is full; then nothing has changed.
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
        let is_object = matches!(self.draft.contents(), Contents::Object(_));
        if is_object && !self.draft.may_have_expired() {
            let (mut noted, is_noted) = (Vec::new(), self.draft.is_noted());
            let removed = self.draft.change(|object| {
                object.remove_range(ranks.start, ranks.len(), &mut |entry| {
                    if is_noted {
                        SortedSetEdit::Remove { member: entry.member }.push(&mut noted);
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

    fn remove_any(&mut self, member: &[u8]) -> Result<Option<f64>, Refusal> {
        let removed = if let Some(packed) = self.draft.packed_mut() {
            PackedSortedSet::remove(packed, member)
        } else {
            self.draft.change(|object| object.remove(member))??
        };
        if removed.is_some() {
            self.note(SortedSetEdit::Remove { member });
            self.draft.changed(0);
        }
        Ok(removed)
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

/// Sets what OBJECT ENCODING answers if a new member asks for another encoding. Says whether it does.
pub(super) fn raise_encoding(
    sorted_set: &mut impl Editable<SortedSets>,
    member: &[u8],
    limits: SortedSetLimits,
) -> Result<bool, Refusal> {
    let contents = sorted_set.contents();
    let (encoding, len) = (SortedSet::new(contents, 0).encoding(), contents.elements());
    let after = encoding.after(member, len, limits);
    if after == encoding {
        return Ok(false);
    }
    set_encoding(sorted_set, after)?;
    Ok(true)
}

/// Sets what OBJECT ENCODING answers.
pub(super) fn set_encoding(sorted_set: &mut impl Editable<SortedSets>, encoding: SortedSetEncoding) -> Result<(), Refusal> {
    if let Some(packed) = sorted_set.packed_mut() {
        PackedSortedSet::set_encoding(packed, encoding);
        return Ok(());
    }
    sorted_set.change(|object| object.set_encoding(encoding))
}
