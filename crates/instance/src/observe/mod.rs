//! What observes the server: statistics, logs, monitors and the figures of INFO. Nothing here changes what a command does.

pub mod gauges;
pub mod histogram;
pub mod hot_keys;
pub mod latency;
pub mod monitor;
pub mod rates;
pub mod slowlog;
pub mod statistics;
pub mod top_keys;
pub mod unserved;
