//! What the directories of the storage have, and which log that is a part of: their *label*.
//!
//! INV-RETAIN-2: data on the device is deleted, or given up, only while its label says that it belongs to no log, and a start takes
//! it for that of a log only where the label says so. A log that begins while the server runs has its first base named in one file,
//! and the labels are in others. So these say before that since which base they belong to it, and after that that they do.

use std::io;
use std::sync::Arc;

use almandine_device::file::begun_label;
use almandine_device::{Device, FileOptions, OpenMode};

/// The last base that is named of a log, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastBase {
    pub(crate) log: u128,
    pub(crate) number: u64,
}

/// What the directories of the storage have at the start, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing that outlives the server, which does not begin with the log that is there. None: there is none that can be read.
    Passing(Option<LastBase>),
    /// What belongs to a log that begins, or whose base names nothing of it: nothing yet.
    Begun(u128),
    /// What this base names.
    Kept(LastBase),
}

impl Contents {
    /// How the directories are opened, whose files are of this size where they are begun.
    pub(crate) fn options(self, segment_bytes: u64) -> FileOptions {
        let mode = if let Self::Kept(_) = self { OpenMode::Keep } else { OpenMode::Empty };
        let (label, base) = match self {
            Self::Passing(base) => (FileOptions::default().label, base),
            Self::Begun(log) => (label_of(log), Some(LastBase { log, number: 0 })),
            Self::Kept(base) => (label_of(base.log), Some(base)),
        };
        let counts = base.map(|base| (label_of(base.log), base.number));
        FileOptions { mode, segment_bytes, label, counts, ..FileOptions::default() }
    }
}

fn label_of(log: u128) -> String {
    format!("log {log:032x}")
}

fn relabel(devices: [&Arc<dyn Device>; 2], label: &str) -> io::Result<()> {
    devices.into_iter().try_for_each(|device| device.relabel(label))
}

/// What lies on the devices belongs to this log as soon as the base of this number, or a later one, is named.
///
/// # Errors
/// When that is not durable.
pub(crate) fn begins(devices: [&Arc<dyn Device>; 2], log: u128, base: u64) -> io::Result<()> {
    relabel(devices, &begun_label(base, &label_of(log)))
}

/// What lies on the devices belongs to this log, whose base is named.
///
/// # Errors
/// As of [`begins`].
pub(crate) fn belongs(devices: [&Arc<dyn Device>; 2], log: u128) -> io::Result<()> {
    relabel(devices, &label_of(log))
}

/// What lies on the devices belongs to no log any more.
///
/// # Errors
/// As of [`begins`].
pub(crate) fn belongs_to_none(devices: [&Arc<dyn Device>; 2]) -> io::Result<()> {
    relabel(devices, &FileOptions::default().label)
}
