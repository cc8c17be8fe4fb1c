//! Extents: allocations of whole pages of the system, kept by size, that leave memory one by one.
//!
//! Address space is cut once into extents of a size and never merged; it is plentiful. Memory is not: a freed extent stays
//! resident (*warm*) only while it is likely to be used again. Each time [`Extents::release_unused`] is called, as many of a
//! size as have lain unused ever since the call before become *cold*: their pages go back to the system.
//!
//! Free extents are stacks, linked through a table beside them, because touching a cold extent would make it resident.
//! This is below the allocator and so must not allocate.

use crate::memory::Reservation;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Address space in multiples of the machine's memory: sizes that are out of fashion keep theirs.
const SPACE_FACTOR: u64 = 8;
/// Below this much address space extents are not worth having.
const SPACE_MIN: u64 = 64 << 20;
/// Extents that one call makes cold at most, for each size, under its lock.
const RELEASE_GROUP: usize = 16;
/// Looks at a taken lock before the thread steps aside.
const SPINS: u32 = 64;

/// Free extents of one size.
#[derive(Debug)]
struct Class {
    locked: AtomicBool,
    /// Tops of the stacks: page numbers plus one, 0 for none.
    warm: AtomicU32,
    cold: AtomicU32,
    warm_count: AtomicU32,
    /// The fewest that were warm since the last release.
    warm_least: AtomicU32,
}

impl Class {
    const fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            warm: AtomicU32::new(0),
            cold: AtomicU32::new(0),
            warm_count: AtomicU32::new(0),
            warm_least: AtomicU32::new(0),
        }
    }

    /// Runs a few loads and stores alone.
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut spins = 0;
        while self.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spins += 1;
            if spins % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        let result = work();
        self.locked.store(false, Ordering::Release);
        result
    }
}

/// The area that extents are cut from.
#[derive(Debug)]
pub(super) struct Extents {
    memory: Reservation,
    /// For each page that begins a free extent: the next free one, as in [`Class`].
    links: Reservation,
    pages: u64,
    /// Pages cut so far.
    cut: AtomicU64,
    classes: [Class; Self::BYTES_MAX / Self::PAGE],
}

impl Extents {
    /// Bytes of a page of the system.
    pub(super) const PAGE: usize = 4096;
    /// The largest extent.
    pub(super) const BYTES_MAX: usize = 512 * 1024;

    /// Address space for a machine with so much memory.
    ///
    /// # Errors
    /// When hardly any address space can be had.
    pub(super) fn new(memory_bytes: u64) -> io::Result<Self> {
        let pages_max = u64::from(u32::MAX) - 1;
        let mut bytes = (memory_bytes * SPACE_FACTOR).max(SPACE_MIN).min(pages_max * Self::PAGE as u64);
        loop {
            match Self::with_space(bytes) {
                Err(_) if bytes / 2 >= SPACE_MIN => bytes /= 2,
                outcome => return outcome,
            }
        }
    }

    fn with_space(bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let pages = bytes / Self::PAGE;
        Ok(Self {
            memory: Reservation::small_pages(bytes)?,
            links: Reservation::small_pages(pages * size_of::<AtomicU32>())?,
            pages: pages as u64,
            cut: AtomicU64::new(0),
            classes: [const { Class::new() }; Self::BYTES_MAX / Self::PAGE],
        })
    }

    /// Pages that this number of bytes takes.
    pub(super) const fn pages(bytes: usize) -> usize {
        bytes.div_ceil(Self::PAGE)
    }

    /// Whether a pointer is to an extent.
    pub(super) fn contains(&self, pointer: *const u8) -> bool {
        (pointer as usize).wrapping_sub(self.memory.base().as_ptr() as usize) < self.pages as usize * Self::PAGE
    }

    fn link(&self, top: u32) -> &AtomicU32 {
        debug_assert!(u64::from(top) <= self.pages);
        // SAFETY: the reservation holds a zeroed link for each page, and `top` is a page's number plus one.
        unsafe { &*self.links.base().as_ptr().cast::<AtomicU32>().add(top as usize - 1) }
    }

    fn push(&self, stack: &AtomicU32, top: u32) {
        self.link(top).store(stack.load(Ordering::Relaxed), Ordering::Relaxed);
        stack.store(top, Ordering::Relaxed);
    }

    fn pop(&self, stack: &AtomicU32) -> Option<u32> {
        let top = stack.load(Ordering::Relaxed);
        if top == 0 {
            return None;
        }
        stack.store(self.link(top).load(Ordering::Relaxed), Ordering::Relaxed);
        Some(top)
    }

    /// Memory for `bytes`, at most [`Self::BYTES_MAX`], with any contents. `None` when the address space is used up.
    pub(super) fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let pages = Self::pages(bytes);
        let class = self.classes.get(pages.checked_sub(1)?)?;
        let free = class.with(|| {
            self.pop(&class.warm).map_or_else(
                || self.pop(&class.cold),
                |top| {
                    let left = class.warm_count.load(Ordering::Relaxed) - 1;
                    class.warm_count.store(left, Ordering::Relaxed);
                    class.warm_least.store(class.warm_least.load(Ordering::Relaxed).min(left), Ordering::Relaxed);
                    Some(top)
                },
            )
        });
        let page = match free {
            Some(top) => u64::from(top) - 1,
            None => self.cut(pages as u64)?,
        };
        // SAFETY: the page is inside the reservation.
        Some(unsafe { self.memory.base().add(page as usize * Self::PAGE) })
    }

    fn cut(&self, pages: u64) -> Option<u64> {
        let next = |cut: u64| Some(cut + pages).filter(|&end| end <= self.pages);
        self.cut.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// Takes an extent back.
    ///
    /// # Safety
    /// It came from [`Self::take`] for a size of as many pages, and is not used any more.
    pub(super) unsafe fn give(&self, pointer: *const u8, bytes: usize) {
        debug_assert!(self.contains(pointer));
        let page = (pointer as usize - self.memory.base().as_ptr() as usize) / Self::PAGE;
        let class = &self.classes[Self::pages(bytes) - 1];
        class.with(|| {
            self.push(&class.warm, page as u32 + 1);
            class.warm_count.store(class.warm_count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        });
    }

    /// Gives back what has not been used since the last call. One thread at a time calls this.
    pub(super) fn release_unused(&self) {
        for (index, class) in self.classes.iter().enumerate() {
            let mut unused = class.with(|| {
                let unused = class.warm_least.load(Ordering::Relaxed);
                class.warm_least.store(class.warm_count.load(Ordering::Relaxed), Ordering::Relaxed);
                unused
            });
            while unused != 0 {
                let released = self.release_some(class, (index + 1) * Self::PAGE, unused.min(RELEASE_GROUP as u32));
                if released == 0 {
                    break;
                }
                unused -= released;
            }
        }
    }

    fn release_some(&self, class: &Class, bytes: usize, most: u32) -> u32 {
        let mut tops = [0; RELEASE_GROUP];
        let mut count = 0;
        class.with(|| {
            while count < most as usize
                && let Some(top) = self.pop(&class.warm)
            {
                tops[count] = top;
                count += 1;
            }
            let left = class.warm_count.load(Ordering::Relaxed) - count as u32;
            class.warm_count.store(left, Ordering::Relaxed);
            class.warm_least.store(class.warm_least.load(Ordering::Relaxed).min(left), Ordering::Relaxed);
        });
        // Outside the lock: no thread can take them meanwhile.
        for &top in &tops[..count] {
            self.memory.release((top as usize - 1) * Self::PAGE, bytes);
        }
        class.with(|| tops[..count].iter().for_each(|&top| self.push(&class.cold, top)));
        count as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 20;

    fn extents() -> Extents {
        Extents::with_space(BYTES as u64).expect("address space")
    }

    /// Resident pages among those of an extent, as the system tells.
    fn resident(extents: &Extents) -> usize {
        let mut states = vec![0u8; extents.pages as usize];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let result = unsafe { libc::mincore(extents.memory.base().as_ptr().cast(), BYTES, states.as_mut_ptr()) };
        assert_eq!(result, 0);
        states.iter().filter(|&&state| state & 1 != 0).count()
    }

    fn fill(pointer: NonNull<u8>, bytes: usize, with: u8) {
        // SAFETY: the extent has as many bytes and is the test's.
        unsafe { pointer.as_ptr().write_bytes(with, bytes) };
    }

    fn holds(pointer: NonNull<u8>, bytes: usize, with: u8) -> bool {
        // SAFETY: as above, and it has been written.
        unsafe { std::slice::from_raw_parts(pointer.as_ptr(), bytes) }.iter().all(|&byte| byte == with)
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system what is resident")]
    fn what_is_freed_in_any_order_by_any_thread_leaves_memory() {
        let extents = extents();
        let sizes = |number: usize| 16 * 1024 + 1 + number * 7919 % 40_000;
        let all: Vec<_> = (0..1_000).map(|number| (number, extents.take(sizes(number)).expect("space"))).collect();
        all.iter().for_each(|&(number, pointer)| fill(pointer, sizes(number), number as u8));
        // Three of four die, scattered, on another thread; the survivors keep what they hold.
        let (live, dead): (Vec<_>, Vec<_>) = all.into_iter().partition(|(number, _)| number % 4 == 0);
        let dead: Vec<_> = dead.into_iter().map(|(number, pointer)| (number, pointer.as_ptr() as usize)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: taken above for these sizes and used no more.
                dead.iter().for_each(|&(number, at)| unsafe { extents.give(at as *const u8, sizes(number)) });
            });
        });
        extents.release_unused();
        extents.release_unused();
        let held: usize = live.iter().map(|&(number, _)| Extents::pages(sizes(number))).sum();
        assert_eq!(resident(&extents), held);
        assert!(live.iter().all(|&(number, pointer)| holds(pointer, sizes(number), number as u8)));
        // Cold extents are used again before new ones are cut.
        let cut = extents.cut.load(Ordering::Relaxed);
        for &(number, _) in &dead {
            let pointer = extents.take(sizes(number)).expect("space");
            assert!(holds(pointer, sizes(number), 0), "pages given back read as zeroes");
        }
        assert_eq!(extents.cut.load(Ordering::Relaxed), cut);
    }

    #[test]
    fn what_is_in_use_all_the_time_stays_warm() {
        let extents = extents();
        for round in 0..100 {
            let pointer = extents.take(20_000).expect("space");
            assert!(holds(pointer, 20_000, 0) == (round == 0));
            fill(pointer, 20_000, 1);
            // SAFETY: taken just now.
            unsafe { extents.give(pointer.as_ptr(), 20_000) };
            if round % 2 == 1 {
                // Used since the call before: it is not given back.
                let again = extents.take(20_000).expect("space");
                assert_eq!(again, pointer);
                // SAFETY: as above.
                unsafe { extents.give(again.as_ptr(), 20_000) };
                extents.release_unused();
            }
        }
        assert_eq!(extents.cut.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn used_up_address_space_is_none_and_sizes_do_not_mix() {
        let extents = extents();
        let mut taken = Vec::new();
        while let Some(pointer) = extents.take(Extents::BYTES_MAX) {
            taken.push(pointer.as_ptr() as usize);
        }
        assert_eq!(taken.len(), BYTES / Extents::BYTES_MAX);
        assert!(extents.take(Extents::PAGE).is_none() && extents.take(Extents::BYTES_MAX + 1).is_none());
        // SAFETY: taken above.
        unsafe { extents.give(taken[3] as *const u8, Extents::BYTES_MAX) };
        assert!(extents.take(Extents::BYTES_MAX - Extents::PAGE).is_none());
        assert_eq!(extents.take(Extents::BYTES_MAX - Extents::PAGE + 1).map(|pointer| pointer.as_ptr() as usize), Some(taken[3]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long")]
    fn threads_never_share_an_extent() {
        let extents = extents();
        std::thread::scope(|scope| {
            for stamp in 1..=3u8 {
                let extents = &extents;
                scope.spawn(move || {
                    let mut mine: Vec<(NonNull<u8>, usize)> = Vec::new();
                    for round in 0..20_000usize {
                        let bytes = 16_385 + round * 31 % 3 * 4096;
                        if mine.len() == 20 || (round % 3 == 0 && !mine.is_empty()) {
                            let (pointer, bytes) = mine.swap_remove(round % mine.len());
                            assert!(holds(pointer, 64, stamp));
                            // SAFETY: taken below and used no more.
                            unsafe { extents.give(pointer.as_ptr(), bytes) };
                        } else {
                            let pointer = extents.take(bytes).expect("space");
                            fill(pointer, 64, stamp);
                            mine.push((pointer, bytes));
                        }
                    }
                });
            }
            scope.spawn(|| (0..200).for_each(|_| extents.release_unused()));
        });
    }
}
