//! What the reader gets: tables, progress, JSON and CSV.

pub mod progress;
pub mod sample;
pub mod statistics;
pub mod table;
