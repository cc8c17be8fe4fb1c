//! The past of an archive that keeps former bases: INV-ARCHIVE-4. Each moment of the time that is kept can be had, whatever has
//! happened since: clocks that were set back, servers that were killed, taken over, or had to heal their log.

use std::collections::BTreeSet;

use almandine_oplog::append::Place;
use almandine_oplog::archive::{BASES_KEPT, Catalog, restorable};
use almandine_oplog::read;

use super::*;

/// Time as it passes, and as the clock of a server tells it.
pub(super) struct Time {
    true_ms: u64,
    back_ms: u64,
    steps_back: bool,
    pub(super) keep: ArchiveKeep,
}

const BEGIN_MS: u64 = 1_000_000;

impl Time {
    pub(super) fn of(seed: u64) -> Self {
        let ms = if seed.is_multiple_of(2) { 0 } else { 300 };
        let keep = ArchiveKeep { ms, now_ms: BEGIN_MS };
        Self { true_ms: 0, back_ms: 0, steps_back: seed % 5 < 2, keep }
    }

    /// Former bases are kept, at some times.
    pub(super) fn keeps(&self) -> bool {
        self.keep.now_ms > BEGIN_MS || self.keep.ms > 0
    }

    /// Some time passes; sometimes the clock is set back, and another time is to be kept.
    pub(super) fn pass(&mut self, random: &mut Random, past: &mut Past) {
        if !self.keeps() {
            return;
        }
        self.true_ms += 1 + random.next(20);
        if self.steps_back && random.next(30) == 0 {
            self.back_ms += random.next(2_000);
        }
        if random.next(25) == 0 {
            self.keep.ms = [0, 100, 300, 1_000][random.next(4) as usize];
            past.moments.iter_mut().for_each(|moment| moment.keep_ms = moment.keep_ms.min(self.keep.ms));
        }
        self.keep.now_ms = BEGIN_MS + self.true_ms - self.back_ms;
        past.now_ms = self.true_ms;
    }
}

/// What was there at a moment.
struct Known {
    lsn: u64,
    units: usize,
    at_ms: u64,
    /// So long it is to be kept.
    keep_ms: u64,
}

/// What is known of the past.
#[derive(Default)]
pub(super) struct Past {
    moments: Vec<Known>,
    now_ms: u64,
}

impl Past {
    /// The archive has all through this.
    pub(super) fn note(&mut self, writer: &Writer, units: Option<usize>, time: &Time) {
        let kept = writer.shipper.as_ref().unwrap().kept();
        let lsn = writer.ends.range(..=writer.durable).next_back().map(|(lsn, _)| *lsn);
        if let (Some(units), Some(lsn), Some(_)) = (units, lsn, kept.since_ms) {
            self.moments.push(Known { lsn, units, at_ms: time.true_ms, keep_ms: time.keep.ms });
        }
    }

    /// What is behind a place is elsewhere from now on.
    pub(super) fn forget_behind(&mut self, lsn: u64) {
        self.moments.retain(|moment| moment.lsn <= lsn);
    }

    fn wanted(&self) -> impl Iterator<Item = &Known> {
        self.moments.iter().filter(|moment| moment.at_ms + moment.keep_ms > self.now_ms)
    }

    /// One of the moments, and all bases that are listed.
    pub(super) fn look(&self, store: &Store, writer: &Writer, random: &mut Random, seed: u64) {
        let wanted: Vec<&Known> = self.wanted().collect();
        if !wanted.is_empty() {
            look_at(store, writer, wanted[random.next(wanted.len() as u64) as usize], seed);
        }
        look_at_bases(store, seed);
    }

    pub(super) fn look_at_all(&self, store: &Store, writer: &Writer, seed: u64) {
        self.wanted().for_each(|moment| look_at(store, writer, moment, seed));
        look_at_bases(store, seed);
    }
}

/// The log up to an LSN: where its base has all, how many units are before that, and those behind it.
fn fetched(store: &Store, lsn: u64, seed: u64) -> (u64, usize, Vec<Unit>) {
    let folder = Folder::quick(&format!("archive-{seed}-past"));
    let directory = Directory::take(&folder.0).unwrap();
    let mut device = Device::default();
    let is_there = loop {
        match copy(store, &directory, Moment::Lsn(lsn), &mut device) {
            Err(ArchiveFault::Store(_)) => {}
            copied => break copied.unwrap_or_else(|fault| panic!("INV-ARCHIVE-4, seed {seed}: {fault}")).is_some(),
        }
    };
    assert!(is_there && is_to_be_fetched(&directory).unwrap(), "it does not count before it is cut");
    let manifest = read_manifest(&folder.0).unwrap().unwrap();
    let base = manifest.base.unwrap();
    let mut units = Vec::new();
    let end = read::read(&folder.0, &manifest, 0, &mut |group| {
        for slice in group.slices().map(Result::unwrap) {
            let mut rest = slice.units;
            while let Some((_, _, behind)) = almandine_oplog::UnitHead::split(rest).filter(|_| group.end_lsn <= lsn) {
                units.push((slice.run, slice.ring, rest[..rest.len() - behind.len()].to_vec()));
                rest = behind;
            }
        }
        Ok(())
    });
    let Place { lsn: end, .. } = end.unwrap_or_else(|fault| panic!("INV-ARCHIVE-4, seed {seed}: {fault}")).place;
    assert!(end >= base.through, "INV-ARCHIVE-4, seed {seed}: the log of base {} ends before it", base.number);
    (base.through, before(&folder, base.number), units)
}

fn look_at(store: &Store, writer: &Writer, moment: &Known, seed: u64) {
    let (through, before, units) = fetched(store, moment.lsn, seed);
    let all = restorable(store);
    assert!(through <= moment.lsn, "INV-ARCHIVE-4, seed {seed}: no base is before LSN {}, {all:?}", moment.lsn);
    assert_eq!(before + units.len(), moment.units, "INV-ARCHIVE-4, seed {seed}: at LSN {}", moment.lsn);
    for (unit, had) in units.iter().zip(&writer.units[before..]).filter(|(_, had)| !had.2.is_empty()) {
        assert!(unit == had, "INV-ARCHIVE-4, seed {seed}: it is no prefix at LSN {}", moment.lsn);
    }
}

/// Whatever is listed can be had.
fn look_at_bases(store: &Store, seed: u64) {
    let all = loop {
        match restorable(store) {
            Err(ArchiveFault::Store(_)) => {}
            all => break all.unwrap(),
        }
    };
    // Where the log was broken, one more.
    let breaks = all.iter().filter(|base| base.is_broken).count() as u64;
    assert!(all.len() as u64 <= BASES_KEPT + 2 + breaks, "seed {seed}: {all:?}");
    for base in all {
        let (through, _, _) = fetched(store, base.through, seed);
        assert_eq!(through, base.through, "INV-ARCHIVE-4, seed {seed}");
    }
}

/// All that is there is named by the catalog, but for catalogs and seals.
pub(super) fn look_for_garbage(store: &Store, seed: u64) {
    let contents = store.0.lock().unwrap();
    let (name, bytes) = contents.objects.iter().rfind(|(name, _)| name.starts_with("catalog")).unwrap();
    let catalog = Catalog::decode(name, bytes).unwrap();
    let logs: Vec<_> = catalog.former.iter().chain([&catalog.log]).collect();
    let of_bases = logs.iter().filter_map(|log| log.manifest.base).map(|base| base.number);
    let begins: BTreeSet<String> = of_bases
        .flat_map(|number| [format!("base-{number:08}."), format!("inventory-{number:08}-")])
        .chain(logs.iter().flat_map(|log| &log.manifest.segments).map(|segment| format!("log-{:08}-", segment.number)))
        .collect();
    let is_named = |name: &str| begins.iter().any(|begin| name.starts_with(begin));
    let others = contents.objects.iter().filter(|(name, bytes)| !bytes.is_empty() && !is_named(name));
    let others: Vec<&String> = others.map(|(name, _)| name).collect();
    let is_page_or_catalog = |name: &&String| name.starts_with("page-") || name.starts_with("catalog-");
    assert!(others.iter().all(is_page_or_catalog), "seed {seed}: {others:?}");
}

/// Which pages are needed by whom is told by an inventory of each base that is kept, not by looks at pages.
#[test]
fn requests_grow_with_the_bases_and_not_with_their_squares() {
    let requests = |bases: u64| {
        let name = format!("archive-requests-{bases}");
        let (store, mut writer) = (Store::default(), Writer::with_device(&name, Some(Device::default())));
        for number in 0..bases {
            writer.keep = ArchiveKeep { ms: 1_000_000, now_ms: 1_000_000 * (number + 1) / 4 };
            for _ in 0..3 {
                writer.device.as_ref().unwrap().write(writer.next_page, 7);
                writer.pages.insert(writer.next_page, 7);
                writer.next_page += 1;
            }
            if writer.pages.len() > 30 {
                let page = *writer.pages.keys().next().unwrap();
                writer.pages.remove(&page);
                writer.given_up.push((page, writer.bases_begun));
            }
            writer.append(&[1_000], true);
            writer.name_base();
            writer.look();
            assert!((0..100).any(|_| !writer.advance(&store).unwrap().more));
        }
        look_at_bases(&store, u64::MAX - bases);
        let (kept, pages) =
            (restorable(&store).unwrap().len(), store.names().iter().filter(|name| name.starts_with("page-")).count());
        assert!(kept == 5 && pages <= writer.pages.len() + 5, "{kept} {pages} {}", writer.pages.len());
        (writer.shipper.as_ref().unwrap().figures().pages, store.0.lock().unwrap().requests)
    };
    let (one, two, four) = (requests(30), requests(60), requests(120));
    println!("pages shipped and requests with 30, 60 and 120 bases: {one:?}, {two:?}, {four:?}");
    assert_eq!((two.0, four.0), (2 * one.0, 4 * one.0), "each page is shipped once");
    assert!(four.1 - two.1 <= 2 * (two.1 - one.1) + 2, "{one:?} {two:?} {four:?}");
}
