//! Any bytes decode to the same replies, or the same error, whole and byte by byte.

#![no_main]

#[path = "../../crates/resp/tests/client/mod.rs"]
mod client;

use client::{DecodeError, Decoder, Value};
use libfuzzer_sys::fuzz_target;

/// Decodes `stream` as it arrives at each of `ends`.
fn decode(stream: &[u8], ends: impl Iterator<Item = usize>) -> (Vec<Value>, Result<usize, DecodeError>) {
    let (mut decoder, mut values, mut from) = (Decoder::new(), Vec::new(), 0);
    for end in ends {
        loop {
            match decoder.decode(&stream[from..end]) {
                Ok((consumed, value)) => {
                    from += consumed;
                    match value {
                        Some(value) => values.push(value),
                        None => break,
                    }
                }
                Err(error) => return (values, Err(error)),
            }
        }
    }
    (values, Ok(from))
}

fuzz_target!(|stream: &[u8]| {
    let whole = decode(stream, std::iter::once(stream.len()));
    if stream.len() < 1024 {
        assert_eq!(decode(stream, 0..=stream.len()), whole);
    }
});
