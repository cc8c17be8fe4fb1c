//! A snapshot file value by value, without a keyspace: checked, or written as another one.
//!
//! What is in memory is one value, and as much as the caller gives to the search for keys that are there twice: a file with more
//! keys than that is read several times.

mod twice;
mod value;

use std::io::{self, Read, Write};
use std::path::Path;

use almandine_base::steps;
use almandine_io::clock;
use almandine_rdb::file::{Entry, EntryMetadata, Fault, FileError, FileReader, FileWriter, Item, ReadOptions};
use almandine_rdb::value::{AnyValue, is_empty_collection};

use self::twice::Twice;
use crate::durable::write_durably;
use crate::load::{LoadError, LoadFault, Loaded};
use crate::put::ValueLimits;
use crate::save::value::Readers;
use crate::save::{SaveError, SaveOptions, Saved, temporary};

/// Keys between two looks around.
const BATCH_KEYS: u64 = 64;
/// From which size on the memory of a value is given back.
const VALUE_KEPT_BYTES: usize = 1 << 20;

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct PassOptions {
    /// What is asked of it.
    pub read: ReadOptions,
    /// How many databases there may be.
    pub databases: usize,
    /// Bytes of memory for the search for keys that are there twice.
    pub memory_bytes: usize,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Passes over the file that are done.
    pub passes: u32,
    /// Bytes of the file that this one has read.
    pub bytes: u64,
    /// Keys that this one has read.
    pub keys: u64,
}

/// A file, which is read as often as it must be.
pub struct Passes<'p, R> {
    /// Gives it from its beginning.
    pub open: &'p mut dyn FnMut() -> io::Result<R>,
    /// How it is read.
    pub options: PassOptions,
    /// Is told how far it is, and says whether to go on.
    pub proceed: &'p mut dyn FnMut(Passed) -> bool,
}

/// Why a file is not written anew.
#[derive(Debug)]
pub enum TranscribeError {
    /// It cannot be read.
    Load(LoadError),
    /// The other one cannot be written.
    Save(SaveError),
}

impl From<LoadError> for TranscribeError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<FileError> for TranscribeError {
    fn from(error: FileError) -> Self {
        Self::Load(error.into())
    }
}

impl From<io::Error> for TranscribeError {
    fn from(error: io::Error) -> Self {
        Self::Save(error.into())
    }
}

/// Checks all of a file, each value of it, keys past their time included, and that no key is there twice.
///
/// # Errors
/// When a server would not load it.
pub fn verify<R: Read>(mut passes: Passes<'_, R>) -> Result<(Loaded, Passed), LoadError> {
    let mut twice = Twice::new(passes.options.memory_bytes);
    let (loaded, passed) = passes.first(&mut twice, &mut Checking)?;
    Ok((loaded, passes.others(&mut twice, passed)?))
}

/// Writes what a file has under this name, durably, as the version that `save` says; its functions are those of the file. Values
/// are packed up to these limits. What is past its time is left out. `approve` is told what the file has, and where in it the
/// snapshot ends, before anything has the name.
///
/// # Errors
/// When a server would not load it, or the other one cannot be written or is not approved of; then whatever had the name has it
/// still.
pub fn transcribe<R: Read>(
    passes: Passes<'_, R>,
    path: &Path,
    save: &SaveOptions,
    limits: &ValueLimits,
    approve: &mut dyn FnMut(&Loaded, Passed) -> io::Result<()>,
) -> Result<(Loaded, Saved), TranscribeError> {
    write_durably(&temporary(path), path, |out| transcribe_to(passes, out, save, limits, approve))
}

fn transcribe_to<R: Read, W: Write>(
    mut passes: Passes<'_, R>,
    out: W,
    save: &SaveOptions,
    limits: &ValueLimits,
    approve: &mut dyn FnMut(&Loaded, Passed) -> io::Result<()>,
) -> Result<(W, (Loaded, Saved)), TranscribeError> {
    let mut twice = Twice::new(passes.options.memory_bytes);
    let mut writing = Writing::new(out, save, limits)?;
    let (loaded, passed) = passes.first(&mut twice, &mut writing)?;
    passes.others(&mut twice, passed)?;
    approve(&loaded, passed)?;
    let (out, saved) = writing.end()?;
    Ok((out, (loaded, saved)))
}

impl<R: Read> Passes<'_, R> {
    fn open(&mut self, read: ReadOptions) -> Result<FileReader<R>, LoadError> {
        let file = (self.open)().map_err(|error| FileError { offset: 0, fault: Fault::Io(error) })?;
        Ok(FileReader::open(file, read)?)
    }

    fn reached(&mut self, passed: Passed) -> Result<(), LoadError> {
        let stopped = LoadError { offset: passed.bytes, fault: LoadFault::Stopped };
        if (self.proceed)(passed) { Ok(()) } else { Err(stopped) }
    }

    /// Takes all that the file has.
    fn first<T: Taker>(&mut self, twice: &mut Twice, taker: &mut T) -> Result<(Loaded, Passed), T::Error> {
        let mut reader = self.open(self.options.read)?;
        let version = reader.version().number();
        let (mut loaded, mut passed, mut database) = (Loaded::default(), Passed::default(), 0);
        loop {
            let offset = reader.offset();
            let Some(item) = reader.read_item()? else { break };
            let Item::Entry(entry) = &item else {
                if let Some(number) = loaded.note(&item, offset, self.options.databases)? {
                    database = number;
                }
                taker.item(&item)?;
                continue;
            };
            steps::take(1);
            twice.see(database, &entry.key);
            match AnyValue::read(entry.value_type, version, &mut { entry.value }) {
                Ok(value) if taker.entry(entry, &value)? => loaded.keys += 1,
                Ok(_) => loaded.expired += 1,
                Err(_) if is_empty_collection(entry.value_type, entry.value) => loaded.pass_over(&entry.key),
                Err(_) => return Err(entry.malformed().into()),
            }
            passed.keys += 1;
            passed.bytes = reader.offset();
            if passed.keys.is_multiple_of(BATCH_KEYS) {
                self.reached(passed)?;
            }
        }
        passed.bytes = reader.offset();
        self.reached(passed)?;
        Ok((loaded, passed))
    }

    /// Goes on with the search for keys that are there twice.
    fn others(&mut self, twice: &mut Twice, mut passed: Passed) -> Result<Passed, LoadError> {
        passed.passes = 1;
        while twice.end_pass() {
            self.keys(passed.passes, |database, key| {
                twice.see(database, key);
                true
            })?;
            passed.passes += 1;
        }
        if twice.has_suspects() {
            self.keys(passed.passes, |database, key| !twice.is_second(database, key))?;
            passed.passes += 1;
        }
        Ok(passed)
    }

    /// Looks at the keys of a file that is whole, and refuses one that `take` does not take.
    fn keys(&mut self, passes: u32, mut take: impl FnMut(u16, &[u8]) -> bool) -> Result<(), LoadError> {
        let mut reader = self.open(ReadOptions { checksum: false, ..self.options.read })?;
        let (mut passed, mut database) = (Passed { passes, ..Passed::default() }, 0);
        loop {
            let offset = reader.offset();
            match reader.read_item()? {
                Some(Item::Database(number)) => database = u16::try_from(number).unwrap_or(u16::MAX),
                Some(Item::Entry(entry)) => {
                    steps::take(1);
                    if !take(database, &entry.key) {
                        return Err(LoadError { offset, fault: LoadFault::Duplicate(entry.key.to_vec()) });
                    }
                    passed.keys += 1;
                }
                Some(_) => {}
                None => return Ok(()),
            }
            passed.bytes = reader.offset();
            if passed.keys.is_multiple_of(BATCH_KEYS) {
                self.reached(passed)?;
            }
        }
    }
}

/// Takes what a file has.
trait Taker {
    type Error: From<LoadError> + From<FileError>;

    /// A key. False: it is past its time.
    fn entry(&mut self, entry: &Entry<'_>, value: &AnyValue<'_>) -> Result<bool, Self::Error>;

    /// Anything else.
    fn item(&mut self, item: &Item<'_>) -> Result<(), Self::Error>;
}

struct Checking;

impl Taker for Checking {
    type Error = LoadError;

    fn entry(&mut self, entry: &Entry<'_>, value: &AnyValue<'_>) -> Result<bool, LoadError> {
        value::check(value).map(|()| true).map_err(|_| entry.malformed().into())
    }

    fn item(&mut self, _: &Item<'_>) -> Result<(), LoadError> {
        Ok(())
    }
}

/// A file that is written.
struct Writing<'w, W> {
    out: FileWriter<W>,
    options: &'w SaveOptions,
    limits: &'w ValueLimits,
    now_ms: i64,
    /// The database of the keys that follow, until the first of them; and how many there are, as far as the file says it.
    database: Option<u64>,
    sizes: Option<(u64, u64)>,
    value: Vec<u8>,
    saved: Saved,
}

impl<'w, W: Write> Writing<'w, W> {
    fn new(out: W, options: &'w SaveOptions, limits: &'w ValueLimits) -> io::Result<Self> {
        let now_ms = clock::unix_ms();
        let mut out = FileWriter::new(out, options.write());
        options.write_head(&mut out, now_ms)?;
        let (value, saved) = (Vec::new(), Saved::default());
        Ok(Self { out, options, limits, now_ms, database: Some(0), sizes: None, value, saved })
    }

    fn end(mut self) -> io::Result<(W, Saved)> {
        let (out, bytes) = self.out.finish_counted()?;
        self.saved.bytes = bytes;
        Ok((out, self.saved))
    }
}

impl<W: Write> Taker for Writing<'_, W> {
    type Error = TranscribeError;

    fn entry(&mut self, entry: &Entry<'_>, value: &AnyValue<'_>) -> Result<bool, TranscribeError> {
        let EntryMetadata { expiry_ms, .. } = entry.metadata;
        if expiry_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
            return value::check(value).map(|()| false).map_err(|_| entry.malformed().into());
        }
        self.value.clear();
        let readers = Readers::Of(self.options.version);
        let written = value::write(value, self.now_ms, self.limits, readers, &mut self.value).map_err(|_| entry.malformed())?;
        let Some(version) = written else { return Ok(false) };
        self.saved.count(&entry.key, version, self.options).map_err(TranscribeError::Save)?;
        match (self.database.take(), self.sizes.take()) {
            (Some(number), Some((keys, expiring))) => self.out.database(number, keys, expiring)?,
            (Some(number), None) => self.out.select(number)?,
            (None, _) => {}
        }
        self.out.entry(&entry.key, &self.value, entry.metadata)?;
        if self.value.capacity() > VALUE_KEPT_BYTES {
            self.value = Vec::new();
        }
        Ok(true)
    }

    fn item(&mut self, item: &Item<'_>) -> Result<(), TranscribeError> {
        match item {
            Item::Aux { name, value } if **name == *b"used-mem" => self.out.aux("used-mem", value)?,
            Item::Database(number) => (self.database, self.sizes) = (Some(*number), None),
            Item::Sizes { keys, expiring } => self.sizes = Some((*keys, *expiring)),
            Item::Function(code) => self.out.function(code)?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
