//! A value as snapshot files and `DUMP` payloads have it: a type byte, and what follows. A file for each type of collections.

mod hash;
mod list;
mod set;
mod sorted_set;
mod stream;

use almandine_keyspace::types::Stored;
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::types::list::Lists;
use almandine_keyspace::types::set::Sets;
use almandine_keyspace::types::sorted_set::SortedSets;
use almandine_keyspace::types::stream::Streams;
use almandine_keyspace::{Kind, Refusal};
use almandine_rdb::file::WriteVersion;
use almandine_rdb::types;
use almandine_rdb::value::footer;
use almandine_rdb::value::hash::Dialect;

/// For which readers values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// As many as possible: each value in the oldest form that can say all of it.
    Most,
    /// Those of a file of this version, each value as its servers write it. What none of its forms can say is written in the oldest
    /// one that can.
    Of(WriteVersion),
}

impl Readers {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Most => Dialect::Redis,
            Self::Of(version) => version.dialect(),
        }
    }

    /// Whether all of them know what came with a version of Redis.
    pub(crate) fn have(self, version: u16) -> bool {
        match self {
            Self::Most => version <= footer::VERSION_REDIS_7_0,
            Self::Of(own) => own.has(version),
        }
    }
}

/// Appends the type byte and the value, and returns the oldest version whose readers know the form. None: nothing of the value is
/// left at the time at which it is looked at, and nothing was appended.
///
/// # Errors
/// When a part of it is not in memory; then `out` is as before.
pub fn write(value: Stored<'_>, readers: Readers, out: &mut Vec<u8>) -> Result<Option<u16>, Refusal> {
    let len = out.len();
    let written = match value.kind {
        Kind::String => value.string().map(|bytes| {
            out.push(types::STRING);
            almandine_rdb::write_string(bytes, out);
            Some(footer::VERSION_REDIS_7_0)
        }),
        Kind::Hash => value.collection::<Hashes>()?.map(|hash| hash::write(&hash, readers, out)).transpose(),
        Kind::List => value.collection::<Lists>()?.map(|list| list::write(&list, out)).transpose(),
        Kind::Set => value.collection::<Sets>()?.map(|set| set::write(&set, readers, out)).transpose(),
        Kind::SortedSet => value.collection::<SortedSets>()?.map(|set| sorted_set::write(&set, out)).transpose(),
        Kind::Stream => value.collection::<Streams>()?.map(|stream| stream::write(stream?, readers, out)).transpose(),
    };
    if written.is_err() {
        out.truncate(len);
    }
    written
}
