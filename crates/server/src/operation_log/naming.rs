//! Names the bases of a log, and says in `storage-dir` that they count.
//!
//! Of a log that begins while the server runs, `storage-dir` says before its first base is named that it belongs to that log since
//! then, and behind it that it does. Of one that ends it says so before anything that its base names goes back (INV-RETAIN-2).

use std::sync::{Arc, PoisonError};
use std::{io, mem};

use almandine_base::step;
use almandine_device::Device;
use almandine_instance::Instance;
use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_keyspace::Storage;
use almandine_oplog::manifest::BaseEntry;
use almandine_oplog::writer::LogWriter;
use almandine_recovery::save::SaveError;

use super::rings::StaleRings;
use crate::storage;

/// What `storage-dir` says of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageLabel {
    /// Nothing: no base of it was named.
    Absent,
    /// It belongs to it when a base is named.
    Begun,
    /// It belongs to it.
    Kept,
}

/// Whether bases of a log can be named.
#[derive(Debug)]
pub(super) struct Naming {
    state: Mutex<State>,
    /// None is being named any more.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    is_naming: bool,
    has_ended: bool,
    label: StorageLabel,
    /// They count until a base is named.
    rings_before: StaleRings,
}

impl Naming {
    /// Of a log of which `storage-dir` says this, and whose bases have these rings count no more.
    pub(super) fn new(label: StorageLabel, rings_before: StaleRings) -> Self {
        Self { state: Mutex::new(State { is_naming: false, has_ended: false, label, rings_before }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A base is being named from now on; false where the log has ended.
    fn begin(&self) -> bool {
        let mut state = self.state();
        debug_assert!(!state.is_naming, "one base is written at a time");
        state.is_naming = !state.has_ended;
        state.is_naming
    }

    /// The log ends: no base is named any more but one that is being named.
    pub(super) fn refuse(&self) {
        self.state().has_ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().has_ended
    }

    /// Waits for a base that is being named.
    fn end(&self) {
        let state = self.state();
        debug_assert!(state.has_ended, "INV-RETAIN-2: no other one is named");
        drop(self.changed.wait_while(state, |state| state.is_naming));
    }
}

fn devices(storage: &Storage) -> [&Arc<dyn Device>; 2] {
    [&storage.pages, &storage.values]
}

/// A base that is complete, and about to be named.
pub(super) struct Begun<'n> {
    instance: &'n Instance,
    naming: &'n Naming,
    /// The log.
    log: u128,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.naming.state().is_naming = false;
        self.naming.changed.notify_all();
    }
}

/// Begins to name the base of this number: what lies on a device belongs to the log when it is named.
///
/// # Errors
/// When the log has ended, or that cannot be made durable; the base is not named then.
pub(super) fn begin<'n>(instance: &'n Instance, naming: &'n Naming, (log, number): (u128, u64)) -> Result<Begun<'n>, SaveError> {
    if !naming.begin() {
        return Err(SaveError::Cancelled);
    }
    let begun = Begun { instance, naming, log };
    let label = naming.state().label;
    if let Some(device) = instance.keyspace.log().device() {
        if label == StorageLabel::Absent {
            storage::begins(devices(&device.storage()), log, number)?;
            naming.state().label = StorageLabel::Begun;
        }
        device.begin_naming();
    }
    Ok(begun)
}

impl Begun<'_> {
    /// Has the log begin with it.
    ///
    /// # Errors
    /// Of the system; it may be named all the same.
    pub(super) fn name(self, writer: &LogWriter, base: BaseEntry) -> Result<(), SaveError> {
        writer.name_base(base).map_err(io::Error::other)?;
        let rings_before = mem::take(&mut self.naming.state().rings_before);
        rings_before.remove();
        let label = self.naming.state().label;
        if let Some(device) = self.instance.keyspace.log().device().filter(|_| label != StorageLabel::Kept) {
            match storage::belongs(devices(&device.storage()), self.log) {
                Ok(()) => self.naming.state().label = StorageLabel::Kept,
                // What it says until then is right for as long as this log is the one that is in the directory.
                Err(error) => tracing::warn!("storage-dir does not say yet that it belongs to the log: {error}"),
            }
        }
        Ok(())
    }
}

/// The log has ended: no base of it is named any more, and what only its bases need in `storage-dir` goes back.
pub(super) fn end(instance: &Instance, naming: &Naming) {
    naming.end();
    let Some(device) = instance.keyspace.log().device() else { return };
    match step!(LabelEnded, storage::belongs_to_none(devices(&device.storage())), else Ok(())) {
        Ok(()) => device.keep_no_more(),
        Err(error) => tracing::error!(
            "storage-dir cannot say that it belongs to no log any more: {error}. What the log's base needs stays there until a log \
             begins, or the server is restarted"
        ),
    }
}
