//! `verify`: reads all of a log, its base included; or a snapshot.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_io::files;
use almandine_oplog::directory::base_path;
use almandine_oplog::encryption::KeyMark;
use almandine_oplog::manifest::BaseEntry;
use almandine_oplog::{Fault, LogKeys};
use almandine_recovery::base::{BaseFault, BaseItem, BaseReader, DeviceItem, DeviceReader, peek, peek_keys};
use almandine_recovery::load::FileInput;
use serde_json::{Value, json};

use crate::log::{Log, tell};
use crate::report::{Outcome, Report};
use crate::snapshot;

pub(crate) fn verify(
    (path, storage, keys): (&Path, &[PathBuf], Option<Arc<LogKeys>>),
    search_bytes: usize,
    report: &mut Report,
) -> Result<Outcome, Fault> {
    if files::open(path).is_ok() && !files::is_directory(path) {
        return snapshot::verify(path, search_bytes, report);
    }
    verify_log((path, storage), keys, report)
}

/// Reads a log, and what its base names in `storage-dir` if that is given.
pub(crate) fn verify_log(
    (path, storage): (&Path, &[PathBuf]),
    keys: Option<Arc<LogKeys>>,
    report: &mut Report,
) -> Result<Outcome, Fault> {
    let log = Log::open(path, keys)?;
    let manifest = &log.manifest;
    report.say("log", format!("{:032x}", manifest.id), format!("log {:032x}, {} runs", manifest.id, manifest.run));
    report.say("runs", manifest.run, format!("{} segments", manifest.segments.len()));
    tell_encryption(&log, report);
    let extent = log.read(|_| {});
    tell(&extent, report);
    extent.result?;
    if let Some(base) = manifest.base {
        let keys = (0..base.parts).map(|part| verify_base(&log, base, part, report)).sum::<Result<u64, Fault>>()?;
        report.say("base_keys", keys, format!("base {} with {keys} keys", base.number));
        if extent.end.lsn < base.through {
            let why = format!("base {} needs the log up to LSN {}", base.number, base.through);
            return Err(Fault::Missing { path: log.path.join("log-…"), why });
        }
        verify_pages(&log, base, storage, report)?;
    }
    let clean = if manifest.end.is_some() { "the last run has ended cleanly" } else { "the last run has not ended cleanly" };
    report.say("clean", manifest.end.is_some(), clean);
    Ok(Outcome::Whole)
}

/// Says with which keys it is encrypted.
fn tell_encryption(log: &Log, report: &mut Report) {
    let marks = log.manifest.segments.iter().filter_map(|segment| segment.key);
    let names: BTreeSet<String> = marks.chain(log.manifest.base.and_then(|base| base.key)).map(|mark| mark.name()).collect();
    for name in &names {
        report.list("keys", json!(name), format!("encrypted with the key '{name}'"));
    }
    if !names.is_empty() && log.keys.is_none() {
        let text = "what is encrypted is checked by its checksums only: --key-file has it read";
        report.say("decrypted", false, text);
    }
}

/// Reads a part of the base, and returns how many keys it has; says how many are out of reach when it is damaged.
fn verify_base(log: &Log, base: BaseEntry, part: u32, report: &mut Report) -> Result<u64, Fault> {
    let path = base_path(&log.path, base.number, part);
    if files::identity(&path).is_err() {
        return Err(Fault::Missing { path, why: "the manifest names it as a part of the base".into() });
    }
    if part == DEVICE_PART {
        return verify_device(log, base, &path, report);
    }
    let (mut offset, mut read) = (0, 0);
    let keys = files::open(&path).map_err(BaseFault::from).and_then(|file| {
        let mut reader = BaseReader::open_with(FileInput::new(file), log.access())?;
        let head = reader.head();
        if (head.log, head.base, head.lsn, u32::from(head.part)) != (log.manifest.id, base.number, base.lsn, part) {
            return Err(BaseFault::Another);
        }
        loop {
            let keys = match reader.is_opaque() {
                true => reader.check_block(),
                false => reader.read_item().map(|item| item.map(|item| u64::from(matches!(item, BaseItem::Key { .. })))),
            };
            match keys {
                Ok(Some(keys)) => read += keys,
                Ok(None) => return Ok(read),
                Err(fault) => {
                    offset = reader.offset();
                    return Err(fault);
                }
            }
        }
    });
    if keys.is_err() {
        tell_lost((&path, log.keys.as_deref()), read, report);
    }
    keys.map_err(|fault| match fault {
        BaseFault::Io(error) => Fault::Io { what: "read", path, error },
        BaseFault::Key(why) => Fault::Key { path, why },
        BaseFault::Format(format) => Fault::Unknown { path, offset, what: format!("a base of format {format}") },
        fault => Fault::BaseDamaged { path, offset, why: fault.to_string() },
    })
}

/// The part of a base that names what lies in `storage-dir`.
const DEVICE_PART: u32 = 1;

/// Reads the pages that a base names in `storage-dir`.
fn verify_pages(log: &Log, base: BaseEntry, storage: &[PathBuf], report: &mut Report) -> Result<(), Fault> {
    let names_pages = base.parts > DEVICE_PART;
    match storage {
        [] if names_pages => {
            report.say("storage_pages", Value::Null, "what the base names in storage-dir is not looked at without --storage-dir");
        }
        [first, ..] if names_pages => {
            let table = base_path(&log.path, base.number, DEVICE_PART);
            let read = almandine_server::read_pages(&table, storage, (log.manifest.id, log.keys.clone()));
            let path = first.clone();
            let read = read.map_err(|error| match error.kind() {
                ErrorKind::InvalidData => Fault::BaseDamaged { path, offset: 0, why: error.to_string() },
                ErrorKind::NotFound | ErrorKind::UnexpectedEof => Fault::Missing { path, why: error.to_string() },
                _ => Fault::Io { what: "read", path, error },
            })?;
            let line = format!("{} pages in storage-dir, {} bytes with large values", read.pages, read.bytes);
            report.say("storage_pages", read.pages, line);
            if read.opaque > 0 {
                let line = format!("the large values of {} of them are not looked at without their key: --key-file", read.opaque);
                report.say("storage_pages_opaque", read.opaque, line);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Reads what a base says of `storage-dir`, and returns how many keys that is.
fn verify_device(log: &Log, base: BaseEntry, path: &Path, report: &mut Report) -> Result<u64, Fault> {
    let marks = files::open(path).map_err(BaseFault::from).and_then(|file| peek_keys(FileInput::new(file)));
    let names: BTreeSet<String> = marks.unwrap_or_default().iter().map(KeyMark::name).collect();
    for name in names {
        report.list("storage_keys", json!(name), format!("what the base names in storage-dir needs the key '{name}'"));
    }
    let keys = files::open(path).map_err(BaseFault::from).and_then(|file| {
        let input = FileInput::new(file);
        let mut reader = match &log.keys {
            Some(keys) => DeviceReader::open_with(input, keys)?,
            None => DeviceReader::open(input)?,
        };
        if (reader.head().log, reader.head().base) != (log.manifest.id, base.number) {
            return Err(BaseFault::Another);
        }
        let mut keys = 0;
        loop {
            match reader.read_item()? {
                DeviceItem::Key(_) => keys += 1,
                DeviceItem::Opaque(more) => keys += more,
                DeviceItem::End(_) => return Ok(keys),
                DeviceItem::Cipher(_) | DeviceItem::Page(_) | DeviceItem::Dead(..) => {}
            }
        }
    });
    let path = path.to_owned();
    keys.map_err(|fault| match fault {
        BaseFault::Io(error) => Fault::Io { what: "read", path, error },
        BaseFault::Key(why) => Fault::Key { path, why },
        fault => Fault::BaseDamaged { path, offset: 0, why: fault.to_string() },
    })
}

/// Says how many keys of a damaged base can be read, and how many it had as far as its end says so.
fn tell_lost((path, keys): (&Path, Option<&LogKeys>), read: u64, report: &mut Report) {
    report.say("base_keys_read", read, format!("{read} keys of the base are before the damage"));
    let announced = files::open(path).map_err(BaseFault::from).and_then(|file| peek(&file, keys.unwrap_or(&LogKeys::NONE)));
    let all = announced.map(|(_, _, databases)| databases.all.iter().map(|database| database.keys).sum::<u64>());
    match all {
        Ok(all) => {
            let line = format!("it had about {all}, so that about {} are out of reach", all.saturating_sub(read));
            report.say("base_keys_announced", all, line);
        }
        Err(BaseFault::Key(_)) => report.say("base_keys_announced", Value::Null, "how many it had is encrypted"),
        Err(_) => {
            report.say("base_keys_announced", Value::Null, "its end is damaged, too, so that it is not known how many it had")
        }
    }
}
