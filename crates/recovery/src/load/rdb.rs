//! Loading a snapshot file.

use std::io::Read;
use std::time::Duration;

use almandine_io::{clock, thread};
use almandine_keyspace::{Accessor, Missing, Put, Refusal, frequency};
use almandine_rdb::file::{Entry, FileReader, Item, ReadOptions};
use almandine_rdb::value::{AnyValue, is_empty_collection};

use super::fault::{LoadError, LoadFault};
use super::function::library_name;
use crate::put::{PutError, ValueLimits, put};

/// Keys, and bytes of the file, that are loaded in one batch.
const BATCH_KEYS: usize = 64;
const BATCH_BYTES: u64 = 256 << 10;
/// How long a loader waits for the device at a time.
const STALL_STEP: Duration = Duration::from_millis(1);

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
    /// A collection without elements is passed over.
    fn pass_over(&mut self, key: &[u8]) {
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
    let mut loader = Loader { accessor, options, version, database: 0, loaded: Loaded::default() };
    loop {
        loader.await_room(reader.offset())?;
        if !proceed(reader.offset(), loader.loaded.keys) {
            return Err(LoadError { offset: reader.offset(), fault: LoadFault::Stopped });
        }
        loader.accessor.begin_batch(if options.keep_expired { 0 } else { clock::unix_ms() });
        let more = loader.batch(&mut reader);
        drop(loader.accessor.detach());
        loader.accessor.end_batch();
        if !more? {
            proceed(reader.offset(), loader.loaded.keys);
            return Ok(loader.loaded);
        }
    }
}

struct Loader<'l> {
    accessor: &'l mut Accessor,
    options: &'l LoadOptions,
    version: u16,
    database: u16,
    loaded: Loaded,
}

impl Loader<'_> {
    /// Waits while the device is behind.
    fn await_room(&self, offset: u64) -> Result<(), LoadError> {
        let keyspace = self.accessor.keyspace();
        while keyspace.is_stalled() {
            thread::sleep(STALL_STEP);
        }
        // Without a device, what does not fit is evicted, or refused to clients behind the load, as in Redis.
        if keyspace.figures().tier().is_some() && keyspace.over_limit() {
            return Err(LoadError { offset, fault: LoadFault::StorageFull });
        }
        Ok(())
    }

    /// Loads some items. False behind the last one.
    fn batch<R: Read>(&mut self, reader: &mut FileReader<R>) -> Result<bool, LoadError> {
        let begin = reader.offset();
        for _ in 0..BATCH_KEYS {
            let offset = reader.offset();
            if offset - begin > BATCH_BYTES {
                break;
            }
            let Some(item) = reader.read_item()? else { return Ok(false) };
            self.item(item).map_err(|refused| match refused {
                Refused::Value(error) => error,
                Refused::Item(fault) => LoadError { offset, fault },
            })?;
        }
        Ok(true)
    }

    fn item(&mut self, item: Item<'_>) -> Result<(), Refused> {
        match item {
            Item::Aux { name, value } => self.note(&name, &value),
            Item::Database(number) => {
                let databases = self.accessor.keyspace().databases();
                let known = u16::try_from(number).ok().filter(|number| usize::from(*number) < databases);
                self.database = known.ok_or(Refused::Item(LoadFault::Database { number, databases }))?;
            }
            // The index grows by itself.
            Item::Sizes { .. } | Item::SlotSizes { .. } | Item::SlotImport(_) => {}
            Item::Function(code) => {
                if library_name(&code).is_none() {
                    return Err(Refused::Item(LoadFault::Function));
                }
                self.loaded.functions.push(code.into_vec());
            }
            Item::ModuleAux(name) => self.loaded.modules.push(name),
            Item::Entry(entry) => return self.entry(&entry),
            Item::EmptyEntry(key) => self.loaded.pass_over(&key),
        }
        Ok(())
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match name {
            b"redis-ver" | b"valkey-ver" => self.loaded.server = Some(text.into_owned()),
            b"ctime" => self.loaded.written_s = text.parse().ok(),
            _ => {}
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), Refused> {
        let expiry_ms = entry.metadata.expiry_ms;
        if expiry_ms.is_some_and(|at_ms| at_ms <= self.accessor.reader(self.database).now_ms()) {
            self.loaded.expired += 1;
            return Ok(());
        }
        let mut body = entry.value;
        let value = AnyValue::read(entry.value_type, self.version, &mut body);
        if value.is_err() && is_empty_collection(entry.value_type, entry.value) {
            self.loaded.pass_over(&entry.key);
            return Ok(());
        }
        // What is larger than a record is not copied, so a value is read again when it must wait for the device.
        let mut value = Some(value.map_err(|_| Refused::Value(entry.malformed().into()))?);
        loop {
            let taken = match value.take() {
                Some(value) => value,
                None => AnyValue::read(entry.value_type, self.version, &mut { entry.value })
                    .map_err(|_| Refused::Value(entry.malformed().into()))?,
            };
            match self.put(entry, taken) {
                Ok(Fate::Kept) => {
                    self.loaded.keys += 1;
                    return Ok(());
                }
                Ok(Fate::Expired) => {
                    self.loaded.expired += 1;
                    return Ok(());
                }
                Ok(Fate::Duplicate) => return Err(Refused::Item(LoadFault::Duplicate(entry.key.to_vec()))),
                Err(PutError::Refused(Refusal::Missing(Missing::Cold))) => self.accessor.unit().fetch_missed(),
                Err(PutError::Refused(Refusal::Missing(_))) => return Err(Refused::Item(LoadFault::Unreadable)),
                Err(PutError::Refused(Refusal::Full | Refusal::WrongKind)) => {
                    return Err(Refused::Item(LoadFault::Full(entry.key.to_vec())));
                }
                Err(PutError::Malformed) => return Err(Refused::Value(entry.malformed().into())),
            }
        }
    }

    fn put(&mut self, entry: &Entry<'_>, value: AnyValue<'_>) -> Result<Fate, PutError> {
        let mut keys = self.accessor.writer(self.database);
        let key = keys.key(&entry.key);
        if self.options.existing == Existing::Refuse && keys.exists(key)? {
            return Ok(Fate::Duplicate);
        }
        let kept = put(&mut keys, key, value, Put { expiry_ms: entry.metadata.expiry_ms, ..Put::default() }, &self.options.limits)?;
        // Whichever of them the eviction policy does not keep is left out, as in Redis.
        if let Some(idle_s) = entry.metadata.idle_s.filter(|_| kept) {
            keys.heat().set_idle_ms(key, i64::try_from(idle_s).unwrap_or(i64::MAX).saturating_mul(1000));
        }
        if let Some(of) = entry.metadata.frequency.filter(|_| kept) {
            keys.heat().set_frequency(key, frequency::steps(of));
        }
        Ok(if kept { Fate::Kept } else { Fate::Expired })
    }
}

/// What became of a key.
enum Fate {
    Kept,
    /// All of its elements were past their time.
    Expired,
    /// One of its name is there already, and is to stay.
    Duplicate,
}

/// Why an item is not loaded.
enum Refused {
    /// The value is malformed, at its own offset.
    Value(LoadError),
    /// Something is wrong with the whole.
    Item(LoadFault),
}
