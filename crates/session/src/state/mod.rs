//! A worker's and a connection's state.

pub(crate) mod carrying;
pub(crate) mod connection;
pub(crate) mod received;
pub(crate) mod rotation;
pub(crate) mod script_run;
pub(crate) mod unit_memory;
pub(crate) mod worker;
