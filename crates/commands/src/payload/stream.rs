//! Payloads of streams.

use almandine_datatypes::stream::StreamObject;
use almandine_keyspace::Refusal;
use almandine_rdb::value::{footer, stream};

/// The payload of a stream.
pub(super) fn payload(of: &StreamObject) -> Result<Vec<u8>, Refusal> {
    let mut payload = Vec::new();
    let form = stream::write(of, &mut payload)?;
    footer::seal(&mut payload, form.version());
    Ok(payload)
}
