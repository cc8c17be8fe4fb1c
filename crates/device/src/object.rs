//! Object storage as a device: S3 and what speaks its protocol, Azure, Google Cloud, or a directory.
//!
//! A fixed range of offsets is one object, named after its size and number: a page of the log is one upload, and a read asks for
//! a part of one object. An object cannot change in place, so writing a part of one reads it first; a log does not do that. It
//! cannot shrink either: it takes its whole length until all of it is discarded.
//!
//! Requests run on a runtime of this device; only threads that may block wait for them. Nothing locks a bucket: one server only
//! may be given one address.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;
use url::Url;

use crate::ranges::Ranges;
use crate::{BLOCK_BYTES, BlockingSource, Device, OpenMode, Source, error};

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
    /// Keys, secrets, regions and the like, under the names that `object_store` gives them.
    pub settings: Vec<(String, String)>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self { mode: OpenMode::Empty, object_bytes: 2 << 20, settings: Vec::new() }
    }
}

impl ObjectOptions {
    /// The settings that the clouds' own tools take from the environment: `AWS_…`, `AZURE_…`, `GOOGLE_…`.
    #[must_use]
    pub fn with_environment(mut self) -> Self {
        let ours = |name: &str| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|begin| name.starts_with(begin));
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        self.settings.extend(variables.filter(|(name, _)| ours(name)));
        self
    }
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
        let bad = |e: &dyn std::fmt::Display| {
            let text =
                format!("{address:?} is no address of an object store ({e}); one is s3://bucket/folder, az://, gs:// or file://");
            io::Error::new(ErrorKind::InvalidInput, text)
        };
        let url = Url::parse(address).map_err(|e| bad(&e))?;
        let (store, prefix): (Box<dyn ObjectStore>, Path) = if url.scheme() == "file" {
            (Box::new(LocalFileSystem::new().with_fsync(true)), Path::from_url_path(url.path()).map_err(|e| bad(&e))?)
        } else {
            object_store::parse_url_opts(&url, options.settings.iter().cloned()).map_err(|e| bad(&e))?
        };
        let name = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path());
        Self::over(store, prefix, name, options)
    }

    /// Opens a store of the caller's; the address is for messages.
    ///
    /// # Errors
    /// As [`ObjectDevice::open`].
    pub fn over(store: Box<dyn ObjectStore>, prefix: Path, address: String, options: &ObjectOptions) -> io::Result<Self> {
        let object_bytes = options.object_bytes;
        if object_bytes == 0 || !object_bytes.is_multiple_of(BLOCK_BYTES as u64) {
            let text = format!("an object of {object_bytes} bytes is not made of blocks of {BLOCK_BYTES}: choose a multiple");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("object-store").enable_all().build()?;
        let locks = (0..LOCKS).map(|_| Mutex::new(())).collect();
        let objects = Objects { store, prefix, address, object_bytes, runtime, state: RwLock::default(), locks };
        objects.recover(options.mode)?;
        Ok(Self { objects: Arc::new(objects) })
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
            Ok(listed) => listed.objects,
            Err(object_store::Error::NotFound { .. }) => Vec::new(),
            Err(e) => return Err(self.failed("list", 0, 0, &e)),
        };
        let mut found = Vec::new();
        for object in listed {
            let name = object.location.filename().unwrap_or_default();
            // Segments of another size are stale too when beginning empty, but their contents cannot be kept.
            let ours = self.index(name).or((mode == OpenMode::Empty && name.starts_with(NAME_BEGINS)).then_some(0));
            let Some(index) = ours else {
                let text = format!(
                    "{} holds {name:?}, which is not of this device with objects of {} bytes: choose an empty folder, or the size as before",
                    self.address, self.object_bytes
                );
                return Err(io::Error::new(ErrorKind::AlreadyExists, text));
            };
            found.push((index, object));
        }
        let mut state = self.change();
        for (index, object) in found {
            match mode {
                OpenMode::Empty => {
                    self.runtime
                        .block_on(self.store.delete(&object.location))
                        .map_err(|e| self.failed("delete", 0, object.size, &e))?;
                }
                OpenMode::Keep => {
                    let begin = index * self.object_bytes;
                    state.held.insert(begin, begin + object.size);
                    state.lengths.insert(index, object.size);
                    state.bytes += object.size;
                }
            }
        }
        Ok(())
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

    fn failed(&self, operation: &str, offset: u64, bytes: u64, e: &object_store::Error) -> io::Error {
        let kind = match e {
            object_store::Error::NotFound { .. } => ErrorKind::NotFound,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ErrorKind::PermissionDenied
            }
            _ => ErrorKind::Other,
        };
        error::at_offset(operation, &self.address, offset, bytes, &io::Error::new(kind, e.to_string()))
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
        let failed = |operation: &str, e: &object_store::Error| self.failed(operation, offset, data.len() as u64, e);
        let whole = if begin == 0 && end as u64 >= length {
            data.to_vec()
        } else {
            let mut whole = vec![0; end.max(length as usize)];
            if length > 0 {
                let old = self.runtime.block_on(self.store.get_range(&self.path(index), 0..length));
                whole[..length as usize].copy_from_slice(&old.map_err(|e| failed("read for writing", &e))?);
            }
            whole[begin..end].copy_from_slice(data);
            whole
        };
        let new_length = whole.len() as u64;
        self.runtime.block_on(self.store.put(&self.path(index), whole.into())).map_err(|e| failed("write", &e))?;
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
        self.change().held.remove(begin, end);
        if self.state().held.touches(object, object + self.object_bytes) {
            return Ok(());
        }
        match self.runtime.block_on(self.store.delete(&self.path(index))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(e) => return Err(self.failed("delete", begin, end - begin, &e)),
        }
        let mut state = self.change();
        let length = state.lengths.remove(&index).unwrap_or(0);
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
            let range = position..position + part.len() as u64;
            let read = self.runtime.block_on(self.store.get_range(&self.path(index), range));
            let read = read.map_err(|e| self.failed("read", offset, bytes, &e))?;
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
        parts.try_for_each(|(index, position, part)| self.objects.put(index, position, &data[part]))
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
        Ok(())
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        Ok(Source::Blocking { source: Arc::clone(&self.objects) as Arc<dyn BlockingSource>, offset })
    }

    fn used_bytes(&self) -> u64 {
        self.objects.state().bytes
    }
}
