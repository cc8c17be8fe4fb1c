//! Changes: what a session has done to keys, noted for the consumers.
//!
//! A session notes a change while it holds the latch of the key's bucket, so before another session can see it (INV-CHANGE-1).
//! Its owner takes the notes when it likes ([`crate::Notes::drain_changes`]): a worker after a command, whose client has made
//! the changes. Notes that are left when the batch ends go to the listener of [`crate::Listeners::on_changes`], outside of every
//! latch and epoch; so do the removals of the background's threads. Without a consumer, nothing is noted.
//!
//! For consumers of effects a note has what was done, too, so that it can be done again to the value that the key had before,
//! with nothing else (INV-EFFECT-1): expiries are absolute, sums are computed. A session's notes are ordered among themselves;
//! those of a key, from all sessions, by the number of their unit of work, which is taken under the latches (`session::unit`).
//!
//! Not noted: the records of emptied namespaces; records that move to a device, between its pages, or back, because their keys
//! stay.

pub(crate) mod events;
#[cfg(any(feature = "mutants", loom))]
mod mutants;

use crate::record::Kind;
use crate::record::heap::SharedValue;
use crate::record::put::Put;
use std::ops::Range;

/// Bytes of notes for which a session keeps its memory.
const BYTES_KEPT: usize = 64 * 1024;

/// Why a key was removed without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It was past its time.
    Expired,
    /// To make room.
    Evicted,
    /// Its bytes on the device do not have their checksum.
    Damaged,
}

/// A value as an effect has it.
#[derive(Clone, Copy, Debug)]
pub enum Body<'e> {
    /// Bytes as they are in the record.
    Bytes(&'e [u8]),
    /// A large value: a snapshot of it.
    Shared(&'e SharedValue),
}

/// What was done to a key.
#[derive(Clone, Copy, Debug)]
pub enum Effect<'e> {
    /// The key has this value from now on, whatever it had.
    Set {
        /// Its type.
        kind: Kind,
        /// The value.
        value: Body<'e>,
        /// What goes with it.
        put: Put,
    },
    /// Bytes of a string were written; a gap between its end and the offset was filled with zeroes. Everything else stays.
    Write {
        /// Where.
        offset: usize,
        /// What.
        bytes: &'e [u8],
    },
    /// The value stays, and this goes with it.
    Put(Put),
    /// The key is gone.
    Remove,
    /// Elements of a collection were changed, in the words of its type.
    Edit {
        /// The type.
        kind: Kind,
        /// What was done, in order.
        edits: &'e [u8],
    },
    /// These elements of a collection were past their time.
    Expire {
        /// The type.
        kind: Kind,
        /// Each behind its length in four bytes, least significant first ([`elements`]).
        elements: &'e [u8],
    },
    /// A database, which has no key, consists of the change's generation from now on.
    Database(u16),
    /// A record was given up whose key cannot be read any more: one key of the change's namespace is gone, or of some namespace
    /// where that is 0. The change has no key.
    Lost,
}

/// A change of one key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'c> {
    /// The namespace that the key is in. It may have been dropped since.
    pub namespace: u16,
    /// The namespace and how often it was used before: unlike its number it never comes again. 0 while effects are not wanted.
    pub generation: u64,
    /// The key.
    pub key: &'c [u8],
    /// Why the store removed it; none for what the session was asked to do.
    pub removal: Option<RemovalReason>,
    /// What was done; none while effects are not wanted.
    pub effect: Option<Effect<'c>>,
    /// The number of its unit of work, which orders the effects on one key, and those on databases.
    pub sequence: u64,
    /// Whether this is the last change of a unit of work, of which every observer sees all changes or none.
    pub ends_group: bool,
    /// Whether only consumers of effects are told: what clients may have kept of the key is still what they would get.
    pub effect_only: bool,
}

/// Noted changes, in their order.
#[derive(Debug, Default)]
pub struct Changes {
    notes: Vec<Note>,
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    /// Number of them that consumers of keys have been told of.
    told: usize,
    /// Number of them whose unit of work has ended.
    ended: usize,
}

#[derive(Debug)]
struct Note {
    namespace: u16,
    generation: u64,
    removal: Option<RemovalReason>,
    key: Range<usize>,
    sequence: u64,
    ends_group: bool,
    effect_only: bool,
    effect: Option<Noted>,
}

/// An effect whose bytes are elsewhere.
#[derive(Debug)]
enum Noted {
    Set(Kind, Range<usize>, Put),
    SetShared(Kind, SharedValue, Put),
    Write(usize, Range<usize>),
    Put(Put),
    Remove,
    Edit(Kind, Range<usize>),
    Expire(Kind, Range<usize>),
    Database(u16),
    Lost,
}

impl Changes {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// All of them, for consumers of effects.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.notes.iter().map(|note| self.change(note))
    }

    /// Those that consumers of keys have not been told of.
    pub fn untold(&self) -> impl Iterator<Item = Change<'_>> {
        self.notes[self.told..].iter().filter(|note| !note.effect_only).map(|note| self.change(note))
    }

    /// Whether there are any.
    #[inline]
    #[must_use]
    pub fn has_untold(&self) -> bool {
        self.told < self.notes.len()
    }

    /// Marks those as told. They stay while a consumer wants effects.
    pub(crate) fn set_told(&mut self) {
        debug_assert!(self.told <= self.notes.len(), "INV-CHANGE-1: what was told was noted");
        self.told = self.notes.len();
        if self.notes.iter().all(|note| note.effect.is_none()) {
            self.clear();
        }
    }

    fn change<'c>(&'c self, note: &'c Note) -> Change<'c> {
        Change {
            namespace: note.namespace,
            generation: note.generation,
            key: self.slice(&note.key),
            removal: note.removal,
            effect: note.effect.as_ref().map(|noted| self.effect(noted)),
            sequence: note.sequence,
            ends_group: note.ends_group,
            effect_only: note.effect_only,
        }
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        debug_assert!(range.end <= self.bytes.len(), "INV-CHANGE-1: the bytes of a note stay as long as the note");
        &self.bytes[range.clone()]
    }

    fn effect<'c>(&'c self, noted: &'c Noted) -> Effect<'c> {
        match noted {
            Noted::Set(kind, value, put) => Effect::Set { kind: *kind, value: Body::Bytes(self.slice(value)), put: *put },
            Noted::SetShared(kind, value, put) => Effect::Set { kind: *kind, value: Body::Shared(value), put: *put },
            Noted::Write(offset, bytes) => Effect::Write { offset: *offset, bytes: self.slice(bytes) },
            Noted::Put(put) => Effect::Put(*put),
            Noted::Remove => Effect::Remove,
            Noted::Edit(kind, edits) => Effect::Edit { kind: *kind, edits: self.slice(edits) },
            Noted::Expire(kind, elements) => Effect::Expire { kind: *kind, elements: self.slice(elements) },
            Noted::Database(db) => Effect::Database(*db),
            Noted::Lost => Effect::Lost,
        }
    }

    /// Exchanges the last two changes that were asked for, which concern different keys. What the store has removed by itself keeps
    /// its place, also between or behind them.
    pub(crate) fn swap_last(&mut self) {
        let mut asked = (self.told..self.notes.len()).rev().filter(|&at| self.notes[at].removal.is_none());
        if let (Some(later), Some(earlier)) = (asked.next(), asked.next()) {
            debug_assert!(self.told <= earlier && earlier < later, "INV-CHANGE-1: what was told keeps its place");
            self.notes.swap(earlier, later);
        }
    }

    /// Says that a unit of work has ended, which has this number.
    #[inline]
    pub(crate) fn end_unit(&mut self, number: u64) {
        debug_assert!(self.ended <= self.notes.len(), "INV-ORDER-1: what is noted belongs to one unit");
        if self.ended != self.notes.len() {
            self.number_notes(number);
        }
    }

    #[inline(never)]
    fn number_notes(&mut self, number: u64) {
        let of_unit = self.notes.get_mut(self.ended..).unwrap_or_default();
        for note in of_unit.iter_mut().filter(|note| note.effect.is_some()) {
            debug_assert_eq!(note.sequence, 0, "INV-EFFECT-1: an effect gets its place in the order once");
            note.sequence = number;
        }
        if let Some(last) = of_unit.last_mut() {
            last.ends_group = true;
        }
        self.ended = self.notes.len();
    }

    pub(crate) fn push(&mut self, change: &Change<'_>) {
        debug_assert!(change.namespace != 0 || matches!(change.effect, Some(Effect::Lost)), "INV-NS-1: zero names no namespace");
        let key = self.keep(change.key);
        let effect = change.effect.map(|effect| self.note(effect));
        let Change { namespace, generation, removal, sequence, ends_group, effect_only, .. } = *change;
        self.notes.push(Note { namespace, generation, removal, key, sequence, ends_group, effect_only, effect });
    }

    fn note(&mut self, effect: Effect<'_>) -> Noted {
        match effect {
            Effect::Set { kind, value: Body::Bytes(bytes), put } => Noted::Set(kind, self.keep(bytes), put),
            Effect::Set { kind, value: Body::Shared(value), put } => Noted::SetShared(kind, value.clone(), put),
            Effect::Write { offset, bytes } => Noted::Write(offset, self.keep(bytes)),
            Effect::Put(put) => Noted::Put(put),
            Effect::Remove => Noted::Remove,
            Effect::Edit { kind, edits } => Noted::Edit(kind, self.keep(edits)),
            Effect::Expire { kind, elements } => Noted::Expire(kind, self.keep(elements)),
            Effect::Database(db) => Noted::Database(db),
            Effect::Lost => Noted::Lost,
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        (self.told, self.ended) = (0, 0);
        self.notes.clear();
        self.notes.shrink_to(BYTES_KEPT / size_of::<Note>());
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
    }
}

/// Appends an element to those that [`elements`] reads.
pub fn push_element(elements: &mut Vec<u8>, element: &[u8]) {
    debug_assert!(u32::try_from(element.len()).is_ok(), "INV-EFFECT-1: an element comes back with the length that it had");
    elements.extend_from_slice(&(element.len() as u32).to_le_bytes());
    elements.extend_from_slice(element);
}

/// The elements of [`Effect::Expire`].
pub fn elements(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (element, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        bytes = rest;
        Some(element)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'c>(namespace: u16, key: &'c [u8], effect: Option<Effect<'c>>) -> Change<'c> {
        Change { namespace, key, effect, ..Change::default() }
    }

    #[test]
    fn changes_come_as_they_were_noted() {
        let mut changes = Changes::default();
        let put = Put { expiry_ms: Some(7), etag: Some(8), edited: true };
        let mut expired = Vec::new();
        [&b"one"[..], b"", b"three"].iter().for_each(|element| push_element(&mut expired, element));
        let all = [
            change(1, b"a", None),
            Change { removal: Some(RemovalReason::Expired), ..change(2, b"", Some(Effect::Remove)) },
            change(1, b"long", Some(Effect::Set { kind: Kind::Hash, value: Body::Bytes(b"value"), put })),
            change(1, b"w", Some(Effect::Write { offset: 5, bytes: b"bytes" })),
            change(1, b"p", Some(Effect::Put(put))),
            change(3, b"e", Some(Effect::Edit { kind: Kind::Hash, edits: b"edits" })),
            change(3, b"x", Some(Effect::Expire { kind: Kind::Hash, elements: &expired })),
            change(3, b"", Some(Effect::Database(4))),
        ];
        let shown = |changes: &[Change<'_>]| changes.iter().map(|change| format!("{change:?}")).collect::<Vec<_>>();
        for round in 0..2 {
            assert!(changes.is_empty(), "round {round}");
            all.iter().for_each(|change| changes.push(change));
            assert_eq!(shown(&changes.iter().collect::<Vec<_>>()), shown(&all));
            changes.swap_last();
            changes.end_unit(9);
            let last: Vec<_> = changes.iter().skip(all.len() - 2).collect();
            assert_eq!(
                shown(&last),
                shown(&[Change { sequence: 9, ..all[7] }, Change { sequence: 9, ends_group: true, ..all[6] }])
            );
            // What the store removes between two verbs and behind them stays where it is.
            changes.clear();
            let removed = all[1];
            [all[0], removed, all[2], removed].iter().for_each(|change| changes.push(change));
            changes.swap_last();
            assert_eq!(shown(&changes.iter().collect::<Vec<_>>()), shown(&[all[2], removed, all[0], removed]));
            changes.clear();
        }
        // Consumers of keys are not told of what concerns effects alone.
        [Change { effect_only: true, ..all[5] }, all[6]].iter().for_each(|change| changes.push(change));
        assert_eq!((shown(&changes.untold().collect::<Vec<_>>()), changes.iter().count()), (shown(&all[6..7]), 2));
        changes.clear();
        assert_eq!(elements(&expired).collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        changes.push(&change(1, &[0; 1 << 20], None));
        changes.clear();
        assert!(changes.bytes.capacity() <= BYTES_KEPT);
    }
}
