//! The service of one worker: its connections, what arrives for them, messages of publish/subscribe, and what they hold of memory.

pub(crate) mod breaks;
pub(crate) mod busy;
pub(crate) mod carrier;
pub(crate) mod deferred;
#[cfg(test)]
pub(crate) mod log_rig;
pub(crate) mod parked;
pub(crate) mod paused;
pub(crate) mod protected;
pub(crate) mod publish;
pub(crate) mod receive;
pub(crate) mod replay;
pub(crate) mod sizes;
#[cfg(test)]
mod waits_tests;
