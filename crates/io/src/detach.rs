//! Mappings of files go on in memory when their file system fails.
//!
//! The system writes pages of such a mapping back when it likes to, and asks the file system again at the next store to them. One
//! that has failed refuses, which is a SIGBUS. Its handler gives the range of the mapping to memory with the same contents, and the
//! store is done again. The file keeps what was stored until then; what comes later ends with the process, so code that relies on
//! the file asks [`is_detached`] behind each store.
//!
//! While the contents are copied no store may get to the file: they are refused, too, as SIGSEGV, and their threads wait in the
//! handler until the range is memory.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Mappings of a process, at most; further ones are not watched.
const SLOTS: usize = 1024;
const ATTACHED: u32 = 0;
const DETACHING: u32 = 1;
const DETACHED: u32 = 2;
const FAILED: u32 = 3;
/// The place of a mapping that is being entered.
const TAKEN: usize = 1;

struct Slot {
    /// Where it begins; 0: none.
    base: AtomicUsize,
    bytes: AtomicUsize,
    state: AtomicU32,
}

static WATCHED: [Slot; SLOTS] =
    [const { Slot { base: AtomicUsize::new(0), bytes: AtomicUsize::new(0), state: AtomicU32::new(ATTACHED) } }; SLOTS];
static IS_DETACHED: AtomicBool = AtomicBool::new(false);

/// Whether a mapping of this process goes on in memory.
#[inline]
#[must_use]
pub fn is_detached() -> bool {
    IS_DETACHED.load(Ordering::Acquire)
}

/// A mapping that goes on in memory when its file system fails; until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched(usize);

impl Watched {
    /// Watches a range that is mapped, to be read and written, as long as this lives. None when there are too many.
    pub(crate) fn new(base: usize, bytes: usize) -> Option<Self> {
        let take = |slot: &Slot| slot.base.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let number = WATCHED.iter().position(take)?;
        let slot = &WATCHED[number];
        slot.bytes.store(bytes, Ordering::Relaxed);
        slot.state.store(ATTACHED, Ordering::Relaxed);
        slot.base.store(base, Ordering::Release);
        Some(Self(number))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED[self.0].base.store(0, Ordering::Release);
    }
}

/// For the handler of SIGBUS and SIGSEGV: whether what was refused at this address is to be done again.
pub(crate) fn goes_on(signal: i32, address: usize) -> bool {
    let has = |slot: &&Slot| {
        let base = slot.base.load(Ordering::Acquire);
        base > TAKEN && (base..base + slot.bytes.load(Ordering::Relaxed)).contains(&address)
    };
    WATCHED.iter().find(has).is_some_and(|slot| slot.goes_on(signal))
}

impl Slot {
    fn goes_on(&self, signal: i32) -> bool {
        if signal == libc::SIGBUS && self.state.compare_exchange(ATTACHED, DETACHING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // Before anything is stored to memory only.
            IS_DETACHED.store(true, Ordering::SeqCst);
            let moved = move_to_memory(self.base.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
            self.state.store(if moved { DETACHED } else { FAILED }, Ordering::Release);
        }
        loop {
            match self.state.load(Ordering::Acquire) {
                DETACHED => return true,
                DETACHING => {
                    // SAFETY: no preconditions.
                    unsafe { libc::sched_yield() };
                }
                _ => return false,
            }
        }
    }
}

/// Replaces a range by memory with the same contents. For one thread at a time.
fn move_to_memory(base: usize, bytes: usize) -> bool {
    let place = base as *mut libc::c_void;
    // SAFETY: the range is mapped as long as it is watched, and its users are atomic accesses, which this only delays: those that
    // store wait in the handler until the range is memory. That takes the place of the old one at once, with the same contents. All
    // are system calls: a handler may do them.
    unsafe {
        if libc::mprotect(place, bytes, libc::PROT_READ) != 0 {
            return false;
        }
        let memory = libc::memfd_create(c"almandine-detached".as_ptr(), libc::MFD_CLOEXEC);
        if memory < 0 || libc::ftruncate(memory, bytes as libc::off_t) != 0 {
            return false;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let moved =
            copy(place, bytes, memory) && libc::mmap(place, bytes, access, libc::MAP_SHARED | libc::MAP_FIXED, memory, 0) == place;
        libc::close(memory);
        moved
    }
}

/// Copies a range to a file, but for pages that cannot be read: no store has come to them, or the system has dropped them and
/// cannot have them back. False when the file takes no more.
///
/// # Safety
/// The range is mapped, if not readable.
unsafe fn copy(place: *const libc::c_void, bytes: usize, memory: i32) -> bool {
    const PAGE: usize = 4096;
    let mut at = 0;
    while at < bytes {
        // SAFETY: the system reads the range, and says so where it cannot.
        let copied = unsafe { libc::pwrite(memory, place.wrapping_byte_add(at), bytes - at, at as libc::off_t) };
        at = match usize::try_from(copied) {
            Ok(copied) if copied > 0 => at + copied,
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => (at / PAGE + 1) * PAGE,
            _ => return false,
        };
    }
    true
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::mapping::{SharedMapping, prepare_directory};
    use std::sync::Arc;
    use std::thread;

    /// Threads store while the range is given to memory: no store is lost, and the file has those of each thread up to one.
    #[test]
    fn what_is_stored_while_a_mapping_is_detached_is_there() {
        const STORES: usize = 1 << 18;
        let directory = std::env::temp_dir().join(format!("almandine-detach-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        prepare_directory(&directory).unwrap();
        crate::crash::install(|_| {}).unwrap();
        let place = |own: usize, store: usize| 2 * store + own;
        for round in 0..20 {
            let name = round.to_string();
            let mapping = Arc::new(SharedMapping::create(&directory, &name, 2 * STORES).unwrap());
            let base = mapping.words().as_ptr() as usize;
            let threads: Vec<_> = (0..2)
                .map(|own| {
                    let mapping = Arc::clone(&mapping);
                    let store = move || (0..STORES).for_each(|at| mapping.words()[place(own, at)].store(1, Ordering::Release));
                    thread::spawn(store)
                })
                .collect();
            while mapping.words()[place(1, 10)].load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            assert!(goes_on(libc::SIGBUS, base + 4096), "as the handler does");
            assert!(is_detached());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(mapping.words().iter().all(|word| word.load(Ordering::Acquire) == 1), "round {round} has lost a store");
            let file = SharedMapping::open(&directory, &name).unwrap();
            for own in 0..2 {
                let stored = |at: usize| file.words()[place(own, at)].load(Ordering::Acquire) == 1;
                let count = (0..STORES).take_while(|&at| stored(at)).count();
                assert!(count > 0 || own == 0, "round {round}: nothing was stored before");
                assert!(!(count..STORES).any(stored), "round {round}: the file has a store without the ones before");
            }
        }
        assert!(!goes_on(libc::SIGSEGV, 4096) && !goes_on(libc::SIGBUS, 4096));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
