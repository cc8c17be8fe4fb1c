//! The bytes of Redis' snapshot files and `DUMP` payloads: files ([`file`]), values ([`value`]), and the containers that they are
//! made of ([`container`]); append-only files ([`aof`]).
//!
//! ```text
//! a value     a type byte ([`types`]), then string objects and lengths ([`read_text`]), some of which hold a container
//! container   a run of bytes with a format of its own: listpack, ziplist, zipmap, intset
//! payload     a value and a footer ([`value::footer`])
//! file        keys with their values, and what is said of them and of the file ([`file`])
//! ```
//!
//! **Is**: readers and writers over byte slices; those of files over [`std::io::Read`] and [`std::io::Write`], whatever is behind
//! them. A type that is added brings one file in `value`, with its reader and writer, its type bytes, and its shape in
//! `file::shape`.
//! **Is not**: a place that opens files or knows commands or records.
//! **Invariants**: no `unsafe`. Everything here is total over hostile bytes: containers are checked through and through before an
//! element of them is read (Redis calls that deep sanitization), and nothing is reserved for what was only announced: memory is
//! bounded by the bytes that are there, those that are compressed counting 88 times. Of a file one item is in memory.
//! **Start reading at**: [`value::set`], then [`container::listpack`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod aof;
mod checksum;
pub mod container;
mod cursor;
pub mod file;
mod lzf;
mod string;
mod text;
pub mod types;
pub mod value;

pub use checksum::checksum;
pub use string::{expanded_len, read_string, read_text, write_string};
pub use text::Text;
