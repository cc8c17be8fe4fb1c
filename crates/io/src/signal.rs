//! Signals as values: blocked in every thread and taken by one that waits for them.
//!
//! A handler would run on any thread at any instruction; a blocked signal waits in the kernel until it is asked for. So
//! workers never see `EINTR`, and what a signal causes is ordinary code on an ordinary thread.

use std::io;
use std::mem::MaybeUninit;

/// A signal that the server reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: stop, saving what is to be saved.
    Terminate,
    /// SIGINT: stop; a second one stops at once.
    Interrupt,
    /// SIGHUP: the terminal went away; servers ignore it.
    HangUp,
}

impl Signal {
    const ALL: [Self; 3] = [Self::Terminate, Self::Interrupt, Self::HangUp];

    const fn number(self) -> i32 {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
            Self::HangUp => libc::SIGHUP,
        }
    }

    /// `SIGTERM` and so on, for the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::HangUp => "SIGHUP",
        }
    }
}

/// The blocked signals of the process.
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals in the calling thread and in all threads that it starts from now on. Call it first in `main`.
    ///
    /// # Errors
    /// When the kernel refuses the mask.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initializes the whole set; the numbers that are added are valid signals.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in Signal::ALL {
                libc::sigaddset(set.as_mut_ptr(), signal.number());
            }
            set.assume_init()
        };
        // SAFETY: the set is initialized; the old mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
            0 => Ok(Self { set }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for the next signal. Belongs on a thread of its own.
    ///
    /// # Errors
    /// When the kernel refuses the wait.
    pub fn wait(&self) -> io::Result<Signal> {
        loop {
            let mut number = 0;
            // SAFETY: the set is initialized and `number` is a valid place for the result.
            let error = unsafe { libc::sigwait(&raw const self.set, &raw mut number) };
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            if let Some(signal) = Signal::ALL.into_iter().find(|signal| signal.number() == number) {
                return Ok(signal);
            }
        }
    }

    /// Starts a thread that hands each signal to `react` until that returns false.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn watch(self, mut react: impl FnMut(Signal) -> bool + Send + 'static) -> io::Result<()> {
        crate::thread::spawn("signals", move || while self.wait().is_ok_and(&mut react) {})?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_delivered_as_a_value() {
        let signals = Signals::block().unwrap();
        // SAFETY: the signal is blocked in this thread, so it stays pending until `wait` takes it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
        assert_eq!(signals.wait().unwrap(), Signal::Terminate);
    }
}
