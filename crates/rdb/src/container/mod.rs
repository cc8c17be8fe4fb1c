//! Containers: runs of bytes that hold the elements of a small collection, each with a format of its own.

pub mod checked;
pub mod intset;
pub mod listpack;
pub mod ziplist;
pub mod zipmap;
