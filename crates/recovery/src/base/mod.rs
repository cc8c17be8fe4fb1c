//! The base of the operation log: all keys, copied one after the other while clients write, each with the number of the last effect
//! that it has. The log completes it: from the segment on that began before the first key was copied, an effect is done again if
//! its number is greater than its key's.
//!
//! A base has one file or several, each with the keys of a part of the order of scans. A file is blocks behind a head:
//!
//! ```text
//! head, 64 bytes   magic 8 | format 2 | part 2 | parts 2 | 0 2 | log 16 | base 8 | first LSN 8 | hash seed 8 | 0 4 | sum 4
//! block            length 4 | keys 4 | position 8 | floor 8 | sum 4 | entries, `length` bytes
//! libraries        length 4 | 2³² − 2 | version 8 | 0 8 | sum 4 | of each length, text
//! last block       length 4 | 2³² − 1 | keys of the file 8 | databases 8 | sum 4 | number 8 | of each 2, contents 8, keys 8
//! entry            tag 1 | contents | number | key length | key | expiry 8, with its flag | ETag 8, with its flag | value
//! tag              parts 1 | edited 1 | ETag 1 | expiry 1 | kind 4
//! value            length | bytes; with `parts` 0 instead, and then entries of one part each:
//! part             255 1 | last 1 | length | bytes
//! ```
//!
//! An encrypted file is of format 3. Behind its head come the mark of a key (24), the salt of the file (16) and their sum (4),
//! which the first block's follows; behind the entries of each block, in its length, what authenticates them with both heads (16).
//! Counts are those of blocks, and 2⁶⁴ − 1 for the last one.
//!
//! Numbers of fixed length are little endian, others take seven bits in each byte, the lowest first. `position` is how far the walk
//! is behind the block, `floor` the greatest number of the log before redo begins. Libraries of functions are all that there were
//! at some moment of the walk. The last block says of another moment which contents each database consisted of, with the number of
//! the last unit that had changed that. A sum is the CRC-32C of what is before it in its head or block, of the entries, and of the
//! sum before. Files of format 1 have no libraries, and no number in their last block.

mod device;
mod dump;
mod format;
mod load;
mod read;
mod write;

pub use device::{DeviceDatabase, DeviceHead, DeviceItem, DeviceReader, DeviceWriter, peek_databases, peek_keys};
pub use dump::{DeviceDump, Dump, dump};
pub use format::{BaseFault, BaseHead};
pub use load::{LoadedBase, load, load_device};
pub(crate) use read::take_item;
pub use read::{BaseItem, BaseReader, peek};
pub use write::{BaseDatabase, BaseDatabases, BaseWriter};

#[cfg(test)]
mod tests;
