//! Notices a thread that keeps the baton: it spins, or waits for what only another thread could do, or calls the kernel.
//!
//! The driver of the world waits while threads run, so it watches. Its time is real. A thread that does nothing with the simulation
//! for all of that time fails the run, and is left to itself: it cannot be ended. Its stack is told, which it writes itself, in the
//! handler of a signal.

use std::backtrace::Backtrace;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use super::Turn;

/// How long a thread may keep the baton, in real time.
pub(super) const PATIENCE_MS: u64 = 20_000;

/// How long it may take a thread to write its stack.
const STACK_TOLD_MS: u64 = 5_000;

/// The stack that was asked for last.
static STACK: Mutex<Option<String>> = Mutex::new(None);

/// The system's number of the calling thread.
pub(super) fn system_id() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}

impl Turn {
    /// How long a thread may keep the baton, in real milliseconds.
    pub fn set_patience(&self, patience_ms: u64) {
        self.patience_ms.store(patience_ms, Ordering::Relaxed);
    }

    /// The driver waits for the baton, and watches the thread that has it.
    pub(super) fn watch(self: &Arc<Self>) {
        let mut seen = self.progress.load(Ordering::Relaxed);
        let patience = Duration::from_millis(self.patience_ms.load(Ordering::Relaxed));
        while !self.driver.take_within(patience) {
            let now = self.progress.load(Ordering::Relaxed);
            if now == seen {
                self.is_stuck.store(true, Ordering::Relaxed);
                let mut state = self.lock();
                let holder = state.holder.thread.and_then(|holder| state.threads.get(holder));
                let (title, id) = holder.map_or(("an event".to_owned(), 0), |holder| (holder.title(), holder.system_id));
                let last = state.trace.words(|thread| state.threads[thread].title());
                let last = last.lines().last().unwrap_or_default().to_owned();
                let stack = stack_of(id);
                state.failure =
                    Some(format!("{title} has kept the baton for {patience:?}; the last event was \"{last}\"\n{stack}"));
                return;
            }
            seen = now;
        }
    }
}

/// The stack of a thread of this process, as it writes it.
fn stack_of(id: i32) -> String {
    static HANDLES: Once = Once::new();
    HANDLES.call_once(|| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a zeroed `sigaction` is valid, and `write_stack` is a handler with one argument.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = write_stack as *const () as usize;
            libc::sigaction(libc::SIGUSR2, action, std::ptr::null_mut());
        }
    });
    if id == 0 {
        return "no stack".to_owned();
    }
    // SAFETY: the signal has a handler; a thread that has ended is an error.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR2) };
    for _ in 0..STACK_TOLD_MS / 10 {
        std::thread::sleep(Duration::from_millis(10));
        if let Some(stack) = STACK.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return stack;
        }
    }
    "it does not write its stack".to_owned()
}

/// Runs in the thread that keeps the baton. What it calls may wait for a lock that the thread has; the run has failed in any case.
extern "C" fn write_stack(_: i32) {
    let stack = Backtrace::force_capture().to_string();
    if let Ok(mut told) = STACK.try_lock() {
        *told = Some(stack);
    }
}
