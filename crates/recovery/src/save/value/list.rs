//! Lists.

use almandine_datatypes::list::{ListEncoding, ListLimits};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::list::List;
use almandine_rdb::value::{self, footer};

/// `list-max-listpack-size` of what has one node, and of what has several, as Redis has it unless it is configured.
const ONE_NODE: i64 = -5;
const SEVERAL_NODES: i64 = -2;

pub(super) fn write(list: &List<'_>, out: &mut Vec<u8>) -> Result<u16, Refusal> {
    let size = if list.encoding() == ListEncoding::ListPack { ONE_NODE } else { SEVERAL_NODES };
    let mut missing = None;
    let elements = list.try_iter().map_while(|element| element.map_err(|refusal| missing = Some(refusal)).ok());
    value::list::write(elements, ListLimits::new(size), out);
    missing.map_or(Ok(footer::VERSION_REDIS_7_0), Err)
}
