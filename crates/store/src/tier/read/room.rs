//! Room for large values from the device: what is read of them counts before it comes, and is not asked for before there is room.
//!
//! A value of more than one piece is admitted with the bytes that it will take. A connection without room waits, holding
//! nothing; meanwhile the flusher lets that much leave memory. A connection that holds such values and needs yet another one
//! for the same command may go beyond the budget, one at a time: it waits for no other, so none waits for ever.

use crate::memory::MemoryUse;
use crate::tier::pressure::{HEAP_MIN, LOG_BYTES_MIN, Pressure};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Called when a waiting connection may find room.
pub(in crate::tier) type RoomCall = Box<dyn Fn() + Send + Sync>;

/// What is admitted, and the demand that waits.
#[derive(Default)]
pub(crate) struct Staging {
    /// Bytes of values that are being read.
    bytes: AtomicU64,
    /// Values that are being read, or in use by the commands that had them read.
    values: AtomicU64,
    /// Bytes that a connection waits for; 0: none waits.
    demand: AtomicU64,
    /// A connection has gone beyond the budget.
    overdrawn: AtomicBool,
    pub(in crate::tier) on_room: OnceLock<RoomCall>,
}

/// What becomes of a value that asks for room.
#[derive(Debug)]
pub(crate) enum Admitted {
    Now(Room),
    /// To be asked again when told.
    Later,
    /// It cannot be in memory, whatever leaves.
    Never,
}

/// Room that is held.
pub(crate) struct Room {
    staging: Arc<Staging>,
    /// Bytes that count until the value counts itself.
    bytes: u64,
    /// Bytes that it was asked for.
    asked: u64,
    overdraws: bool,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Room").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.settle();
        let before = self.staging.values.fetch_sub(1, Ordering::AcqRel);
        debug_assert_ne!(before, 0, "who gives room back was counted");
        if self.overdraws {
            self.staging.overdrawn.store(false, Ordering::Release);
        }
        self.staging.tell();
    }
}

impl Room {
    /// Bytes that it was asked for.
    pub(in crate::tier) fn asked(&self) -> u64 {
        self.asked
    }

    /// The value is there, and counts itself.
    pub(in crate::tier) fn settle(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let before = self.staging.bytes.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "room that is given back was taken");
    }
}

impl Staging {
    /// Bytes that are admitted and not there yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that a connection waits for.
    pub(crate) fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    /// Asks for room for `bytes` beside the `held` ones of the same command.
    pub(crate) fn admit(self: &Arc<Self>, bytes: u64, held: u64, budget_bytes: u64, memory: &MemoryUse) -> Admitted {
        debug_assert_ne!(bytes, 0, "who asks for room needs some");
        // What never leaves memory. Buffers come and go.
        let fixed = memory.index_bytes + memory.expiry_bytes + memory.ghost_bytes + memory.tier_bytes;
        let limit = budget_bytes + Pressure::margin(budget_bytes);
        if fixed.min(budget_bytes / 2) + held + bytes + LOG_BYTES_MIN > limit {
            return Admitted::Never;
        }
        if self.take(bytes, budget_bytes, memory) {
            return Admitted::Now(self.room(bytes, false));
        }
        if held != 0 && !self.overdrawn.swap(true, Ordering::AcqRel) {
            self.bytes.fetch_add(bytes, Ordering::AcqRel);
            return Admitted::Now(self.room(bytes, true));
        }
        self.demand.fetch_max(bytes, Ordering::AcqRel);
        Admitted::Later
    }

    /// Calls the waiting connections, if there may be room.
    pub(crate) fn note_memory(&self, budget_bytes: u64, memory: &MemoryUse) {
        let demand = self.demand();
        if demand != 0 && self.fits(demand, self.bytes(), budget_bytes, memory) {
            self.tell();
        }
    }

    /// Takes bytes, if they fit.
    fn take(&self, bytes: u64, budget_bytes: u64, memory: &MemoryUse) -> bool {
        let take = |staged: u64| self.fits(bytes, staged, budget_bytes, memory).then_some(staged + bytes);
        self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    fn fits(&self, bytes: u64, staged: u64, budget_bytes: u64, memory: &MemoryUse) -> bool {
        debug_assert!(bytes <= 1 << 48, "a value fits an address space");
        let others = memory.beside_log_bytes().saturating_sub(self.bytes()) + LOG_BYTES_MIN;
        // Where nothing can leave memory any more, one value may come at least.
        let is_alone = self.values.load(Ordering::Relaxed) == 0 && memory.heap_bytes < HEAP_MIN && memory.garbage_bytes == 0;
        is_alone || others + staged + bytes <= budget_bytes + Pressure::margin(budget_bytes)
    }

    fn room(self: &Arc<Self>, bytes: u64, overdraws: bool) -> Room {
        debug_assert!(self.bytes() >= bytes, "room is taken before it is held");
        self.values.fetch_add(1, Ordering::AcqRel);
        Room { staging: Arc::clone(self), bytes, asked: bytes, overdraws }
    }

    fn tell(&self) {
        if self.demand.swap(0, Ordering::AcqRel) != 0
            && let Some(call) = self.on_room.get()
        {
            call();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn who_finds_no_room_waits_and_is_told() {
        let staging = Arc::new(Staging::default());
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        let tell = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        assert!(staging.on_room.set(Box::new(tell)).is_ok());
        let ask = |bytes: u64, held: u64, heap: u64| {
            let memory =
                MemoryUse { heap_bytes: heap * MIB, staged_bytes: staging.bytes(), index_bytes: MIB, ..MemoryUse::default() };
            staging.admit(bytes * MIB, held * MIB, 256 * MIB, &memory)
        };
        assert!(matches!(ask(250, 0, 0), Admitted::Never), "what can never fit is refused");
        assert!(matches!(ask(100, 150, 0), Admitted::Never), "as is a command that needs too much");
        let Admitted::Now(first) = ask(100, 0, 100) else { panic!("there is room") };
        assert!(matches!(ask(100, 0, 100), Admitted::Later));
        assert_eq!((staging.bytes(), staging.demand()), (100 * MIB, 100 * MIB));
        let Admitted::Now(second) = ask(20, 100, 100) else { panic!("who holds some goes on") };
        assert_eq!(told.load(Ordering::Relaxed), 0);
        drop(first);
        assert_eq!((told.load(Ordering::Relaxed), staging.demand()), (1, 0));
        let Admitted::Now(_beyond) = ask(100, 20, 200) else { panic!("one may go beyond the budget") };
        assert!(matches!(ask(100, 20, 200), Admitted::Later), "but one only");
        drop(second);
        assert_eq!(told.load(Ordering::Relaxed), 2);
        drop(ask(1, 0, 250));
        staging.note_memory(256 * MIB, &MemoryUse { heap_bytes: 250 * MIB, ..MemoryUse::default() });
        assert_eq!(told.load(Ordering::Relaxed), 2, "there is no room yet");
        staging.note_memory(256 * MIB, &MemoryUse { heap_bytes: 50 * MIB, ..MemoryUse::default() });
        assert_eq!(told.load(Ordering::Relaxed), 3);
    }
}
