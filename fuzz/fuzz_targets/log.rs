//! See the module: its test runs it with a few inputs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/recovery/tests/fuzz/log.rs"]
mod target;

fuzz_target!(|data: &[u8]| {
    target::run(data);
});
