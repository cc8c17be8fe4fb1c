//! The other side of the wire: commands out, replies in.
//!
//! For tests, the load tool and replication. Clarity comes before speed, except for [`encode`].

mod decode;
mod value;

pub use decode::{DecodeError, Decoder, decode};
pub use value::Value;

use crate::reply::write_header;

/// Appends a command as an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[A]) {
    write_header(out, b'*', args.len());
    for arg in args {
        let arg = arg.as_ref();
        write_header(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
