//! The upload of a sealed backup to object storage.

use std::sync::{Arc, OnceLock, PoisonError};

use almandine_io::clock;
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::thread::Waker;

/// How far an upload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadState {
    /// Backups do not go to object storage.
    #[default]
    Off,
    /// There is none.
    Idle,
    /// It is under way.
    Shipping,
    /// The same, and what was tried last has failed.
    Failing,
    /// The backup is there.
    Shipped,
    /// It was given up, and what was there of it is deleted.
    GivenUp,
}

impl UploadState {
    /// As BACKUP STATUS and INFO name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Idle => "idle",
            Self::Shipping => "shipping",
            Self::Failing => "failing",
            Self::Shipped => "shipped",
            Self::GivenUp => "given-up",
        }
    }

    fn is_under_way(self) -> bool {
        matches!(self, Self::Shipping | Self::Failing)
    }
}

/// What BACKUP STATUS and INFO tell of uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadFigures {
    /// How far the last one is.
    pub state: UploadState,
    /// Its name there; empty: there is none.
    pub name: String,
    /// Bytes of it that were not looked at yet.
    pub left_bytes: u64,
    /// Bytes that were shipped since the start.
    pub shipped_bytes: u64,
    /// When one was there as a whole the last time since the start, Unix seconds; 0: none was.
    pub shipped_s: i64,
    /// Backups of this server that are there; 0 also before it has looked.
    pub kept: u64,
    /// Failures, which are tried again.
    pub errors: u64,
    /// What the last of these said.
    pub last_error: String,
}

impl UploadFigures {
    fn is_of(&self, name: &str) -> bool {
        self.state.is_under_way() && self.name == name
    }
}

/// See the module. One at a time is under way.
#[derive(Debug, Default)]
pub struct Uploads {
    figures: Mutex<UploadFigures>,
    waker: OnceLock<Arc<Waker>>,
}

impl Uploads {
    /// Sealed backups are uploaded from now on, by a thread that is woken by this. Once, before there are clients.
    pub fn install_waker(&self, waker: Arc<Waker>) {
        self.state().state = UploadState::Idle;
        let _ = self.waker.set(waker);
    }

    /// What is told of them.
    #[must_use]
    pub fn figures(&self) -> UploadFigures {
        self.state().clone()
    }

    /// The name of the one that is under way. For the thread that does it, as all below.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let figures = self.state();
        figures.state.is_under_way().then(|| figures.name.clone())
    }

    /// Whether this one is.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.state().is_of(name)
    }

    /// Of this one `shipped` bytes more are objects, and `done` of `all` its bytes are behind.
    pub fn advance(&self, name: &str, shipped: u64, (done, all): (u64, u64)) {
        let mut figures = self.state();
        figures.shipped_bytes += shipped;
        if figures.is_of(name) {
            (figures.state, figures.left_bytes) = (UploadState::Shipping, all.saturating_sub(done));
        }
    }

    /// It could not be shipped, or others not be dropped, and is tried again.
    pub fn fail(&self, name: &str, why: String) {
        let mut figures = self.state();
        (figures.errors, figures.last_error) = (figures.errors + 1, why);
        if figures.is_of(name) {
            figures.state = UploadState::Failing;
        }
    }

    /// It is there. False: it was given up meanwhile.
    pub fn end(&self, name: &str) -> bool {
        let mut figures = self.state();
        let is_it = figures.is_of(name);
        if is_it {
            (figures.state, figures.left_bytes, figures.shipped_s) = (UploadState::Shipped, 0, clock::unix_ms() / 1000);
        }
        is_it
    }

    /// How many backups of this server are there.
    pub fn set_kept(&self, kept: u64) {
        self.state().kept = kept;
    }

    pub(super) fn begin(&self, name: String) {
        let mut figures = self.state();
        (figures.state, figures.name, figures.left_bytes) = (UploadState::Shipping, name, 0);
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    pub(super) fn is_any(&self) -> bool {
        self.state().state.is_under_way()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.is_any() {
            return Err("the backup is on its way to object storage: BACKUP ABORT gives that up".to_owned());
        }
        Ok(())
    }

    /// It is not to be there.
    pub(super) fn give_up(&self) -> Result<(), String> {
        let mut figures = self.state();
        // It may have arrived just now.
        if !figures.state.is_under_way() {
            return Err("no backup is in progress".to_owned());
        }
        (figures.state, figures.left_bytes) = (UploadState::GivenUp, 0);
        drop(figures);
        self.wake();
        Ok(())
    }

    /// Its files are gone here.
    pub(super) fn forget(&self) {
        let mut figures = self.state();
        figures.name.clear();
        if figures.state != UploadState::Off {
            figures.state = UploadState::Idle;
        }
    }

    fn state(&self) -> MutexGuard<'_, UploadFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
