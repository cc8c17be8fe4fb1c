//! `verify` of a snapshot: value by value, so that memory does not grow with it.

use std::path::Path;

use almandine_io::files;
use almandine_oplog::Fault;
use almandine_rdb::file::{Fault as FileFault, ReadOptions};
use almandine_recovery::load::{FileInput, LoadError, LoadFault, Loaded};
use almandine_recovery::transcribe::{self, PassOptions, Passed, Passes};
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::report::{Outcome, Report};

/// As many as a server may have: how many the next one has is not known here.
const DATABASES: usize = 4096;

pub(crate) fn verify(path: &Path, search_bytes: usize, report: &mut Report) -> Result<Outcome, Fault> {
    let failed = |error| Fault::Io { what: "read", path: path.to_owned(), error };
    let bytes = files::open(path).and_then(|file| file.len()).map_err(failed)?;
    let (mut progress, mut reached) = (Progress::new(bytes), Passed::default());
    let proceed = &mut |passed: Passed| {
        if passed.passes != reached.passes {
            progress = Progress::new(bytes);
        }
        progress.reached(passed.bytes);
        reached = passed;
        true
    };
    let options = PassOptions { read: ReadOptions::default(), databases: DATABASES, memory_bytes: search_bytes };
    let passes = Passes { open: &mut || files::open(path).map(FileInput::new), options, proceed };
    let verified = transcribe::verify(passes);
    drop(progress);
    match verified {
        Ok((loaded, passed)) => {
            tell(&loaded, bytes, report);
            if passed.passes > 1 {
                let passes = passed.passes;
                report.say(
                    "passes",
                    passes,
                    format!("read {passes} times, for a key that it has twice: --search-memory is for that"),
                );
            }
            Ok(Outcome::Whole)
        }
        Err(error) => {
            let keys = reached.keys;
            report.say("keys_read", keys, format!("at least {keys} keys are before what is wrong"));
            Ok(fail(path, &error, report))
        }
    }
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
