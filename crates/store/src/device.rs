//! A store's device as a base of the operation log names it, and as a later store on the same device begins with it.

use crate::log::{Log, PAGE_BYTES};
use crate::session::Session;
use crate::store::Store;
use crate::tier::ciphers::CipherRow;
use crate::tier::pages::PageRow;
use crate::tier::retained::DeviceLease;
use crate::tier::{Storage, Tier};
use almandine_base::step;
use std::io;
use std::sync::atomic::Ordering;

/// A base that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBase {
    number: u64,
    /// Records below this address have not changed since before the base began, and lie on the device.
    pub below: u64,
    /// Buckets of the index.
    pub index_buckets: u64,
}

impl DeviceBase {
    /// No page that this base or an earlier one names has this number or a greater one.
    #[must_use]
    pub fn next_page(&self) -> u64 {
        Log::page_of(self.below)
    }
}

/// The device of a store.
#[derive(Clone, Copy)]
pub struct StoreDevice<'s> {
    store: &'s Store,
    tier: &'s Tier,
}

impl Store {
    /// The device, if there is one.
    #[must_use]
    pub fn device(&self) -> Option<StoreDevice<'_>> {
        self.inner.tier.as_ref().map(|tier| StoreDevice { store: self, tier })
    }
}

impl StoreDevice<'_> {
    /// Bytes of a page.
    pub const PAGE_BYTES: usize = PAGE_BYTES;

    /// The seed of the hashes.
    #[must_use]
    pub fn seed(self) -> u64 {
        self.store.inner.options.seed
    }

    /// A start may begin with a base that is there or is written first: space is kept for it (INV-RETAIN-1).
    pub fn keep_for_bases(self) {
        self.tier.space.retained.turn_on(Log::page_of(self.store.inner.log.head()));
    }

    /// A base is about to be named, of a log that may have had none.
    pub fn begin_naming(self) {
        self.tier.space.retained.begin_naming();
    }

    /// No start begins with a base any more: the log has ended, and that is durable on the device. Nothing is kept for bases, but
    /// for one that is still being written.
    pub fn keep_no_more(self) {
        self.tier.space.retained.turn_off().into_iter().for_each(|space| self.tier.free(space));
    }

    /// Begins a base, before the cut of the log that it begins with: what lies below has no effect of a unit that ends behind that.
    /// Outside of a batch; waits for a unit that is alone.
    #[must_use]
    pub fn begin_base(self, session: &mut Session) -> DeviceBase {
        session.enter(0);
        let number = self.tier.space.retained.begin_base();
        let below = session.local.head;
        session.leave();
        step!(HoldNamespaces, self.store.inner.namespaces.hold(true));
        DeviceBase { number, below, index_buckets: self.store.inner.index.len() }
    }

    /// The pages that a base may name: all that are stored below its address. Before its walk begins.
    pub fn pages(self, base: DeviceBase) -> impl Iterator<Item = PageRow> {
        let below = Log::page_of(base.below);
        debug_assert!(below <= Log::page_of(self.store.inner.log.head()), "INV-RETAIN-1: a base names what left memory before");
        self.tier.pages.stored_pages(below, below).filter_map(move |page| self.tier.pages.row_of(page))
    }

    /// Pages on the device.
    #[must_use]
    pub fn pages_stored(self) -> u64 {
        self.tier.pages.len()
    }

    /// The ciphers of these pages. Before the walk of the base begins.
    #[must_use]
    pub fn ciphers(self) -> Vec<CipherRow> {
        self.tier.storage.ciphers.rows()
    }

    /// Words of a page that are dead by now; all of it when it was given up.
    #[must_use]
    pub fn dead_words(self, row: &PageRow) -> u32 {
        debug_assert!(row.page < Log::page_of(self.store.inner.log.head()), "INV-TIER-1: the page is on the device");
        self.tier.pages.row_of(row.page).map_or(row.live_words, |now| now.dead_words)
    }

    /// Returns when all that was written survives a crash of the machine: large values before the pages that refer to them.
    ///
    /// # Errors
    /// When that is not certain; it never is again with this device.
    pub fn sync(self) -> io::Result<()> {
        self.tier.storage.values.sync()?;
        self.tier.storage.pages.sync()
    }

    /// Ends a base. If it is complete and named, what only an earlier one named goes back; if there is none and it is not, what was
    /// kept for it.
    pub fn end_base(self, base: DeviceBase, is_complete: bool) {
        self.store.inner.namespaces.hold(false);
        debug_assert!(base.below <= self.store.inner.log.head(), "INV-TIER-1: the head only grows");
        let retained = &self.tier.space.retained;
        let free = match is_complete {
            true => retained.complete_base(base.number, base.next_page()),
            false => retained.give_base_up(),
        };
        free.into_iter().for_each(|space| self.tier.free(space));
    }

    /// Has all that a base names stay on the device (INV-LEASE-1), before the next base is complete.
    pub fn begin_lease(self, base: DeviceBase) -> DeviceLease {
        debug_assert!(base.below <= self.store.inner.log.head(), "INV-LEASE-1: a base names what left memory before");
        let lease = DeviceLease::new(base.number, base.below);
        self.tier.space.retained.begin_lease(lease);
        lease
    }

    /// Ends that: what nothing else keeps goes back.
    pub fn end_lease(self, lease: DeviceLease) {
        self.tier.space.retained.end_lease(lease).into_iter().for_each(|space| self.tier.free(space));
    }

    /// What pages and large values lie on.
    #[must_use]
    pub fn storage(self) -> Storage {
        self.tier.storage.clone()
    }

    /// Bytes on the device that are kept for bases.
    #[must_use]
    pub fn retained_bytes(self) -> u64 {
        self.tier.space.retained.bytes()
    }

    /// Reads in the background what was in memory when the base was written that the store has begun with, as far as memory has
    /// room; how many records. Behind all that is done again.
    #[must_use]
    pub fn read_ahead(self) -> u64 {
        debug_assert!(!self.tier.space.adopting.load(Ordering::Relaxed), "INV-RETAIN-1: all entries are there");
        let records = self.tier.space.ahead.begin();
        self.tier.wakers.compactor.wake();
        records
    }

    /// Begins without keys whose records are damaged, instead of refusing. Before anything is adopted.
    pub fn forgive_damage(self) {
        self.tier.space.forgiven.turn_on();
    }

    /// Pages that were found damaged, and keys that the store has begun without.
    #[must_use]
    pub fn lost(self) -> (u64, u64) {
        self.tier.space.forgiven.lost()
    }

    /// Says how many words of an adopted page are dead.
    pub fn count_dead(self, page: u64, words: u32) {
        self.tier.pages.set_dead(page, words);
    }

    /// Takes a page over that an earlier store has written. Before any entry that leads to it; false: it is no page of this store.
    #[must_use]
    pub fn adopt_page(self, row: &PageRow) -> bool {
        debug_assert!(
            self.tier.space.adopting.load(Ordering::Relaxed),
            "INV-RETAIN-1: pages are adopted by a store that begins so"
        );
        let adopted = row.page < Log::page_of(self.store.inner.log.head()) && self.tier.pages.adopt(row);
        if adopted {
            self.tier.storage.ciphers.adopt_page(row.nonce);
        }
        adopted
    }
}
