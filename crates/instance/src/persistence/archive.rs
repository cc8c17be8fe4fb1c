//! The archive of the operation log in object storage, as INFO tells of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use almandine_io::sync::Mutex;
use almandine_io::thread::Waker;

/// How an archive fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveState {
    /// There is none.
    #[default]
    Off,
    /// It does not have as much yet as a restart could need.
    Begun,
    /// It has the log up to a moment ago.
    Shipping,
    /// The object storage does not take it at the moment.
    Failing,
    /// Another server owns it.
    TakenOver,
}

impl ArchiveState {
    /// As INFO names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Begun => "begun",
            Self::Shipping => "shipping",
            Self::Failing => "failing",
            Self::TakenOver => "taken-over",
        }
    }
}

/// What was shipped to an archive since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFigures {
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages of the device.
    pub pages: u64,
    /// Pages that the base which is on its way names, and that the archive may lack.
    pub pages_left: u64,
    /// Bases that it has, with the newest one.
    pub bases: u64,
    /// From here on each moment can be had of it, Unix seconds; 0: only the newest one.
    pub since_s: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Archive {
    state: Mutex<(ArchiveState, String)>,
    archived_lsn: AtomicU64,
    errors: AtomicU64,
    shipped: Mutex<ArchiveFigures>,
    waker: OnceLock<Arc<Waker>>,
}

impl Archive {
    /// The thread that ships is woken by this.
    pub fn install_waker(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// There may be something to ship.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// How it fares, and what went wrong last.
    #[must_use]
    pub fn state(&self) -> (ArchiveState, String) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It fares so from now on. True: otherwise than before.
    pub fn set_state(&self, now: ArchiveState) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut state.0, now) != now
    }

    /// Something went wrong.
    pub fn fail(&self, why: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = why;
    }

    /// How often something went wrong.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// What was shipped.
    #[must_use]
    pub fn shipped(&self) -> ArchiveFigures {
        *self.shipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much was.
    pub fn set_shipped(&self, figures: ArchiveFigures) {
        *self.shipped.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    /// The LSN through which it has the log.
    #[must_use]
    pub fn archived_lsn(&self) -> u64 {
        self.archived_lsn.load(Ordering::Relaxed)
    }

    /// It has the log through here.
    pub fn set_archived_lsn(&self, lsn: u64) {
        self.archived_lsn.store(lsn, Ordering::Relaxed);
    }
}
