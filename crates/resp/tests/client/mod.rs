//! The other side of the wire: commands out, replies in.
//!
//! For tests, where clarity comes before speed; the load tool has a decoder of its own.

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

mod decode;
mod value;

pub(crate) use decode::{DecodeError, Decoder, decode};
pub(crate) use value::Value;

use almandine_resp::reply::write_header;

/// Appends a command as an array of bulk strings.
pub(crate) fn encode<A: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[A]) {
    write_header(out, b'*', args.len());
    for arg in args {
        let arg = arg.as_ref();
        write_header(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
