//! Object storage as a device: S3 and what speaks its protocol, Azure, Google Cloud, or a directory.
//!
//! A fixed range of offsets is one object, named after its size and number: a page of the log is one upload, and a read asks for
//! a part of one object. An object cannot change in place, so writing a part of one reads it first; a log does not do that, and
//! what is written in smaller parts is gathered ([`gather`]). It cannot shrink either: it takes its whole length until all of it
//! is discarded.
//!
//! Requests run on a runtime of this device; only threads that may block wait for them. Nothing locks a bucket: one server only
//! may be given one address.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;

use crate::ranges::Ranges;
use crate::{BLOCK_BYTES, BlockingSource, Device, OpenMode, Source, error};
pub use folder::ObjectFolder;
use gather::Gathering;

mod address;
mod folder;
mod gather;

const NAME_BEGINS: &str = "almandine-";
/// Locks that keep two writes of parts of one object apart.
const LOCKS: usize = 64;

/// How an [`ObjectDevice`] is opened.
#[derive(Debug, Clone)]
pub struct ObjectOptions {
    /// What to do with objects of an earlier run.
    pub mode: OpenMode,
    /// Size of an object: that of a page of the log.
    pub object_bytes: u64,
    /// Whether writes smaller than an object wait in memory until they fill one. Then only [`Device::sync`] says that they are in
    /// the store. For what is written at growing offsets.
    pub gather: bool,
    /// Keys, secrets, regions and the like, under the names that `object_store` gives them.
    pub settings: Vec<(String, String)>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self { mode: OpenMode::Empty, object_bytes: 2 << 20, gather: false, settings: Vec::new() }
    }
}

impl ObjectOptions {
    /// The settings that the clouds' own tools take from the environment: `AWS_…`, `AZURE_…`, `GOOGLE_…`.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        self.settings.extend(environment());
        self
    }
}

fn environment() -> Vec<(String, String)> {
    let ours = |name: &str| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|begin| name.starts_with(begin));
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    variables.filter(|(name, _)| ours(name)).collect()
}

/// How requests fared; those that a second attempt helped do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectReport {
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Deletions that failed; the objects are there still.
    pub delete_errors: u64,
    /// What the last failure said.
    pub last_error: Option<String>,
}

/// Objects under one address.
pub struct ObjectDevice {
    objects: Arc<Objects>,
}

struct Objects {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    /// For messages; without what may be secret in it.
    address: String,
    object_bytes: u64,
    runtime: Runtime,
    state: RwLock<State>,
    locks: Vec<Mutex<()>>,
    gathering: Option<Gathering>,
    report: Mutex<ObjectReport>,
}

/// What failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    List,
    Read,
    Write,
    Delete,
}

impl Failed {
    fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }
}

#[derive(Default)]
struct State {
    /// Lengths by number.
    lengths: BTreeMap<u64, u64>,
    held: Ranges,
    bytes: u64,
}

impl ObjectDevice {
    /// Opens an address, as `s3://bucket/folder`, `az://container/folder`, `gs://bucket/folder` or `file:///folder`.
    ///
    /// # Errors
    /// When the address or the settings are not understood, the store does not answer, or holds something else under the address.
    pub fn open(address: &str, options: &ObjectOptions) -> io::Result<Self> {
        let (store, prefix, name) = address::open(address, &options.settings)?;
        Self::over(store, prefix, name, options)
    }

    /// Opens a store of the caller's; the address is for messages.
    ///
    /// # Errors
    /// When the size of an object is none, the store does not answer, or it holds something else below `prefix`.
    pub fn over(store: Box<dyn ObjectStore>, prefix: Path, address: String, options: &ObjectOptions) -> io::Result<Self> {
        let object_bytes = options.object_bytes;
        if object_bytes == 0 || !object_bytes.is_multiple_of(BLOCK_BYTES as u64) {
            let text = format!("an object of {object_bytes} bytes is not made of blocks of {BLOCK_BYTES}: choose a multiple");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        // The library's requests need its runtime, with threads and a clock of their own: the one way to the kernel beside `io`.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("object-store").enable_all().build()?;
        let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
        let (state, report) = (RwLock::default(), Mutex::default());
        let gathering = options.gather.then(Gathering::default);
        let objects = Objects { store, prefix, address, object_bytes, runtime, state, locks, gathering, report };
        objects.recover(options.mode)?;
        Ok(Self { objects: Arc::new(objects) })
    }

    /// How requests fared since the device was opened.
    #[must_use]
    pub fn report(&self) -> ObjectReport {
        self.objects.report().clone()
    }
}

/// What a transfer has in one object: its number, the position in it, and the range within the whole.
type Part = (u64, u64, std::ops::Range<usize>);

impl Objects {
    fn path(&self, index: u64) -> Path {
        self.prefix.clone().join(format!("{NAME_BEGINS}{}-{index:012}", self.object_bytes))
    }

    /// The number in a name; none when it is not one of this device's.
    fn index(&self, name: &str) -> Option<u64> {
        let (bytes, index) = name.strip_prefix(NAME_BEGINS)?.split_once('-')?;
        (bytes == self.object_bytes.to_string()).then(|| index.parse().ok()).flatten()
    }

    /// Finds what is there, and deletes it or counts it as held.
    fn recover(&self, mode: OpenMode) -> io::Result<()> {
        let listed = match self.runtime.block_on(self.store.list_with_delimiter(Some(&self.prefix))) {
            Ok(listed) => listed,
            Err(object_store::Error::NotFound { .. }) => return Ok(()),
            Err(e) => return Err(self.failed(Failed::List, 0, 0, &e)),
        };
        if let Some(folder) = listed.common_prefixes.first() {
            return Err(self.foreign(folder.filename().unwrap_or_default()));
        }
        let mut found = Vec::new();
        for object in listed.objects {
            let name = object.location.filename().unwrap_or_default();
            // Segments of another size are stale too when beginning empty, but their contents cannot be kept.
            let ours = self.index(name).or((mode == OpenMode::Empty && name.starts_with(NAME_BEGINS)).then_some(0));
            found.push((ours.ok_or_else(|| self.foreign(name))?, object));
        }
        if mode == OpenMode::Empty {
            let names: Vec<_> = found.into_iter().map(|(_, object)| Ok(object.location)).collect();
            let deletion = self.store.delete_stream(stream::iter(names).boxed()).try_for_each(|_| std::future::ready(Ok(())));
            return self.runtime.block_on(deletion).map_err(|e| self.failed(Failed::Delete, 0, 0, &e));
        }
        let mut state = self.change();
        for (index, object) in found {
            debug_assert!(object.size <= self.object_bytes, "an object is one range of offsets");
            let begin = index * self.object_bytes;
            state.held.insert(begin, begin + object.size);
            state.lengths.insert(index, object.size);
            state.bytes += object.size;
        }
        Ok(())
    }

    fn foreign(&self, name: &str) -> io::Error {
        let text = format!(
            "{} holds {name:?}, which is not of this device with objects of {} bytes: choose an empty folder, or the \
             former size",
            self.address, self.object_bytes
        );
        io::Error::new(ErrorKind::AlreadyExists, text)
    }

    /// No code panics between changes that belong together, so a poisoned state is whole.
    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, index: u64) -> MutexGuard<'_, ()> {
        self.locks[index as usize % LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> MutexGuard<'_, ObjectReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure and says what failed.
    fn failed(&self, what: Failed, offset: u64, bytes: u64, e: &object_store::Error) -> io::Error {
        let kind = match e {
            object_store::Error::NotFound { .. } => ErrorKind::NotFound,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ErrorKind::PermissionDenied
            }
            _ => ErrorKind::Other,
        };
        let cause = io::Error::new(kind, e.to_string());
        let error = match bytes {
            0 => error::at_path(what.name(), std::path::Path::new(&self.address), &cause),
            bytes => error::at_offset(what.name(), &self.address, offset, bytes, &cause),
        };
        // What is asked for as it is discarded is missing for a good reason.
        if !(what == Failed::Read && kind == ErrorKind::NotFound && !self.state().held.touches(offset, offset + bytes)) {
            let mut report = self.report();
            match what {
                Failed::List | Failed::Read => report.read_errors += 1,
                Failed::Write => report.write_errors += 1,
                Failed::Delete => report.delete_errors += 1,
            }
            report.last_error = Some(error.to_string());
        }
        error
    }

    fn parts(&self, offset: u64, bytes: usize) -> impl Iterator<Item = Part> {
        let size = self.object_bytes;
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let part = usize::try_from(size - at % size).unwrap_or(bytes).min(bytes - done);
            done += part;
            (part > 0).then(|| (at / size, at % size, done - part..done))
        })
    }

    /// Uploads a part of an object, with what it holds already around it.
    fn put(&self, index: u64, position: u64, data: &[u8]) -> io::Result<()> {
        let _alone = self.lock(index);
        let (begin, end) = (position as usize, position as usize + data.len());
        let length = self.state().lengths.get(&index).copied().unwrap_or(0);
        let offset = index * self.object_bytes + position;
        let failed = |what, e: &object_store::Error| self.failed(what, offset, data.len() as u64, e);
        let whole = if begin == 0 && end as u64 >= length {
            data.to_vec()
        } else {
            let mut whole = vec![0; end.max(length as usize)];
            if length > 0 {
                let old = self.runtime.block_on(self.store.get_range(&self.path(index), 0..length));
                whole[..length as usize].copy_from_slice(&old.map_err(|e| failed(Failed::Read, &e))?);
            }
            whole[begin..end].copy_from_slice(data);
            whole
        };
        let new_length = whole.len() as u64;
        debug_assert!(length <= new_length && new_length <= self.object_bytes, "an object grows, within its range of offsets");
        self.runtime.block_on(self.store.put(&self.path(index), whole.into())).map_err(|e| failed(Failed::Write, &e))?;
        let mut state = self.change();
        state.lengths.insert(index, new_length);
        state.bytes += new_length - length;
        state.held.insert(offset, offset + data.len() as u64);
        Ok(())
    }

    /// Discards a range of one object; deletes the object when nothing of it is held.
    fn give_back(&self, index: u64, begin: u64, end: u64) -> io::Result<()> {
        let _alone = self.lock(index);
        let object = index * self.object_bytes;
        debug_assert!(object <= begin && begin <= end && end <= object + self.object_bytes, "the range is one object's");
        self.change().held.remove(begin, end);
        if self.state().held.touches(object, object + self.object_bytes) {
            return Ok(());
        }
        if self.gathering.as_ref().is_none_or(|gathering| gathering.forget(index)) {
            match self.runtime.block_on(self.store.delete(&self.path(index))) {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(self.failed(Failed::Delete, begin, end - begin, &e)),
            }
        }
        let mut state = self.change();
        let length = state.lengths.remove(&index).unwrap_or(0);
        debug_assert!(length <= state.bytes, "D1: the sum is that of the lengths");
        debug_assert!(!state.lengths.is_empty() || state.bytes == length, "D1: without objects nothing is used");
        state.bytes -= length;
        Ok(())
    }
}

impl BlockingSource for Objects {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = buffer.len() as u64;
        if !self.state().held.contains(offset, offset + bytes) {
            return Err(error::missing(&self.address, offset, bytes));
        }
        for (index, position, part) in self.parts(offset, buffer.len()) {
            if self.gathering.as_ref().is_some_and(|gathering| gathering.read(index, position, &mut buffer[part.clone()])) {
                continue;
            }
            let range = position..position + part.len() as u64;
            let read = self.runtime.block_on(self.store.get_range(&self.path(index), range));
            let read = read.map_err(|e| self.failed(Failed::Read, offset, bytes, &e))?;
            if read.len() != part.len() {
                return Err(error::missing(&self.address, offset, bytes));
            }
            buffer[part].copy_from_slice(&read);
        }
        Ok(())
    }
}

impl Device for ObjectDevice {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        error::check_transfer("write", offset, data)?;
        let mut parts = self.objects.parts(offset, data.len());
        parts.try_for_each(|(index, position, part)| match &self.objects.gathering {
            Some(gathering) => self.objects.write_gathered(gathering, index, position, &data[part]),
            None => self.objects.put(index, position, &data[part]),
        })
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        self.objects.read_at(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)?;
        let (size, end) = (self.objects.object_bytes, offset + bytes);
        let indices = offset / size..end.div_ceil(size);
        let touched: Vec<u64> = self.objects.state().lengths.range(indices).map(|(index, _)| *index).collect();
        let mut result = Ok(());
        for index in touched {
            let (begin, last) = (offset.max(index * size), end.min((index + 1) * size));
            // An error of one is no reason to leave space taken by the others.
            result = result.and(self.objects.give_back(index, begin, last));
        }
        result
    }

    /// An upload that succeeded is durable.
    fn sync(&self) -> io::Result<()> {
        self.objects.gathering.as_ref().map_or(Ok(()), |gathering| self.objects.sync_gathered(gathering))
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        Ok(Source::Blocking { source: Arc::clone(&self.objects) as Arc<dyn BlockingSource>, offset })
    }

    fn used_bytes(&self) -> u64 {
        self.objects.state().bytes
    }
}
