//! Archives: whatever happens to the server that writes one, to the store and to the one that takes it over, what is fetched is a
//! prefix of the log that has all that was said to be shipped: INV-ARCHIVE-1 and INV-ARCHIVE-2.

mod pages;
mod past;
mod races;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use almandine_oplog::LogKeys;
use almandine_oplog::append::Appender;
use almandine_oplog::archive::{
    ArchiveFault, ArchiveKeep, Fetched, Moment, NamedBase, Objects, PageTarget, Shipped, Shipper, copy, fetch, is_to_be_fetched,
};
use almandine_oplog::directory::{Directory, base_path, read_manifest};
use almandine_oplog::manifest::BaseEntry;

use self::pages::{Device, Table, read_table, write_table};
use self::past::{Past, Time};
use super::{Folder, Unit, append};

/// A store in memory that fails now and then, before or behind what it is asked for.
#[derive(Clone, Default)]
pub(super) struct Store(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Vec<u8>>,
    random: Random,
    /// Of this many requests one fails, in the mean; 0: none does.
    fail_one_in: u64,
    failures: u64,
    requests: u64,
    /// What begins so is not made,
    refuses: &'static str,
    /// nor what ends so.
    refuses_end: &'static str,
    /// Happens in the middle of a list.
    amid_list: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Default)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

impl Store {
    fn ask<T>(&self, does: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> io::Result<T> {
        let mut contents = self.0.lock().unwrap();
        contents.requests += 1;
        let fails = contents.fail_one_in > 0 && {
            let one_in = contents.fail_one_in;
            contents.random.next(one_in) == 0
        };
        contents.failures += u64::from(fails);
        let is_done = !fails || contents.random.next(2) == 0;
        let answer = is_done.then(|| does(&mut contents.objects));
        answer.filter(|_| !fails).ok_or_else(|| io::Error::other("the store is away"))
    }

    pub(super) fn fail_one_in(&self, count: u64) {
        self.0.lock().unwrap().fail_one_in = count;
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().objects.keys().cloned().collect()
    }
}

impl Objects for Store {
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let (refuses, refuses_end) = {
            let contents = self.0.lock().unwrap();
            (contents.refuses, contents.refuses_end)
        };
        let is_of = |what: &str, is: bool| !what.is_empty() && is;
        if is_of(refuses, name.starts_with(refuses)) || is_of(refuses_end, name.ends_with(refuses_end)) {
            return Err(io::Error::other("the store is full"));
        }
        self.ask(|objects| {
            let is_new = !objects.contains_key(name);
            if is_new {
                objects.insert(name.to_owned(), bytes.to_owned());
            }
            is_new
        })
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.ask(|objects| objects.get(name).cloned())
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let list = |is_first: bool| {
            self.ask(|objects| {
                let all = objects.iter().filter(|(name, _)| name.starts_with("catalog") == is_first);
                all.map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect::<Vec<_>>()
            })
        };
        let first = list(true)?;
        let amid = self.0.lock().unwrap().amid_list.take();
        amid.into_iter().for_each(|happens| happens());
        Ok([first, list(false)?].concat())
    }

    fn delete(&self, names: &[String]) -> io::Result<()> {
        self.ask(|objects| names.iter().for_each(|name| drop(objects.remove(name))))
    }
}

/// A server: a log in a directory, its archive, and what it should hold.
struct Writer {
    folder: Folder,
    log: Option<Appender>,
    shipper: Option<Shipper>,
    /// All units of the log, from its beginning on.
    units: Vec<Unit>,
    /// Units behind each LSN that ends a durable group.
    ends: BTreeMap<u64, usize>,
    /// What is durable, as the thread that ships knows it: of some moment before.
    durable: u64,
    base: u64,
    /// See [`NamedBase::broken_at`].
    broken_at: u64,
    /// A base that is on its way.
    begun: Option<Begun>,
    epoch: u64,
    /// Where it has data beyond memory.
    device: Option<Device>,
    pages: Table,
    next_page: u64,
    /// Pages that are given up, and how many bases had begun then.
    given_up: Vec<(u64, u64)>,
    bases_begun: u64,
    keep: ArchiveKeep,
}

/// A base that has begun.
struct Begun {
    lsn: u64,
    units: usize,
    number: u64,
    next_page: u64,
    pages: Table,
}

impl Writer {
    fn new(name: &str) -> Self {
        Self::with_device(name, None)
    }

    fn with_device(name: &str, device: Option<Device>) -> Self {
        let mut writer = Self {
            folder: Folder::quick(name),
            log: None,
            shipper: None,
            units: Vec::new(),
            ends: BTreeMap::new(),
            durable: 0,
            base: 0,
            broken_at: 1,
            begun: None,
            epoch: 1,
            device,
            pages: Table::new(),
            next_page: 1,
            given_up: Vec::new(),
            bases_begun: 0,
            keep: ArchiveKeep::default(),
        };
        let log = writer.folder.begin();
        writer.log = Some(log);
        writer.name_base();
        writer.look();
        writer
    }

    fn look(&mut self) {
        self.durable = self.log().ends().1.lsn;
    }

    fn log(&mut self) -> &mut Appender {
        self.log.as_mut().unwrap()
    }

    fn append(&mut self, sizes: &[usize], durable: bool) {
        self.epoch += 1;
        let epoch = self.epoch;
        let units = append(self.log(), epoch, sizes, durable);
        self.units.extend(units);
        if durable {
            let (all, lsn) = (self.units.len(), self.log().ends().1.lsn);
            self.ends.insert(lsn, all);
        }
    }

    /// Writes a page to the device, or gives one up.
    fn change_pages(&mut self, random: &mut Random) {
        let Some(device) = &self.device else { return };
        if random.next(3) > 0 || self.pages.is_empty() {
            let seed = 1 + random.next(1 << 30);
            device.write(self.next_page, seed);
            self.pages.insert(self.next_page, seed);
            self.next_page += 1;
        } else {
            let at = usize::try_from(random.next(self.pages.len() as u64)).unwrap();
            let page = *self.pages.keys().nth(at).unwrap();
            self.pages.remove(&page);
            self.given_up.push((page, self.bases_begun));
        }
    }

    /// A base that says how many units are before it.
    fn name_base(&mut self) {
        let begun = self.begin_base();
        self.write_base(begun);
    }

    /// A base begins: where it does, and what is before it.
    fn begin_base(&mut self) -> Begun {
        let place = self.log().rotate().unwrap();
        self.ends.insert(place.lsn, self.units.len());
        self.begin_at(place.lsn)
    }

    fn begin_at(&mut self, lsn: u64) -> Begun {
        self.bases_begun += 1;
        let (number, next_page, pages) = (self.bases_begun, self.next_page, self.pages.clone());
        Begun { lsn, units: self.units.len(), number, next_page, pages }
    }

    fn write_base(&mut self, begun: Begun) {
        let base = self.prepare_base(&begun);
        self.log().name_base(base).unwrap();
        // What was given up before it began goes back.
        let device = self.device.clone();
        self.given_up.retain(|(page, since)| {
            let is_kept = *since >= begun.number;
            device.iter().filter(|_| !is_kept).for_each(|device| device.free(*page));
            is_kept
        });
    }

    /// All of a base but its name.
    fn prepare_base(&mut self, begun: &Begun) -> BaseEntry {
        self.begun = None;
        self.base += 1;
        let (number, epoch, bytes) = (self.base, self.epoch, 100 + usize::try_from(self.base).unwrap());
        let text = format!("{} ", begun.units).into_bytes().into_iter().chain(std::iter::repeat_n(b'.', bytes));
        std::fs::write(base_path(&self.folder.0, number, 0), text.collect::<Vec<_>>()).unwrap();
        if self.device.is_some() {
            write_table(&base_path(&self.folder.0, number, 1), begun.next_page, &begun.pages);
        }
        self.append(&[30], true);
        let through = self.log().ends().1.lsn;
        let parts = 1 + u32::from(self.device.is_some());
        BaseEntry { number, lsn: begun.lsn, through, epoch, parts, key: None }
    }

    /// A group is lost with its disk, and a base heals the log that has what was in it.
    fn heal(&mut self) {
        self.append(&[500], false);
        self.log().heal_with_base().unwrap();
        let place = self.log().ends().1;
        self.ends.retain(|lsn, _| *lsn <= place.lsn);
        let begun = self.begin_at(place.lsn);
        self.write_base(begun);
        self.broken_at = self.base;
    }

    /// The process ends, and another one begins with what was written.
    fn restart(&mut self) {
        (self.log, self.shipper, self.begun) = (None, None, None);
        let base = read_manifest(&self.folder.0).unwrap().unwrap().base.unwrap();
        let (units, _) = self.folder.read().unwrap();
        self.units.truncate(before(&self.folder, base.number));
        self.units.extend(units);
        self.log = Some(self.folder.begin());
        // What was carried over is at other places now.
        let (all, lsn) = (self.units.len(), self.log().ends().1.lsn);
        self.ends = BTreeMap::from([(lsn, all)]);
        (self.base, self.broken_at) = (base.number, base.number);
        if let Some(device) = &self.device {
            // What was written since the base is in the log only, and its numbers are used again.
            (self.next_page, self.pages) = read_table(&base_path(&self.folder.0, base.number, 1));
            device.keep_only(&self.pages);
            self.given_up.clear();
        }
        self.look();
    }

    /// Where this run has begun: what is before it stays where it is.
    fn begun_run(&mut self) -> u64 {
        self.log().manifest().segments.last().unwrap().lsn
    }

    /// Ships; how many units the archive has, if it says so.
    fn ship(&mut self, store: &Store) -> Result<Option<usize>, ArchiveFault> {
        let shipped = self.advance(store)?;
        assert_eq!(shipped.left_out, None);
        Ok(shipped.through.and_then(|lsn| self.ends.range(..=lsn).next_back().map(|(_, units)| *units)))
    }

    fn advance(&mut self, store: &Store) -> Result<Shipped, ArchiveFault> {
        let (id, durable) = (self.log().manifest().id, self.durable);
        let base = NamedBase { number: self.base, broken_at: self.broken_at };
        if self.shipper.is_none() {
            let pages = self.device.clone().map(|device| Box::new(device) as _);
            self.shipper = Some(Shipper::begin(Box::new(store.clone()), &self.folder.0)?.with_pages(pages));
        }
        self.shipper.as_mut().unwrap().advance(id, durable, base, self.keep)
    }
}

/// Units before a base.
fn before(folder: &Folder, base: u64) -> usize {
    let text = std::fs::read_to_string(base_path(&folder.0, base, 0)).unwrap();
    assert_eq!(text.len() as u64, text.find(' ').unwrap() as u64 + 1 + 100 + base, "a base is whole");
    text.split(' ').next().unwrap().parse().unwrap()
}

/// A server that starts from the archive; none where there is none.
fn take_over(store: &Store, name: &str) -> Result<Option<Writer>, ArchiveFault> {
    start_from(store, name, |objects, directory, pages| fetch(objects, directory, &LogKeys::NONE, pages))
}

type Fetch = fn(&dyn Objects, &Directory, &mut dyn PageTarget) -> Result<Option<Fetched>, ArchiveFault>;

fn start_from(store: &Store, name: &str, fetch: Fetch) -> Result<Option<Writer>, ArchiveFault> {
    let (folder, mut device) = (Folder::quick(name), Device::default());
    loop {
        let directory = Directory::take(&folder.0).unwrap();
        assert!(is_to_be_fetched(&directory).unwrap());
        match fetch(store, &directory, &mut device) {
            Err(ArchiveFault::Store(_)) => {}
            fetched => match fetched? {
                None => return Ok(None),
                Some(fetched) => {
                    assert!(!is_to_be_fetched(&directory).unwrap() && fetched.objects > 0);
                    break;
                }
            },
        }
    }
    let manifest = read_manifest(&folder.0).unwrap().unwrap();
    let base = manifest.base.unwrap();
    let (units, end) = folder.read().unwrap();
    assert!(end.place.lsn >= base.through, "INV-CHECKPOINT-1: the log of an archive completes its base");
    let count = before(&folder, base.number);
    // What is before the base, of which nothing can be told.
    let units = std::iter::repeat_n((0, almandine_oplog::RingId(0), Vec::new()), count).chain(units).collect();
    let mut writer = Writer {
        folder,
        log: None,
        shipper: None,
        units,
        ends: BTreeMap::new(),
        durable: 0,
        base: base.number,
        broken_at: base.number,
        begun: None,
        epoch: manifest.base.unwrap().epoch.max(end.epoch),
        device: (base.parts == 2).then_some(device),
        pages: Table::new(),
        next_page: 0,
        given_up: Vec::new(),
        bases_begun: 0,
        keep: ArchiveKeep::default(),
    };
    writer.restart();
    Ok(Some(writer))
}

/// What was fetched is a prefix of what the server had, with all that was said to be shipped.
fn compare(fetched: &Writer, had: &Writer, shipped: usize, seed: u64) {
    assert!(fetched.units.len() >= shipped, "seed {seed}: {} units of {shipped} that were shipped", fetched.units.len());
    assert!(fetched.units.len() <= had.units.len(), "seed {seed}");
    let known = fetched.units.iter().zip(&had.units).filter(|(unit, had)| !unit.2.is_empty() && !had.2.is_empty());
    for (unit, had) in known {
        assert!(unit == had, "INV-ARCHIVE-2, seed {seed}: it is no prefix");
    }
}

fn copy_newest(objects: &dyn Objects, directory: &Directory, pages: &mut dyn PageTarget) -> Result<Option<Fetched>, ArchiveFault> {
    copy(objects, directory, Moment::Newest, pages)
}

fn look_at_copy(store: &Store, writer: &Writer, shipped: usize, seed: u64) {
    if let Some(copied) = start_from(store, &format!("archive-{seed}-copy"), copy_newest).unwrap() {
        compare(&copied, writer, shipped, seed);
    }
}

fn play(seed: u64) {
    let store = Store::default();
    store.0.lock().unwrap().random = Random(seed);
    let mut random = Random(seed ^ 0x9E37_79B9_7F4A_7C15);
    let device = (!seed.is_multiple_of(4)).then(Device::default);
    let mut writer = Writer::with_device(&format!("archive-{seed}-0"), device);
    let (mut shipped, mut servers) = (0, 1);
    store.fail_one_in([0, 20, 5][(seed % 3) as usize]);
    let (mut time, mut past) = (Time::of(seed), Past::default());
    for _ in 0..if time.keeps() { 120 } else { 60 } {
        if random.next(2) == 0 {
            writer.look();
        }
        time.pass(&mut random, &mut past);
        writer.keep = time.keep;
        if time.keeps() && writer.begun.is_none() && random.next(6) == 0 {
            writer.name_base();
        }
        writer.change_pages(&mut random);
        match random.next(20) {
            0..=7 => {
                let sizes: Vec<usize> = (0..=random.next(3)).map(|_| random.next(20_000) as usize).collect();
                writer.append(&sizes, random.next(3) > 0);
            }
            8..=13 => match writer.ship(&store) {
                Ok(units) => {
                    shipped = units.unwrap_or(0).max(shipped);
                    past.note(&writer, units, &time);
                }
                // What it has come to is looked at, too.
                Err(ArchiveFault::Store(_)) if random.next(2) == 0 => {
                    look_at_copy(&store, &writer, shipped, seed);
                    past.look(&store, &writer, &mut random, seed);
                }
                Err(ArchiveFault::Store(_)) => {}
                Err(fault) => panic!("seed {seed}: {fault}"),
            },
            14 => {
                writer.log().sync().unwrap();
                let (all, lsn) = (writer.units.len(), writer.log().ends().1.lsn);
                writer.ends.insert(lsn, all);
            }
            15 if random.next(2) == 0 => {
                writer.heal();
                past.forget_behind(*writer.ends.keys().next_back().unwrap());
            }
            15 => match writer.begun.take() {
                None => writer.begun = Some(writer.begin_base()),
                Some(begun) => writer.write_base(begun),
            },
            16 | 17 => {
                writer.restart();
                past.forget_behind(writer.begun_run());
            }
            18 if random.next(2) == 0 => writer.shipper = None,
            18 => {
                look_at_copy(&store, &writer, shipped, seed);
                past.look(&store, &writer, &mut random, seed);
            }
            _ => {
                let Some(mut next) = take_over(&store, &format!("archive-{seed}-{servers}")).unwrap() else { continue };
                servers += 1;
                next.keep = time.keep;
                compare(&next, &writer, shipped, seed);
                // The one before does not know, and goes on; in another order, its rival ships before.
                if random.next(2) == 0 {
                    let _ = next.ship(&store);
                }
                store.fail_one_in(0);
                if random.next(2) == 0 {
                    writer.restart();
                }
                let had = writer.units.len();
                writer.append(&[10, 10_000], true);
                if random.next(2) == 0 {
                    writer.name_base();
                }
                writer.look();
                // A base without what is before it has to be there before it can be named.
                let refused = (0..50).map(|_| writer.ship(&store)).find(|shipped| !matches!(shipped, Ok(None)));
                let refused = refused.unwrap_or(Ok(None));
                let is_told = matches!(refused, Err(ArchiveFault::Owned(_)));
                assert!(is_told, "INV-ARCHIVE-1, seed {seed}: a server ships what is not fetched: {refused:?}, {had}");
                writer = next;
                shipped = 0;
                past.forget_behind(writer.begun_run());
            }
        }
    }
    store.fail_one_in(0);
    writer.append(&[1], true);
    if writer.device.is_some() {
        // Behind it no page is left that it does not name.
        writer.name_base();
    }
    // One that begins finds pieces of which the one before did not hear that they were made.
    writer.shipper = None;
    writer.look();
    let last = (0..100).find_map(|_| writer.ship(&store).unwrap().filter(|units| *units == writer.units.len()));
    assert!(last.is_some(), "seed {seed}: it catches up");
    past.look_at_all(&store, &writer, seed);
    past::look_for_garbage(&store, seed);
    if time.keeps() {
        // Nothing of the past is kept any more.
        writer.keep = ArchiveKeep::default();
        writer.name_base();
        writer.look();
        let is_alone = (0..100).any(|_| !writer.advance(&store).unwrap().more);
        assert!(is_alone && writer.shipper.as_ref().unwrap().kept().bases == 1, "seed {seed}");
    }
    // Nothing is left but what is named, and of each owner the first and the last catalog, and the
    // seal that ends what it wrote.
    let manifest = read_manifest(&writer.folder.0).unwrap().unwrap();
    let names = store.names();
    let path = base_path(&writer.folder.0, writer.base, 1);
    let tabled = writer.device.as_ref().map(|_| read_table(&path).1).unwrap_or_default();
    assert_eq!(names.iter().filter(|name| name.starts_with("page-")).count(), tabled.len(), "seed {seed}: {names:?}");
    let is_named = |name: &String| {
        let of = |begin: String| name.starts_with(&begin);
        manifest.segments.iter().any(|segment| of(format!("log-{:08}-", segment.number)))
            || manifest.base.is_some_and(|base| of(format!("base-{:08}.", base.number)))
            || tabled.keys().any(|page| of(format!("page-{page:010}-")))
    };
    let unnamed: Vec<&String> = names.iter().filter(|name| !is_named(name)).collect();
    let contents = store.0.lock().unwrap();
    let is_seal = |name: &str| contents.objects.get(name).is_some_and(Vec::is_empty);
    assert!(unnamed.iter().all(|name| name.starts_with("catalog") || is_seal(name)), "seed {seed}: {unnamed:?}");
    assert!(contents.failures > 0 || unnamed.len() <= 3 * servers, "seed {seed}: {unnamed:?}");
    drop(contents);
    let fetched = take_over(&store, &format!("archive-{seed}-end")).unwrap().unwrap();
    compare(&fetched, &writer, writer.units.len(), seed);
}

#[test]
fn an_archive_is_a_prefix_of_the_log_whatever_happens() {
    let seeds = std::env::var("ALMANDINE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    (0..seeds).for_each(play);
}

/// Its segments continue no other base: a group that was lost is in this one only.
#[test]
fn a_base_that_heals_is_named_with_its_segments_at_once() {
    let store = Store::default();
    let mut writer = Writer::new("archive-healed");
    writer.append(&[10_000], true);
    writer.look();
    assert_eq!(writer.ship(&store).unwrap(), Some(writer.units.len()));
    let shipped = writer.units.len();
    writer.heal();
    writer.look();
    store.0.lock().unwrap().refuses = "base-";
    assert!(writer.ship(&store).is_err());
    look_at_copy(&store, &writer, shipped, 1_000_001);
    store.0.lock().unwrap().refuses = "";
    assert_eq!(writer.ship(&store).unwrap(), Some(writer.units.len()));
    look_at_copy(&store, &writer, writer.units.len(), 1_000_001);
}

#[test]
fn what_is_missing_in_the_directory_is_an_error_and_no_zeroes() {
    let (store, mut writer) = (Store::default(), Writer::new("archive-missing"));
    writer.ship(&store).unwrap();
    writer.append(&[10_000], true);
    writer.look();
    let (segment, away) = (writer.folder.last_segment(), writer.folder.0.join("away"));
    std::fs::rename(&segment, &away).unwrap();
    let before = store.names();
    assert!(matches!(writer.ship(&store), Err(ArchiveFault::Log(_))));
    std::fs::File::create(&segment).unwrap();
    assert!(matches!(writer.ship(&store), Err(ArchiveFault::Log(_))), "it is cut short");
    assert_eq!(store.names(), before);
    std::fs::rename(&away, &segment).unwrap();
    writer.name_base();
    writer.look();
    let base = base_path(&writer.folder.0, writer.base, 0);
    std::fs::rename(&base, &away).unwrap();
    assert!(matches!(writer.ship(&store), Err(ArchiveFault::Log(_))));
    std::fs::rename(&away, &base).unwrap();
    assert_eq!(writer.ship(&store).unwrap(), Some(writer.units.len()));
    look_at_copy(&store, &writer, writer.units.len(), 1_000_002);
}

#[test]
fn an_address_with_something_else_is_refused() {
    let store = Store::default();
    store.create("photo.jpg", b"x").unwrap();
    let mut writer = Writer::new("archive-foreign");
    let refused = writer.ship(&store).unwrap_err().to_string();
    assert!(refused.contains("photo.jpg") && refused.contains("empty folder"), "{refused}");
    store.delete(&["photo.jpg".to_owned()]).unwrap();
    writer.ship(&store).unwrap();
    // Another log, whose directory was never of this archive.
    let refused = Writer::new("archive-other").ship(&store).unwrap_err().to_string();
    assert!(refused.contains("another log"), "{refused}");
}

#[test]
fn a_missing_piece_is_damage_and_a_missing_catalog_no_archive() {
    let store = Store::default();
    assert!(take_over(&store, "archive-none").unwrap().is_none());
    let mut writer = Writer::new("archive-damaged");
    (0..10).for_each(|_| writer.append(&[20_000], true));
    writer.look();
    while writer.ship(&store).unwrap() != Some(writer.units.len()) {}
    let pieces: Vec<String> = store.names().into_iter().filter(|name| !name.starts_with("catalog")).collect();
    for piece in &pieces[..pieces.len() - 1] {
        let bytes = store.0.lock().unwrap().objects.remove(piece).unwrap();
        let damage = take_over(&store, "archive-damage").err().map(|fault| fault.to_string());
        assert!(damage.as_ref().is_some_and(|text| text.contains(piece.as_str())), "{piece}: {damage:?}");
        store.0.lock().unwrap().objects.insert(piece.clone(), bytes);
    }
}

#[cfg(all(feature = "mutants", not(feature = "sim")))]
#[test]
fn mutants_are_noticed() {
    let own = std::env::current_exe().unwrap();
    let test = ["archive::", "--skip", "mutants"];
    let of_logs = ["ShipFirst", "ShipThrough", "NamedBefore", "CompareOwner", "KeepClaim", "KeepSeal", "SealArchive", "HeedSeal"];
    let of_pages = ["ListAgain", "AwaitNamed", "ShipPages", "KeepPages", "OwnPages", "PageBeginLast", "ConfirmPages"];
    let of_former = ["DropBehind", "KeepBefore", "HeedClock", "KeepBreaks", "KeepFormer", "KeepFormerPages", "KeepPieces"];
    for mutant in of_logs.into_iter().chain(of_pages).chain(of_former) {
        let run = std::process::Command::new(&own).args(test).env("ALMANDINE_MUTANT", mutant).output().unwrap();
        assert!(!run.status.success(), "{mutant} is not noticed");
    }
}
