//! What running one connection's commands takes, borrowed from a worker and a connection for as long as a group runs.

use almandine_base::Output;
use almandine_handler::{Client, Context};
use almandine_keyspace::Accessor;

/// The parts that every step from here on needs.
pub(crate) struct Execution<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) accessor: &'a mut Accessor,
    pub(crate) context: &'a Context,
    pub(crate) out: &'a mut Output,
    /// The batch's time, Unix milliseconds.
    pub(crate) now_ms: i64,
}
