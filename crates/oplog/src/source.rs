//! Where the log's writer gets units from: the rings of all threads, as closed cuts.

/// A ring of a run: each thread that does units of work has one, and a second one for removals of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingId(pub u16);

/// Takes units of rings, whole ones.
pub trait UnitSink {
    /// Takes the next units of a ring.
    fn push(&mut self, ring: RingId, units: &[u8]);

    /// Where units can be put without a copy between; nothing, where there is no such place.
    fn room(&mut self) -> &mut [u8] {
        &mut []
    }

    /// The first bytes of the [room](Self::room) are the next units of a ring, this many.
    fn fill(&mut self, _ring: RingId, bytes: usize, _count: u32) {
        debug_assert_eq!(bytes, 0, "no more is put to a room than it has");
    }
}

impl<F: FnMut(RingId, &[u8])> UnitSink for F {
    fn push(&mut self, ring: RingId, units: &[u8]) {
        self(ring, units);
    }
}

/// What has been done and is not in the log's files yet.
pub trait UnitSource: Send {
    /// Raises the commit epoch, so that what was numbered before can be closed. Returns the epoch that has ended.
    fn raise_epoch(&mut self) -> u64;

    /// The greatest commit epoch that is closed: each unit of it and of those before has been published.
    fn closed_epoch(&mut self) -> u64;

    /// Bytes of published units that were not released, of all epochs.
    fn pending_bytes(&self) -> usize;

    /// Gives the units that were published and not released, up to and with a closed epoch: those of a ring in the order of their
    /// numbers, each [`unit`](crate::unit) whole, possibly in several slices of whole units for one ring.
    fn units(&mut self, through: u64, sink: &mut dyn UnitSink);

    /// Gives the room of those units back: they are in the files, as far as the mode of the log asks for it.
    fn release(&mut self, through: u64);
}
