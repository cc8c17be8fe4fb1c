//! The files of one server become those of another, without a server: the log, append-only files of Redis, snapshots.
//!
//! What is read is never changed, and nothing is written where there is something already. A snapshot becomes another one value by
//! value; where commands or a log follow, or a log is made, all data is in memory on the way.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use almandine_config::{Config, Startup};
use almandine_io::files;
use almandine_oplog::directory::Directory;
use almandine_oplog::fault::Fault;
use almandine_rdb::aof::{AofFile, AofKind, AofManifest};
use almandine_recovery::load::{Existing, FileInput, LoadOptions, Loaded};
use almandine_recovery::put::ValueLimits;
use almandine_recovery::save::{SaveError, SaveOptions, SaveProgress, Saved};
use almandine_recovery::transcribe::{self, PassOptions, Passed, Passes, TranscribeError};
use almandine_script::RestorePolicy;

use crate::offline::{Offline, Readable};
use crate::operation_log::{self, Extent};
use crate::snapshots::base::{base_options, write_base};
use crate::snapshots::load;

/// The name of the snapshot in an append-only file of Redis.
const BASE: &str = "appendonly.aof.1.base.rdb";

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A snapshot, which is a file.
    Snapshot,
    /// An append-only file of Redis: a directory with a snapshot and its manifest.
    RedisLog,
    /// A log of this server: a directory.
    Log,
}

/// A conversion. One thread runs it, and others may ask how far it is.
pub struct Conversion {
    readable: Readable,
    to: PathBuf,
    form: Form,
    /// Bytes of memory for the search for keys that are there twice, where not all of them are in memory.
    search_bytes: usize,
    offline: Offline,
    writing: SaveProgress,
}

/// What was converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// What was read: a log, or an append-only file of Redis or a snapshot.
    pub source: &'static str,
    /// Keys, those past their time included where the form has them.
    pub keys: u64,
    /// Libraries of functions.
    pub functions: usize,
    /// Bytes that were written.
    pub bytes: u64,
    /// The oldest version of the snapshot's format whose readers know all of its values, if that is newer than asked for.
    pub newer: Option<u16>,
    /// What a reader should know of the source.
    pub notes: Vec<String>,
}

impl Conversion {
    /// What lies at `from` is to become `form` at `to`. `settings` are flags of the server: `--databases`, `--rdb-version` and what
    /// else loading depends on. `search_bytes` of memory are for the search for keys that are there twice, where not all of them
    /// are in memory.
    ///
    /// # Errors
    /// When `from` is nothing that can be read, there is something at `to`, or a setting is wrong.
    pub fn new(from: &Path, to: &Path, form: Form, search_bytes: usize, settings: &[String]) -> io::Result<Self> {
        let invalid = |text: String| io::Error::new(ErrorKind::InvalidInput, text);
        let (readable, name) = find(from)?;
        let mut settings = settings.to_vec();
        settings.extend(name.into_iter().flat_map(|name| ["--appendfilename".to_owned(), name]));
        let config = match Config::load(&settings) {
            Ok(Startup::Run(config)) => *config,
            Ok(_) => return Err(invalid("only settings are taken".to_owned())),
            Err(error) => return Err(invalid(error.to_string())),
        };
        let is_there = match form {
            Form::Snapshot => files::open(to).is_ok() || files::is_directory(to),
            Form::RedisLog | Form::Log => files::open(to).is_ok() && !is_empty(to)?,
        };
        if is_there {
            return Err(invalid(format!("{} is there already: name one that is not", to.display())));
        }
        let table = crate::commands::table(&[]).map_err(invalid)?;
        let keys =
            operation_log::read_keys(&config.snapshot().settings, Path::new("")).map_err(|error| invalid(error.to_string()))?;
        let offline = Offline::new(config, table, keys)?;
        offline.instance.persistence.begin_loading(bytes_of(&readable)?);
        Ok(Self { readable, to: to.to_owned(), form, search_bytes, offline, writing: SaveProgress::default() })
    }

    /// How much is done, 0 to 1. Where all data is read into memory, that is the first half.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a percentage is shown")]
    pub fn share(&self) -> f64 {
        let read = self.offline.instance.persistence.loading.figures().share() / 2.0;
        read + (1.0 - read) * self.writing.millionths() as f64 / 1e6
    }

    /// Does it.
    ///
    /// # Errors
    /// When the source cannot be read as a whole, or nothing can be written; then nothing is left at the target but a directory.
    pub fn run(&self) -> io::Result<Converted> {
        let instance = &self.offline.instance;
        let _locked = match &self.readable {
            Readable::Log(path) => lock(path)?,
            _ => None,
        };
        let source = if matches!(self.readable, Readable::Log(_)) { "log" } else { "files of Redis" };
        let mut converted = Converted { source, ..Converted::default() };
        if self.form == Form::Log {
            converted.notes = self.offline.read(&self.readable, Extent::Whole)?;
            (converted.keys, converted.bytes) = operation_log::write_new(instance, &self.to, &self.offline.keys)?;
        } else {
            let to = match self.form {
                Form::RedisLog => {
                    files::make_directories(&self.to)?;
                    self.to.join(BASE)
                }
                _ => self.to.clone(),
            };
            let saved = match self.transcribed(&to)? {
                Some(saved) => saved,
                None => {
                    converted.notes = self.offline.read(&self.readable, Extent::Whole)?;
                    write_base(instance, &to, &self.writing).map_err(of_save)?
                }
            };
            (converted.keys, converted.bytes, converted.newer) = (saved.keys, saved.bytes, saved.newer);
        }
        if self.form == Form::RedisLog {
            let base = AofFile { name: BASE.as_bytes().to_vec(), sequence: 1, kind: AofKind::Base };
            let manifest = AofManifest { base: Some(base), ..AofManifest::default() };
            files::replace(self.to.join("appendonly.aof.manifest"), manifest.encode())?;
        }
        converted.functions = instance.scripts.libraries.all().len();
        Ok(converted)
    }

    /// Writes a snapshot value by value. None where something follows that changes what it has.
    fn transcribed(&self, to: &Path) -> io::Result<Option<Saved>> {
        let Some(from) = self.offline.snapshot(&self.readable)? else { return Ok(None) };
        let (instance, bytes) = (&self.offline.instance, files::open(&from)?.len()?);
        let settings = &instance.config.snapshot().settings;
        let LoadOptions { read, .. } = load::options(settings, Existing::Refuse);
        let options = PassOptions { read, databases: settings.process.databases, memory_bytes: self.search_bytes };
        let proceed = &mut |passed: Passed| {
            if passed.passes == 0 {
                self.writing.copied(0, passed.bytes.saturating_mul(1_000_000).checked_div(bytes).unwrap_or(0));
            }
            true
        };
        let mut more = false;
        let approve = &mut |loaded: &Loaded, passed: Passed| {
            more = passed.bytes < bytes;
            if more {
                return Err(io::Error::other("commands follow"));
            }
            load::restore(instance, &from, &loaded.functions, RestorePolicy::Append)
        };
        let save = SaveOptions { functions: Vec::new(), ..base_options(instance) };
        let passes = Passes { open: &mut || files::open(&from).map(FileInput::new), options, proceed };
        match transcribe::transcribe(passes, to, &save, &ValueLimits::of(settings), approve) {
            Ok((_, saved)) => Ok(Some(saved)),
            Err(_) if more => {
                self.writing.copied(0, 0);
                Ok(None)
            }
            Err(TranscribeError::Load(error)) => Err(load::failed(&from, &error)),
            Err(TranscribeError::Save(error)) => Err(of_save(error)),
        }
    }
}

fn of_save(error: SaveError) -> io::Error {
    match error {
        SaveError::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

/// What lies there, and the name of its manifest, if it has one.
fn find(from: &Path) -> io::Result<(Readable, Option<String>)> {
    // The directory above is looked at.
    let from = &files::canonical(from).map_err(|error| io::Error::other(format!("{}: {error}", from.display())))?;
    if !files::is_directory(from) {
        return Ok((Readable::RedisFile(from.to_owned()), None));
    }
    let none = || io::Error::other(format!("{} has no log, and no append-only file of Redis with a manifest", from.display()));
    let readable = Readable::in_directory(from)?.ok_or_else(none)?;
    let mut names = files::names(from)?.into_iter().filter_map(|name| name.strip_suffix(".manifest").map(str::to_owned));
    let (name, another) = (names.next(), names.next());
    if another.is_some() && matches!(readable, Readable::RedisLog(_)) {
        return Err(io::Error::other(format!("{} has several manifests: leave one there", from.display())));
    }
    Ok((readable, name))
}

fn bytes_of(readable: &Readable) -> io::Result<u64> {
    match readable {
        Readable::Log(path) | Readable::RedisLog(path) => {
            let names = files::names(path)?;
            Ok(names.iter().filter_map(|name| files::open(path.join(name)).and_then(|file| file.len()).ok()).sum())
        }
        Readable::RedisFile(path) => files::open(path)?.len(),
    }
}

fn is_empty(directory: &Path) -> io::Result<bool> {
    Ok(files::is_directory(directory) && files::names(directory)?.is_empty())
}

/// Keeps servers off a log, where that is possible.
fn lock(path: &Path) -> io::Result<Option<Directory>> {
    match Directory::lock(path) {
        Ok(locked) => Ok(Some(locked)),
        Err(Fault::Io { error, .. }) if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
            Ok(None)
        }
        Err(fault @ Fault::Locked(_)) => Err(io::Error::new(ErrorKind::ResourceBusy, fault)),
        Err(fault) => Err(io::Error::other(fault)),
    }
}
