//! What the sessions know of files: whether data is being loaded, and which commands wait for that.

mod loading;

use std::sync::atomic::{AtomicU8, Ordering};

use almandine_io::sync::Mutex;

use crate::lock::lock;

pub use loading::{Loading, LoadingFigures};

/// Reasons to refuse commands, one bit each.
const LOADING: u8 = 1;

/// The files' part of the instance.
#[derive(Debug, Default)]
pub struct Persistence {
    /// Looked at once per batch; zero in the ordinary case.
    bars: AtomicU8,
    /// Progress and outcome of loading.
    pub loading: Loading,
    /// Libraries of functions that a file had: they are kept as text, for the next file.
    functions: Mutex<Vec<Vec<u8>>>,
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

    /// Data of `bytes` is loaded from now on.
    pub fn begin_loading(&self, bytes: u64) {
        self.loading.begin(bytes);
        self.bars.fetch_or(LOADING, Ordering::Release);
    }

    /// It is loaded.
    pub fn end_loading(&self) {
        self.bars.fetch_and(!LOADING, Ordering::Release);
    }

    /// The text of each library of functions.
    #[must_use]
    pub fn functions(&self) -> Vec<Vec<u8>> {
        lock(&self.functions).clone()
    }

    /// Keeps these libraries of functions and no others.
    pub fn keep_functions(&self, libraries: Vec<Vec<u8>>) {
        *lock(&self.functions) = libraries;
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
