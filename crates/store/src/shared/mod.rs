//! What all sessions share: the parts of the store, without its threads.

mod budget;
pub(crate) mod consumers;
mod elements;
pub(crate) mod garbage;
mod records;
mod stall;
pub(crate) mod written;

use crate::counters::Counters;
use crate::evict::Eviction;
use crate::expiry::feed::Feed;
use crate::free::SharedFree;
use crate::index::{Index, KEYS_PER_BUCKET};
use crate::log::{Log, NO_PAGE, PAGE_BYTES};
use crate::namespace::Namespaces;
use crate::options::Options;
use crate::progress::Progress;
use crate::record::heap::SharedValue;
use crate::session::blocking::latch_coordinator::LatchCoordinator;
use crate::tier::Tier;
use almandine_base::step;
use almandine_epoch::Epoch;
use almandine_io::memory;
use almandine_io::sync::Mutex;
use almandine_io::thread::Waker;
use consumers::Consumers;
use crossbeam_utils::CachePadded;
use garbage::Garbage;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use stall::Stall;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

/// Threads that belong to the store itself: maintenance and evacuation.
const OWN_THREADS: usize = 2;
/// And with a device: the flusher and the compactor.
const TIER_THREADS: usize = 2;

/// Expiries on their way to the background.
pub(crate) struct Expiry {
    pub(crate) feed: Feed,
    /// Whether the background removes expired records.
    pub(crate) reclaiming: AtomicBool,
    /// No thread removes expired records; readers do not see them.
    pub(crate) held: AtomicBool,
}

/// What there is one of for each thread.
pub(crate) struct Threads {
    /// The page of each thread's open chunk, or `NO_PAGE`.
    pub(crate) active_pages: Box<[CachePadded<AtomicU64>]>,
    /// Numbers that no session has.
    free: Mutex<Vec<usize>>,
}

/// What sessions have for the background, and what it has done.
pub(crate) struct Background {
    pub(crate) waker: Arc<Waker>,
    pub(crate) progress: Progress,
    /// Large values to be freed.
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) stop: AtomicBool,
    /// All users of the store rest.
    pub(crate) rests: AtomicBool,
}

/// See [`crate::Settings::count_external_bytes`].
type ExternalBytes = Box<dyn Fn() -> u64 + Send + Sync>;

/// The memory budget.
#[derive(Default)]
pub(crate) struct Budget {
    /// 0: none.
    pub(crate) bytes: AtomicU64,
    /// What the store's user adds to what is used, asked whenever that is looked at.
    pub(crate) external_bytes: OnceLock<ExternalBytes>,
    /// More is used than allowed, and nothing can be evicted.
    pub(crate) over_limit: AtomicBool,
    pub(crate) stall: Stall,
}

/// Everything that sessions share.
pub(crate) struct Shared {
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) index: Index,
    pub(crate) latch_coordinator: LatchCoordinator,
    pub(crate) log: Log,
    pub(crate) counters: Counters,
    pub(crate) namespaces: Namespaces,
    pub(crate) shared_free: SharedFree,
    pub(crate) expiry: Expiry,
    pub(crate) consumers: Consumers,
    pub(crate) threads: Threads,
    pub(crate) background: Background,
    pub(crate) options: Options,
    secrets: Secrets,
    pub(crate) budget: Budget,
    pub(crate) eviction: Eviction,
    /// The device, if there is one.
    pub(crate) tier: Option<Tier>,
}

/// What a client would have to know to choose keys that collide.
struct Secrets {
    keys: RapidSecrets,
    marks: RapidSecrets,
}

impl Shared {
    pub(crate) fn new(mut options: Options) -> io::Result<Arc<Self>> {
        let own = if options.storage.is_some() { OWN_THREADS + TIER_THREADS } else { OWN_THREADS };
        options.sessions_max = options.sessions_max.clamp(1, almandine_base::limits::STORE_THREADS_MAX - own);
        let threads = options.sessions_max + own;
        debug_assert!(threads <= almandine_base::limits::STORE_THREADS_MAX, "INV-LATCH-1: a latch can count every holder");
        let waker = Arc::new(Waker::new());
        let garbage = Arc::new(Garbage::new(Arc::clone(&waker)));
        let mut tier = options
            .storage
            .clone()
            .map(|storage| Tier::new(storage, options.types.clone(), Arc::clone(&garbage), options.device_pages_max))
            .transpose()?;
        if let (Some(tier), Some(_)) = (&mut tier, options.kept) {
            tier.go_on()?;
        }
        let memory_max = if options.memory_bytes_max == 0 { memory::physical_bytes() } else { options.memory_bytes_max };
        // Holes make the log's span longer than its contents: four times the memory keeps forced evacuations rare.
        let log = reserve(memory_max.saturating_mul(4).max(1 << 26), |bytes| Log::new(bytes, threads))?;
        let buckets_begin = options.kept.map_or(options.keys_expected / KEYS_PER_BUCKET, |kept| kept.index_buckets);
        if let Some((tier, kept)) = tier.as_ref().zip(options.kept) {
            // The last pages may have gone back to the device: their numbers are not used again all the same.
            let next_page = step!(GoOnPages, kept.next_page, else 0);
            log.begin_at(tier.space.ends.0.div_ceil(PAGE_BYTES as u64).max(next_page).max(1));
        }
        // A bucket per 128 bytes of memory: more than the smallest records can ask for.
        let index = reserve((memory_max / 128).max(1 << 16), |buckets| Index::new(buckets_begin, buckets))?;
        Ok(Arc::new(Self {
            epoch: Arc::new(Epoch::new(threads)),
            index,
            latch_coordinator: LatchCoordinator::default(),
            log,
            counters: Counters::new(threads)?,
            namespaces: Namespaces::new()?,
            shared_free: SharedFree::new(),
            expiry: Expiry { feed: Feed::new(threads), reclaiming: AtomicBool::new(true), held: AtomicBool::new(false) },
            consumers: Consumers::default(),
            threads: Threads {
                active_pages: (0..threads).map(|_| CachePadded::new(AtomicU64::new(NO_PAGE))).collect(),
                free: Mutex::new((0..threads).rev().collect()),
            },
            background: Background {
                waker,
                progress: Progress::default(),
                garbage,
                stop: AtomicBool::new(false),
                rests: AtomicBool::new(false),
            },
            secrets: Secrets { keys: RapidSecrets::seed(options.seed), marks: RapidSecrets::seed(!options.seed) },
            budget: Budget::default(),
            eviction: Eviction::new(memory_max)?,
            tier,
            options,
        }))
    }

    #[inline]
    pub(crate) fn hash(&self, namespace: u16, key: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, false>(key, &self.secrets.keys)
            ^ u64::from(namespace).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Another hash of a key, which its own does not tell.
    pub(crate) fn mark(&self, namespace: u16, key: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, false>(key, &self.secrets.marks) ^ u64::from(namespace).rotate_left(u64::BITS / 2)
    }

    /// The number of a thread that no session has.
    pub(crate) fn take_thread(&self) -> Option<usize> {
        let thread = self.threads.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        debug_assert_eq!(
            self.threads.active_pages[thread].load(Ordering::Acquire),
            NO_PAGE,
            "INV-FREE-1: a session that ended keeps no page from being given back"
        );
        Some(thread)
    }

    pub(crate) fn release_thread(&self, thread: usize) {
        let mut free = self.threads.free.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(!free.contains(&thread), "a number comes back once: no two sessions write the same counters");
        free.push(thread);
    }

    /// The numbers that sessions have.
    pub(crate) fn taken_threads(&self) -> Vec<usize> {
        let free = self.threads.free.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(free.len() <= self.threads.active_pages.len(), "INV-LATCH-1: a number is free or a session has it");
        (0..self.threads.active_pages.len()).filter(|thread| !free.contains(thread)).collect()
    }

    /// Lets go of a heap value, in the background if freeing it takes long.
    pub(crate) fn discard(&self, value: SharedValue) {
        self.background.garbage.discard(value);
    }
}

/// Tries a reservation and halves it until the system agrees.
fn reserve<T>(mut size: u64, make: impl Fn(u64) -> io::Result<T>) -> io::Result<T> {
    loop {
        match make(size) {
            Ok(made) => return Ok(made),
            Err(error) if size < 1 << 16 => return Err(error),
            Err(_) => size /= 2,
        }
    }
}
