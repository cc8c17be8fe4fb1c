//! Loading a snapshot file: the calling thread reads its items, and lanes put the keys into the keyspace.

use std::io::Read;

use almandine_keyspace::Accessor;
use almandine_rdb::file::{Entry, FileReader, Item, ReadOptions};

use super::fault::{LoadError, LoadFault};
use super::function::library_name;
use super::lane::{RdbJob, RdbLane};
use crate::lanes::Lanes;
use crate::put::ValueLimits;

/// Keys, and bytes of the file, that are read between two looks around.
const BATCH_KEYS: usize = 64;
const BATCH_BYTES: u64 = 256 << 10;

/// What becomes of a key that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The file is refused.
    Refuse,
    /// The file's value takes its place.
    Replace,
}

/// How a file is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Up to which sizes collections are packed.
    pub limits: ValueLimits,
    /// What is asked of the file.
    pub read: ReadOptions,
    /// What becomes of a key that is there already.
    pub existing: Existing,
    /// What is past its time is loaded, too: what follows the file may speak of it.
    pub keep_expired: bool,
    /// How many threads load keys. With one it is the calling one, with the way to the keyspace that it has.
    pub lanes: usize,
}

/// Keys of collections without elements that are named.
const EMPTY_KEYS_MAX: usize = 10;

/// What was loaded, and what a file says of itself.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Keys that are there now.
    pub keys: u64,
    /// Keys that were past their time.
    pub expired: u64,
    /// Collections without elements, which are no keys.
    pub empty: u64,
    /// The keys of the first of them.
    pub empty_keys: Vec<Vec<u8>>,
    /// The text of each library of functions.
    pub functions: Vec<Vec<u8>>,
    /// Modules that kept data beside the keys, which is passed over.
    pub modules: Vec<String>,
    /// The version of the server that wrote the file, and when, in Unix seconds.
    pub server: Option<String>,
    /// When the file was written, Unix seconds.
    pub written_s: Option<i64>,
}

impl Loaded {
    /// Takes up what another part of the file was.
    fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.expired += other.expired;
        self.empty += other.empty;
        self.empty_keys.extend(other.empty_keys);
        self.empty_keys.truncate(EMPTY_KEYS_MAX);
    }

    /// Takes up what the item at this offset says that is no key. The database of what follows is returned, if it says that.
    pub(crate) fn note(&mut self, item: &Item<'_>, offset: u64, databases: usize) -> Result<Option<u16>, LoadError> {
        match item {
            Item::Aux { name, value } => {
                let text = String::from_utf8_lossy(value);
                match &**name {
                    b"redis-ver" | b"valkey-ver" => self.server = Some(text.into_owned()),
                    b"ctime" => self.written_s = text.parse().ok(),
                    _ => {}
                }
            }
            Item::Database(number) => {
                let known = u16::try_from(*number).ok().filter(|number| usize::from(*number) < databases);
                let fault = LoadFault::Database { number: *number, databases };
                return known.map(Some).ok_or(LoadError { offset, fault });
            }
            Item::Function(code) => {
                if library_name(code).is_none() {
                    return Err(LoadError { offset, fault: LoadFault::Function });
                }
                self.functions.push(code.to_vec());
            }
            Item::ModuleAux(name) => self.modules.push(name.clone()),
            Item::EmptyEntry(key) => self.pass_over(key),
            // The index grows by itself.
            Item::Sizes { .. } | Item::SlotSizes { .. } | Item::SlotImport(_) | Item::Entry(_) => {}
        }
        Ok(None)
    }

    /// A collection without elements is passed over.
    pub(crate) fn pass_over(&mut self, key: &[u8]) {
        self.empty += 1;
        if self.empty_keys.len() < EMPTY_KEYS_MAX {
            self.empty_keys.push(key.to_vec());
        }
    }
}

/// Loads a file. `proceed` is told how many bytes and keys were read, between any two batches, and says whether to go on.
///
/// # Errors
/// When the file is refused; what stands before in it has been loaded then.
pub fn load<R: Read>(
    accessor: &mut Accessor,
    input: R,
    options: &LoadOptions,
    proceed: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Loaded, LoadError> {
    let mut reader = FileReader::open(input, options.read)?;
    let version = reader.version().number();
    let databases = accessor.keyspace().databases();
    let lanes = Lanes::start(accessor, options.lanes, || RdbLane::new(*options, version));
    let next = (0..lanes.count()).map(|_| RdbJob::default()).collect();
    let mut loader = Loader { lanes, next, databases, database: 0, keys: 0, loaded: Loaded::default() };
    loop {
        if !proceed(reader.offset(), loader.keys) {
            return Err(LoadError { offset: reader.offset(), fault: LoadFault::Stopped });
        }
        if !loader.batch(&mut reader)? {
            let (keys, loaded) = loader.end()?;
            proceed(reader.offset(), keys);
            return Ok(loaded);
        }
    }
}

struct Loader<'a> {
    lanes: Lanes<'a, RdbLane>,
    /// Of each lane, what it is given next.
    next: Vec<RdbJob>,
    databases: usize,
    database: u16,
    /// Keys that were read.
    keys: u64,
    /// What the file says beside keys.
    loaded: Loaded,
}

impl Loader<'_> {
    /// Reads some items. False behind the last one.
    fn batch<R: Read>(&mut self, reader: &mut FileReader<R>) -> Result<bool, LoadError> {
        let begin = reader.offset();
        for _ in 0..BATCH_KEYS {
            let offset = reader.offset();
            if offset - begin > BATCH_BYTES {
                break;
            }
            let Some(item) = reader.read_item()? else { return Ok(false) };
            self.item(item, offset)?;
        }
        Ok(true)
    }

    fn item(&mut self, item: Item<'_>, offset: u64) -> Result<(), LoadError> {
        if let Item::Entry(entry) = &item {
            return self.entry(entry, offset);
        }
        if let Some(database) = self.loaded.note(&item, offset, self.databases)? {
            self.database = database;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>, offset: u64) -> Result<(), LoadError> {
        self.keys += 1;
        let hash = self.lanes.accessor().key(self.database, &entry.key).hash;
        let lane = self.lanes.of(hash);
        self.next[lane].push(self.database, entry, offset);
        if self.next[lane].is_large() {
            // One such value is on its way, and no queue of them.
            self.give(lane)?;
            return self.lanes.settle();
        }
        if self.next[lane].is_full() { self.give(lane) } else { Ok(()) }
    }

    fn give(&mut self, lane: usize) -> Result<(), LoadError> {
        let job = std::mem::take(&mut self.next[lane]);
        if job.is_empty() { Ok(()) } else { self.lanes.send(lane, job) }
    }

    /// How many keys were read, and what was loaded.
    fn end(mut self) -> Result<(u64, Loaded), LoadError> {
        (0..self.next.len()).try_for_each(|lane| self.give(lane))?;
        for lane in self.lanes.end()? {
            self.loaded.add(lane.loaded());
        }
        Ok((self.keys, self.loaded))
    }
}
