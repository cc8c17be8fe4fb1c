//! The rings of a run: one for each thread that does units of work, and the cuts by which the log's writer takes them.
//!
//! A cut at a commit epoch is *closed* when a later one has begun and the memory epoch has drained since: each
//! number of the cut was taken inside the memory epoch, and its unit published before that was left.
//!
//! A unit that has no room in its ring lies beside it, in memory, and ends with the process. So before it takes its number its
//! ring says that commit epochs from the next one on are *void*, which then begins: a start takes nothing of these epochs from
//! any ring, and a thread that takes a number of one finds the rings void and waits for the files before it answers
//! ([`Rings::is_void`]). When these units are in the files, nothing is void any more.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use almandine_base::step;
use almandine_epoch::Epoch;
use almandine_io::detach::is_detached;
use almandine_io::files;
use almandine_io::mapping::{self, SharedMapping};
use almandine_io::sync::{Mutex, MutexGuard};

use crate::order::Order;
use crate::ring::{Filled, NoRing, Ring, RingName};
use crate::source::{RingId, UnitSink, UnitSource};
use crate::unit::{HEAD_BYTES, UnitHead, epoch_of};

/// How rings are made.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Where they lie ([`almandine_io::mapping::prepare_directory`]); none: in memory that ends with the process.
    pub directory: Option<PathBuf>,
    /// Bytes of each; a power of two.
    pub bytes: usize,
    /// The log that they belong to.
    pub log: u128,
    /// The start of the server, counted over the life of the log.
    pub run: u64,
    /// The start of the machine ([`almandine_io::mapping::boot_id`]).
    pub boot: u128,
    /// The commit epoch that the run begins with, at least.
    pub first_epoch: u64,
}

/// Bytes of units that are copied out of a ring at a time for a sink that has no room for them.
const SLICE_BYTES: usize = 32 << 10;
/// Nothing but this process writes to a ring that is in use.
const IN_USE: &str = "a ring in use has units";

/// A unit that has no room in its ring.
struct Beside {
    ring: u16,
    head: UnitHead,
    entries: Vec<u8>,
}

/// Where a unit is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitPlace {
    /// In its thread's ring.
    InRing,
    /// In memory, because the ring has no room.
    Beside,
}

type Call = Box<dyn Fn() + Send + Sync>;

/// The rings of a run.
pub struct Rings {
    options: RingOptions,
    rings: Box<[OnceLock<Ring>]>,
    order: Arc<Order>,
    epoch: Arc<Epoch>,
    /// Units that have no room, in the order in which they were published.
    beside: Mutex<Vec<Beside>>,
    beside_bytes: AtomicUsize,
    /// The first void commit epoch; 0: none.
    void_from: AtomicU64,
    /// A connection waits for room.
    wants_room: AtomicBool,
    on_room: OnceLock<Call>,
    on_much: OnceLock<Call>,
}

impl Rings {
    /// Rings for at most this many threads; none is made yet.
    #[must_use]
    pub fn new(options: RingOptions, threads: usize, order: Arc<Order>, epoch: Arc<Epoch>) -> Arc<Self> {
        order.begin_at(options.first_epoch);
        Arc::new(Self {
            options,
            rings: (0..threads).map(|_| OnceLock::new()).collect(),
            order,
            epoch,
            beside: Mutex::default(),
            beside_bytes: AtomicUsize::new(0),
            void_from: AtomicU64::new(0),
            wants_room: AtomicBool::new(false),
            on_room: OnceLock::new(),
            on_much: OnceLock::new(),
        })
    }

    /// Makes the ring of a thread, unless it is there. Threads that have one number after another have one ring.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn open(&self, thread: usize) -> io::Result<()> {
        let _one_at_a_time = self.beside();
        if self.rings[thread].get().is_none() {
            let name = self.name(thread);
            let _ = self.rings[thread].set(Ring::create(self.options.directory.as_deref(), &name, self.options.bytes)?);
        }
        Ok(())
    }

    /// The names of the rings that exist.
    #[must_use]
    pub fn names(&self) -> Vec<RingName> {
        let made = |(thread, ring): (usize, &OnceLock<Ring>)| ring.get().map(|_| self.name(thread));
        self.rings.iter().enumerate().filter_map(made).collect()
    }

    /// The ring of a thread; none where it was not made.
    #[inline]
    pub(crate) fn ring(&self, thread: usize) -> Option<&Ring> {
        self.rings[thread].get()
    }

    fn name(&self, thread: usize) -> RingName {
        let RingOptions { log, run, boot, .. } = self.options;
        RingName { log, run, boot, ring: thread as u16 }
    }

    /// How they were made.
    #[must_use]
    pub fn options(&self) -> &RingOptions {
        &self.options
    }

    /// Whether the ring of a thread has room for a unit of half its size. If not, [`Rings::on_room`] is called when a ring has
    /// room again. For that thread.
    #[must_use]
    pub fn has_room(&self, thread: usize) -> bool {
        let Some(ring) = self.rings[thread].get() else { return true };
        if ring.fills()
            && let Some(call) = self.on_much.get()
        {
            call();
        }
        let has_room = || ring.has_room();
        if has_room() {
            return true;
        }
        self.wants_room.store(true, Ordering::SeqCst);
        // It may have come between.
        has_room()
    }

    /// Sets what is called when there is room that was asked for. Once.
    pub fn on_room(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_room.set(Box::new(call));
    }

    /// Sets what is called when a ring has so much that it is to be written before its time. Once.
    pub fn on_much(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_much.set(Box::new(call));
    }

    /// Whether replies to units of this commit epoch must wait until the files have them, because rings lie in memory that ends
    /// with the process, also since their file system has failed, or a unit does.
    #[must_use]
    pub fn is_void(&self, epoch: u64) -> bool {
        let void_from = self.void_from.load(Ordering::SeqCst);
        self.options.directory.is_none() || is_detached() || void_from != 0 && epoch >= void_from
    }

    /// Whether a unit was published that is not released: that is not in the files as the mode of the log asks for it.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        let in_rings = self.rings.iter().filter_map(OnceLock::get).any(|ring| ring.pending_bytes() > 0);
        in_rings || self.beside_bytes.load(Ordering::SeqCst) > 0
    }

    /// Says, before a unit takes its number, how many bytes of entries it has. For its thread. Says where it is to be published.
    pub fn announce(&self, thread: usize, bytes: usize) -> UnitPlace {
        if self.rings[thread].get().is_some_and(|ring| ring.fits(bytes)) {
            return UnitPlace::InRing;
        }
        let _beside = self.beside();
        let next = self.order.epoch() + 1;
        if self.void_from.load(Ordering::Relaxed) == 0 {
            if let Some(ring) = self.rings[thread].get() {
                ring.set_void_from(next);
            }
            self.void_from.store(next, Ordering::SeqCst);
        }
        // The unit that is announced is published beside its ring: it keeps what is void so.
        self.beside_bytes.fetch_add(HEAD_BYTES + bytes, Ordering::SeqCst);
        self.order.begin_epoch();
        UnitPlace::Beside
    }

    /// Publishes a unit of a thread, which was [announced](Self::announce). What it has changed is still latched, and the memory
    /// epoch was not left since it took its number.
    pub fn publish(&self, thread: usize, head: UnitHead, entries: &[u8], place: UnitPlace) {
        match self.rings[thread].get() {
            Some(ring) if place == UnitPlace::InRing => ring.publish(head, entries),
            _ => self.beside().push(Beside { ring: thread as u16, head, entries: entries.to_vec() }),
        }
    }

    /// The writer's side. One at a time.
    #[must_use]
    pub fn source(self: &Arc<Self>) -> RingSource {
        let positions = vec![0; self.rings.len()];
        RingSource { rings: Arc::clone(self), ended: VecDeque::new(), closed: 0, positions, through: 0, buffer: Filled::default() }
    }

    fn beside(&self) -> MutexGuard<'_, Vec<Beside>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The units of all rings, for the log's writer.
pub struct RingSource {
    rings: Arc<Rings>,
    /// Commit epochs that have ended, each with the memory epoch that has to be over.
    ended: VecDeque<(u64, u64)>,
    closed: u64,
    /// Where the units of `through` end in each ring.
    positions: Vec<u64>,
    through: u64,
    /// The units of one ring.
    buffer: Filled,
}

impl RingSource {
    /// Finds where the units end in each ring, and gives each ring's.
    fn look(&mut self, through: u64, sink: &mut dyn UnitSink) {
        debug_assert!(through <= self.closed, "INV-ORDER-1: only a closed cut has all of its units");
        let rings = Arc::clone(&self.rings);
        let beside = rings.beside();
        for (number, ring) in rings.rings.iter().enumerate() {
            let own = |beside: &&Beside| usize::from(beside.ring) == number && epoch_of(beside.head.number) <= through;
            let (id, has_beside) = (RingId(number as u16), beside.iter().any(|beside| own(&beside)));
            let Some(ring) = ring.get() else {
                if has_beside {
                    sink.push(id, &merged(&[], beside.iter().filter(own)));
                }
                continue;
            };
            self.positions[number] = if has_beside {
                self.buffer.clear();
                let end = ring.units(through, &mut self.buffer).expect(IN_USE);
                sink.push(id, &merged(&self.buffer, beside.iter().filter(own)));
                end
            } else {
                self.give(ring, id, through, sink)
            };
        }
        drop(beside);
        self.through = through;
    }

    /// Gives the units of a ring, and says where they end.
    fn give(&mut self, ring: &Ring, id: RingId, through: u64, sink: &mut dyn UnitSink) -> u64 {
        let mut position = ring.first();
        loop {
            let room = sink.room();
            let is_short = !room.is_empty();
            let (end, bytes, count) = ring.units_into(position, through, room).expect(IN_USE);
            position = end;
            if count != 0 {
                sink.fill(id, bytes, count);
                continue;
            }
            // None is left, or the next one is longer than the room.
            self.buffer.clear();
            let bytes = if is_short { 1 } else { SLICE_BYTES };
            position = ring.units_from(position, through, bytes, &mut self.buffer).expect(IN_USE);
            if self.buffer.is_empty() {
                return position;
            }
            sink.push(id, &self.buffer);
        }
    }
}

/// The units of a ring and those beside it, by their numbers.
fn merged<'b>(mut units: &[u8], beside: impl Iterator<Item = &'b Beside>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut before = |number: u64, all: &mut Vec<u8>| {
        while let Some((head, entries, rest)) = UnitHead::split(units)
            && head.number < number
        {
            all.extend_from_slice(&head.encode());
            all.extend_from_slice(entries);
            units = rest;
        }
    };
    for Beside { head, entries, .. } in beside {
        before(head.number, &mut all);
        all.extend_from_slice(&head.encode());
        all.extend_from_slice(entries);
    }
    before(u64::MAX, &mut all);
    all
}

impl UnitSource for RingSource {
    fn raise_epoch(&mut self) -> u64 {
        // In this order: a thread that enters the memory epoch behind its end sees that the commit epoch has begun.
        let ended = self.rings.order.begin_epoch();
        self.ended.push_back((ended, self.rings.epoch.bump()));
        ended
    }

    fn closed_epoch(&mut self) -> u64 {
        let safe = step!(DrainBeforeClose, self.rings.epoch.safe(), else u64::MAX);
        while let Some((ended, _)) = self.ended.pop_front_if(|(_, over)| *over <= safe) {
            self.closed = ended;
        }
        self.closed
    }

    fn pending_bytes(&self) -> usize {
        let in_rings: usize = self.rings.rings.iter().filter_map(OnceLock::get).map(Ring::pending_bytes).sum();
        in_rings + self.rings.beside_bytes.load(Ordering::Relaxed)
    }

    fn units(&mut self, through: u64, sink: &mut dyn UnitSink) {
        self.look(through, sink);
    }

    fn release(&mut self, through: u64) {
        if through != self.through {
            self.look(through, &mut |_: RingId, _: &[u8]| {});
        }
        for (ring, &position) in self.rings.rings.iter().zip(&self.positions) {
            if let Some(ring) = ring.get() {
                ring.release(position, through);
            }
        }
        if self.rings.beside_bytes.load(Ordering::SeqCst) != 0 {
            self.release_beside(through);
        }
        if self.rings.wants_room.swap(false, Ordering::SeqCst)
            && let Some(call) = self.rings.on_room.get()
        {
            call();
        }
    }
}

impl RingSource {
    #[cold]
    fn release_beside(&self, through: u64) {
        let mut beside = self.rings.beside();
        beside.retain(|beside| {
            let stays = epoch_of(beside.head.number) > through;
            if !stays {
                self.rings.beside_bytes.fetch_sub(HEAD_BYTES + beside.entries.len(), Ordering::SeqCst);
            }
            stays
        });
        // Announced ones count, though they are not there yet.
        if self.rings.beside_bytes.load(Ordering::SeqCst) == 0 {
            self.rings.rings.iter().filter_map(OnceLock::get).for_each(|ring| ring.set_void_from(0));
            self.rings.void_from.store(0, Ordering::SeqCst);
        }
    }
}

/// A mapping of a directory, and the ring that it is.
pub type Left = (String, Result<(RingName, Ring), NoRing>);

/// The rings that earlier runs have left in a directory, by the names of their mappings; each is looked at and nothing is changed.
///
/// # Errors
/// When the directory, or a mapping, cannot be read.
pub fn left(directory: &Path) -> io::Result<Vec<Left>> {
    let mut names = mapping::names(directory)?;
    names.sort_unstable();
    let is_empty = |name: &str| files::open(directory.join(name)).and_then(|file| file.len()).is_ok_and(|bytes| bytes == 0);
    let open = |name: String| match SharedMapping::open(directory, &name) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData && is_empty(&name) => Ok((name, Err(NoRing::Unmade))),
        opened => opened.map(|mapping| (name, Ring::left(mapping))),
    };
    names.into_iter().map(open).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::order::Asked;
    use std::thread;

    fn rings(bytes: usize) -> (Arc<Rings>, Arc<Order>, Arc<Epoch>) {
        let (order, epoch) = (Arc::new(Order::default()), Arc::new(Epoch::new(8)));
        let options = RingOptions { directory: None, bytes, log: 1, run: 1, boot: 1, first_epoch: 5 };
        (Rings::new(options, 4, Arc::clone(&order), Arc::clone(&epoch)), order, epoch)
    }

    fn publish(rings: &Rings, order: &Order, own: usize, hash: u64, entries: &[u8]) -> u64 {
        let place = rings.announce(own, entries.len());
        let number = order.take(Asked { changed: &[hash << 32], ..Asked::default() });
        if number.is_multiple_of(16) {
            // Others meet a thread that has a number and has published nothing.
            thread::yield_now();
        }
        rings.publish(own, UnitHead { number, bytes: entries.len() as u32, entries: 1 }, entries, place);
        number
    }

    fn units(source: &mut RingSource, through: u64) -> Vec<(u16, u64, usize)> {
        let mut all = Vec::new();
        source.units(through, &mut |RingId(ring): RingId, mut units: &[u8]| {
            while let Some((head, entries, rest)) = UnitHead::split(units) {
                all.push((ring, head.number, entries.len()));
                units = rest;
            }
        });
        all
    }

    /// INV-ORDER-1: a cut is closed when each thread that may have a number of it has left.
    #[test]
    fn a_cut_waits_for_the_threads_that_may_have_numbers_of_it() {
        let (rings, order, epoch) = rings(4096);
        rings.open(0).unwrap();
        let (thread, mut source) = (epoch.register().unwrap(), rings.source());
        thread.enter();
        let number = publish(&rings, &order, 0, 1, b"first");
        assert_eq!(epoch_of(number), 5);
        source.raise_epoch();
        assert_eq!(source.closed_epoch(), 0, "the thread is inside");
        thread.leave();
        assert_eq!(source.closed_epoch(), 5);
        thread.enter();
        let later = publish(&rings, &order, 0, 1, b"later");
        assert_eq!((epoch_of(later), units(&mut source, 5)), (6, vec![(0, number, 5)]));
        source.release(5);
        assert_eq!(source.pending_bytes(), HEAD_BYTES + 8);
        thread.leave();
        source.raise_epoch();
        assert_eq!((source.closed_epoch(), units(&mut source, 6)), (6, vec![(0, later, 5)]));
    }

    #[test]
    fn what_has_no_room_lies_beside_in_its_place_and_voids_its_epoch() {
        let (rings, order, _epoch) = rings(4096);
        [0, 1].iter().for_each(|&thread| rings.open(thread).unwrap());
        let mut source = rings.source();
        let before = publish(&rings, &order, 0, 1, &[0; 100]);
        assert!(rings.has_room(0));
        let large = publish(&rings, &order, 0, 1, &[1; 3000]);
        let behind = publish(&rings, &order, 0, 1, &[2; 200]);
        let other = publish(&rings, &order, 1, 1, &[3; 50]);
        assert!(epoch_of(large) > epoch_of(before) && rings.is_void(epoch_of(large)));
        assert_eq!(rings.rings[0].get().unwrap().void_from(), epoch_of(large));
        source.raise_epoch();
        let through = source.closed_epoch();
        let all = [(0, before, 100), (0, large, 3000), (0, behind, 200), (1, other, 50)];
        assert_eq!(units(&mut source, through), all);
        let through_before = epoch_of(before);
        assert_eq!(units(&mut source, through_before), all[..1]);
        source.release(through_before);
        assert_eq!(rings.rings[0].get().unwrap().void_from(), epoch_of(large), "it is in no file yet");
        source.release(through);
        assert_eq!((source.pending_bytes(), rings.rings[0].get().unwrap().void_from()), (0, 0));
    }

    /// A thread for whose ring there was no room: its units are given, and replies wait for them.
    #[test]
    fn units_of_a_thread_without_a_ring_go_beside() {
        let (rings, order, _epoch) = rings(4096);
        rings.open(0).unwrap();
        let mut source = rings.source();
        let first = publish(&rings, &order, 0, 1, b"first");
        let without = publish(&rings, &order, 1, 1, b"without");
        assert_eq!((rings.void_from.load(Ordering::SeqCst), rings.has_room(1)), (epoch_of(without), true));
        source.raise_epoch();
        let through = source.closed_epoch();
        assert_eq!(units(&mut source, through), [(0, first, 5), (1, without, 7)]);
        source.release(through);
        assert_eq!((source.pending_bytes(), units(&mut source, through)), (0, vec![]));
    }

    #[test]
    fn room_is_told_to_who_asked() {
        let (rings, order, _epoch) = rings(4096);
        rings.open(2).unwrap();
        let (told, mut source) = (Arc::new(AtomicUsize::new(0)), rings.source());
        let ear = Arc::clone(&told);
        rings.on_room(move || {
            ear.fetch_add(1, Ordering::Relaxed);
        });
        while rings.has_room(2) {
            publish(&rings, &order, 2, 1, &[0; 500]);
        }
        source.raise_epoch();
        let through = source.closed_epoch();
        source.release(through);
        source.release(through);
        assert_eq!((told.load(Ordering::Relaxed), rings.has_room(2)), (1, true));
    }

    #[test]
    fn a_quarter_of_a_ring_is_told_once_until_some_of_it_is_released() {
        let (rings, order, _epoch) = rings(4096);
        rings.open(1).unwrap();
        let (told, mut source) = (Arc::new(AtomicUsize::new(0)), rings.source());
        let ear = Arc::clone(&told);
        rings.on_much(move || {
            ear.fetch_add(1, Ordering::Relaxed);
        });
        for round in 1..=3 {
            for count in 1..=4 {
                assert!(rings.has_room(1));
                assert_eq!(told.load(Ordering::Relaxed), if count < 3 { round - 1 } else { round }, "{round}, {count}");
                publish(&rings, &order, 1, 1, &[0; 500]);
            }
            source.raise_epoch();
            let through = source.closed_epoch();
            source.release(through);
        }
    }

    /// INV-ORDER-1: each key's units in a cut are its first ones, whatever the threads do meanwhile; and nothing is lost or twice.
    #[test]
    fn cuts_beside_threads_are_prefixes_of_each_key() {
        const KEYS: u64 = 3;
        const UNITS: u64 = 4000;
        let (rings, order, epoch) = rings(1 << 16);
        let counts: Arc<[Mutex<u64>]> = (0..KEYS).map(|_| Mutex::new(0)).collect();
        let threads: Vec<_> = (0..3)
            .map(|number| {
                rings.open(number).unwrap();
                let (rings, order, counts) = (Arc::clone(&rings), Arc::clone(&order), Arc::clone(&counts));
                let inside = epoch.register().unwrap();
                thread::spawn(move || {
                    for unit in 0..UNITS {
                        inside.enter();
                        let key = (unit * 7 + number as u64) % KEYS;
                        // The latch of the key.
                        let mut count = counts[key as usize].lock().unwrap();
                        *count += 1;
                        let entries = [key.to_le_bytes(), count.to_le_bytes()].concat();
                        publish(&rings, &order, number, key, &entries);
                        drop(count);
                        inside.leave();
                        if !rings.has_room(number) {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let (mut source, mut seen, mut written, mut before) = (rings.source(), [0; KEYS as usize], 0, 0);
        while written < 3 * UNITS {
            source.raise_epoch();
            let through = source.closed_epoch();
            let mut cut: Vec<(u64, u16, u64, u64)> = Vec::new();
            source.units(through, &mut |RingId(ring): RingId, mut units: &[u8]| {
                while let Some((head, entries, rest)) = UnitHead::split(units) {
                    let number = |at: usize| u64::from_le_bytes(entries[at..at + 8].try_into().unwrap());
                    cut.push((head.number, ring, number(0), number(8)));
                    units = rest;
                }
            });
            cut.sort_unstable();
            for (number, _, key, count) in cut {
                assert!(epoch_of(number) > before, "the cut through {before} has left a unit out");
                seen[key as usize] += 1;
                assert_eq!(seen[key as usize], count, "the cut has the units of key {key} in order and none is missing");
                written += 1;
            }
            source.release(through);
            before = through;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// The control: processes that leave a step out fail. In builds for simulations a world says what is left out.
    #[cfg(all(feature = "mutants", not(feature = "sim")))]
    #[test]
    fn mutants_are_noticed() {
        for mutant in ["AskStripes", "DrainBeforeClose"] {
            let found = (0..200).any(|_| {
                let output = std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "rings::tests::cuts_beside_threads_are_prefixes_of_each_key"])
                    .env("ALMANDINE_MUTANT", mutant)
                    .output()
                    .unwrap();
                !output.status.success()
            });
            assert!(found, "{mutant} is not noticed");
        }
    }
}
