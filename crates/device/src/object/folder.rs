//! Objects by name below an address, that are made once and never changed.

use std::io;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use tokio::runtime::Runtime;

use super::address;
use super::environment;
use crate::error;

/// Objects that are asked for at once.
const AT_ONCE: usize = 16;

/// See the module. Its requests block.
pub struct ObjectFolder {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    address: String,
    runtime: Runtime,
}

impl ObjectFolder {
    /// Opens an address, as `s3://bucket/folder`, `az://container/folder`, `gs://bucket/folder` or `file:///folder`, with what the
    /// clouds' own tools take from the environment. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When the address or the settings are not understood.
    pub fn open(address: &str) -> io::Result<Self> {
        let (store, prefix, address) = address::open(address, &environment())?;
        // The library's requests need its runtime, as those of a device.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("object-store").enable_all().build()?;
        Ok(Self { store, prefix, address, runtime })
    }

    /// Where it is, without what may be secret in that.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes an object. False: there is one of this name.
    ///
    /// # Errors
    /// As the store reports them; then it may have been made.
    pub fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        debug_assert!(!name.is_empty() && !name.contains('/'), "all objects are in one folder");
        let path = self.prefix.clone().join(name);
        let put = self.store.put_opts(&path, bytes.to_vec().into(), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed("make", &error)),
        }
    }

    /// Makes objects, all at once: which ones were not there.
    ///
    /// # Errors
    /// As the store reports them; then some may have been made.
    pub fn create_all(&self, objects: Vec<(String, Vec<u8>)>) -> io::Result<Vec<bool>> {
        let put = |(name, bytes): (String, Vec<u8>)| {
            debug_assert!(!name.is_empty() && !name.contains('/'), "all objects are in one folder");
            let path = self.prefix.clone().join(name);
            async move {
                match self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                    Err(error) => Err(self.failed("make", &error)),
                }
            }
        };
        let at_once = objects.len().clamp(1, AT_ONCE);
        self.runtime.block_on(stream::iter(objects.into_iter().map(put)).buffered(at_once).try_collect())
    }

    /// The bytes of an object; none where there is none.
    ///
    /// # Errors
    /// As the store reports them.
    pub fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        debug_assert!(!name.is_empty() && !name.contains('/'), "all objects are in one folder");
        let path = self.prefix.clone().join(name);
        let got = self.runtime.block_on(async { self.store.get(&path).await?.bytes().await });
        match got {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    /// The bytes of objects, in the order of their names: up to 16 are on their way at once.
    ///
    /// # Errors
    /// As the store reports them, and what `each` returns.
    pub fn get_each(
        &self,
        names: &[String],
        each: &mut (dyn FnMut(usize, Option<Vec<u8>>) -> io::Result<()> + Send + '_),
    ) -> io::Result<()> {
        debug_assert!(names.iter().all(|name| !name.contains('/')), "all objects are in one folder");
        let got = |name: &String| {
            let path = self.prefix.clone().join(name.as_str());
            async move { self.store.get(&path).await?.bytes().await }
        };
        self.runtime.block_on(async {
            let mut all = stream::iter(names.iter().map(got)).buffered(AT_ONCE).enumerate();
            while let Some((at, got)) = all.next().await {
                match got {
                    Ok(bytes) => each(at, Some(bytes.into()))?,
                    Err(object_store::Error::NotFound { .. }) => each(at, None)?,
                    Err(error) => return Err(self.failed("read", &error)),
                }
            }
            Ok(())
        })
    }

    /// Names and lengths of all objects.
    ///
    /// # Errors
    /// As the store reports them; or there is a folder.
    pub fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let listed = match self.runtime.block_on(self.store.list_with_delimiter(Some(&self.prefix))) {
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            listed => listed.map_err(|error| self.failed("list", &error))?,
        };
        let folders = listed.common_prefixes.into_iter().map(|folder| (format!("{}/", folder.filename().unwrap_or_default()), 0));
        let objects =
            listed.objects.into_iter().map(|object| (object.location.filename().unwrap_or_default().to_owned(), object.size));
        Ok(folders.chain(objects).collect())
    }

    /// Deletes objects. Those that are not there are no error.
    ///
    /// # Errors
    /// As the store reports them.
    pub fn delete(&self, names: &[String]) -> io::Result<()> {
        debug_assert!(names.iter().all(|name| !name.contains('/')), "all objects are in one folder");
        let paths: Vec<_> = names.iter().map(|name| Ok(self.prefix.clone().join(name.as_str()))).collect();
        let deleted = self.store.delete_stream(stream::iter(paths).boxed()).try_for_each(|_| std::future::ready(Ok(())));
        match self.runtime.block_on(deleted) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", &error)),
        }
    }

    fn failed(&self, what: &str, error: &object_store::Error) -> io::Error {
        let cause = io::Error::other(error.to_string());
        error::at_path(what, std::path::Path::new(&self.address), &cause)
    }
}
