//! The unit of work that a thread has under way: its entries, each written once, to where it is published.
//!
//! Entries go straight to the thread's ring, behind what is published: key and value are copied there once, and nothing of it is
//! read back by the thread, so that no entry waits for the stores before it. The reader of the ring sees nothing of it before the
//! unit has its number. A unit that outgrows the room of the ring, or meets its end, is taken out again and goes on in memory;
//! where it is published then, [`Rings::announce`] says.

use crate::entry::{LogEntry, PlainSet, Short};
use crate::ring::{Place, Ring};
use crate::rings::{Rings, UnitPlace};
use crate::unit::UnitHead;

/// Bytes of entries for which a draft keeps its memory.
const BYTES_KEPT: usize = 64 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Draft {
    /// Where the next entry goes in the ring. Between units it is where the next one begins, as far as room was seen there: no
    /// other thread writes to the ring.
    place: Place,
    count: u32,
    /// What the last plain entry belongs to, and as an entry has it.
    contents: u64,
    contents_bytes: Option<Short>,
    /// The entries are in memory.
    is_beside: bool,
    beside: Vec<u8>,
}

impl Draft {
    /// Entries of the unit.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Appends an entry to the unit of a thread. For where most entries come from: there its operation is known.
    #[inline(always)]
    pub fn push(&mut self, rings: &Rings, thread: usize, entry: &LogEntry<'_>) {
        let ring = rings.ring(thread);
        if self.count == 0 {
            self.is_beside = ring.is_none();
            self.place = ring.map_or_else(Place::default, Ring::place);
        }
        self.count += 1;
        if let Some(ring) = ring
            && !self.is_beside
            && ring.append(&mut self.place, entry)
        {
            return;
        }
        self.push_beside(ring, entry);
    }

    /// Appends an entry that few instructions suffice for. False, and nothing is appended: it is to be [pushed](Self::push).
    #[inline(always)]
    pub fn push_plain(&mut self, rings: &Rings, thread: usize, set: PlainSet<'_>) -> bool {
        let Some(ring) = rings.ring(thread).filter(|_| !self.is_beside) else { return false };
        self.know_contents(set.contents);
        let Some(contents) = self.contents_bytes else { return false };
        if self.count == 0 {
            self.place.restart();
        }
        let is_appended = ring.append_plain(&mut self.place, set, contents);
        self.count += u32::from(is_appended);
        is_appended
    }

    /// Publishes a unit of one such entry, which has nothing else, and says the number that it took. None, and no number is
    /// taken: it is to be pushed.
    #[inline(always)]
    pub fn publish_plain(&mut self, rings: &Rings, thread: usize, set: &PlainSet<'_>, number: impl FnOnce() -> u64) -> Option<u64> {
        debug_assert!(self.count == 0 && !self.is_beside, "INV-ORDER-1: a unit that has begun is published whole");
        let ring = rings.ring(thread)?;
        self.know_contents(set.contents);
        ring.publish_plain(&mut self.place, set, self.contents_bytes?, number)
    }

    #[inline(always)]
    fn know_contents(&mut self, contents: u64) {
        if self.contents != contents {
            (self.contents, self.contents_bytes) = (contents, Short::of(contents));
        }
    }

    /// Appends one that finds no room in the ring.
    #[cold]
    #[inline(never)]
    fn push_beside(&mut self, ring: Option<&Ring>, entry: &LogEntry<'_>) {
        if let Some(ring) = ring
            && !self.is_beside
        {
            ring.take_out(&self.place, &mut self.beside);
            self.is_beside = true;
        }
        entry.encode(&mut self.beside);
    }

    /// Appends an entry of any kind: where few come from, one copy of the encoder serves all.
    #[inline(never)]
    pub fn push_any(&mut self, rings: &Rings, thread: usize, entry: &LogEntry<'_>) {
        self.push(rings, thread, entry);
    }

    /// Says, before the unit takes its number, that it is whole, and where it is to be published.
    #[inline]
    #[must_use]
    pub fn announce(&self, rings: &Rings, thread: usize) -> UnitPlace {
        if self.is_beside { rings.announce(thread, self.beside.len()) } else { UnitPlace::InRing }
    }

    /// Publishes the unit, which was [announced](Self::announce) and has this number. What it has changed is still latched, and the
    /// memory epoch was not left since it took the number.
    #[inline]
    pub fn publish(&mut self, rings: &Rings, thread: usize, number: u64, announced: UnitPlace) {
        debug_assert_ne!(self.count, 0, "INV-ORDER-1: what has no entry is no unit");
        match rings.ring(thread) {
            Some(ring) if !self.is_beside => ring.publish_at(&mut self.place, number, self.count),
            _ => {
                let head = UnitHead { number, bytes: self.beside.len() as u32, entries: self.count };
                rings.publish(thread, head, &self.beside, announced);
                self.place = Place::default();
            }
        }
    }

    /// Begins anew.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
        if self.is_beside {
            self.is_beside = false;
            self.beside.clear();
            self.beside.shrink_to(BYTES_KEPT);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::entry::{Attributes, LogValue, Operation};
    use crate::order::Order;
    use crate::rings::RingOptions;
    use crate::source::{RingId, UnitSource};
    use crate::unit::EPOCH_SHIFT;
    use almandine_epoch::Epoch;
    use std::sync::Arc;

    fn rings() -> (Arc<Rings>, Arc<Order>) {
        let (order, epoch) = (Arc::new(Order::default()), Arc::new(Epoch::new(2)));
        let options = RingOptions { directory: None, bytes: 4096, log: 1, run: 1, boot: 1, first_epoch: 1 };
        let rings = Rings::new(options, 1, Arc::clone(&order), epoch);
        rings.open(0).expect("memory for a ring");
        (rings, order)
    }

    fn entry<'e>(key: &'e [u8], value: &'e [u8]) -> LogEntry<'e> {
        let attributes = Attributes { expiry_ms: value.len().is_multiple_of(3).then_some(-1), ..Attributes::default() };
        let operation = Operation::Set { kind: 0, value: LogValue::Bytes(value), attributes, made: value.len().is_multiple_of(2) };
        LogEntry { contents: 1 << (value.len() % 30), key, operation }
    }

    /// Appends an entry as a store does.
    fn append(draft: &mut Draft, rings: &Rings, entry: &LogEntry<'_>) {
        let LogEntry { contents, key, operation } = *entry;
        let Operation::Set { kind, value: LogValue::Bytes(value), attributes, made } = operation else { unreachable!() };
        let set = PlainSet { contents, key, kind, edited: attributes.edited, made, value };
        if attributes.expiry_ms.is_some() || !draft.push_plain(rings, 0, set) {
            draft.push(rings, 0, entry);
        }
    }

    fn taken(source: &mut impl UnitSource) -> Vec<(u64, Vec<u8>)> {
        let (mut units, mut all) = (Vec::new(), Vec::new());
        source.raise_epoch();
        let through = source.closed_epoch();
        source.units(through, &mut |_: RingId, bytes: &[u8]| all.extend_from_slice(bytes));
        source.release(through);
        let mut rest = &all[..];
        while let Some((head, entries, behind)) = UnitHead::split(rest) {
            units.push((head.number, entries.to_vec()));
            rest = behind;
        }
        assert!(rest.is_empty());
        units
    }

    #[test]
    fn entries_in_a_ring_are_those_that_are_encoded_by_themselves_at_every_place_and_length() {
        let (rings, order) = rings();
        let (mut source, mut draft) = (rings.source(), Draft::default());
        let text: Vec<u8> = (0..400).map(|at| (at * 37 + 11) as u8).collect();
        for round in 0..900usize {
            let (mut expected, number) = (Vec::new(), (order.epoch() << EPOCH_SHIFT) + 1);
            // Of some units, none is taken before there are several.
            for number in number..=number + round as u64 % 3 {
                let mut entries = Vec::new();
                for count in 0..1 + round % 4 {
                    let entry = entry(&text[..(round + count) % 133], &text[count..count + round * 7 % 150]);
                    entry.encode(&mut entries);
                    append(&mut draft, &rings, &entry);
                }
                assert_eq!(draft.count() as usize, 1 + round % 4);
                let place = draft.announce(&rings, 0);
                assert_eq!(place, UnitPlace::InRing);
                draft.publish(&rings, 0, number, place);
                draft.clear();
                expected.push((number, entries));
            }
            assert_eq!(taken(&mut source), expected, "round {round}");
        }
    }

    /// INV-ORDER-1.
    #[test]
    fn a_unit_that_outgrows_its_ring_is_whole_beside_it_and_one_that_is_given_up_leaves_nothing() {
        let (rings, order) = rings();
        let (mut source, mut draft) = (rings.source(), Draft::default());
        let text = [7; 700];
        draft.push(&rings, 0, &entry(b"given up", &text));
        draft.clear();
        assert_eq!((draft.count(), source.pending_bytes()), (0, 0));
        // The unit behind it has its place in the ring again.
        for (entries, place) in [(5, UnitPlace::Beside), (1, UnitPlace::InRing), (6, UnitPlace::Beside)] {
            let mut expected = Vec::new();
            for at in 0..entries {
                let entry = entry(b"key", &text[at..]);
                entry.encode(&mut expected);
                append(&mut draft, &rings, &entry);
            }
            assert_eq!(draft.announce(&rings, 0), place);
            let number = (order.epoch() << EPOCH_SHIFT) + 1;
            draft.publish(&rings, 0, number, place);
            draft.clear();
            assert_eq!(taken(&mut source), [(number, expected)]);
        }
    }
}
