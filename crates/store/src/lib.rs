//! The storage engine: a latch-free hash index over a hybrid log.
