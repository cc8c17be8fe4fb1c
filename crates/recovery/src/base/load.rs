//! A file of a base becomes keys of a keyspace.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use almandine_keyspace::{Accessor, AdoptFault, ColdKey, DeviceAccess, Fetcher};
use almandine_oplog::encryption::LogKeys;
use almandine_oplog::read::BodyAccess;

use super::device::{DeviceDatabase, DeviceHead, DeviceItem, DeviceReader};
use super::format::{BaseFault, BaseHead};
use super::read::{BaseItem, BaseReader, take_bytes, take_item};
use super::write::BaseDatabases;
use crate::redo::{LaneFault, LogLanes};

/// What was loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadedBase {
    /// Keys.
    pub keys: u64,
    /// The greatest contents that a key belongs to.
    pub last_contents: u64,
    /// Databases, as some moment of the walk found them; those that were flushed since then have what they had before.
    pub databases: BaseDatabases,
    /// The texts of libraries of functions, and their version.
    pub libraries: (u64, Vec<Vec<u8>>),
}

/// Loads the keys of a file into the databases that `contents` names by what they consisted of. Keys of contents that no database
/// has are left out. All of it has come to the lanes behind this, and is loaded when they have settled. Outside of a batch; nothing
/// expires meanwhile.
///
/// # Errors
/// When the file is damaged, cut off or not the one that `expected` says, its key is not there, or the store is full.
pub fn load<R: Read>(
    (input, keys): (R, &LogKeys),
    expected: BaseHead,
    lanes: &mut LogLanes<'_>,
    contents: &BTreeMap<u64, u16>,
) -> Result<LoadedBase, BaseFault> {
    let mut reader = BaseReader::open_with(input, BodyAccess::Keys(keys))?;
    if reader.head() != expected {
        return Err(BaseFault::Another);
    }
    let mut loaded = LoadedBase::default();
    // Of the key whose value comes in parts: whether a database has it.
    let mut parts_of = None;
    while let Some(block) = reader.read_block()? {
        let mut rest = block.entries;
        let mut keys = 0;
        while !rest.is_empty() {
            let from = rest;
            if block.has_libraries {
                loaded.libraries.1.push(take_bytes(&mut rest).ok_or(BaseFault::Damaged)?.to_vec());
                continue;
            }
            let item = take_item(&mut rest).ok_or(BaseFault::Damaged)?;
            let bytes = &from[..from.len() - rest.len()];
            match (item, parts_of) {
                (BaseItem::Key { contents: of, key, value, .. }, None) => {
                    keys += 1;
                    loaded.last_contents = loaded.last_contents.max(of);
                    let db = contents.get(&of).copied();
                    parts_of = value.is_none().then_some(db.is_some());
                    if let Some(db) = db {
                        lanes.base_key((db, key), bytes, block.floor)?;
                    }
                }
                (BaseItem::Part { last, .. }, Some(is_kept)) => {
                    if is_kept {
                        lanes.base_part(bytes)?;
                    }
                    parts_of = parts_of.filter(|_| !last);
                }
                _ => return Err(BaseFault::Damaged),
            }
        }
        loaded.keys += keys;
        reader.count_keys(keys);
    }
    if parts_of.is_some() {
        return Err(BaseFault::Damaged);
    }
    loaded.libraries.0 = reader.libraries_version();
    loaded.databases = reader.databases().cloned().unwrap_or_default();
    Ok(loaded)
}

/// Keys of a device that are adopted in one batch.
const ADOPTED_TOGETHER: usize = 256;

/// Takes over what a file names on the device: the pages, and entries for the records of these databases, whose namespaces are
/// taken. Before any key is loaded, by a keyspace that begins on that device. How many keys.
///
/// # Errors
/// When the file is damaged, cut off or not the one that `expected` says, a key is not there, or a page is damaged or cannot be
/// read.
pub fn load_device<R: Read>(
    (input, keys): (R, &LogKeys),
    expected: DeviceHead,
    accessor: &mut Accessor,
    databases: &[DeviceDatabase],
) -> Result<u64, BaseFault> {
    let mut reader = DeviceReader::open_with(input, keys)?;
    if reader.head() != expected {
        return Err(BaseFault::Another);
    }
    let keyspace = Arc::clone(accessor.keyspace());
    let Some(device) = keyspace.log().device() else { return Err(BaseFault::Another) };
    let of: Vec<(u16, u16)> = databases.iter().map(|database| (database.db, database.namespace)).collect();
    let namespaces = keyspace.log().take_namespaces(&of);
    let (mut cold, mut count, mut fetcher) = (Vec::new(), 0, Fetcher::default());
    let mut adopt = |accessor: &mut Accessor, cold: &mut Vec<ColdKey>| {
        let adopted = DeviceAccess::new(accessor).adopt(cold, &namespaces, &mut fetcher);
        cold.clear();
        adopted.map_err(BaseFault::Device)
    };
    loop {
        match reader.read_item()? {
            DeviceItem::Cipher(row) => device.storage().ciphers.load(&row).map_err(BaseFault::Key)?,
            // There are keys, or it could not be begun.
            DeviceItem::Opaque(_) => return Err(BaseFault::Damaged),
            DeviceItem::Page(row) => {
                if !device.adopt_page(&row) {
                    return Err(BaseFault::Device(AdoptFault::Missing { page: row.page }));
                }
            }
            DeviceItem::Key(key) => {
                cold.push(key);
                if cold.len() == ADOPTED_TOGETHER {
                    count += adopt(accessor, &mut cold)?;
                }
            }
            DeviceItem::Dead(page, words) => device.count_dead(page, words),
            DeviceItem::End(all) if all == databases => break,
            DeviceItem::End(_) => return Err(BaseFault::Damaged),
        }
    }
    count += adopt(accessor, &mut cold)?;
    DeviceAccess::new(accessor).survey(&namespaces).map_err(BaseFault::Device)?;
    Ok(count)
}

impl From<LaneFault> for BaseFault {
    fn from(fault: LaneFault) -> Self {
        fault.refusal.map_or(Self::Damaged, Self::Refused)
    }
}
