//! What the tests share that look at logs: waiting for a lock that is held for a moment only.

use std::time::Duration;

/// Tries until the log is not locked, for twenty seconds: a process that another test has just begun holds the lock of a log that
/// was closed meanwhile, until it is a program.
pub(crate) fn until_free<T>(mut attempt: impl FnMut() -> T, is_locked: impl Fn(&T) -> bool) -> T {
    let mut last = attempt();
    for _ in 0..2000 {
        if !is_locked(&last) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        last = attempt();
    }
    last
}
