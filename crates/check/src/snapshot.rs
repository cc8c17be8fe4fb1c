//! `verify` of a snapshot: loads it as a server would, into memory.

use std::io;
use std::path::Path;

use almandine_config::{Config, Startup};
use almandine_io::files;
use almandine_keyspace::{Accessor, Keyspace, Options};
use almandine_oplog::Fault;
use almandine_rdb::file::{Fault as FileFault, ReadOptions};
use almandine_recovery::load::{Existing, FileInput, LoadError, LoadFault, LoadOptions, Loaded, load};
use almandine_recovery::put::ValueLimits;
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::report::{Outcome, Report};

/// As many as a server may have: how many the next one has is not known here.
const DATABASES: usize = 4096;

pub(crate) fn verify(path: &Path, report: &mut Report) -> Result<Outcome, Fault> {
    let failed = |error| Fault::Io { what: "read", path: path.to_owned(), error };
    let file = files::open(path).map_err(failed)?;
    let bytes = file.len().map_err(failed)?;
    let mut accessor = empty().map_err(|error| Fault::Io { what: "prepare to load", path: path.to_owned(), error })?;
    let mut progress = Progress::new(bytes);
    let mut keys_read = 0;
    let loaded = load(&mut accessor, FileInput::new(file), &options()?, &mut |offset, keys| {
        progress.reached(offset);
        keys_read = keys;
        true
    });
    drop(progress);
    match loaded {
        Ok(loaded) => {
            tell(&loaded, bytes, report);
            Ok(Outcome::Whole)
        }
        Err(error) => {
            report.say("keys_read", keys_read, format!("at least {keys_read} keys are before what is wrong"));
            Ok(fail(path, &error, report))
        }
    }
}

fn empty() -> io::Result<Accessor> {
    let keyspace = Keyspace::open(Options { databases: DATABASES, ..Options::default() })?;
    keyspace.accessor().ok_or_else(|| io::Error::other("the store has no session"))
}

fn options() -> Result<LoadOptions, Fault> {
    let Ok(Startup::Run(config)) = Config::load(&[]) else { return Err(Fault::Stopped) };
    let limits = ValueLimits::of(&config.snapshot().settings);
    Ok(LoadOptions { limits, read: ReadOptions::default(), existing: Existing::Refuse, keep_expired: true, lanes: 1 })
}

/// Says what a whole snapshot is.
fn tell(loaded: &Loaded, bytes: u64, report: &mut Report) {
    report.say("bytes", bytes, format!("{bytes} bytes"));
    report.say("keys", loaded.keys, format!("{} keys", loaded.keys));
    let libraries = loaded.functions.len() as u64;
    report.say("libraries", libraries, format!("{libraries} libraries of functions"));
    let server = loaded.server.as_deref();
    report.say("server", server, server.map_or("no server is named".to_owned(), |server| format!("written by version {server}")));
    if loaded.empty > 0 {
        report.say("empty", loaded.empty, format!("{} collections without elements, which are no keys", loaded.empty));
    }
    for module in &loaded.modules {
        report.list("modules", json!(module), format!("data of the module {module}, which is passed over"));
    }
}

/// Says why a snapshot is refused.
fn fail(path: &Path, error: &LoadError, report: &mut Report) -> Outcome {
    let (outcome, kind) = match &error.fault {
        LoadFault::File(file) => match file.fault {
            FileFault::Io(_) => (Outcome::CouldNotLook, "error"),
            FileFault::Version { .. } | FileFault::ModuleValue(_) | FileFault::KeyMetadata | FileFault::FunctionCandidate => {
                (Outcome::CouldNotLook, "unknown")
            }
            _ => (Outcome::Damaged, "damaged"),
        },
        LoadFault::Database { .. } | LoadFault::Duplicate(_) | LoadFault::Function => (Outcome::Damaged, "damaged"),
        _ => (Outcome::CouldNotLook, "error"),
    };
    let text = format!("{}: {error}", path.display());
    let told: Value = json!({ "kind": kind, "text": text, "file": path.to_string_lossy(), "offset": error.offset });
    report.say("fault", told, text);
    outcome
}
