//! Streams.

use almandine_datatypes::stream::StreamObject;
use almandine_keyspace::Refusal;
use almandine_rdb::value::{footer, stream};

use super::Readers;

pub(super) fn write(of: &StreamObject, readers: Readers, out: &mut Vec<u8>) -> Result<u16, Refusal> {
    // What consumers did last is what a payload says of them; a file is for servers that must be able to read all of it.
    let form = match readers {
        Readers::Of(_) if !readers.have(footer::VERSION_REDIS_7_2) => stream::write_without_activity(of, out)?,
        _ => stream::write(of, out)?,
    };
    Ok(form.version())
}
