//! Snapshot files, read and written as streams.
//!
//! ```text
//! magic       REDIS and 4 digits, or VALKEY and 3: the version
//! items       each an opcode and what it announces, or the key that a type byte begins
//! 255         the end, then a checksum of everything before (8 bytes; 0: none) in versions from 5 on
//! ```
//!
//! | opcode | announces |
//! |--:|---|
//! | 243 | of Redis: metadata of modules for the key that follows. Of Valkey: a slot import that was under way |
//! | 244 | a slot's number, keys, and keys that expire |
//! | 245 | a library of functions |
//! | 246 | the same in candidates of Redis 7.0, which no other version reads |
//! | 247 | data of a module beside the keys |
//! | 248, 249 | of the key that follows: seconds since its last use, or how often it is used |
//! | 250 | a name and what it stands for: the server that wrote the file, and when |
//! | 251 | of the database: its keys, and keys that expire |
//! | 252, 253 | of the key that follows: its expiry in milliseconds (8 bytes) or seconds (4) |
//! | 254 | the database of the keys that follow |
//!
//! A key is a type byte, the key as a string, the value. [`shape`] says where a value ends, so that the reader ([`FileReader`]) has
//! one item in memory, and the writer ([`FileWriter`]) compresses values that were encoded without.

mod fault;
mod module;
mod opcodes;
mod reader;
mod shape;
mod squeeze;
mod version;
mod window;
mod writer;

pub use fault::{Fault, FileError};
pub use reader::{Entry, FileReader, Item, ReadOptions};
pub use version::{FileVersion, WriteVersion};
pub use writer::{EntryMetadata, FileWriter, WriteOptions};
