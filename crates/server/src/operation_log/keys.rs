//! The keys that the log is encrypted with, from the file that `log-key-file` names.

use std::io;
use std::path::Path;
use std::sync::Arc;

use almandine_config::{SetError, Settings};
use almandine_oplog::LogKeys;

/// The parameter.
pub(super) const NAME: &str = "log-key-file";

/// Those that the settings name; none where they name no file. A relative path begins at `directory`.
///
/// # Errors
/// When the file cannot be used.
pub(crate) fn read(settings: &Settings, directory: &Path) -> io::Result<Arc<LogKeys>> {
    let path = &settings.persistence.log_key_file;
    if path.is_empty() {
        return Ok(Arc::default());
    }
    let keys = LogKeys::read(&directory.join(path));
    keys.map(Arc::new).map_err(|error| io::Error::new(error.kind(), format!("{NAME}: {error}")))
}

/// The answer to CONFIG SET.
pub(super) fn refused(error: &io::Error) -> SetError {
    SetError::Failed { name: NAME.to_owned(), problem: error.to_string().into() }
}
