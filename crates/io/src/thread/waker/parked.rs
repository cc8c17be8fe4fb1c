//! The thread that waits: one of the system, of a model or of a simulation.

use std::time::Duration;

#[cfg(all(test, loom))]
use loom::thread::{self, Thread};
#[cfg(not(all(test, loom)))]
use std::thread::{self, Thread};

#[cfg(feature = "sim")]
use crate::sim::parking::Parking;

/// See the module. An end of a wait that comes before the wait is kept.
#[derive(Debug)]
pub(super) enum Parked {
    System(Thread),
    #[cfg(feature = "sim")]
    Simulated(Parking),
}

impl Parked {
    /// The calling thread.
    pub(super) fn current() -> Self {
        #[cfg(feature = "sim")]
        if let Some(parking) = Parking::current() {
            return Self::Simulated(parking);
        }
        Self::System(thread::current())
    }

    /// Waits; also for no reason. To be called by this thread. In a model nothing times out, so that a lost wake is a deadlock.
    pub(super) fn park(&self, time_max: Duration) {
        match self {
            #[cfg(all(test, loom))]
            Self::System(_) => {
                let _ = time_max;
                thread::park();
            }
            #[cfg(not(all(test, loom)))]
            Self::System(_) => thread::park_timeout(time_max),
            #[cfg(feature = "sim")]
            Self::Simulated(parking) => parking.park(time_max),
        }
    }

    pub(super) fn unpark(&self) {
        match self {
            Self::System(thread) => thread.unpark(),
            #[cfg(feature = "sim")]
            Self::Simulated(parking) => parking.unpark(),
        }
    }
}
