//! Commands that compute beside others: a result is of sources that have not changed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::connect;
use crate::{Runtime, Value};

/// The destination is its own source of `len` bytes, and nothing changes in it: what another client appends meanwhile
/// must stay. It pauses for the first time after each, for the second after each eighth.
///
/// # Panics
/// When it does not.
pub fn lose_no_write<R: Runtime>(runtime: &R, len: usize, rounds: usize, pauses: [Duration; 2]) {
    let mut client = connect(runtime);
    assert_eq!(client.call(&[&b"SET"[..], b"a", &vec![1; len]]).expect("a reply"), Value::ok());
    let done = Arc::new(AtomicBool::new(false));
    let (own, is_done, mut writer) = (runtime.clone(), Arc::clone(&done), connect(runtime));
    let append = move || {
        let mut appended = 0;
        while !is_done.load(Ordering::Relaxed) {
            appended += 1;
            let reply = writer.call(&["APPEND", "a", "x"]).expect("a reply");
            assert_eq!(reply, Value::Integer((len + appended) as i64), "an append was lost");
            own.sleep(pauses[usize::from(appended % 8 == 0)]);
        }
        appended
    };
    let appender = runtime.spawn("appender", append);
    for _ in 0..rounds {
        client.call(&["BITOP", "AND", "a", "a", "a"]).expect("a reply");
    }
    done.store(true, Ordering::Relaxed);
    let appended = appender.join();
    assert_eq!(client.call(&["STRLEN", "a"]).expect("a reply"), Value::Integer((len + appended) as i64));
}
