//! Payloads of lists.

use almandine_datatypes::list::{ListEncoding, ListLimits};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::list;
use almandine_rdb::value::{self, footer};

/// `list-max-listpack-size` of what has one node, and of what has several, as Redis has it unless it is configured.
const ONE_NODE: i64 = -5;
const SEVERAL_NODES: i64 = -2;

/// The payload of a list.
pub(super) fn payload(list: &list::List<'_>) -> Result<Vec<u8>, Refusal> {
    let size = if list.encoding() == ListEncoding::ListPack { ONE_NODE } else { SEVERAL_NODES };
    let mut missing = None;
    let elements = list.try_iter().map_while(|element| element.map_err(|refusal| missing = Some(refusal)).ok());
    let mut payload = Vec::new();
    value::list::write(elements, ListLimits::new(size), &mut payload);
    if let Some(refusal) = missing {
        return Err(refusal);
    }
    footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
    Ok(payload)
}
