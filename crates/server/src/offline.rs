//! What files have, read into a keyspace of its own that no client sees: for what reads them while a server runs, or without one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_config::Config;
use almandine_handler::Table;
use almandine_instance::{Acl, Instance};
use almandine_io::{entropy, files};
use almandine_keyspace::{Keyspace, Options};
use almandine_oplog::LogKeys;
use almandine_oplog::directory::read_manifest;

use crate::operation_log::{Extent, read_log};
use crate::redis_files;

/// See the module. Nothing expires and nothing is evicted in it.
pub(crate) struct Offline {
    pub(crate) instance: Instance,
    table: &'static Table,
    /// What can read a log that is encrypted.
    pub(crate) keys: Arc<LogKeys>,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// The log in this directory.
    Log(PathBuf),
    /// An append-only file of Redis: its parts in this directory, or a single file of the directory above.
    RedisLog(PathBuf),
    /// A single append-only file of Redis, or a snapshot: that is one without commands.
    RedisFile(PathBuf),
}

impl Readable {
    /// What there is in the directory of a log. Files of Redis' form that this server has written behind a log go before it.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub(crate) fn in_directory(path: &Path) -> io::Result<Option<Self>> {
        if !files::is_directory(path) {
            return Ok(None);
        }
        let has_log = read_manifest(path).map_err(io::Error::other)?.is_some_and(|manifest| manifest.base.is_some());
        let has_manifest = files::names(path)?.iter().any(|name| name.ends_with(".manifest"));
        let is_own = match redis_files::Own::read(path)? {
            Some(own) => !own.is_before_log() && own.has_all(path)?,
            None => false,
        };
        Ok(match (has_log, has_manifest) {
            (_, true) if is_own => Some(Self::RedisLog(path.to_owned())),
            (true, _) => Some(Self::Log(path.to_owned())),
            (false, true) => Some(Self::RedisLog(path.to_owned())),
            (false, false) => None,
        })
    }
}

impl Offline {
    /// One that has nothing, with settings as these.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(crate) fn new(config: Config, table: &'static Table, keys: Arc<LogKeys>) -> io::Result<Self> {
        let databases = config.snapshot().settings.process.databases;
        let store = almandine_store::Options { seed: entropy::seed(), ..almandine_store::Options::default() };
        let keyspace = Keyspace::open(Options { databases, maxmemory: 0, store })?;
        keyspace.settings().hold_expiry(true);
        let instance = Instance::new(config, Arc::clone(&keyspace), 1, Acl::open(table.catalog()), "0".repeat(40));
        Ok(Self { instance, table, keys })
    }

    /// The snapshot that is all there is, as far as names and sizes tell.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub(crate) fn snapshot(&self, readable: &Readable) -> io::Result<Option<PathBuf>> {
        let source = match readable {
            Readable::Log(_) => None,
            Readable::RedisLog(path) => self.source(path)?,
            Readable::RedisFile(path) => Some(redis_files::Source::alone(path)?),
        };
        source.map_or(Ok(None), |source| source.snapshot())
    }

    fn source(&self, path: &Path) -> io::Result<Option<redis_files::Source>> {
        let settings = &self.instance.config.snapshot().settings;
        redis_files::find(settings, path.parent().unwrap_or(Path::new(".")), path)
    }

    /// Reads it, and says what a reader should know of it.
    ///
    /// # Errors
    /// Where a start would be refused.
    pub(crate) fn read(&self, readable: &Readable, extent: Extent) -> io::Result<Vec<String>> {
        let none = |path: &Path| io::Error::other(format!("there is no append-only file of Redis in {}", path.display()));
        let instance = &self.instance;
        match readable {
            Readable::Log(path) => return read_log(instance, (path, &self.keys), extent),
            Readable::RedisLog(path) => {
                redis_files::load(instance, self.table, &self.source(path)?.ok_or_else(|| none(path))?)?;
            }
            Readable::RedisFile(path) => {
                redis_files::load(instance, self.table, &redis_files::Source::alone(path)?)?;
            }
        }
        Ok(Vec::new())
    }
}
