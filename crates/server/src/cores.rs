//! `server_cpulist`: which processors this process uses.

use std::io;
use std::sync::PoisonError;

use almandine_config::{SetError, Settings, special};
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::thread;

const NAME: &str = "server_cpulist";

struct Kept {
    /// The list that is followed.
    list: String,
    /// What the process might use before it followed any.
    all: Vec<usize>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { list: String::new(), all: Vec::new() });

/// Follows the list before there are other threads.
pub(crate) fn begin(settings: &Settings) {
    let list = &settings.threads.server_cpus;
    if let Err(error) = keep(&mut kept(), list) {
        tracing::warn!("The server cannot keep to the cores {list}: {error}");
    }
}

/// Follows a change of the list.
///
/// # Errors
/// When the system refuses it, or workers have cores of their own.
pub(crate) fn follow(settings: &Settings) -> Result<(), SetError> {
    let mut kept = kept();
    let list = &settings.threads.server_cpus;
    if *list != kept.list && settings.engine.pin_workers {
        return Err(SetError::failed(NAME, "with pin-workers each worker keeps to its core"));
    }
    keep(&mut kept, list).map_err(|error| SetError::failed(NAME, error.to_string()))
}

fn keep(kept: &mut Kept, list: &String) -> io::Result<()> {
    if *list == kept.list {
        return Ok(());
    }
    if kept.all.is_empty() {
        kept.all = thread::kept_to()?;
    }
    let cores = special::parse_cpus(list).unwrap_or_default();
    thread::keep_to(if cores.is_empty() { &kept.all } else { &cores })?;
    kept.list.clone_from(list);
    Ok(())
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}
