//! The bytes of Redis' snapshot files and `DUMP` payloads: values ([`value`]), and the containers that they are made of
//! ([`container`]).
//!
//! ```text
//! a value     a type byte ([`types`]), then string objects and lengths ([`read_text`]), some of which hold a container
//! container   a run of bytes with a format of its own: listpack, ziplist, zipmap, intset
//! payload     a value and a footer ([`value::footer`])
//! ```
//!
//! **Is**: readers and writers over byte slices. A type that is added brings one file in `value`, with its reader and writer, and
//! its type bytes.
//! **Is not**: a place that knows keys, commands, records or files.
//! **Invariants**: no `unsafe`. Everything here is total over hostile bytes: containers are checked through and through before an
//! element of them is read (Redis calls that deep sanitization), and nothing is reserved for what was only announced: memory is
//! bounded by the bytes that are there, those that are compressed counting 88 times.
//! **Start reading at**: [`value::set`], then [`container::listpack`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod checksum;
pub mod container;
mod cursor;
mod lzf;
mod string;
mod text;
pub mod types;
pub mod value;

pub use checksum::checksum;
pub use string::{expanded_len, read_string, read_text, write_string};
pub use text::Text;
