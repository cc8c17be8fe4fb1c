//! Commands that wait for keys: how a wait begins, how it is served, how it ends.

pub(crate) mod begin_wait;
pub(crate) mod end_wait;
pub(crate) mod overdue;
pub(crate) mod serve_waiters;
