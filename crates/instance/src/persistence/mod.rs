//! What the sessions know of files: data that is being loaded, snapshots that are written, and which commands are refused for them.

mod archive;
mod backups;
mod loading;
mod log;
mod rewrites;
mod saves;

use std::sync::atomic::{AtomicU8, Ordering};

pub use archive::{Archive, ArchiveFigures, ArchiveState};
pub use backups::{BackupFigures, BackupFiles, BackupState, Backups, Sealed, Sealer, UploadFigures, UploadState, Uploads};
pub use loading::{Loading, LoadingFigures};
pub use log::{Hearing, LogPurpose, LogSeal, OperationLog};
pub use rewrites::{RewriteBegun, RewriteCause, RewriteFigures, RewriteOutcome, RewriteRuns, Rewrites};
pub use saves::{Cancelled, Reload, SaveFigures, SaveMeter, SaveOutcome, SaveRefused, SaveTask, Saves};

/// Reasons to refuse commands, one bit each.
const LOADING: u8 = 1;
const UNSAVED: u8 = 2;
const UNLOGGED: u8 = 4;

/// The files' part of the instance.
#[derive(Debug, Default)]
pub struct Persistence {
    /// Looked at once per batch; zero in the ordinary case.
    bars: AtomicU8,
    /// Progress and outcome of loading.
    pub loading: Loading,
    /// Snapshots.
    pub saves: Saves,
    /// The operation log.
    pub log: OperationLog,
    /// Its new bases.
    pub rewrites: Rewrites,
    /// Backups of it.
    pub backups: Backups,
    /// Its copy in object storage.
    pub archive: Archive,
}

impl Persistence {
    /// Whether any command is to be refused.
    #[inline]
    #[must_use]
    pub fn bars_any(&self) -> bool {
        self.bars.load(Ordering::Relaxed) != 0
    }

    /// Whether data is being loaded: commands without the trait `loading` are refused.
    #[inline]
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.bars.load(Ordering::Acquire) & LOADING != 0
    }

    /// Whether the last snapshot has failed: writes are refused where the settings say so.
    #[must_use]
    pub fn is_unsaved(&self) -> bool {
        self.bars.load(Ordering::Relaxed) & UNSAVED != 0
    }

    /// Whether the operation log takes nothing: writes are refused.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        self.bars.load(Ordering::Relaxed) & UNLOGGED != 0
    }

    /// Whether the operation log takes nothing has changed.
    pub fn set_unlogged(&self, unlogged: bool) {
        if unlogged {
            self.bars.fetch_or(UNLOGGED, Ordering::Relaxed);
        } else {
            self.bars.fetch_and(!UNLOGGED, Ordering::Relaxed);
        }
    }

    /// A task of [`Saves`] has ended.
    pub fn end_save(&self, outcome: SaveOutcome) {
        self.saves.end(outcome, |unsaved| {
            if unsaved {
                self.bars.fetch_or(UNSAVED, Ordering::Relaxed);
            } else {
                self.bars.fetch_and(!UNSAVED, Ordering::Relaxed);
            }
        });
        // A base may wait for its end.
        self.rewrites.wake();
    }

    /// Data of `bytes` is loaded from now on.
    pub fn begin_loading(&self, bytes: u64) {
        self.loading.begin(bytes);
        self.bars.fetch_or(LOADING, Ordering::Release);
    }

    /// It is loaded.
    pub fn end_loading(&self) {
        self.bars.fetch_and(!LOADING, Ordering::Release);
        self.rewrites.wake();
        self.saves.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_barred_while_data_is_loaded() {
        let persistence = Persistence::default();
        assert!(!persistence.bars_any() && !persistence.is_loading());
        persistence.begin_loading(100);
        assert!(persistence.bars_any() && persistence.is_loading());
        persistence.loading.reached(25);
        let figures = persistence.loading.figures();
        assert_eq!((figures.total_bytes, figures.loaded_bytes, figures.share()), (100, 25, 0.25));
        persistence.end_loading();
        assert!(!persistence.bars_any() && !persistence.is_loading());
    }
}
