//! What operators and other clients see of commands: times, logs, MONITOR, HOTKEYS, counters, and the report of a crash.

pub(crate) mod after_command;
pub(crate) mod counted;
pub(crate) mod hot_keys;
pub(crate) mod monitor;
pub(crate) mod running;
pub(crate) mod timing;
pub(crate) mod withheld;
