//! Rings as the writer sees them, kept outside of the simulation: they outlive a process and not a machine.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use almandine_oplog::append::Leftover;
use almandine_oplog::{RingId, UnitSink, UnitSource, epoch_of};

use crate::life::{below, encode};

pub(crate) const RINGS: u16 = 3;

/// Rings of a run, and what clients know.
#[derive(Clone, Default)]
pub(crate) struct Rings(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) run: u64,
    epoch: u64,
    count: u64,
    rings: Vec<VecDeque<(u64, Vec<u8>)>>,
    /// Numbers of this run, in their order, and when they were done.
    pub(crate) done: Vec<(u64, u64)>,
    /// What must be there after a crash that leaves only what was promised.
    pub(crate) promised: Vec<(u64, u64)>,
}

impl Rings {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A run begins with empty rings.
    pub(crate) fn begin(&self, run: u64, epoch: u64) {
        let mut state = self.state();
        (state.run, state.epoch, state.count) = (run, epoch + 1, 0);
        state.rings = (0..RINGS).map(|_| VecDeque::new()).collect();
        state.done.clear();
    }

    /// The machine is gone, and the rings with it.
    pub(crate) fn clear(&self) {
        self.state().rings.clear();
    }

    /// A unit of a ring: its number.
    pub(crate) fn put(&self, ring: u16, bytes: usize, now_ns: u64) -> u64 {
        let mut state = self.state();
        state.count += 1;
        let number = (state.epoch << 18) + state.count;
        state.rings[usize::from(ring)].push_back((number, encode(number, bytes)));
        state.done.push((number, now_ns));
        number
    }

    pub(crate) fn left(&self) -> Vec<Leftover> {
        let state = self.state();
        let rings = (0..).map(RingId).zip(&state.rings);
        rings
            .map(|(ring, units)| Leftover {
                run: state.run,
                ring,
                units: units.iter().flat_map(|(_, unit)| unit.clone()).collect(),
            })
            .collect()
    }
}

impl UnitSource for Rings {
    fn raise_epoch(&mut self) -> u64 {
        let mut state = self.state();
        (state.epoch, state.count) = (state.epoch + 1, 0);
        state.epoch - 1
    }

    fn closed_epoch(&mut self) -> u64 {
        // A worker may be inside of its epoch still.
        let late = below(4) / 3;
        (self.state().epoch - 1).saturating_sub(late)
    }

    fn pending_bytes(&self) -> usize {
        self.state().rings.iter().flatten().map(|(_, unit)| unit.len()).sum()
    }

    fn units(&mut self, through: u64, sink: &mut dyn UnitSink) {
        let rings = self.state().rings.clone();
        for (ring, units) in (0..).map(RingId).zip(rings) {
            units.iter().filter(|(number, _)| epoch_of(*number) <= through).for_each(|(_, unit)| {
                // Either way is one of those that the rings of a server have.
                match sink.room().get_mut(..unit.len()) {
                    Some(room) if below(2) == 0 => {
                        room.copy_from_slice(unit);
                        sink.fill(ring, unit.len(), 1);
                    }
                    _ => sink.push(ring, unit),
                }
            });
        }
    }

    fn release(&mut self, through: u64) {
        self.state().rings.iter_mut().for_each(|ring| ring.retain(|(number, _)| epoch_of(*number) > through));
    }
}
