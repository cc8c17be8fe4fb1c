//! A file of a base becomes keys of a keyspace.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use almandine_base::object::{Object, Types};
use almandine_keyspace::{Accessor, Body, Effect, HeapValue, Kind, Put, Refusal};

use super::format::{BaseFault, BaseHead};
use super::read::{BaseItem, BaseReader};
use super::write::BaseDatabases;

/// Keys of a batch.
const KEYS_PER_BATCH: usize = 64;

/// What was loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadedBase {
    /// Keys.
    pub keys: u64,
    /// Databases, as some moment of the walk found them; those that were flushed since then have what they had before.
    pub databases: BaseDatabases,
    /// The texts of libraries of functions, and their version.
    pub libraries: (u64, Vec<Vec<u8>>),
}

/// A value that comes in parts.
enum Large {
    String(Vec<u8>),
    Object(Box<dyn Object>),
}

/// The key whose value is not whole yet.
struct Pending {
    contents: u64,
    number: u64,
    key: Vec<u8>,
    kind: Kind,
    put: Put,
    value: Large,
}

/// Loads the keys of a file into the databases that `contents` names by what they consisted of. Of keys that may have effects of
/// the log that redo does again, `told` learns the contents and the number. Keys of contents that no database has are left out.
/// Outside of a batch; nothing expires meanwhile.
///
/// # Errors
/// When the file is damaged, cut off or not the one that `expected` says, or the store is full.
pub fn load<R: Read>(
    input: R,
    expected: BaseHead,
    accessor: &mut Accessor,
    contents: &BTreeMap<u64, u16>,
    mut told: impl FnMut(u64, &[u8], u64),
) -> Result<LoadedBase, BaseFault> {
    let mut reader = BaseReader::open(input)?;
    if reader.head() != expected {
        return Err(BaseFault::Another);
    }
    let types = Arc::clone(accessor.keyspace().types());
    let (mut loaded, mut pending, mut batch) = (LoadedBase::default(), None::<Pending>, 0);
    accessor.begin_batch(0);
    let outcome = loop {
        let floor = reader.passed().1;
        let item = match reader.read_item() {
            Ok(Some(item)) => item,
            Ok(None) if pending.is_some() => break Err(BaseFault::Damaged),
            Ok(None) => break Ok(()),
            Err(fault) => break Err(fault),
        };
        let put = match (item, pending.take()) {
            (BaseItem::Key { contents: of, number, key, kind, put, value: Some(value) }, None) => {
                if number > floor {
                    told(of, key, number);
                }
                set(accessor, contents.get(&of), key, &Effect::Set { kind, value: Body::Bytes(value), put })
            }
            (BaseItem::Key { contents, number, key, kind, put, value: None }, None) => {
                let value = match types.empty(kind) {
                    Some(object) => Large::Object(object),
                    None => Large::String(Vec::new()),
                };
                pending = Some(Pending { contents, number, key: key.to_vec(), kind, put, value });
                continue;
            }
            (BaseItem::Part { bytes, last }, Some(mut of)) => {
                match add(&mut of.value, bytes, last) {
                    Some(false) => {
                        pending = Some(of);
                        continue;
                    }
                    Some(true) => {}
                    None => break Err(BaseFault::Damaged),
                }
                if of.number > floor {
                    told(of.contents, &of.key, of.number);
                }
                let value = match of.value {
                    Large::String(bytes) => HeapValue::string(bytes),
                    Large::Object(object) => HeapValue::object(object),
                };
                let value = Arc::new(value);
                let effect = Effect::Set { kind: of.kind, value: Body::Shared(&value), put: of.put };
                set(accessor, contents.get(&of.contents), &of.key, &effect)
            }
            (BaseItem::Library(text), None) => {
                loaded.libraries.1.push(text.to_vec());
                continue;
            }
            _ => break Err(BaseFault::Damaged),
        };
        if let Err(refusal) = put {
            break Err(BaseFault::Refused(refusal));
        }
        loaded.keys += 1;
        batch += 1;
        if batch == KEYS_PER_BATCH {
            batch = 0;
            accessor.end_batch();
            accessor.begin_batch(0);
        }
    };
    accessor.end_batch();
    outcome?;
    loaded.libraries.0 = reader.libraries_version();
    loaded.databases = reader.databases().cloned().unwrap_or_default();
    Ok(loaded)
}

/// Takes a part into a value. Whether it was the last; None: it does not fit.
fn add(value: &mut Large, part: &[u8], last: bool) -> Option<bool> {
    match value {
        Large::String(bytes) => bytes.extend_from_slice(part),
        Large::Object(object) => {
            if object.read_part(part).ok()? != last {
                return None;
            }
        }
    }
    Some(last)
}

fn set(accessor: &mut Accessor, db: Option<&u16>, key: &[u8], effect: &Effect<'_>) -> Result<(), Refusal> {
    let Some(&db) = db else { return Ok(()) };
    accessor.writer(db).replay(key, effect)
}
