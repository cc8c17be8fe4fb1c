//! What serving those who wait uses, kept from one time to the next so that it takes no memory anew.

use std::collections::VecDeque;

use almandine_base::Output;
use almandine_instance::Unblock;
use almandine_keyspace::ReadyKey;

/// What those who wait are answered, by the worker of their connection. It is sent when all of them are served, by another
/// session too: who has heard of his share sees that of the others.
pub(crate) type Answers = Vec<(usize, Unblock)>;

/// Empty between two times.
#[derive(Default)]
pub(crate) struct Serving {
    /// Where a command writes.
    pub(crate) out: Output,
    /// Keys that are ready.
    pub(crate) keys: VecDeque<ReadyKey>,
    pub(crate) answers: Answers,
}
