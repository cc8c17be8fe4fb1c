//! Values as Redis' snapshot files and `DUMP` payloads write them: a type byte ([`types`]), the value, and in a payload a [`footer`].
//!
//! ```text
//! a value     string objects and lengths ([`read_text`]), some of which hold a container
//! container   a run of bytes with a format of its own: [`listpack`], [`ziplist`], [`zipmap`], [`intset`]
//! family      what the containers of a type mean: [`hash`], [`list`], [`set`], [`sorted_set`], [`stream`]
//! ```
//!
//! Everything here is total over hostile bytes. Containers are checked through and through before an element of them is read (Redis calls that
//! deep sanitization), and nothing is reserved for what was only announced: memory is bounded by the bytes that are there, those that
//! are compressed counting 88 times. A family that is added brings one file, with its readers and writers, and its type bytes.

mod checksum;
mod cursor;
mod element;
pub mod footer;
pub mod hash;
pub mod intset;
pub mod list;
pub mod listpack;
mod lzf;
pub mod set;
pub mod sorted_set;
pub mod stream;
mod string;
mod text;
pub mod types;
pub mod ziplist;
pub mod zipmap;

pub use checksum::checksum;
pub use element::Element;
pub(crate) use element::little_endian;
pub use string::{read_string, read_text, write_string};
pub use text::Text;
