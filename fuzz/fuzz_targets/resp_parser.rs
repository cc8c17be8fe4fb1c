//! Any bytes, cut anywhere, mean to the parser what they mean to the model of the unit tests.
//!
//! The first byte chooses the limits and the batch size, the second the first cut.

#![no_main]

#[path = "../../crates/resp/tests/common/mod.rs"]
mod common;

use almandine_resp::Limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, cut, stream @ ..] = data else { return };
    let limits = Limits {
        authenticated: choice & 1 == 0,
        inline_bytes_max: if choice & 2 == 0 { 64 * 1024 } else { 20 },
        bulk_bytes_max: if choice & 4 == 0 { 512 * 1024 * 1024 } else { 50 },
        multibulk_max: if choice & 8 == 0 { i32::MAX as usize } else { 10 },
    };
    let expected = common::model(stream, &limits);
    assert_eq!(common::parse(stream, &[], &limits, usize::MAX), expected);
    let cut = usize::from(*cut).min(stream.len());
    assert_eq!(common::parse(stream, &[cut], &limits, 1 + usize::from(choice >> 4)), expected);
    if stream.len() < 256 {
        let every: Vec<_> = (0..stream.len()).collect();
        assert_eq!(common::parse(stream, &every, &limits, usize::MAX), expected);
    }
});
