//! The append-only file of a Redis or Valkey that was there before: a new log begins with it.
//!
//! Its files are read and never changed. When the log has begun, a file beside it ([`mark`]) says what they were: it is the log
//! that counts from then on, and files of Redis that are others than those refuse the start, for they may be younger.
//!
//! The server also writes such files ([`export`]), and knows its own again ([`own`]).

mod export;
mod load;
mod mark;
mod own;
mod replies;
mod source;

pub(crate) use export::export;
pub(crate) use load::load;
pub(crate) use mark::{check, mark};
pub(crate) use own::{Own, end_own};
pub(crate) use source::{Source, find};

#[cfg(test)]
mod scratch {
    use std::path::{Path, PathBuf};

    /// A directory that goes when this is dropped.
    pub(super) struct Scratch(PathBuf);

    impl Scratch {
        pub(super) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("almandine-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(super) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
