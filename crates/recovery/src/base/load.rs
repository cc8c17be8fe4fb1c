//! A file of a base becomes keys of a keyspace.

use std::collections::BTreeMap;
use std::io::Read;

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
/// When the file is damaged, cut off or not the one that `expected` says, or the store is full.
pub fn load<R: Read>(
    input: R,
    expected: BaseHead,
    lanes: &mut LogLanes<'_>,
    contents: &BTreeMap<u64, u16>,
) -> Result<LoadedBase, BaseFault> {
    let mut reader = BaseReader::open(input)?;
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

impl From<LaneFault> for BaseFault {
    fn from(fault: LaneFault) -> Self {
        fault.refusal.map_or(Self::Damaged, Self::Refused)
    }
}
